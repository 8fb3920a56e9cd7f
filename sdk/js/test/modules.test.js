import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  cache, clock, conditions, config, defineReconciler, events, hasFields, http, live, log, metrics, owners, random, triggers, writes,
} from 'windlass';
import { TestHost } from 'windlass/testing';

const pods = { apiVersion: 'v1', kind: 'Pod' };
const pod = (name, labels = {}) => ({ ...pods, metadata: { name, namespace: 'prod', labels }, spec: { node: name } });
const primary = { apiVersion: 'v1', kind: 'Shop', metadata: { name: 'shop', namespace: 'prod', uid: 'u-1' } };

function inCall(host, call) {
  const watches = [{ ...pods, mapping: { type: 'all' }, indexes: [{ name: 'node', source: { type: 'field', pointer: '/spec/node' } }] }];
  const manifest = { name: 'shop', version: '0.1.0', controllers: [{ name: 'shop', primary: { apiVersion: 'v1', kind: 'Shop' }, watches }] };
  let answer;
  const { failures } = host.reconcile(defineReconciler({ manifest, reconcile() { answer = call(); } }), { object: primary });
  assert.deepEqual(failures, []);
  return answer;
}

test('the cache reads one, several and all pages', () => {
  const host = new TestHost({ objects: ['a', 'b', 'c'].map((name) => pod(name, { app: name === 'c' ? 'x' : 'y' })) });
  inCall(host, () => {
    assert.equal(cache.get({ ...pods, namespace: 'prod', name: 'a' }).spec.node, 'a');
    assert.equal(cache.get({ ...pods, namespace: 'prod', name: 'd' }), undefined);
    host.failNext({ call: 'cache.get', name: 'b' }, { reason: 'expired' });
    const many = cache.getMany(['a', 'b', 'd'].map((name) => ({ ...pods, namespace: 'prod', name })));
    assert.deepEqual(many.map(({ object, error }) => object?.spec.node ?? error?.reason), ['a', 'expired', undefined]);
    const names = (query) => cache.list({ ...pods, limit: 1, ...query }).map(({ metadata }) => metadata.name);
    assert.deepEqual(names({}), ['a', 'b', 'c']);
    assert.deepEqual(names({ labelSelector: 'app in (x,z)' }), ['c']);
    assert.deepEqual(names({ index: { name: 'node', value: 'b' } }), ['b']);
    assert.equal([...cache.iterate({ ...pods, limit: 2 })].length, 3);
    const { items, nextToken } = cache.page({ ...pods, limit: 2 });
    assert.equal(items.length, 2);
    assert.deepEqual(names({ pageToken: nextToken }), ['c']);
    assert.deepEqual(Object.keys(live.page({ ...pods, pageToken: nextToken })), ['items']);
    assert.throws(() => cache.get({ apiVersion: 'v1', kind: 'Secret', name: 'x' }), { reason: 'not-watched' });
    assert.equal(live.list({ apiVersion: 'v1', kind: 'Secret' }).length, 0);
    assert.equal(live.get({ ...pods, namespace: 'prod', name: 'a' }).spec.node, 'a');
  });
});

test('writes have their options, and written objects can be read', () => {
  const host = new TestHost();
  inCall(host, () => {
    writes.create(pod('a'), { owned: true });
    writes.apply({ ...pods, metadata: { name: 'a', namespace: 'prod' }, spec: { image: 'x' } }, { force: true });
    const target = { ...pods, namespace: 'prod', name: 'a' };
    const { object: patched } = writes.patch(target, 'json', [{ op: 'replace', path: '/spec/node', value: 'n2' }], { resourceVersion: '3' });
    assert.deepEqual(patched.spec, { node: 'n2', image: 'x' });
    assert.equal(cache.list({ ...pods, owned: true }).length, 1);
    assert.throws(() => writes.create(pod('a')), { reason: 'already-exists' });
    assert.throws(() => writes.patch(target, 'merge', {}, { resourceVersion: '3' }), { reason: 'conflict' });
    writes.applyStatus(patched, { phase: 'Running' });
    assert.equal(writes.delete(target, { gracePeriodMs: 1500 }), undefined);
    assert.throws(() => writes.delete(target), { reason: 'not-found' });
  });
  assert.deepEqual(host.writes[0].options, { owned: true, force: false, dryRun: false, fieldValidation: 'strict' });
  const status = host.writes.find(({ options }) => options.subresource?.name === 'status');
  assert.deepEqual([status.op, status.options.force, status.object.status], ['apply', true, { phase: 'Running' }]);
  assert.deepEqual(host.writes.at(-2).options, { propagation: 'background', gracePeriodMs: 1500, dryRun: false });
});

