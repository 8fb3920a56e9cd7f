import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { defineComposer, isApiError, writes } from 'windlass';
import { TestHost } from 'windlass/testing';
import { documents } from '../src/testing/yaml.js';

// The tests of all SDKs share these files.
const cases = (file) => readFileSync(new URL(`../../cases/${file}`, import.meta.url), 'utf8');
const CRD = cases('shop.crd.yaml');
const WRONG = JSON.parse(cases('misfits.json'));

const named = (apiVersion, kind, name) => ({ apiVersion, kind, name, namespace: 'prod' });
const SHOP = named('example.com/v1', 'Shop', 'a');

function shop(spec, name = 'a') {
  return { apiVersion: 'example.com/v1', kind: 'Shop', metadata: { name, namespace: 'prod' }, spec };
}

function pod(name, owner, ...finalizers) {
  const ownerReferences = [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: owner, controller: true }];
  return { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'prod', uid: name, ownerReferences, finalizers } };
}

test('an invalid object is refused with the paths', () => {
  const host = new TestHost({ crds: CRD });
  for (const { spec, told } of WRONG) {
    const isRefused = (error) => isApiError(error, 'invalid') && error.message.endsWith(`the object does not fit its definition: ${told}`);
    assert.throws(() => host.run(() => writes.create(shop(spec))), isRefused, told);
  }
  assert.deepEqual(host.list(SHOP), []);
  host.run(() => writes.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a', namespace: 'prod' }, sise: 1 }));
});

test('defaults are filled in, and allowed unknown fields are kept', () => {
  const host = new TestHost({ crds: CRD, objects: [shop({ n: 2 }, 'b')] });
  const { object } = host.run(() => writes.apply(shop({"n": 1, "size": null, "port": "http", "name": null, "extra": {"a": 1}, "parts": [{}]})));
  assert.deepEqual(object.spec, {"n": 1, "size": "small", "port": "http", "name": null, "extra": {"a": 1}, "parts": [{"on": true}]});
  assert.deepEqual(host.get({ ...SHOP, name: 'b' }).spec, { n: 2, size: 'small' });
  host.run(() => writes.create(shop({ n: 1, sise: 1 }, 'c'), { fieldValidation: 'ignore' }));
});

test('a status write is validated by the status alone', () => {
  const host = new TestHost({ crds: CRD, objects: [shop({})] });
  host.run(() => writes.applyStatus(SHOP, { ready: true }));
  assert.throws(() => host.run(() => writes.applyStatus(SHOP, { redy: true })), /\.status\.redy: there is no such field/);
});

test('a composition is validated, too', () => {
  const manifest = { name: 'shop', version: '0.1.0', controllers: [{ name: 'shop', primary: { apiVersion: 'v1', kind: 'ConfigMap' } }] };
  const composer = (answer) => defineComposer({ manifest, compose: () => answer });
  const host = new TestHost({ crds: CRD });
  const parent = shop({});
  assert.deepEqual(host.compose(composer({ children: [], status: { ready: true } }), { parent }).failures, []);
  assert.throws(() => host.compose(composer({ children: [], status: { ready: 1 } }), { parent }), /\.status\.ready: a whole number where a boolean/);
  assert.throws(() => host.compose(composer({ children: [shop({ n: 0 })] }), { parent }), /\.spec\.n: 0 is too small/);
});

test('controlled objects are deleted with their owner', () => {
  const owner = shop({ n: 1 });
  owner.metadata.uid = 'u-1';
  const objects = [owner, pod('child', 'u-1'), pod('grandchild', 'child'), pod('waits', 'u-1', 'example.com/x'), pod('other', 'u-2')];
  const host = new TestHost({ crds: CRD, objects });
  host.run(() => writes.delete(SHOP));
  const pods = () => host.list({ apiVersion: 'v1', kind: 'Pod' });
  assert.deepEqual(pods().map(({ metadata }) => [metadata.name, 'deletionTimestamp' in metadata]), [['waits', true], ['other', false]]);
  host.run(() => writes.patch(named('v1', 'Pod', 'waits'), 'merge', { metadata: { finalizers: [] } }));
  host.remove(named('v1', 'Pod', 'other'));
  assert.deepEqual(pods(), []);
});

test('orphans stay without their owner', () => {
  const owner = shop({ n: 1 });
  owner.metadata.uid = 'u-1';
  const host = new TestHost({ objects: [owner, pod('child', 'u-1')] });
  host.run(() => writes.delete(SHOP, { propagation: 'orphan' }));
  assert.deepEqual(host.get(named('v1', 'Pod', 'child')).metadata.ownerReferences, []);
});

test('unsupported definitions are refused with their line', () => {
  for (const [text, told] of [
    ['kind: ConfigMap', /no CustomResourceDefinition/],
    ['spec:\n  a: &x 1', /line 2: anchors, aliases and tags/],
    ['a: [1,\n  2', /line 2: a value does not end/],
    ['a: {b c}', /line 1: the key b c has no value/],
    ['a: 1\nb', /line 2: b does not belong/],
  ]) assert.throws(() => new TestHost({ crds: text }), told);
});

test('scalars are parsed to their values', () => {
  const text = "- 1\n- -1.5e3\n- 'it''s'\n- \"a\\tb # c\"\n- no # comment\n- ~\n- >\n  a\n  b\n- |\n  a\n   b\n-\n  c: d\n- http://x\n";
  assert.deepEqual(documents(text), [[1, -1500, "it's", 'a\tb # c', 'no', null, 'a b\n', 'a\n b\n', { c: 'd' }, 'http://x']]);
  assert.deepEqual(documents('{"a": [1]}'), [{ a: [1] }]);
});
