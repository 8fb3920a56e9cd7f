import { asked } from './double.js';

export const fetch = asked('http', 'fetch');
