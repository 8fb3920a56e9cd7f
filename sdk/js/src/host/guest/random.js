export { getU32, getBytes } from 'windlass:plugin/random@0.3.0';
