import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ApiError, cache, conditions, defineComposer, defineReconciler, formatRef, HttpError, isApiError, requeueAfter, requeueWithBackoff,
  selectorText, Terminal, throwAll, Transient, writes,
} from 'windlass';
import { TestHost } from 'windlass/testing';

const watch = { apiVersion: 'v1', kind: 'ConfigMap' };
const manifest = { name: 'shop', version: '0.1.0', controllers: [{ name: 'shop', primary: watch }] };
const shop = () => ({ ...watch, metadata: { name: 'shop', namespace: 'prod', uid: 'u-1' }, data: {} });
const plugin = (reconcile) => defineReconciler({ manifest, reconcile });

function failuresOf(error, host = new TestHost()) {
  return host.reconcile(plugin(() => { throw error; }), { object: shop() }).failures;
}

function refused(reason) {
  return new ApiError({ code: 409, reason, statusReason: 'Why', message: 'text', verb: 'patch', resource: 'pods' });
}

test('a manifest is completed by version and kind', () => {
  const described = JSON.parse(plugin(() => {}).describe());
  assert.deepEqual(described, { apiVersion: 'windlass.dev/v1alpha1', kind: 'PluginManifest', ...manifest });
});

test('a field that a manifest does not have is refused, at any depth, with a hint', () => {
  const define = (changes) => () => defineReconciler({ manifest: { ...manifest, ...changes }, reconcile() {} });
  assert.throws(define({ descripton: '' }), /the manifest: there is no field "descripton"; did you mean "description"\?/);
  const controllers = [{ name: 'a', primary: { ...watch, predicates: [{ type: 'fields', pointer: '/a' }] } }];
  assert.throws(define({ controllers }), /manifest\.controllers\[0\]\.primary\.predicates\[0\]: there is no field "pointer"/);
  const timed = [{ name: 'a', primary: { timer: { cron: '@daily', timezone: 'UTC' } } }];
  assert.throws(define({ controllers: timed }), /primary\.timer: there is no field "timezone"; did you mean "timeZone"\?/);
  assert.throws(define({ controllers: {} }), /manifest\.controllers must be an array/);
  assert.throws(define({ version: undefined }), /the manifest has no field "version"/);
  assert.throws(() => defineReconciler({ manifest, reconcil() {} }), /did you mean "reconcile"\?/);
  assert.throws(() => defineReconciler(), /the manifest must be an object, not null/);
});

test('nested predicates are checked', () => {
  const define = (predicate) => () => {
    const controllers = [{ name: 'a', primary: { ...watch, predicates: [predicate] } }];
    return defineReconciler({ manifest: { ...manifest, controllers }, reconcile() {} });
  };
  define({ type: 'and', predicates: [{ type: 'not', predicate: { type: 'fields', pointers: ['/a/*'] } }] })();
  const misspelt = define({ type: 'and', predicates: [{ type: 'not', predicate: { type: 'fields', pointer: '/a' } }] });
  assert.throws(misspelt, /predicates\[0\]\.predicates\[0\]\.predicate: there is no field "pointer"/);
});

test('conditions are checked, even within an any', () => {
  const define = (condition) => () => {
    const controllers = [{ name: 'a', primary: { ...watch, where: [condition] } }];
    return defineReconciler({ manifest: { ...manifest, controllers }, reconcile() {} });
  };
  define({ any: [{ annotation: 'a', is: 'true' }, { field: '/b', notIn: [1] }] })();
  assert.throws(define({ any: [{ anotation: 'a' }] }), /where\[0\]\.any\[0\]: there is no field "anotation"; did you mean "annotation"\?/);
});

test('the text of a selector has every requirement', () => {
  const matchExpressions = [
    { key: 'tier', operator: 'In', values: ['b', 'a', 'b'] }, { key: 'zone', operator: 'NotIn', values: ['x'] },
    { key: 'team', operator: 'Exists' }, { key: 'canary', operator: 'DoesNotExist' },
  ];
  assert.equal(selectorText({ matchLabels: { b: '2', a: '1' }, matchExpressions }), 'a=1,b=2,tier in (a,b),zone notin (x),team,!canary');
  assert.equal(selectorText({}), '');
  assert.throws(() => selectorText({ matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] }), /and not Gt/);
  assert.throws(() => selectorText({ matchExpressions: [{ key: 'a', operator: 'In' }] }), /"a" has none/);
});

