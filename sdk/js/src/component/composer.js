// The entry module of a component. `windlass build` replaces `windlass-plugin` with the plugin's module.

import { clearFreeMemory } from './memory.js';

export { composer, composer as customize } from 'windlass-plugin';

clearFreeMemory();
