export { log } from 'windlass:plugin/log@0.3.0';
