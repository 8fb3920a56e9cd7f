export { emit } from 'windlass:plugin/events@0.3.0';
