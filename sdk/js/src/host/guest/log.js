export { log } from 'windlass:plugin/log@0.2.0';
