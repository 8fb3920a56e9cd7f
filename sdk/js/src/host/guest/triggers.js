export { list } from 'windlass:plugin/triggers@0.3.0';
