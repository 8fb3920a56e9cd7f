export { claim } from 'windlass:plugin/owners@0.2.0';
