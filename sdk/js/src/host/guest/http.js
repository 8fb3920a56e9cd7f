export { fetch } from 'windlass:plugin/http@0.2.0';
