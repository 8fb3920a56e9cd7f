import * as host from '#host/triggers';
import { referenceFrom } from './wire.js';

export function list() {
  return host.list().map(({ reason, watch, object }) => {
    const trigger = { reason };
    if (watch != null) trigger.watch = watch;
    if (object != null) trigger.object = referenceFrom(object);
    return trigger;
  });
}