test('a request has its object and its key', () => {
  let seen;
  new TestHost().reconcile(plugin((request) => { seen = request; }), { object: shop(), attempt: 3 });
  assert.deepEqual([seen.namespace, seen.name, seen.uid, seen.deleting, seen.attempt], ['prod', 'shop', 'u-1', false, 3]);
  assert.equal(seen.object.metadata.uid, 'u-1');
  new TestHost().reconcile(plugin((request) => { seen = request; }), { name: 'gone' });
  assert.deepEqual([seen.name, seen.object, 'namespace' in seen], ['gone', undefined, false]);
});

test('an outcome is nothing, a time or a backoff', () => {
  const outcome = (answer) => new TestHost().reconcile(plugin(() => answer), { object: shop() });
  assert.deepEqual(outcome(undefined), { failures: [] });
  assert.deepEqual(outcome({}), { failures: [] });
  assert.deepEqual(outcome({ requeueAfterMs: null }), { failures: [] });
  assert.deepEqual(outcome(requeueAfter(0)), { requeueAfterMs: 0, failures: [] });
  assert.deepEqual(outcome(requeueAfter(1.5)), { requeueAfterMs: 2, failures: [] });
  assert.deepEqual(outcome(requeueAfter(1e12)), { requeueAfterMs: 2 ** 31 - 1, failures: [] });
  assert.deepEqual(outcome(requeueWithBackoff()), { requeueBackoff: true, failures: [] });
  assert.deepEqual(outcome({ requeueBackoff: false }), { failures: [] });
  assert.match(outcome({ requeueAfterMs: 5, requeueBackoff: true }).failures[0].transient, /requeueAfterMs and requeueBackoff exclude each other/);
  assert.match(outcome({ requeueAfter: 5 }).failures[0].transient, /did you mean "requeueAfterMs"\?/);
});

test('an async function is refused with advice', () => {
  const { failures } = new TestHost().reconcile(plugin(async () => {}), { object: shop() });
  assert.match(failures[0].transient, /reconcile returned a promise.*without async and await/);
});

test('an API error keeps its class, even as a cause', () => {
  assert.deepEqual(failuresOf(refused('conflict')).map(({ api }) => [api.reason, api.message]), [['conflict', 'text']]);
  const wrapped = new Error('the settings', { cause: new Error('the shop', { cause: refused('forbidden') }) });
  const [{ api }] = failuresOf(wrapped);
  assert.deepEqual([api.reason, api.message], ['forbidden', 'the settings: the shop: text']);
});

test('a wrapped or joined transient failure keeps its delay', () => {
  const busy = new Transient('a backup runs', { retryAfterMs: 1500 });
  const failure = { transient: 'a backup runs', retryAfterMs: 1500 };
  assert.deepEqual(failuresOf(busy), [failure]);
  assert.deepEqual(failuresOf(new Error('the disk', { cause: new Error('b', { cause: busy }) })), [
    { transient: 'the disk: b: a backup runs', retryAfterMs: 1500 },
  ]);
  assert.deepEqual(failuresOf(new AggregateError([busy, new Transient('later'), new Terminal('never')], 'all')), [
    { transient: 'all: a backup runs', retryAfterMs: 1500 }, { transient: 'all: later' }, { terminal: 'all: never' },
  ]);
  assert.deepEqual(failuresOf(new Transient('a backup runs', { retryAfterMs: 1499.5, cause: refused('conflict') })), [
    { transient: 'a backup runs: patch pods: Why: text', retryAfterMs: 1500 },
  ]);
  assert.deepEqual(failuresOf(new Transient('long', { retryAfterMs: Infinity })), [{ transient: 'long', retryAfterMs: 2 ** 31 - 1 }]);
  assert.deepEqual(failuresOf(new Transient('now', { retryAfterMs: 0 })), [{ transient: 'now', retryAfterMs: 0 }]);
  assert.deepEqual(failuresOf(new Transient('later', { retryAfterMs: null })), [{ transient: 'later' }]);
  assert.deepEqual(failuresOf(Object.assign(new Error('odd'), { retryAfterMs: 5 })), [{ transient: 'odd' }]);
});