test('a write returns the fields that it names, and keeps the rest', () => {
  const host = new TestHost({ objects: [pod('a')] });
  const target = { ...pods, namespace: 'prod', name: 'a' };
  const { uid } = host.get(target).metadata;
  const identity = { ...pods, metadata: { name: 'a', namespace: 'prod', uid } };
  inCall(host, () => {
    assert.deepEqual(writes.apply(pod('a'), { fields: ['/spec/node', '/spec/none'] }).object, { ...identity, spec: { node: 'a' } });
    assert.deepEqual(writes.update(pod('a'), { fields: [] }).object, identity);
    assert.deepEqual(writes.patch(target, 'merge', { spec: { image: 'x' } }, { fields: ['/spec/image'] }).object, { ...identity, spec: { image: 'x' } });
    const [{ object }] = writes.batch([{ op: 'apply', object: pod('a'), options: { fields: [] } }]);
    assert.deepEqual(object, identity);
    assert.deepEqual(writes.apply(pod('a'), { fields: null }).object.spec, { node: 'a', image: 'x' });
    assert.throws(() => writes.apply(pod('a'), { fields: '/spec' }), /fields must be an array, not string \/spec/);
  });
  assert.deepEqual(host.writes.map(({ options }) => options.fields), [['/spec/node', '/spec/none'], [], ['/spec/image'], [], undefined]);
  assert.deepEqual(host.get(target).spec, { node: 'a', image: 'x' });
});

test('only a strategic patch can own, as in the host', () => {
  const host = new TestHost({ objects: [pod('a')] });
  const target = { ...pods, namespace: 'prod', name: 'a' };
  inCall(host, () => {
    for (const type of ['merge', 'json']) {
      assert.throws(() => writes.patch(target, type, [], { owned: true }), { reason: 'invalid' });
    }
    writes.patch(target, 'strategic', { spec: { image: 'x' } }, { owned: true });
    const { object } = writes.update(live.get(target), { owned: true });
    assert.deepEqual([object.spec, object.metadata.ownerReferences.map(({ uid }) => uid)], [{ node: 'a', image: 'x' }, ['u-1']]);
  });
});

test('a primary without a uid keeps the generated one', () => {
  const host = new TestHost();
  const manifest = { name: 'shop', version: '0.1.0', controllers: [{ name: 'shop', primary: { apiVersion: 'v1', kind: 'Shop' }, owns: [pods] }] };
  const seen = [];
  const plugin = defineReconciler({ manifest, reconcile() {
    seen.push(cache.list({ ...pods, owned: true }).length);
    writes.apply(pod('a'), { owned: true });
  } });
  const object = { apiVersion: 'v1', kind: 'Shop', metadata: { name: 'shop', namespace: 'prod' } };
  for (let call = 0; call < 2; call += 1) assert.deepEqual(host.reconcile(plugin, { object }).failures, []);
  assert.deepEqual(seen, [0, 1]);
});

