import { asked } from './double.js';

export const now = asked('clock', 'now');
