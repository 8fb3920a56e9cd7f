export { get } from 'windlass:plugin/config@0.1.0';
