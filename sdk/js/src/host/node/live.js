import { asked } from './double.js';

export const get = asked('live', 'get');
export const list = asked('live', 'list');
export const log = asked('live', 'log');
export const served = asked('live', 'served');
export const kinds = asked('live', 'kinds');