test('a scale patches its subresource, and an eviction is created below its pod', () => {
  const host = new TestHost({ objects: [pod('a')] });
  inCall(host, () => {
    writes.scale({ ...pods, namespace: 'prod', name: 'a' }, 3);
    writes.evict({ ...pods, namespace: 'prod', name: 'a', uid: host.get({ ...pods, namespace: 'prod', name: 'a' }).metadata.uid });
  });
  const [scale, eviction] = host.writes;
  assert.deepEqual([scale.op, scale.patch, scale.options.subresource], ['patch', { spec: { replicas: 3 } }, { name: 'scale' }]);
  assert.equal(eviction.options.subresource.name, 'eviction');
  assert.ok(eviction.object.deleteOptions.preconditions.uid && !('uid' in eviction.options.subresource.parent));
});

test('evicting a missing pod succeeds, and a refusal fails', () => {
  const host = new TestHost();
  const gone = { ...pods, namespace: 'prod', name: 'a' };
  inCall(host, () => {
    assert.equal(writes.evict(gone), undefined);
    host.failNext({ call: 'writes.create' }, { reason: 'too-many-requests' });
    assert.throws(() => writes.evict(gone), { reason: 'too-many-requests' });
  });
});

test('live reads have views and parts', () => {
  const host = new TestHost({ objects: [{ ...pod('a'), spec: { replicas: 3, paused: true } }] });
  const target = { ...pods, namespace: 'prod', name: 'a' };
  inCall(host, () => {
    assert.deepEqual(Object.keys(live.get(target, { metadataOnly: true })), ['apiVersion', 'kind', 'metadata']);
    assert.deepEqual(live.get(target, { fields: ['/spec/replicas'] }).spec, { replicas: 3 });
    const { kind, spec } = live.get(target, { subresource: 'scale' });
    assert.deepEqual([kind, spec], ['Scale', { replicas: 3 }]);
    assert.throws(() => live.get(target, { subresource: 'binding' }), { reason: 'not-found' });
    assert.equal(live.list({ ...pods, metadataOnly: true })[0].spec, undefined);
  });
});

test('the test sets logs and served kinds', () => {
  const host = new TestHost();
  const target = { ...pods, namespace: 'prod', name: 'a' };
  inCall(host, () => {
    assert.throws(() => live.log(target), { reason: 'not-found' });
    host.podLogs['prod/a'] = 'one\ntwo\nthree\n';
    assert.equal(live.log(target, { tailLines: 2 }), 'two\nthree\n');
    assert.equal(live.log(target, { container: 'c', limitBytes: 5 }), 'one\nt');
    assert.equal(live.served(pods).resource, 'pods');
    host.unserved.push(pods);
    assert.equal(live.served(pods), undefined);
  });
});

test('the kinds of the host are listed once, by group and kind', () => {
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'n' } };
  const scaler = (version) => ({ apiVersion: `autoscaling/${version}`, kind: 'HorizontalPodAutoscaler', metadata: { name: version } });
  const crds = readFileSync(new URL('../../cases/shop.crd.yaml', import.meta.url), 'utf8');
  const host = new TestHost({ crds, objects: [scaler('v2'), scaler('v1'), pod('a'), pod('b'), node] });
  host.unserved.push({ apiVersion: 'v1', kind: 'Node' });
  inCall(host, () => {
    const listed = live.kinds();
    assert.deepEqual(listed.map(({ apiVersion, kind }) => [apiVersion, kind]), [
      ['v1', 'Pod'], ['v1', 'Shop'], ['autoscaling/v1', 'HorizontalPodAutoscaler'], ['example.com/v1', 'Shop'],
    ]);
    assert.deepEqual(listed[0], { ...pods, ...live.served(pods) });
    host.failNext({ call: 'live.kinds' }, { reason: 'server-error', message: 'away' });
    assert.throws(() => live.kinds(), { reason: 'server-error', resource: '', object: undefined });
  });
});

