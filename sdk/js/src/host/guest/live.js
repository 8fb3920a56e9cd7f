export { get, list } from 'windlass:plugin/live@0.1.0';
