export { get } from 'windlass:plugin/config@0.2.0';