test('a review is answered and not stored, and a collection is deleted by its labels', () => {
  const host = new TestHost({ objects: [pod('a', { app: 'web' }), pod('b', { app: 'web' }), pod('c')] });
  host.answers.SubjectAccessReview = { status: { allowed: true } };
  inCall(host, () => {
    const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec: {} };
    assert.deepEqual(writes.create(review).object, { status: { allowed: true } });
    assert.throws(() => writes.deleteCollection(pods), { reason: 'invalid' });
    const deleted = writes.deleteCollection({ ...pods, labelSelector: 'app=web' });
    assert.deepEqual(deleted.map(({ name }) => name), ['a', 'b']);
    writes.apply(pod('d'), { managerSuffix: 'tls' });
  });
  assert.deepEqual(host.list(pods).map(({ metadata }) => metadata.name), ['c', 'd']);
  assert.equal(host.writes.at(-1).options.managerSuffix, 'tls');
});

test('a batch answers each operation', () => {
  const host = new TestHost({ objects: [pod('a')] });
  const results = inCall(host, () => writes.batch([
    { op: 'create', object: pod('b') },
    { op: 'create', object: pod('a') },
    { op: 'delete', target: { ...pods, namespace: 'prod', name: 'a' } },
  ]));
  assert.deepEqual(results.map(({ object, error }) => object?.metadata.name ?? error?.reason), ['b', 'already-exists', undefined]);
});

test('a claim adopts and releases, and throws every error', () => {
  const host = new TestHost({ objects: [pod('a', { app: 'x' })] });
  assert.deepEqual(inCall(host, () => owners.claim(pods, 'app=x')).adopted.map(({ name }) => name), ['a']);
  assert.deepEqual(inCall(host, () => owners.claim(pods, 'app=y')).released.map(({ name }) => name), ['a']);
  host.failNext({ call: 'owners.claim' }, { reason: 'conflict' });
  inCall(host, () => assert.throws(() => owners.claim(pods, 'app=x'), (error) => error.errors[0].reason === 'conflict'));
});

test('events, metrics and configuration are passed unchanged', () => {
  const host = new TestHost({ config: { greeting: 'hello' } });
  const runs = metrics.counter('runs_total', { help: 'Runs.', labels: ['result'] });
  inCall(host, () => {
    events.normal('Made', 'Make', 'made it', { related: { ...pods, name: 'a' } });
    runs.add(2, { result: 'ok' });
    metrics.gauge('depth', { help: 'Depth.' }).set(1.5);
    metrics.observe('size', 3);
    assert.deepEqual(config.get(), { greeting: 'hello' });
  });
  assert.deepEqual(host.events, [{ eventType: 'normal', reason: 'Made', action: 'Make', note: 'made it', related: { ...pods, name: 'a' } }]);
  assert.deepEqual(host.metrics.map(({ type, value, labels }) => [type, value, labels]), [
    ['counter', 2, { result: 'ok' }], ['gauge', 1.5, {}], ['histogram', 3, {}],
  ]);
  assert.deepEqual({ ...runs }, { name: 'runs_total', type: 'counter', help: 'Runs.', labels: ['result'] });
});

test('the test sets the triggers', () => {
  const host = new TestHost();
  assert.deepEqual(inCall(host, triggers.list), []);
  host.triggers = [{ reason: 'Changed', watch: 'pods', object: { ...pods, namespace: 'prod', name: 'a', uid: 'u-2' } }, { reason: 'Resync' }];
  assert.deepEqual(inCall(host, triggers.list), host.triggers);
  assert.deepEqual(inCall(new TestHost({ triggers: [{ reason: 'Start' }] }), triggers.list), [{ reason: 'Start' }]);
});

test('triggers and references have no empty fields', () => {
  const object = { cluster: null, ...pods, namespace: null, name: 'a', uid: null };
  const host = new TestHost({ triggers: [{ reason: 'Deleted', watch: null, object }, { reason: 'Retry', watch: null, object: null }] });
  assert.deepEqual(inCall(host, triggers.list), [{ reason: 'Deleted', object: { ...pods, name: 'a' } }, { reason: 'Retry' }]);
});

