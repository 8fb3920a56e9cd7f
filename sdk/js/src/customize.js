// Calls the plugin's function that returns the objects related to a parent.

import { known, listFrom, optionalText, text, texts } from './wire.js';

export function rulesOf(answer) {
  return listFrom(answer, 'customize').map((rule, place) => {
    const what = `rules[${place}]`;
    const { watch, namespace, names, labelSelector } = known(rule, ['watch', 'namespace', 'names', 'labelSelector'], what);
    return {
      watch: text(watch, `${what}.watch`),
      namespace: optionalText(namespace, `${what}.namespace`),
      names: texts(names ?? [], `${what}.names`),
      labelSelector: optionalText(labelSelector, `${what}.labelSelector`),
    };
  });
}
