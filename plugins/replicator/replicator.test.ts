import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubernetesObject } from 'windlass';
import { TestHost } from 'windlass/testing';
import {
  ALLOWED, ALLOWED_NAMESPACES, AT, FROM, FROM_VERSION, KEYS, KINDS, LABELS, MERGED, refTo, SOURCE, STRIP_LABELS, TO, TO_MATCHING,
} from './api.js';
import { clearPatch, isWhollyCopied, newCopy, permits, pullPatch, pushPatch } from './copies.js';
import { fitsAny, patternError } from './pattern.js';
import { reconciler } from './plugin.js';

const [SECRET, CONFIG_MAP] = KINDS as [typeof KINDS[0], typeof KINDS[0]];
const NOW = new Date('2026-01-01T00:00:00.123Z');

function object(kind: 'Secret' | 'ConfigMap' | 'Namespace', place: string, annotations: Record<string, string> = {}, more: object = {}): KubernetesObject {
  const [name, namespace] = place.split('/').reverse() as [string, string?];
  return { apiVersion: 'v1', kind, metadata: { name, ...(namespace !== undefined && { namespace }), annotations, resourceVersion: '7' }, ...more };
}

function namespace(name: string, labels: Record<string, string> = {}): KubernetesObject {
  const made = object('Namespace', name);
  return { ...made, metadata: { ...made.metadata, labels } };
}

test('patterns must match the whole name', () => {
  for (const [pattern, fits, misses] of [
    ['team', 'team', 'team-a'],
    ['team-.*', 'team-a', 'my-team-a'],
    ['ns-[0-9]{2,3}', 'ns-042', 'ns-1'],
    ['(prod|test)-[^x]', 'test-a', 'prod-x'],
    ['^a(?:b+c)?$', 'abbc', 'abb'],
    ['\\w+-\\d', 'ab-1', 'ab-c'],
    ['a.?[a\\-c]*', 'a-a-c', 'a--b'],
    ['x{2}', 'xx', 'xxx'],
    ['a||b', '', 'ab'],
  ] as const) {
    assert.ok(fitsAny([pattern], fits) && !fitsAny([pattern], misses), pattern);
  }
});

test('a pattern cannot take exponential time', () => {
  assert.ok(!fitsAny(['((a+)+)+b', '(a|a|aa)*{60}c'], 'a'.repeat(63)));
});

test('a pattern that cannot be read fits nothing and says why', () => {
  for (const [pattern, why] of [
    ['a(b', 'the ( at character 2 is not closed'], ['a)', 'the ) at character 2 closes no group'], ['[a', 'not closed'],
    ['*a', 'nothing stands before the *'], ['(?=a)', 'not supported'], ['\\p{L}', 'not supported'], ['[z-a]', 'is empty'],
    ['('.repeat(30), 'levels'], ['a'.repeat(1001) + '.', 'longer than'],
  ] as const) {
    assert.ok(patternError(pattern)?.includes(why), `${pattern}: ${patternError(pattern)}`);
    assert.ok(!fitsAny([pattern], 'a'));
  }
  assert.equal(patternError('team-[a-z]'), undefined);
});

test('a reference needs a namespace and a name', () => {
  assert.deepEqual(refTo(SECRET, ' a/b.c '), { apiVersion: 'v1', kind: 'Secret', namespace: 'a', name: 'b.c' });
  for (const text of ['a', 'a/b/c', '/a', 'a/', '']) assert.equal(refTo(SECRET, text), undefined);
});

test('a source permits only what both annotations permit', () => {
  const source = (annotations: Record<string, string>) => object('Secret', 'a/x', annotations);
  assert.ok(permits(source({ [ALLOWED]: 'true', [ALLOWED_NAMESPACES]: 'b, c-.*' }), 'c-1'));
  assert.ok(!permits(source({ [ALLOWED]: 'true', [ALLOWED_NAMESPACES]: 'b' }), 'c'));
  assert.ok(!permits(source({ [ALLOWED]: 'true' }), 'b'));
  assert.ok(permits(source({ [ALLOWED]: 'True', [ALLOWED_NAMESPACES]: 'b' }), 'b'));
  assert.ok(!permits(source({ [ALLOWED]: 'yes', [ALLOWED_NAMESPACES]: 'b' }), 'b'));
  assert.ok(!permits(source({ [ALLOWED_NAMESPACES]: '.*' }), 'b'));
});

