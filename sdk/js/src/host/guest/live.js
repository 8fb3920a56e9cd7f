export { get, list, log, served } from 'windlass:plugin/live@0.2.0';
