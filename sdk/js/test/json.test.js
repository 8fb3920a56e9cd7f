import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { parse, stringify } from 'windlass';

test('whole numbers are exact, whatever their size', () => {
  for (const text of ['9007199254740991', '9007199254740992', '-9223372036854775808', '18446744073709551615', '123456789012345678901234567890']) {
    const document = `{"a":[1,${text}],"b":"${text}"}`;
    assert.equal(stringify(parse(document)), document);
  }
  assert.equal(typeof parse('9007199254740991'), 'number');
  assert.equal(parse('[9007199254740993]')[0], 9007199254740993n);
  assert.equal(stringify({ a: 2n ** 64n, b: undefined }), '{"a":18446744073709551616}');
});

test('a text that looks like a large number is unchanged', () => {
  const document = '{"#1":"#12345678901234567890","k":"#","e":"\\u0023x","q":"a\\"12345678901234567890","f":1.2345678901234567,"x":1e-20,"12345678901234567890":12345678901234567890}';
  const value = parse(document);
  assert.equal(value['#1'], '#12345678901234567890');
  assert.deepEqual([value.k, value.e, value.q, value.f, value.x], ['#', '#x', 'a"12345678901234567890', 1.2345678901234567, 1e-20]);
  assert.equal(value['12345678901234567890'], 12345678901234567890n);
  assert.deepEqual(parse(stringify(value)), value);
});

test('a number at any place of a text is found', () => {
  for (let before = 0; before < 40; before += 1) {
    assert.equal(parse(`${' '.repeat(before)}1234567890123456789`), 1234567890123456789n);
  }
});

test('any text is kept exactly, even lone surrogates and null characters', () => {
  const texts = ['', '\0', 'grüße 世界 \u{1F600}', '\ud800', 'a\udc00b', '\u2028', '"\\/'];
  assert.deepEqual(parse(stringify(texts)), texts);
  assert.ok(stringify(texts).isWellFormed());
  assert.deepEqual(parse(stringify([...texts, 2n ** 60n])), [...texts, 2n ** 60n]);
});

test('a key named __proto__ is a key', () => {
  const value = parse('{"__proto__":{"a":12345678901234567890}}');
  assert.ok(Object.hasOwn(value, '__proto__'));
  assert.equal(stringify(value), '{"__proto__":{"a":12345678901234567890}}');
});

test('an error names the value that is not JSON', () => {
  const ring = {};
  ring.self = ring;
  assert.throws(() => stringify(ring, 'the object'), /the object cannot be written as JSON: .*circular/);
  assert.throws(() => stringify(undefined, 'the object'), /the object must be JSON, not undefined/);
});

test('a number that is not finite is refused, and the error says where', () => {
  assert.throws(() => stringify({ spec: { ports: [{ a: 1 }, { port: NaN }] } }, 'the patch'), { message: 'the patch: /spec/ports/1/port is NaN, which JSON cannot represent' });
  assert.throws(() => stringify({ big: 2n ** 64n, low: -Infinity }), /the value: \/low is -Infinity/);
  assert.throws(() => stringify(NaN), /the value is NaN/);
  assert.equal(stringify({ a: null, b: 2n ** 64n, c: [undefined, 1.5], d: 'NaN' }), '{"a":null,"b":18446744073709551616,"c":[null,1.5],"d":"NaN"}');
});

test('a date without a time and a boxed number are refused, and the error says where', () => {
  const refused = (object, path, why) => assert.throws(() => stringify(object, 'the object to write'), (error) =>
    error instanceof TypeError && error.message.startsWith(`the object to write: ${path} is ${why}`));
  refused({ spec: { when: new Date('yesterday') } }, '/spec/when', 'a Date without a time');
  refused({ metadata: { annotations: { 'a.dev/when~': new Date(NaN) } } }, '/metadata/annotations/a.dev~1when~0', 'a Date without a time');
  refused({ spec: { ports: [1, new Number(1)] } }, '/spec/ports/1', 'an object of Number');
  refused({ low: null, big: 2n ** 64n, spec: { replicas: new Number(NaN) } }, '/spec/replicas', 'an object of Number');
  assert.throws(() => stringify(new Number(1)), /^TypeError: the value is an object of Number/);
  assert.equal(stringify({ when: new Date(0), of: null }), '{"when":"1970-01-01T00:00:00.000Z","of":null}');
  assert.ok(!('toJSON' in Number.prototype));
});

