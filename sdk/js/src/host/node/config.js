import { asked } from './double.js';

export const get = asked('config', 'get');
