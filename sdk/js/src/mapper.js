// Which primaries a change concerns, as the plugin says.

import { parse } from './json.js';
import { known, listFrom, optionalText, text } from './wire.js';

/** The targets of each change of a batch, of which `map` is asked one by one. */
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