test('a Map and a Set are refused wherever they are, and the error says where', () => {
  const refused = (object, message) => assert.throws(() => stringify(object, 'the object'), (error) => error instanceof TypeError && error.message.startsWith(message));
  refused({ spec: { 'a/b': [new Map([['a', 1]])] } }, 'the object: /spec/a~1b/0 is a Map');
  refused({ spec: { args: new Set(['a']), none: {} } }, 'the object: /spec/args is a Set');
  refused({ big: 2n ** 64n, labels: new (class extends Map {})() }, 'the object: /labels is a Map');
  refused(Object.assign(new Set(), { a: 1 }), 'the object is a Set');
  const told = Object.assign(new Map([['a', 1]]), { toJSON() { return Object.fromEntries(this); } });
  assert.equal(stringify({ told, none: {}, nothing: Object.create(null), constructor: null }), '{"told":{"a":1},"none":{},"nothing":{},"constructor":null}');
});

test("the language's own objects are refused, by their kind and place, and an author's pass", () => {
  const objects = {
    RegExp: /a/, Promise: Promise.resolve(), Error: new TypeError('a'), ArrayBuffer: new ArrayBuffer(1), Uint8Array: new Uint8Array(1),
    DataView: new DataView(new ArrayBuffer(1)), WeakMap: new WeakMap(), Generator: (function* () {})(),
    String: new String('a'), Boolean: new Boolean(false), URLSearchParams: new URLSearchParams('a=b'),
  };
  for (const [kind, object] of Object.entries(objects)) {
    for (const beside of [1, 2n ** 64n]) {
      assert.throws(() => stringify({ beside, spec: [object] }, 'the object'), (error) =>
        error instanceof TypeError && error.message.startsWith(`the object: /spec/0 is an object of ${kind},`));
    }
  }
  class Port { constructor() { this.port = 80; } }
  const bare = Object.assign(Object.create(null), { a: 1 });
  const told = Object.assign(/a/, { toJSON() { return this.source; } });
  const value = { port: new Port(), list: new (class extends Array {})(), bare, told, url: new URL('http://a.dev/'), left: () => {}, list2: [undefined, () => {}, Symbol('a')] };
  assert.equal(stringify(value), '{"port":{"port":80},"list":[],"bare":{"a":1},"told":"a","url":"http://a.dev/","list2":[null,null,null]}');
});

test('an exception of toJSON is reported, whatever its type', () => {
  for (const [thrown, text] of [[null, 'null'], ['no port', 'no port'], [{ a: 1 }, '{"a":1}'], [new Error('odd'), 'odd']]) {
    const object = { toJSON() { throw thrown; } };
    assert.throws(() => stringify(object), { name: 'TypeError', message: `the value cannot be written as JSON: ${text}`, cause: thrown });
  }
});

test("what an author has made of the language's prototypes stays, and is heeded", () => {
  const prototype = Number.prototype;
  const texts = () => [stringify({ a: 1 }), stringify({ a: 2n ** 64n })];
  prototype.toJSON = function toJSON() { return `n${this}`; };
  const { toJSON } = prototype;
  try {
    const boxed = new Number(1);
    assert.equal(stringify({ boxed }), '{"boxed":"n1"}');
    assert.throws(() => stringify({ a: NaN }), /\/a is NaN/);
    assert.deepEqual(texts(), ['{"a":1}', '{"a":18446744073709551616}']);
    assert.equal(prototype.toJSON, toJSON);
  } finally {
    delete prototype.toJSON;
  }
});

test('objects may have a frozen prototype', () => {
  const code = `
    Object.freeze(Number.prototype);
    const { stringify } = await import('windlass');
    let message;
    try { stringify({ a: [new Number(1)] }); } catch (error) { ({ message } = error); }
    process.stdout.write(stringify({ a: 1, b: 2n ** 64n, message }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', code], { cwd: import.meta.dirname ?? new URL('.', import.meta.url).pathname, encoding: 'utf8' });
  assert.match(stdout, /^\{"a":1,"b":18446744073709551616,"message":"the value: \/a\/0 is an object of Number/, stderr);
});

test('getters and toJSON are called only once', () => {
  let asked = 0;
  const object = { toJSON() { asked += 1; return { a: null, b: {}, c: 'null' }; } };
  assert.equal(stringify({ object }), '{"object":{"a":null,"b":{},"c":"null"}}');
  assert.equal(asked, 1);
});

test('a large document is read and written in little time', () => {
  const items = Array.from({ length: 20_000 }, (_, number) => ({ name: `item-${number}`, note: 'x'.repeat(30), size: BigInt(number) + 2n ** 60n }));
  assert.deepEqual(parse(stringify(items)), items);
  const long = 'a\\"'.repeat(300_000) + '1234567890123456789';
  assert.equal(parse(stringify(long)), long);
});
