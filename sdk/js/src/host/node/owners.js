import { asked } from './double.js';

export const claim = asked('owners', 'claim');
