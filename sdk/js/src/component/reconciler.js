// The entry module of a component. `windlass build` replaces `windlass-plugin` with the plugin's module.

import { clearFreeMemory } from './memory.js';

export { reconciler, reconciler as mapper } from 'windlass-plugin';

clearFreeMemory();
