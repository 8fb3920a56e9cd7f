// Calls the plugin's functions that decide about changes: which ones count, and which primaries they concern.

import { parse } from './json.js';
import { boolFrom, known, listFrom, optionalText, text } from './wire.js';

/** Returns the targets of each change of a batch. Calls `map` once per change. */
export function targetsOf(batch, map) {
  return ofEach(batch, map, (answer) => listFrom(answer, 'map').map(targetOf));
}

/** Returns whether each change of a batch counts. Calls `matches` once per change; without it, every change counts. */
export function countsOf(batch, matches = () => true) {
  return ofEach(batch, matches, (answer) => boolFrom(answer, 'matches'));
}

function ofEach({ watch, changes }, decide, convert) {
  const answers = [];
  for (const change of changes) {
    const answer = decide(watch, { old: change.old && parse(change.old), new: change.new && parse(change.new) });
    answers.push(convert(answer));
  }
  return answers;
}

function targetOf(target, place) {
  const what = `targets[${place}]`;
  if (target?.index === undefined) {
    const { namespace, name } = known(target, ['namespace', 'name'], what);
    return { tag: 'primary', val: { namespace: optionalText(namespace, `${what}.namespace`), name: text(name, `${what}.name`) } };
  }
  const { index, value } = known(target, ['index', 'value'], what);
  return { tag: 'indexed', val: { index: text(index, `${what}.index`), value: text(value, `${what}.value`) } };
}
