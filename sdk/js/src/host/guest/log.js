export { log } from 'windlass:plugin/log@0.1.0';
