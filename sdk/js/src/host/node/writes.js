import { asked } from './double.js';

export const create = asked('writes', 'create');
export const update = asked('writes', 'update');
export const patch = asked('writes', 'patch');
export const apply = asked('writes', 'apply');
export const remove = asked('writes', 'delete');
export const deleteCollection = asked('writes', 'deleteCollection');
export const batch = asked('writes', 'batch');
