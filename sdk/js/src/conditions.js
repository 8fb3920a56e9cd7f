import { now, timestamp } from './clock.js';
import { known, oneOf } from './wire.js';

export function set(conditions, entered, options) {
  const { generation, at } = known(options, ['generation', 'at'], 'the options of conditions.set');
  const time = () => timestamp(typeof at === 'function' ? at() : at ?? now());
  const changed = [...(conditions ?? [])];
  for (const given of Array.isArray(entered) ? entered : [entered]) {
    const place = changed.findIndex((condition) => condition.type === given.type);
    const condition = complete(given, changed[place], generation ?? given.observedGeneration, time);
    if (place === -1) changed.push(condition);
    else changed[place] = condition;
  }
  return changed;
}

// The fields are in Kubernetes' order.
function complete({ type, status, reason, message = '' }, before, observedGeneration, time) {
  const text = typeof status === 'boolean' ? (status ? 'True' : 'False') : status;
  const condition = { type, status: oneOf(text, ['True', 'False', 'Unknown'], 'status'), reason, message };
  if (observedGeneration !== undefined && observedGeneration !== null) condition.observedGeneration = observedGeneration;
  const since = before?.status === condition.status ? before.lastTransitionTime : undefined;
  condition.lastTransitionTime = since || time();
  return condition;
}

export function find(conditions, type) {
  return conditions?.find((condition) => condition.type === type);
}

export function isTrue(conditions, type) {
  return find(conditions, type)?.status === 'True';
}

export function remove(conditions, type) {
  return (conditions ?? []).filter((condition) => condition.type !== type);
}