test('an invalid delay is reported, not trapped', () => {
  assert.throws(() => new Transient('later', { retryAfterMs: -1 }), /^TypeError: retryAfterMs must be a number of milliseconds, not number -1$/);
  // The second argument of a Transient may have other options, or be null.
  assert.deepEqual(failuresOf(new Transient('later', { code: 7 })), [{ transient: 'later' }]);
  assert.deepEqual(failuresOf(new Transient('later', null)), [{ transient: 'later' }]);
  const changed = Object.assign(new Transient('later'), { retryAfterMs: '5 s' });
  assert.deepEqual(failuresOf(changed), [{ transient: 'TypeError: the retryAfterMs of a Transient must be a number of milliseconds, not string 5 s' }]);
});

test('joined errors are reported one by one, each by its class', () => {
  const host = new TestHost();
  const inner = new AggregateError([new TypeError('odd'), refused('invalid')]);
  const failures = failuresOf(new AggregateError([new Terminal('never'), new Error('both', { cause: inner }), new Transient('later')]), host);
  assert.deepEqual(failures.map(({ api, ...told }) => api?.message ?? told), [
    { terminal: 'never' }, { transient: 'both: TypeError: odd' }, 'both: text', { transient: 'later' },
  ]);
  assert.deepEqual(host.logs.map(({ message }) => message), ['TypeError: odd']);
});

const told = (error) => failuresOf(error).map(({ api, terminal, transient }) => api?.message ?? terminal ?? transient);

test('wrapping texts are reported without repeats', () => {
  const conflict = refused('conflict');
  const quoting = (error) => new Error(`the shop: ${error}`, { cause: error });
  assert.deepEqual(told(quoting(conflict)), ['the shop: text']);
  assert.deepEqual(told(quoting(quoting(conflict))), ['the shop: the shop: text']);
  assert.deepEqual(told(new Error(`the shop (${conflict.message})`, { cause: conflict })), ['the shop (text)']);
  assert.deepEqual(told(new Error('the settings', { cause: new Error('the shop', { cause: quoting(conflict) }) })), ['the settings: the shop: the shop: text']);
  const both = new AggregateError([conflict, new Terminal('never')], 'both children');
  assert.deepEqual(told(both), ['both children: text', 'both children: never']);
  assert.deepEqual(told(quoting(both)), ['the shop: both children: text', 'the shop: both children: never']);
  assert.deepEqual(told(quoting(new TypeError('odd'))), ['the shop: TypeError: odd']);
  const collected = () => throwAll([conflict, new Terminal('never')]);
  assert.deepEqual(new TestHost().reconcile(plugin(collected), { object: shop() }).failures.map(({ api, terminal }) => api?.message ?? terminal), ['text', 'never']);
});

test('a text contained by chance is still reported', () => {
  for (const [outer, inner, all] of [
    ['cannot read workshop', 'shop', 'cannot read workshop: shop'],
    ['cannot read shop-1', 'shop', 'cannot read shop-1: shop'],
    ['cannot read shop.prod', 'shop', 'cannot read shop.prod: shop'],
    ['the shop was lost', 'shop', 'the shop was lost: shop'],
    ['after 30 s', '0 s', 'after 30 s: 0 s'],
    ['größer', 'r', 'größer: r'],
    ['cannot read workshop: shop', 'shop', 'cannot read workshop: shop'],
    ['shop: cannot be read', 'shop', 'shop: cannot be read'],
    ["cannot read 'shop'", 'shop', "cannot read 'shop'"],
    ['shop; shop-1', 'shop', 'shop; shop-1'],
    ['no file a/shop/b', 'shop', 'no file a/shop/b: shop'],
    ['cannot boot: no disk-full-flag', 'disk full', 'cannot boot: no disk-full-flag: disk full'],
    ['ramdisk full', 'disk full', 'ramdisk full: disk full'],
    ['cannot read “shop”', 'shop', 'cannot read “shop”: shop'],
    ['no words', ' ', 'no words:  '],
    ['cannot boot because disk full, as ever', 'disk full', 'cannot boot because disk full, as ever'],
    ['cannot read - shop', 'shop', 'cannot read - shop'],
    ['cannot read: shop.', 'shop', 'cannot read: shop.'],
    ['two:\nshop\ntill', 'shop', 'two:\nshop\ntill'],
    ['shop', 'shop', 'shop'],
    ['$& and', 'shop', '$& and: shop'],
  ]) {
    assert.deepEqual(told(new Error(outer, { cause: new Transient(inner) })), [all]);
    assert.deepEqual(told(new Error(outer, { cause: new Error(inner) })), [all]);
  }
  assert.deepEqual(told(new Error('shop: shop', { cause: new Error('shop', { cause: new Transient('closed') }) })), ['shop: shop: closed']);
  const error = new ApiError({ code: 422, reason: 'invalid', statusReason: 'Invalid', message: 'port', verb: 'get', resource: 'pods' });
  assert.deepEqual(told(new Error('import of ports', { cause: error })), ['import of ports: port']);
  assert.deepEqual(told(new Error(`port: ${error}`, { cause: error })), ['port: port']);
  assert.deepEqual(told(new AggregateError([new Terminal('port')], 'transport')), ['transport: port']);
});

