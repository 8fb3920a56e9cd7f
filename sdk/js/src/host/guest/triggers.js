export { list } from 'windlass:plugin/triggers@0.2.0';
