// In a component the language's own clock, randomness and console are the host's from the start.
import { install } from '../../ambient.js';

install();
