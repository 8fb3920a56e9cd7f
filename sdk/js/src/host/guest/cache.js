export { get, getMany, list } from 'windlass:plugin/cache@0.3.0';
