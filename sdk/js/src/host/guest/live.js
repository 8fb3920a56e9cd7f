export { get, list, log, served, kinds } from 'windlass:plugin/live@0.3.0';
