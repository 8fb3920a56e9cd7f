// An event in the interface's form: for `events.emit`, and in a composer's response.

import { known, oneOf, optionalReference, text } from './wire.js';

export function eventOf(event, what) {
  const { regarding, related, eventType, reason, action, note } =
    known(event, ['regarding', 'related', 'eventType', 'reason', 'action', 'note'], what);
  return {
    regarding: optionalReference(regarding, `${what}.regarding`),
    related: optionalReference(related, `${what}.related`),
    eventType: oneOf(eventType ?? 'normal', ['normal', 'warning'], `${what}.eventType`),
    reason: text(reason, `${what}.reason`),
    action: text(action, `${what}.action`),
    note: text(note, `${what}.note`),
  };
}
