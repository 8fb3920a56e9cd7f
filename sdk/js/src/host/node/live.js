import { asked } from './double.js';

export const get = asked('live', 'get');
export const list = asked('live', 'list');
