import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const wit = new URL('../../../wit/', import.meta.url);
const host = new URL('../src/host/', import.meta.url);
// A copy of the SDK in a plugin's folder has no interface beside it.
const skip = !existsSync(new URL('cache.wit', wit));
const camelCase = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());

test('the SDK matches the current interface', { skip }, () => {
  const files = readdirSync(wit).filter((name) => name.endsWith('.wit')).sort();
  const digest = (name) => createHash('sha256').update(readFileSync(new URL(name, wit))).digest('hex');
  const now = files.map((name) => `${digest(name)}  ${name}\n`).join('');
  const noted = readFileSync(new URL('wit.sha256', host), 'utf8');
  assert.equal(noted, now, 'wit/ has changed: see what follows for src/ and its types, then run `sha256sum *.wit` in wit/');
});

test('every imported function exists for components and tests', { skip }, () => {
  const text = readFileSync(new URL('world.wit', wit), 'utf8');
  const named = new Set([...text.matchAll(/import ([a-z]+);/g)].map(([, name]) => name));
  // Only an interpreter imports `script`, to read its script.
  named.delete('script');
  const imports = [...named];
  assert.ok(imports.length > 5);
  for (const name of imports) {
    const functions = [...readFileSync(new URL(`${name}.wit`, wit), 'utf8').matchAll(/^ {2}%?([a-z0-9-]+): func/gm)];
    const names = functions.map(([, found]) => camelCase(found)).sort();
    const [, exported] = /^export \{ (.*) \}/.exec(readFileSync(new URL(`guest/${name}.js`, host), 'utf8'));
    assert.deepEqual(exported.split(', ').map((part) => part.split(' as ')[0]).sort(), names, `guest/${name}.js`);
    const answered = [...readFileSync(new URL(`node/${name}.js`, host), 'utf8').matchAll(/asked\('(\w+)', '(\w+)'\)/g)];
    assert.deepEqual(answered.map(([, , found]) => found).sort(), names, `node/${name}.js`);
  }
});

test('every export of a world exists', { skip }, () => {
  const worlds = readFileSync(new URL('world.wit', wit), 'utf8').split(/^world /m).slice(1);
  const exportsOf = (name) => {
    const world = worlds.find((text) => text.startsWith(`${name} `));
    const included = /include ([a-z-]+);/.exec(world)?.[1];
    return [...(included === undefined ? [] : exportsOf(included)), ...[...world.matchAll(/export ([a-z]+);/g)].map(([, found]) => found)];
  };
  for (const [name, world] of [['reconciler', 'mapping-reconciler-plugin'], ['composer', 'customizing-composer-plugin']]) {
    const [, exported] = /^export \{ (.*) \}/m.exec(readFileSync(new URL(`../component/${name}.js`, host), 'utf8'));
    assert.deepEqual(exported.split(', ').map((part) => part.split(' as ').at(-1)), exportsOf(world), world);
  }
});
