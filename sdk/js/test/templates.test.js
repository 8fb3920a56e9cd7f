// Tests the templates of `windlass new`: their own tests pass, and the TypeScript templates compile in strict mode with
// this SDK's types.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const sdk = fileURLToPath(new URL('..', import.meta.url));
const templates = join(sdk, 'templates');
// A copy of the SDK in an author's folder has no templates.
const all = existsSync(templates) ? readdirSync(templates) : [];
// The definition templates need types that `windlass new --from-crd` generates. A story in tests/cases runs their
// tests.
const names = all.filter((name) => !name.endsWith('-definition'));
// The folders of all languages share these files.
const crd = join(sdk, '../../host/author/src/new/common/crd.yaml');

const PLACES = {
  name: 'my-shop',
  Kind: 'MyShop',
  plural: 'myshops',
  singular: 'myshop',
  module: 'my_shop',
  group: 'example.com',
  version: 'v1',
};

function filled(text) {
  return text.replace(/\{\{(\w+)\}\}/g, (place, name) => PLACES[name] ?? place);
}

/** Writes a template as a folder, with this SDK among its packages. */
function made(name, from) {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-'));
  from.after(() => rmSync(folder, { recursive: true }));
  for (const file of readdirSync(join(templates, name))) {
    writeFileSync(join(folder, file.replace(/\.tmpl$/, '')), filled(readFileSync(join(templates, name, file), 'utf8')));
  }
  writeFileSync(join(folder, 'crd.yaml'), filled(readFileSync(crd, 'utf8')));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(sdk, join(folder, 'node_modules/windlass'));
  symlinkSync(join(sdk, 'node_modules/@types'), join(folder, 'node_modules/@types'));
  return folder;
}

function run(folder, ...command) {
  // Without this, the template's tests would take themselves for a part of this test run.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: folder, env, encoding: 'utf8' });
  assert.equal(status, 0, stdout + stderr);
}

for (const name of names.filter((name) => name.startsWith('js-'))) {
  test(`the tests of the template ${name} pass`, (context) => {
    run(made(name, context), '--test', 'plugin.test.js');
  });
}

for (const name of names.filter((name) => name.startsWith('ts-'))) {
  test(`the template ${name} compiles in strict mode, with its tests`, (context) => {
    const folder = made(name, context);
    assert.equal(JSON.parse(readFileSync(join(folder, 'tsconfig.json'), 'utf8')).compilerOptions.strict, true);
    run(folder, join(sdk, 'node_modules/typescript/bin/tsc'), '--noEmit');
  });
}
