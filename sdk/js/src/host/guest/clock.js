export { now } from 'windlass:plugin/clock@0.2.0';