test('an error without a message is never taken for a repeat', () => {
  for (const silent of [new Error(''), new Transient(), new Terminal('')]) {
    assert.deepEqual(told(new Error('an Error: of mine', { cause: silent })), ['an Error: of mine']);
    assert.deepEqual(told(new Error(`the shop: ${silent}`, { cause: silent })), [`the shop: ${silent}`]);
    assert.deepEqual(told(silent), ['an error without a message']);
  }
  assert.deepEqual(told(new Error('the shop', { cause: new TypeError('') })), ['the shop: TypeError']);
});

test('the cause of joined errors is reported with each of them', () => {
  const cause = new Error('no network', { cause: new Transient('reset') });
  const both = new AggregateError([refused('conflict'), new Terminal('never')], 'both', { cause });
  assert.deepEqual(told(both), ['both: no network: reset: text', 'both: no network: reset: never']);
  assert.deepEqual(failuresOf(both).map((failure) => Object.keys(failure)), [['api'], ['terminal']]);
  assert.deepEqual(told(new Error('so', { cause: both })), ['so: both: no network: reset: text', 'so: both: no network: reset: never']);
  const collected = assert.throws.bind(undefined, () => throwAll([refused('conflict'), new Terminal('never')]));
  collected((error) => {
    error.cause = cause;
    assert.deepEqual(told(error), ['no network: reset: text', 'no network: reset: never']);
    return true;
  });
});

test('an error in two branches is reported twice and logged once', () => {
  const host = new TestHost();
  const odd = new RangeError('odd');
  const all = new AggregateError([odd, new AggregateError([odd, new Terminal('never')], 'more')], 'all');
  assert.deepEqual(failuresOf(all, host), [{ transient: 'all: RangeError: odd' }, { transient: 'all: more: RangeError: odd' }, { terminal: 'all: more: never' }]);
  assert.equal(host.logs.length, 1);
});

test('a joined error may have its own group as the cause', () => {
  const odd = new RangeError('odd');
  const both = new AggregateError([odd, new Terminal('never')], 'both');
  odd.cause = both;
  assert.deepEqual(failuresOf(both), [{ transient: 'both: RangeError: odd' }, { terminal: 'both: never' }]);
  assert.deepEqual(failuresOf(odd), [{ transient: 'RangeError: odd: both: RangeError: odd' }, { terminal: 'RangeError: odd: both: never' }]);
});

test('formatRef refuses a missing reference, but an ApiError may lack one', () => {
  for (const none of [null, undefined, 'a']) assert.throws(() => formatRef(none), /^TypeError: formatRef needs a reference, not /);
  for (const none of [null, undefined]) {
    const error = Object.assign(refused('conflict'), { object: none });
    assert.equal(`${error}`, 'patch pods: Why: text');
    assert.deepEqual(told(new Error('the shop', { cause: error })), ['the shop: text']);
  }
});

test('the outermost class counts, and errors may contain themselves', () => {
  assert.deepEqual(failuresOf(new Terminal('no', { cause: refused('conflict') })), [{ terminal: 'no: patch pods: Why: text' }]);
  const ring = new Error('ring');
  ring.cause = ring;
  assert.deepEqual(failuresOf(ring), [{ transient: 'ring' }]);
  const joined = new AggregateError([], 'all');
  joined.errors.push(joined);
  assert.deepEqual(failuresOf(joined), [{ transient: 'all' }]);
});