test('HTTP is answered at once, with any status', () => {
  const host = new TestHost({
    fetch({ url }) {
      if (url.endsWith('/a')) return { headers: { 'X-Y': 'z' }, body: '{"n":12345678901234567890}' };
      return url.includes('/b') ? { status: 404, body: Uint8Array.of(0xc3, 0xa4, 0xff) } : { reason: 'dns' };
    },
  });
  host.run(() => {
    const response = http.fetch('https://a.dev/a', { method: 'POST', headers: { accept: '*/*' }, json: { b: 1 }, timeoutMs: 50 });
    assert.deepEqual([response.ok, response.header('x-y'), response.json().n], [true, 'z', 12345678901234567890n]);
    const missing = http.fetch('https://a.dev/b?token=secret');
    assert.deepEqual([missing.status, missing.text(), missing.bytes().length], [404, 'ä\ufffd', 3]);
    assert.throws(() => missing.throwIfNotOk(), { message: 'GET https://a.dev/b: answered with status 404', reason: 'status' });
    assert.throws(() => http.fetch('https://a.dev/c'), { name: 'HttpError', reason: 'dns' });
  });
  assert.deepEqual(host.requests[0], {
    method: 'POST', url: 'https://a.dev/a', headers: [['accept', '*/*'], ['content-type', 'application/json']], body: '{"b":1}', timeoutMs: 50,
  });
});

