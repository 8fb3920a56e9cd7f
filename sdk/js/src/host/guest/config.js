export { get } from 'windlass:plugin/config@0.3.0';