test('an uncaught exception is logged and does not affect the next call', () => {
  const host = new TestHost();
  function deepest() {
    throw new TypeError('not a function');
  }
  const failing = plugin(() => deepest());
  assert.deepEqual(host.reconcile(failing, { object: shop() }).failures, [{ transient: 'TypeError: not a function' }]);
  const [{ level, message, fields }] = host.logs;
  assert.deepEqual([level, message], ['error', 'TypeError: not a function']);
  assert.match(fields.stack, /^TypeError: not a function\n.*deepest/);
  assert.deepEqual(host.reconcile(plugin(() => {}), { object: shop() }), { failures: [] });
});

test('anything may be thrown', () => {
  for (const [thrown, text] of [['text', 'text'], [undefined, 'an error without a message'], [{ a: 1n }, '{"a":"1"}'], [null, 'null']]) {
    assert.deepEqual(failuresOf(thrown), [{ transient: text }]);
  }
});

test('an unreadable part of an error is reported as such', () => {
  const throwing = (field, thrown) => Object.defineProperty(new Error('odd'), field, { get() { throw thrown; } });
  const host = new TestHost();
  const unreadable = throwing('message', new TypeError('no message'));
  assert.deepEqual(failuresOf(unreadable, host), [{ transient: 'TypeError: no message' }]);
  assert.deepEqual(host.logs.map(({ message }) => message), ['TypeError: no message']);
  assert.deepEqual(failuresOf(throwing('message', unreadable)), [{ transient: 'an error that cannot be read' }]);
  assert.deepEqual(failuresOf(throwing('stack', unreadable)), [{ transient: 'odd' }]);
  assert.deepEqual(failuresOf(Object.assign(() => {}, { toString() { throw new Transient('no text'); } })), [{ transient: 'no text' }]);
});

test('an unreadable joined error does not affect the others', () => {
  const host = new TestHost();
  const throwing = (thrown) => Object.defineProperty(new Error('odd'), 'message', { get() { throw thrown; } });
  const unreadable = throwing(new TypeError('no message'));
  const joined = new AggregateError([refused('conflict'), unreadable, new Error('inner', { cause: throwing(unreadable) }), new Terminal('never')], 'all');
  const [{ api }, ...others] = failuresOf(joined, host);
  assert.deepEqual([api.reason, api.message], ['conflict', 'all: text']);
  assert.deepEqual(others, [{ transient: 'all: TypeError: no message' }, { transient: 'all: an error that cannot be read' }, { terminal: 'all: never' }]);
  assert.deepEqual(host.logs.map(({ message }) => message), ['TypeError: no message']);
});

test('a null cause counts as no cause', () => {
  assert.deepEqual(failuresOf(new Transient('later', { cause: null })), [{ transient: 'later' }]);
  assert.deepEqual(failuresOf(new Error('odd', { cause: null })), [{ transient: 'odd' }]);
});

test('an expected failure is not logged', () => {
  const host = new TestHost();
  failuresOf(new Transient('later'), host);
  failuresOf(new HttpError('GET https://a.dev', 'dns', 'unknown'), host);
  assert.deepEqual(host.logs, []);
  assert.deepEqual(failuresOf(new HttpError('GET x', 'invalid-request', 'odd')), [{ terminal: 'GET x: invalid-request: odd' }]);
});

test('a denied HTTP request is a denial with its context', () => {
  const host = new TestHost();
  const denied = new HttpError('GET x', 'not-granted', 'no rule');
  const [{ api }] = failuresOf(new Error('cannot ask', { cause: denied }), host);
  assert.deepEqual([api.reason, api.code, api.statusReason, api.message], ['not-granted', 403, 'NotGranted', 'cannot ask: no rule']);
  assert.deepEqual(host.logs, []);
});

test('errors are found by class wherever they are', () => {
  const joined = new AggregateError([new Error('a', { cause: refused('conflict') })]);
  assert.ok(isApiError(joined, 'not-found', 'conflict') && isApiError(joined));
  assert.ok(!isApiError(joined, 'not-found') && !isApiError(undefined));
  throwAll([]);
  assert.throws(() => throwAll([refused('conflict')]), ApiError);
  assert.throws(() => throwAll([1, 2]), AggregateError);
});

