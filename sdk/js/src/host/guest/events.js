export { emit } from 'windlass:plugin/events@0.2.0';
