import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ownerReference, writes } from 'windlass';
import { TestHost } from 'windlass/testing';
import { otherController, patchOf, versionOf } from '../src/ensure.js';
import { parse } from '../src/json.js';

/** The tests of all SDKs share this file. */
const CASES = parse(readFileSync(new URL('../../cases/ensure.json', import.meta.url), 'utf8'));

const map = (data) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'm', namespace: 'prod' }, data });
const target = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'prod', name: 'm' };

for (const { name, cached, desired, patch, version, controlledBy } of CASES) {
  test(`ensure sends the smallest patch: ${name}`, () => {
    assert.equal(otherController(cached, desired), controlledBy);
    if (controlledBy !== undefined) return;
    const sent = patchOf(cached, desired);
    assert.deepEqual(sent, patch ?? undefined);
    assert.equal(sent && versionOf(cached, sent), version);
  });
}

test('ensure creates or patches only if needed', () => {
  const host = new TestHost();
  const effectOf = (object) => {
    const { effect, object: now } = host.run(() => writes.ensure(object));
    assert.deepEqual(now, host.get(target));
    return effect;
  };
  assert.equal(effectOf(map({ k: 'v', left: undefined })), 'created');
  assert.equal(effectOf(map({ k: 'v', left: undefined })), 'unchanged');
  host.run(() => writes.patch(target, 'merge', { data: { theirs: 'v' } }));
  assert.equal(effectOf(map({ k: 'w' })), 'patched');
  assert.deepEqual(host.get(target).data, { k: 'w', theirs: 'v' });
  assert.deepEqual(host.writes.map(({ op }) => op), ['create', 'patch', 'patch']);
  assert.equal(host.writes[2].target.uid, host.get(target).metadata.uid);
});

test('ensure refuses an object of another controller', () => {
  const shop = (name) => ({ apiVersion: 'v1', kind: 'Shop', metadata: { name, uid: `u-${name}` } });
  const ownedBy = (name) => ({ ...map({}), metadata: { ...map({}).metadata, ownerReferences: [ownerReference(shop(name))] } });
  const host = new TestHost({ objects: [ownedBy('theirs')] });
  assert.throws(() => host.run(() => writes.ensure(ownedBy('ours'))), {
    reason: 'already-exists', code: 409, message: 'it exists, and Shop theirs controls it',
  });
  assert.deepEqual(host.writes, []);
});

test('an object without a name is refused before any read', () => {
  const host = new TestHost();
  host.failNext({ call: 'cache.get' }, { reason: 'not-watched' });
  assert.throws(() => host.run(() => writes.ensure({ apiVersion: 'v1', kind: 'Pod', metadata: {} })), {
    name: 'TypeError', message: 'metadata.name of the object to write must be a string, not undefined',
  });
});
