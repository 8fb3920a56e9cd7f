export { claim } from 'windlass:plugin/owners@0.1.0';
