export { get, list } from 'windlass:plugin/live@0.2.0';