test('a composer returns children, status and events', () => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'shop', namespace: 'prod' } };
  const composer = defineComposer({
    manifest,
    compose: ({ parent, children, child, ...request }) => ({ children, status: { seen: parent.metadata.name } }),
  });
  const answer = new TestHost().compose(composer, { parent: shop(), children: [secret] });
  assert.deepEqual(answer, { children: [secret], status: { seen: 'shop' }, events: [], allowEmpty: false, finalized: false, failures: [] });
  const finder = defineComposer({
    manifest,
    compose: (request) => ({ children: [], status: {
      child: request.child({ apiVersion: 'v1', kind: 'Secret', namespace: 'prod', name: 'shop' }) !== undefined,
      other: request.child({ apiVersion: 'v1', kind: 'Secret', namespace: 'test', name: 'shop' }) !== undefined,
      related: request.relatedObject({ apiVersion: 'v1', kind: 'Secret', namespace: 'prod', name: 'shop' }) !== undefined,
      config: request.config,
    } }),
  });
  const found = new TestHost({ config: { a: 1 } }).compose(finder, { parent: shop(), children: [secret] });
  assert.deepEqual(found.status, { child: true, other: false, related: false, config: { a: 1 } });
});

const pod = (labels, name = 'a') => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'prod', labels } });
const mapping = (type) => {
  const watches = [{ name: 'pods', apiVersion: 'v1', kind: 'Pod', mapping: { type } }];
  return { ...manifest, controllers: [{ name: 'shop', primary: watch, watches }] };
};
const mapped = (map) => defineReconciler({ manifest: mapping('mapper'), reconcile() {}, map });
const customized = (customize) => defineComposer({ manifest: mapping('customize'), compose: () => ({ children: [] }), customize });

test('a mapper is called for each change and returns both kinds of targets', () => {
  const seen = [];
  const plugin = mapped((watch, change) => {
    seen.push([watch, change.old?.metadata.name ?? null, change.new?.metadata.name ?? null]);
    return [change.old, change.new].filter((state) => state !== null).map(({ metadata }) =>
      metadata.labels === undefined ? { namespace: metadata.namespace, name: metadata.name } : { index: 'by-app', value: metadata.labels.app });
  });
  const text = (object) => JSON.stringify(object);
  const changes = [{ old: null, new: text(pod({ app: 'web' })) }, { old: text(pod(undefined, 'b')), new: null }, { old: null, new: null }];
  assert.deepEqual(new TestHost().run(() => plugin.map({ controller: 'shop', watch: 'pods', changes })), [
    [{ tag: 'indexed', val: { index: 'by-app', value: 'web' } }], [{ tag: 'primary', val: { namespace: 'prod', name: 'b' } }], [],
  ]);
  assert.deepEqual(seen, [['pods', null, 'a'], ['pods', 'b', null], ['pods', null, null]]);
  const { targets } = new TestHost().map(plugin, { watch: 'pods', old: pod({ app: 'web' }), new: pod(undefined) });
  assert.deepEqual(targets, [{ index: 'by-app', value: 'web' }, { namespace: 'prod', name: 'a' }]);
});

test('a target may be cluster-scoped', () => {
  for (const namespace of [undefined, null]) {
    const { targets } = new TestHost().map(mapped(() => [{ namespace, name: 'node' }]), { watch: 'pods' });
    assert.deepEqual(targets, [{ name: 'node' }]);
  }
});

test('an invalid result of a mapper is named by its place', () => {
  for (const [answer, says] of [
    [undefined, 'the result of map must be an array, not undefined'],
    [{ name: 'a' }, 'the result of map must be an array, not a value of type object'],
    [[{ name: 'a' }, 'b'], 'targets[1] must be an object, not string b'],
    [[null], 'targets[0] must be an object, not null'],
    [[{}], 'targets[0].name must be a string, not undefined'],
    [[{ namespace: 7, name: 'a' }], 'targets[0].namespace must be a string, not number 7'],
    [[{ index: 'by-app' }], 'targets[0].value must be a string, not undefined'],
    [[{ index: 7, value: 'a' }], 'targets[0].index must be a string, not number 7'],
    [[{ value: 'a' }], 'targets[0]: there is no field "value"; there are namespace, name'],
    [[{ index: 'by-app', value: 'a', name: 'b' }], 'targets[0]: there is no field "name"; there are index, value'],
    [[pod()], 'targets[0]: there is no field "apiVersion"; there are namespace, name'],
  ]) {
    const { targets, error } = new TestHost().map(mapped(() => answer), { watch: 'pods', new: pod() });
    assert.deepEqual([targets, error], [[], `TypeError: ${says}`]);
  }
  assert.match(new TestHost().map(mapped(async () => []), { watch: 'pods' }).error, /map returned a promise.*without async and await/);
});

