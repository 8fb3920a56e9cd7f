import { asked } from './double.js';

export const list = asked('triggers', 'list');
