import { asked } from './double.js';

export const get = asked('cache', 'get');
export const getMany = asked('cache', 'getMany');
export const list = asked('cache', 'list');
