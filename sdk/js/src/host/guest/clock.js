export { now } from 'windlass:plugin/clock@0.3.0';
