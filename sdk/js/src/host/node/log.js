import { asked } from './double.js';

export const log = asked('log', 'log');
