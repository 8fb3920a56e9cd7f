// `windlass build` makes the component from this module, with the plugin's module in place of `windlass-plugin`.

import { clearFreeMemory } from './memory.js';

export { composer, composer as customize } from 'windlass-plugin';

clearFreeMemory();