test('a new copy has the content and the labels, but not the annotations', () => {
  const source = object('Secret', 'a/x', { [TO]: 'b', other: 'y' }, { type: 'kubernetes.io/tls', data: { 'tls.key': 'k', 'tls.crt': 'c' } });
  source.metadata.labels = { app: 'shop' };
  const copy = newCopy(SECRET, source, 'b', NOW);
  assert.deepEqual(copy.metadata, {
    name: 'x', namespace: 'b', labels: { app: 'shop' },
    annotations: { [KEYS]: 'tls.crt,tls.key', [SOURCE]: 'a/x', [LABELS]: 'app', [AT]: '2026-01-01T00:00:00Z', [FROM_VERSION]: '7' },
  });
  assert.deepEqual([copy['type'], copy['data']], ['kubernetes.io/tls', source['data']]);
  assert.equal(pushPatch(SECRET, copy, source, NOW), undefined);
});

test('a copy loses keys and labels that its source has lost', () => {
  const source = object('ConfigMap', 'a/x', {}, { data: { a: '1', b: '2' }, binaryData: { c: 'AA==' } });
  source.metadata.labels = { app: 'shop', tier: 'web' };
  const copy = newCopy(CONFIG_MAP, source, 'b', NOW);
  copy['data'].own = 'kept';
  copy.metadata.labels!['team'] = 'kept';
  const changed = { ...source, metadata: { ...source.metadata, labels: { app: 'mall' } }, data: { a: '1', c: '3' }, binaryData: {} };
  const patch = pushPatch(CONFIG_MAP, copy, changed, NOW)!;
  assert.deepEqual([patch['data'], patch['binaryData'], patch['metadata']!['labels']], [{ b: null, c: '3' }, { c: null }, { app: 'mall', tier: null }]);
  changed.metadata.annotations = { [STRIP_LABELS]: 'true' };
  assert.deepEqual(pushPatch(CONFIG_MAP, copy, changed, NOW)!['metadata']!['labels'], { app: null, tier: null });
});

test('a cleared target keeps the keys that its type requires', () => {
  const target = object('Secret', 'b/x', { [FROM]: 'a/x', [KEYS]: 'ca.crt,tls.crt,tls.key', [AT]: 't', [FROM_VERSION]: '1' });
  Object.assign(target, { type: 'kubernetes.io/tls', data: { 'ca.crt': 'x', 'tls.crt': 'y', 'tls.key': 'z' } });
  assert.deepEqual(clearPatch(SECRET, target), {
    data: { 'ca.crt': null, 'tls.crt': '', 'tls.key': '' }, metadata: { annotations: { [KEYS]: null, [AT]: null, [FROM_VERSION]: null } },
  });
  assert.equal(clearPatch(SECRET, object('Secret', 'b/x', { [FROM]: 'a/x' })), undefined);
});

test('a target keeps its own keys', () => {
  const target = object('ConfigMap', 'b/x', { [FROM]: 'a/x', [KEYS]: 'a' }, { data: { a: '1', own: '2' } });
  const patch = pullPatch(CONFIG_MAP, target, object('ConfigMap', 'a/x', {}, { data: { b: '3' } }), NOW);
  assert.deepEqual(patch!['data'], { a: null, b: '3' });
  assert.ok(!isWhollyCopied(CONFIG_MAP, target));
});

const run = (host: TestHost, controller: string, made: KubernetesObject) => host.reconcile(reconciler, { controller, object: made });
const written = ({ writes }: TestHost) => writes.map(({ op, object: made, target }) => `${op} ${(made?.metadata ?? target).namespace}`);

test('a source is pushed by names, patterns and labels, each namespace once', () => {
  const source = object('Secret', 'a/x', { [TO]: 'b,t-[0-9],gone', [TO_MATCHING]: 'team' }, { data: { k: 'dg==' } });
  const leaving = namespace('t-2');
  leaving.metadata.deletionTimestamp = '2026-01-01T00:00:00Z';
  const host = new TestHost({
    objects: [namespace('a', { team: '1' }), namespace('b', { team: '1' }), namespace('t-1'), leaving, namespace('t-x')],
    config: { excludeNamespaces: ['exc.*'] },
  });
  host.put(namespace('excluded', { team: '1' }));
  assert.deepEqual(run(host, 'secret-sources', source).failures, []);
  assert.deepEqual(written(host), ['create b', 'create t-1']);
  run(host, 'secret-sources', source);
  assert.equal(host.writes.length, 2);
});

