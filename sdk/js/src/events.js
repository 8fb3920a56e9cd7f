import * as host from '#host/events';
import { eventOf } from './event.js';

export function normal(reason, action, note, about) {
  emit({ ...about, eventType: 'normal', reason, action, note });
}

export function warning(reason, action, note, about) {
  emit({ ...about, eventType: 'warning', reason, action, note });
}

export function emit(event) {
  host.emit(eventOf(event, 'the event'));
}
