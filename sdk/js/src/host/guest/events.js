export { emit } from 'windlass:plugin/events@0.1.0';
