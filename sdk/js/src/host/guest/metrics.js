export { add, set, observe } from 'windlass:plugin/metrics@0.3.0';
