import { asked } from './double.js';

export const getU32 = asked('random', 'getU32');
export const getBytes = asked('random', 'getBytes');
