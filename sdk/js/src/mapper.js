// Calls the plugin's function that returns the primaries that a change concerns.

import { parse } from './json.js';
import { known, listFrom, optionalText, text } from './wire.js';

/** Returns the targets of each change of a batch. Calls `map` once per change. */
export function targetsOf({ watch, changes }, map) {
  const answers = [];
  for (const change of changes) {
    const answer = map(watch, { old: change.old && parse(change.old), new: change.new && parse(change.new) });
    answers.push(listFrom(answer, 'map').map(targetOf));
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
