import { asked } from './double.js';

export const emit = asked('events', 'emit');
