export { fetch } from 'windlass:plugin/http@0.1.0';
