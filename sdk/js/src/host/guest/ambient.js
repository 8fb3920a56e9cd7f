// In a component the host's clock, randomness and console replace the language's own from the start.
import { install } from '../../ambient.js';

install();
