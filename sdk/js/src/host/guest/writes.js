export { create, update, patch, apply, delete as remove, deleteCollection, batch } from 'windlass:plugin/writes@0.3.0';
