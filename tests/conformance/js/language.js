// The steps that need only a composer's imports. The caller passes the parts of the SDK, because each folder has its
// own SDK.

export function languageSteps({
  ApiError, clock, conditions, config, log, ownerReference, random, requeueAfter, requeueWithBackoff, Terminal, Transient,
}) {
  let runs = 0;

  const calls = {
    'log.log': ({ level, message, fields }) => log.log(level, message, fields),
    // The console takes the fields as an object as its last argument. Without fields, that argument is left out.
    logger({ level, message, fields = [] }) {
      console[level](message, ...(fields.length === 0 ? [] : [Object.fromEntries(fields)]));
    },
    // JavaScript prints through the console, which is the step `logger`.
    stdout: () => UNSUPPORTED,
    stderr: () => UNSUPPORTED,
    'config.get': () => config.get(),
    'clock.now': () => clock.now(),
    'language.now': () => Date.now(),
    'random.bytes': ({ length }) => [...random.bytes(length)],
    'language.random': () => Array.from({ length: 8 }, () => Math.floor(Math.random() * 1000)),
    'language.order': () => [...new Set(Array.from({ length: 50 }, (_, number) => `k${number}`))],
    echo: ({ value }) => value,
    'conditions.set': ({ conditions: known, type, status, reason, message, generation }) =>
      conditions.set(known, { type, status, reason, message }, { generation }),
    'owner-reference': ({ object }) => ownerReference(object),
    state: () => (runs += 1),
    language: truths,
    // Modules of Node.js do not exist in a component. Using one fails the build.
    'open-file': () => UNSUPPORTED,
    connect: ({ address }) => fetch(address),
    // This is JavaScript's only way to wait.
    sleep: ({ ms }) => setTimeout(() => {}, ms),
  };

  const endings = {
    'requeue-after': ({ ms }) => requeueAfter(ms),
    'requeue-backoff': () => requeueWithBackoff(),
    fail({ failures, message }) {
      const errors = failures.map(errorOf);
      throw errors.length === 1 ? errors[0] : new AggregateError(errors, message);
    },
    raise({ message }) {
      deeper(message);
    },
    spin() {
      for (;;);
    },
    grow() {
      const held = [];
      for (;;) held.push(new Uint8Array(2 ** 20).fill(1));
    },
    recurse: function recurse(step) {
      return recurse(step) + 1;
    },
  };

  function errorOf({ transient, afterMs, terminal, api }) {
    if (transient !== undefined) return new Transient(transient, { retryAfterMs: afterMs });
    return terminal !== undefined ? new Terminal(terminal) : new ApiError(api);
  }

  function resultOf(error) {
    if (!(error instanceof ApiError)) return { message: error.message };
    const { code, reason, statusReason, message, retryAfterMs, verb, resource, object } = error;
    return { code, reason, statusReason, message, retryAfterMs, verb, resource, object };
  }

  return { calls, endings, resultOf };
}

export const UNSUPPORTED = Symbol('unsupported');

/** Returns the outcome of a step. */
export function outcome(call, resultOf) {
  try {
    const value = call();
    return value === UNSUPPORTED ? { unsupported: true } : { ok: value ?? null };
  } catch (error) {
    return { error: resultOf(error) };
  }
}

/** Returns a step without its null fields, because null means left out. */
export function withoutNull(step) {
  return Object.fromEntries(Object.entries(step).filter(([, value]) => value !== null));
}

function deeper(message) {
  deepest(message);
}

function deepest(message) {
  throw new Error(message);
}

function truths() {
  const uuid = crypto.randomUUID();
  const [...generated] = (function* () {
    yield 1;
    yield 2;
  })();
  return {
    bigint: 2n ** 64n === 18446744073709551616n,
    date: new Date().getTime() === Date.now() && new Date(0).toISOString() === '1970-01-01T00:00:00.000Z',
    generators: generated.length === 2,
    performance: performance.timeOrigin + performance.now() >= Date.now(),
    regexp: /\p{L}+/u.exec('1 größe')[0] === 'größe',
    uuid: /^[0-9a-f-]{36}$/.test(uuid) && uuid !== crypto.randomUUID(),
    weak: new WeakMap([[{}, 1]]) instanceof WeakMap,
  };
}
