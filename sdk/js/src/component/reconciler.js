// `windlass build` makes the component from this module, with the plugin's module in place of `windlass-plugin`.

import { clearFreeMemory } from './memory.js';

export { reconciler, reconciler as mapper } from 'windlass-plugin';

clearFreeMemory();
