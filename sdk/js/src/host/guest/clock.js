export { now } from 'windlass:plugin/clock@0.1.0';
