export { claim } from 'windlass:plugin/owners@0.3.0';