test('an object that exists is merged, and keeps its content when the source goes', () => {
  const source = object('ConfigMap', 'a/x', { [TO]: 'b' }, { data: { k: '1' } });
  const existing = object('ConfigMap', 'b/x', {}, { data: { own: '2' } });
  const host = new TestHost({ objects: [namespace('b'), existing] });
  run(host, 'configmap-sources', source);
  const adopted = host.get({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'b', name: 'x' })!;
  assert.deepEqual(adopted.metadata.annotations, { [SOURCE]: 'a/x', [MERGED]: 'true' });
  run(host, 'configmap-copies', adopted);
  const merged = host.get({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'b', name: 'x' })!;
  assert.deepEqual(merged.data, { own: '2', k: '1' });
  host.remove({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'a', name: 'x' });
  run(host, 'configmap-copies', merged);
  const left = host.get({ apiVersion: 'v1', kind: 'ConfigMap', namespace: 'b', name: 'x' })!;
  assert.deepEqual([left.data, left.metadata.annotations], [{ own: '2' }, {}]);
});

test('a name that the cache does not show as taken is read from the server', () => {
  const host = new TestHost({ objects: [namespace('b')] });
  host.failNext({ call: 'writes.batch' }, { reason: 'already-exists' });
  host.failNext({ call: 'writes.create' }, { reason: 'already-exists' });
  const { failures } = run(host, 'secret-sources', object('Secret', 'a/x', { [TO]: 'b' }));
  assert.deepEqual(failures, []);
});

test('a copy without its source is deleted in the version that was read', () => {
  const copy = object('Secret', 'b/x', { [SOURCE]: 'a/x', [KEYS]: 'k' }, { data: { k: 'dg==' } });
  const host = new TestHost({ objects: [namespace('b')] });
  run(host, 'secret-copies', copy);
  assert.equal(host.writes[0]?.op, 'delete');
  assert.ok(host.writes[0]?.options.resourceVersion);
});

test('a copy stays if only the cache has no source, or no namespace', () => {
  const copy = () => object('Secret', 'b/x', { [SOURCE]: 'a/x', [KEYS]: 'k' }, { data: { k: 'dg==' } });
  const source = object('Secret', 'a/x', { [TO_MATCHING]: 'team' }, { data: { k: 'dg==' } });
  const behind = new TestHost({ objects: [namespace('b', { team: '1' }), source] });
  behind.failNext({ call: 'cache.get', namespace: 'a' }, { reason: 'not-found' });
  run(behind, 'secret-copies', copy());
  const unknown = new TestHost({ objects: [source] });
  run(unknown, 'secret-copies', copy());
  assert.deepEqual([...behind.writes, ...unknown.writes], []);
  const unselected = new TestHost({ objects: [namespace('b'), source] });
  run(unselected, 'secret-copies', copy());
  assert.deepEqual(written(unselected), ['delete b']);
});

test('a copy that names no readable source stays, and is reported', () => {
  const host = new TestHost({ objects: [namespace('b')] });
  run(host, 'secret-copies', object('Secret', 'b/x', { [SOURCE]: 'a', [KEYS]: 'k' }, { data: { k: 'dg==' } }));
  assert.deepEqual([host.writes.length, host.events.map(({ reason }) => reason)], [0, ['InvalidAnnotation']]);
});

test('a copy stays while its source has a pattern or selector that cannot be read', () => {
  const copy = () => object('Secret', 'b/x', { [SOURCE]: 'a/x', [KEYS]: 'k' }, { data: { k: 'dg==' } });
  for (const annotations of [{ [TO]: 'c,b(' }, { [TO_MATCHING]: ' ' }]) {
    const host = new TestHost({ objects: [namespace('b'), object('Secret', 'a/x', annotations, { data: { k: 'bmV3' } })] });
    run(host, 'secret-copies', copy());
    assert.deepEqual(host.writes, [], JSON.stringify(annotations));
    run(host, 'secret-sources', host.get({ apiVersion: 'v1', kind: 'Secret', namespace: 'a', name: 'x' })!);
    assert.deepEqual(host.events.map(({ reason }) => reason), ['InvalidAnnotation']);
  }
  const mended = new TestHost({ objects: [namespace('b'), object('Secret', 'a/x', { [TO]: 'c' }, { data: { k: 'bmV3' } })] });
  run(mended, 'secret-copies', copy());
  assert.deepEqual(written(mended), ['delete b']);
});

test('an excluded namespace keeps its copies and may pull', () => {
  const host = new TestHost({
    objects: [
      namespace('b'), object('Secret', 'a/x', { [TO]: 'b' }, { data: { k: 'bmV3' } }),
      object('Secret', 'a/p', { [ALLOWED]: 'true', [ALLOWED_NAMESPACES]: 'b' }, { data: { k: 'dg==' } }),
    ],
    config: { excludeNamespaces: ['.*b.*'] },
  });
  run(host, 'secret-copies', object('Secret', 'b/x', { [SOURCE]: 'a/x', [KEYS]: 'k' }, { data: { k: 'dg==' } }));
  assert.equal(host.writes.length, 0);
  run(host, 'secret-copies', object('Secret', 'b/p', { [FROM]: 'a/p' }));
  assert.deepEqual(host.writes[0]?.patch.data, { k: 'dg==' });
});

