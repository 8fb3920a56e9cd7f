export { fetch } from 'windlass:plugin/http@0.3.0';