test('time, randomness and the console are the host\'s while it calls, and no longer', () => {
  const draw = () => [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint16Array(3))], random.u32(), [...random.bytes(2)]];
  const host = new TestHost({ now: new Date('2026-02-03T04:05:06.789Z') });
  const realDate = Date;
  host.run(() => {
    assert.equal(new Date().toISOString(), '2026-02-03T04:05:06.789Z');
    assert.equal(Date.now(), Date.UTC(2026, 1, 3, 4, 5, 6, 789));
    assert.ok(new Date(0) instanceof Date && new Date(0).getTime() === 0 && new realDate(5) instanceof Date);
    assert.equal(Date(), new Date().toString());
    assert.equal(performance.timeOrigin + performance.now(), Date.now());
    assert.deepEqual(clock.now(), { seconds: 1770091506, nanoseconds: 789000000 });
    assert.equal(clock.timestamp(), '2026-02-03T04:05:06Z');
    assert.throws(() => setTimeout(() => {}, 1), /there is no setTimeout in a plugin.*requeueAfter/);
    assert.throws(() => fetch('https://a.dev'), /use http\.fetch/);
    console.log('to the log');
  });
  assert.equal(Date, realDate);
  assert.ok(Math.abs(Date.now() - host.now) > 1000 && host.logs.length === 1);
  assert.deepEqual(new TestHost({ seed: 7 }).run(draw), new TestHost({ seed: 7 }).run(draw));
  assert.notDeepEqual(new TestHost({ seed: 7 }).run(draw), new TestHost({ seed: 8 }).run(draw));
  assert.match(new TestHost().run(() => crypto.randomUUID()), /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test('a line of the console has a level, a message and fields', () => {
  const line = (write) => {
    const host = new TestHost();
    host.run(write);
    return host.logs.map(({ level, message, fields }) => [level, message, fields]);
  };
  assert.deepEqual(line(() => console.warn('scaled', { name: 'shop', replicas: 2, at: [1] })), [['warn', 'scaled', { name: 'shop', replicas: '2', at: '[1]' }]]);
  assert.deepEqual(line(() => console.log('%s is %d%%, %j', 'it', 5, { a: 1 }, 'more')), [['info', 'it is 5%, {"a":1} more', {}]]);
  assert.deepEqual(line(() => console.error(new TypeError('odd'), 1n, undefined)), [['error', 'TypeError: odd 1 undefined', {}]]);
  assert.deepEqual(line(() => console.debug({ a: 1 })), [['debug', '{"a":1}', {}]]);
  assert.deepEqual(line(() => console.trace('lone \ud800')), [['trace', 'lone \ufffd', {}]]);
  assert.deepEqual(line(() => {
    console.group('shops', 2);
    console.table([{ a: 1 }]);
    console.time('t');
    console.timeLog('t');
    console.timeEnd('t');
    console.count('calls');
    console.countReset('calls');
    console.groupEnd();
    console.groupCollapsed('more');
    console.assert(true, 'no');
    console.assert(false, 'yes');
  }), [['info', 'shops 2', {}], ['info', '[{"a":1}]', {}], ['info', 't', {}], ['info', 'calls', {}], ['info', 'more', {}], ['error', 'yes', {}]]);
  assert.deepEqual(line(() => log.info('m', [['a', 1], ['a', null]])), [['info', 'm', { a: 'null' }]]);
});

test('the transition time stays while the status does', () => {
  const at = (seconds) => ({ at: { seconds, nanoseconds: 0 }, generation: 2 });
  const first = conditions.set(undefined, [{ type: 'Ready', status: false, reason: 'Starting' }, { type: 'Up', status: true, reason: 'Yes' }], at(60));
  const second = conditions.set(first, { type: 'Ready', status: 'False', reason: 'Waiting', message: 'for a node' }, at(120));
  assert.deepEqual(second, [
    { type: 'Ready', status: 'False', reason: 'Waiting', message: 'for a node', observedGeneration: 2, lastTransitionTime: '1970-01-01T00:01:00Z' },
    first[1],
  ]);
  assert.equal(conditions.set(second, { type: 'Ready', status: true, reason: 'Ok' }, at(120))[0].lastTransitionTime, '1970-01-01T00:02:00Z');
  const unread = () => assert.fail('a call that reads the time cannot be saved');
  assert.deepEqual(conditions.set(second, { type: 'Up', status: true, reason: 'Yes' }, { at: unread, generation: 2 }), second);
  const [later] = conditions.set([], { type: 'Ready', status: true, reason: 'Ok' }, { at: () => ({ seconds: 120, nanoseconds: 0 }) });
  assert.equal(later.lastTransitionTime, '1970-01-01T00:02:00Z');
  assert.ok(conditions.isTrue(second, 'Up') && !conditions.isTrue(second, 'Ready') && !conditions.isTrue(undefined, 'Up'));
  assert.deepEqual(conditions.remove(second, 'Ready'), [first[1]]);
});

test('hasFields ignores fields of others', () => {
  const object = { spec: { ports: [{ name: 'admin' }, { name: 'http', port: 80 }], type: 'ClusterIP' } };
  assert.ok(hasFields(object, { spec: { ports: [{ name: 'http' }], none: undefined } }));
  assert.ok(!hasFields(object, { spec: { ports: [{ name: 'http', port: 81 }] } }));
  assert.ok(!hasFields(object, { spec: { selector: {} } }));
  // Integers beyond 2^53 arrive as BigInt.
  assert.ok(hasFields({ n: 2n ** 53n }, { n: 2 ** 53 }) && !hasFields({ n: 2n ** 53n + 1n }, { n: 2 ** 53 }));
});

test('what is the primary\'s needs one, and says where there is one', () => {
  const host = new TestHost();
  const calls = [
    () => writes.create(pod('a'), { owned: true }),
    () => writes.batch([{ op: 'apply', object: pod('a'), options: { owned: true } }]),
    () => cache.list({ ...pods, owned: true }),
    () => owners.claim(pods, 'a=b'),
  ];
  for (const call of calls) {
    assert.throws(() => host.run(call), (error) => error instanceof TypeError && /needs a primary.*host\.reconcile\(plugin, \{ object/.test(error.message));
  }
  assert.deepEqual(host.writes, []);
  assert.equal(host.run(() => writes.create(pod('a'))).object.metadata.name, 'a');
});
