import { asked } from './double.js';

export const add = asked('metrics', 'add');
export const set = asked('metrics', 'set');
export const observe = asked('metrics', 'observe');