test('an error of a mapper is a text, and its stack is in the log', () => {
  const host = new TestHost();
  function deepest() {
    throw new Error('no', { cause: new RangeError('odd') });
  }
  assert.deepEqual(host.map(mapped(() => deepest()), { watch: 'pods' }), { targets: [], error: 'no: RangeError: odd' });
  const [{ level, message, fields }] = host.logs;
  assert.deepEqual([level, message], ['error', 'no: RangeError: odd']);
  assert.match(fields.stack, /^Error: no\n.*deepest/);
  const error = (thrown) => new TestHost().map(mapped(() => { throw thrown; }), { watch: 'pods' }).error;
  assert.equal(error(new AggregateError([new Terminal('never'), refused('conflict')], 'both')), 'both: never; both: text');
  assert.equal(error(undefined), 'an error without a message');
  assert.throws(() => host.run(() => { throw 'a text of the test'; }), /a text of the test/);
});

const judged = (matches, part = {}) => {
  const watches = [{ name: 'pods', apiVersion: 'v1', kind: 'Pod', codePredicate: true, mapping: { type: 'sameName' } }];
  return defineReconciler({ manifest: { ...manifest, controllers: [{ name: 'shop', primary: watch, watches, ...part }] }, reconcile() {}, matches });
};

test('a predicate is called for each change, and needs no mapper', () => {
  const plugin = judged((name, change) => name === 'pods' && change.new?.metadata.labels?.app === 'web' && change.old === null);
  const text = (object) => JSON.stringify(object);
  const web = text(pod({ app: 'web' }));
  const changes = [{ old: null, new: web }, { old: web, new: web }, { old: null, new: text(pod()) }];
  assert.deepEqual(new TestHost().run(() => plugin.matches({ controller: 'shop', watch: 'pods', changes })), [true, false, false]);
  assert.deepEqual(new TestHost().matches(plugin, { watch: 'pods', new: pod({ app: 'web' }) }), { counts: true });
  assert.deepEqual(new TestHost().matches(plugin, { watch: 'others', new: pod({ app: 'web' }) }), { counts: false });
});

test('without a predicate, every change counts', () => {
  assert.deepEqual(new TestHost().matches(mapped(() => []), { watch: 'pods', new: pod() }), { counts: true });
});

test('an error of a predicate is a text, and the change counts', () => {
  for (const [answer, says] of [
    [undefined, 'the result of matches must be true or false, not undefined'],
    [0, 'the result of matches must be true or false, not number 0'],
    [[true], 'the result of matches must be true or false, not an array'],
  ]) {
    assert.deepEqual(new TestHost().matches(judged(() => answer), { watch: 'pods' }), { counts: true, error: `TypeError: ${says}` });
  }
  assert.match(new TestHost().matches(judged(async () => true), { watch: 'pods' }).error, /matches returned a promise/);
  const host = new TestHost();
  assert.deepEqual(host.matches(judged(() => { throw new Terminal('no'); }), { watch: 'pods' }), { counts: true, error: 'no' });
});

test('a watch with a predicate in code needs the code', () => {
  const missing = /^TypeError: the manifest has a codePredicate for the watch "pods", and there is no function "matches" beside it$/;
  assert.throws(() => judged(undefined), missing);
  const pods = { name: 'pods', apiVersion: 'v1', kind: 'Pod', codePredicate: true };
  assert.throws(() => judged(undefined, { primary: pods, watches: [] }), missing);
  assert.throws(() => judged(undefined, { owns: [pods], watches: [] }), missing);
  assert.throws(() => judged(true), /matches must be a function, not boolean true/);
});

test('a customizer selects related objects', () => {
  const parent = { ...shop(), spec: { settings: 'shared' } };
  const plugin = customized(({ object, deleting }) => [
    { watch: 'pods', names: [object.spec.settings], namespace: 'common' }, { watch: 'pods', labelSelector: 'app=web', names: null },
    ...(deleting ? [{ watch: 'pods' }] : []),
  ]);
  const { rules, failures } = new TestHost().customize(plugin, { parent });
  assert.deepEqual(failures, []);
  assert.deepEqual(rules, [{ watch: 'pods', namespace: 'common', names: ['shared'] }, { watch: 'pods', names: [], labelSelector: 'app=web' }]);
  assert.equal(new TestHost().customize(plugin, { parent, deleting: true }).rules.length, 3);
});

