// `windlass build` makes the component of this module, with the plugin's own in the place of `windlass-plugin`.

import { clearFreeMemory } from './memory.js';

export { composer, composer as customize } from 'windlass-plugin';

clearFreeMemory();