test('a configuration with an unreadable pattern pushes nothing', () => {
  const host = new TestHost({ objects: [namespace('kube-system')], config: { excludeNamespaces: ['(?i)kube'] } });
  const { failures } = run(host, 'secret-sources', object('Secret', 'a/x', { [TO]: '.*' }, { data: { k: 'dg==' } }));
  assert.match(String(failures[0]?.terminal), /"\(\?i\)kube" in excludeNamespaces/);
  assert.deepEqual(host.writes, []);
});

test('a copy that the original has made is adopted, not replaced', () => {
  const source = object('Secret', 'a/x', { [TO]: 'b' }, { data: { k: 'dg==' } });
  const host = new TestHost({ objects: [namespace('b'), object('Secret', 'b/x', { [FROM_VERSION]: '5', [KEYS]: 'k,old' }, { data: { k: 'dg==', old: 'dg==' } })] });
  run(host, 'secret-sources', source);
  assert.deepEqual(host.writes.map(({ op, patch }) => [op, patch]), [['patch', { metadata: { annotations: { [SOURCE]: 'a/x' } } }]]);
  const adopted = host.get({ apiVersion: 'v1', kind: 'Secret', namespace: 'b', name: 'x' })!;
  run(host, 'secret-copies', adopted);
  assert.deepEqual(host.writes.at(-1)?.patch.data, { old: null });
});

test('a target of another source is reported, and left alone', () => {
  const first = object('Secret', 'a/x', { [TO]: 'c' });
  const host = new TestHost({ objects: [namespace('c'), first, object('Secret', 'c/x', { [SOURCE]: 'a/x' })] });
  run(host, 'secret-sources', object('Secret', 'b/x', { [TO]: 'c' }));
  assert.deepEqual(host.writes, []);
  assert.deepEqual(host.events.map(({ reason, note }) => [reason, note]), [['TargetTaken', 'not replicated to c/x, which is a copy of a/x; rename one of the two sources']]);
});

test('a target whose source is gone is cleared; one without permission is not', () => {
  const target = () => object('Secret', 'b/x', { [FROM]: 'a/x', [KEYS]: 'k' }, { data: { k: 'dg==' } });
  const forbidden = new TestHost({ objects: [namespace('b'), object('Secret', 'a/x')] });
  run(forbidden, 'secret-copies', target());
  assert.deepEqual([forbidden.writes.length, forbidden.events[0]?.reason], [0, 'SourceUnavailable']);
  const gone = new TestHost({ objects: [namespace('b')] });
  run(gone, 'secret-copies', target());
  assert.deepEqual(gone.writes[0]?.patch.data, { k: null });
  assert.equal(gone.events[0]?.note, forbidden.events[0]?.note);
});

test('allowAll lets targets pull from sources without annotations', () => {
  const host = new TestHost({ objects: [object('Secret', 'a/x', {}, { data: { k: 'dg==' } })], config: { allowAll: [{ apiVersion: 'v1', kind: 'Secret' }] } });
  run(host, 'secret-copies', object('Secret', 'b/x', { [FROM]: 'a/x' }));
  assert.deepEqual(host.writes[0]?.patch.data, { k: 'dg==' });
});

test('mistakes are reported once per call, and are no failures', () => {
  const host = new TestHost({ objects: [namespace('b')] });
  assert.deepEqual(run(host, 'secret-sources', object('Secret', 'a/x', { [TO]: 'b,(c' })).failures, []);
  assert.deepEqual(written(host), ['create b']);
  for (const from of ['x', 'b/y']) run(host, 'secret-copies', object('Secret', 'b/y', { [FROM]: from }));
  assert.deepEqual(host.events.map(({ reason }) => reason), ['InvalidAnnotation', 'InvalidAnnotation', 'InvalidAnnotation']);
});

test('a namespace runs copies by its name, and sources by its labels or as a new one', () => {
  const host = new TestHost();
  const targets = (controller: string, watch: string, old: KubernetesObject | null, now: KubernetesObject) =>
    host.map(reconciler, { controller, watch, old, new: now }).targets;
  assert.deepEqual(targets('secret-copies', 'namespaces', null, namespace('b')), [{ index: 'namespace', value: 'b' }]);
  assert.deepEqual(targets('secret-sources', 'secret-destinations', null, namespace('b')), [{ index: 'kind', value: 'Secret' }]);
  assert.deepEqual(targets('configmap-sources', 'configmap-destinations', namespace('b'), namespace('b', { t: 'a' })), [{ index: 'selector', value: 't=a' }]);
});