test('an invalid rule is named by its place, and an error keeps its class', () => {
  for (const [answer, says] of [
    [undefined, 'the result of customize must be an array, not undefined'],
    [['pods'], 'rules[0] must be an object, not string pods'],
    [[{ watch: 'pods' }, {}], 'rules[1].watch must be a string, not undefined'],
    [[{ watch: 'pods', names: 'a' }], 'rules[0].names must be an array, not string a'],
    [[{ watch: 'pods', names: ['a', 7] }], 'rules[0].names[1] must be a string, not number 7'],
    [[{ watch: 'pods', labelSelector: {} }], 'rules[0].labelSelector must be a string, not a value of type object'],
    [[{ watch: 'pods', label: 'a=b' }], 'rules[0]: there is no field "label"; there are watch, namespace, names, labelSelector'],
  ]) {
    const { rules, failures } = new TestHost().customize(customized(() => answer), { parent: shop() });
    assert.deepEqual([rules, failures], [[], [{ transient: `TypeError: ${says}` }]]);
  }
  const never = customized(() => { throw new Terminal('never'); });
  assert.deepEqual(new TestHost().customize(never, { parent: shop() }), { rules: [], failures: [{ terminal: 'never' }] });
});

test('a watch that is mapped by code needs the code', () => {
  assert.throws(() => mapped(undefined), /^TypeError: the manifest maps the watch "pods" by mapper, and there is no function "map" beside it$/);
  const hooks = [{ name: 'pushed', mapping: { type: 'mapper' } }];
  const hooked = { ...manifest, controllers: [{ name: 'shop', primary: watch, hooks }] };
  assert.throws(() => defineReconciler({ manifest: hooked, reconcile() {} }), /the manifest maps the hook "pushed" by mapper/);
  assert.doesNotThrow(() => defineReconciler({ manifest: hooked, reconcile() {}, map: () => [] }));
  assert.throws(() => customized(undefined), /maps the watch "pods" by customize, and there is no function "customize" beside it/);
  assert.throws(() => mapped('pods'), /map must be a function, not string pods/);
  defineReconciler({ manifest: mapping('sameName'), reconcile() {} });
  assert.throws(() => defineReconciler({ manifest, reconcile() {}, mapp() {} }), /did you mean "map"\?/);
});

test('a composition may ask for another call', () => {
  const composed = (requeue) => new TestHost().compose(defineComposer({ manifest, compose: () => ({ children: [], ...requeue }) }), { parent: shop() });
  assert.equal(composed(requeueAfter(1500)).requeueAfterMs, 1500);
  const { requeueBackoff, requeueAfterMs } = composed(requeueWithBackoff());
  assert.deepEqual([requeueBackoff, requeueAfterMs], [true, undefined]);
  assert.match(composed({ requeueAfterMs: 5, requeueBackoff: true }).failures[0].transient, /requeueAfterMs and requeueBackoff exclude each other/);
});

test('a composition with a misspelt field fails', () => {
  const composer = defineComposer({ manifest, compose: () => ({ child: [] }) });
  assert.match(new TestHost().compose(composer, { parent: shop() }).failures[0].transient, /no field "child"/);
  const nothing = defineComposer({ manifest, compose() {} });
  assert.match(new TestHost().compose(nothing, { parent: shop() }).failures[0].transient, /compose returned nothing/);
});

test('a call without a host says how to get one', () => {
  assert.throws(() => cache.get({ ...watch, name: 'a' }), /cache\.get needs the Windlass host.*windlass\/testing/);
});

test('invalid arguments are reported, not trapped', () => {
  const host = new TestHost();
  const failing = (call) => assert.throws(() => host.run(call), TypeError);
  failing(() => cache.get({ apiVersion: 'v1', kind: 'Pod' }));
  failing(() => cache.get({ ...watch, name: 'a' }, { field: ['/a'] }));
  failing(() => cache.list({ kind: 'Pod' }));
  failing(() => writes.apply({}, { onwed: true }));
  failing(() => writes.apply(undefined));
  failing(() => writes.patch({ ...watch, name: 'a' }, 'odd', {}));
  failing(() => writes.delete({ ...watch, name: 'a' }, { gracePeriodMs: -1 }));
  failing(() => writes.batch([{ op: 'make', object: {} }]));
  failing(() => conditions.set([], { type: 'Ready', status: 'Yes', reason: 'R' }));
});
