// A host in memory, for unit tests of plugins on Node.js. It implements the interface itself, so that the tests run the
// whole SDK.

import { install } from './ambient.js';
import { use } from './host/node/double.js';
import { parse, stringify } from './json.js';
import { answers, withoutNone } from './testing/answers.js';
import { Store } from './testing/store.js';
import { apiErrorFrom, known } from './wire.js';

const OPTIONS = ['objects', 'crds', 'config', 'now', 'seed', 'fetch', 'triggers'];
const REQUEST = ['object', 'controller', 'namespace', 'name', 'uid', 'deleting', 'attempt', 'traceId'];
const COMPOSITION = [...REQUEST.slice(1), 'parent', 'children', 'related'];

export class TestHost {
  /** Everything that calls have done, in order. */
  writes = [];
  events = [];
  logs = [];
  metrics = [];
  requests = [];
  /** A test's settings of the cluster. */
  podLogs = {};
  unserved = [];
  answers = {};
  #store = new Store();
  #failing = [];

  constructor(options) {
    const { objects = [], crds, config = {}, now, seed = 1, fetch, triggers = [] } = known(options, OPTIONS, 'the options of TestHost');
    this.now = now ?? new Date('2026-01-01T00:00:00Z');
    this.config = config;
    this.fetch = fetch;
    this.seed = seed;
    this.triggers = triggers;
    if (crds !== undefined) this.define(crds);
    for (const object of objects) this.put(object);
  }

  define(yaml) {
    this.#store.define(yaml);
  }

  put(object) {
    return this.#store.put(structuredClone(object));
  }

  get(target) {
    return structuredClone(this.#store.get(target));
  }

  remove(target) {
    this.#store.remove(target);
  }

  list(kind) {
    return structuredClone(this.#store.list(kind));
  }

  failNext(what, error) {
    this.#failing.push({ what: known(what, ['call', 'apiVersion', 'kind', 'namespace', 'name'], 'what fails'), error });
  }

  reconcile(plugin, request) {
    const { object, ...rest } = known(request, REQUEST, 'the request');
    const primary = object === undefined ? undefined : this.put(object);
    const asked = requestOf(rest, primary);
    return this.#during(plugin, primary, () => {
      return { ...requeueFrom(plugin.reconcile(asked)), failures: [] };
    });
  }

  compose(plugin, request) {
    const { parent, children = [], related = [], ...rest } = known(request, COMPOSITION, 'the request');
    const texts = (objects) => objects.map((object) => stringify(object, 'an object'));
    const asked = {
      request: { ...requestOf(rest, parent), object: null },
      parent: stringify(parent, 'the parent'),
      children: texts(children),
      related: texts(related),
      config: stringify(this.config, 'the configuration'),
    };
    const composed = this.#during(plugin, parent, () => {
      const { children, status, requeue, ...others } = plugin.compose(asked);
      const answer = { children: children.map(parse), ...others, ...requeueFrom({ requeue }), failures: [] };
      if (status !== undefined) answer.status = parse(status);
      this.#judge(answer, parent);
      return answer;
    });
    return { children: [], ...composed };
  }

  map(plugin, request) {
    const targets = (batch) => ({ targets: plugin.map(batch)[0].map(({ val }) => withoutNone(val)) });
    return this.#decide(plugin, request, targets, { targets: [] });
  }

  matches(plugin, request) {
    return this.#decide(plugin, request, (batch) => ({ counts: plugin.matches(batch)[0] }), { counts: true });
  }

  customize(plugin, request) {
    const { parent, ...rest } = known(request, [...REQUEST.slice(1), 'parent'], 'the request');
    const asked = requestOf(rest, parent);
    const answered = this.#during(plugin, parent, () => ({ rules: plugin.customize(asked).map(withoutNone), failures: [] }));
    return { rules: [], ...answered };
  }

  run(call) {
    return this.#during(undefined, undefined, call);
  }

  /** Passes a change to the plugin. Returns the answer of `decide`, or `otherwise` with the error's text. */
  #decide(plugin, request, decide, otherwise) {
    const { controller = 'test', watch, ...states } = known(request, ['controller', 'watch', 'old', 'new'], 'the request');
    const state = (object) => (object == null ? null : stringify(object, 'an object'));
    const batch = { controller, watch, changes: [{ old: state(states.old), new: state(states.new) }] };
    return this.#during(plugin, undefined, () => {
      try {
        return decide(batch);
      } catch (error) {
        if (typeof error !== 'string') throw error;
        return { ...otherwise, error };
      }
    });
  }

  /** Throws if a composer's response does not fit the definitions, because the real host could not write it. */
  #judge({ children, status }, parent) {
    for (const child of children) this.#store.admitted(child);
    if (status !== undefined) this.#store.admitted({ ...parent, status }, { subresource: { name: 'status' } });
  }

  #during(plugin, primary, call) {
    const manifest = plugin && JSON.parse(plugin.describe());
    const before = use(answers({ host: this, store: this.#store, failing: this.#failing, manifest, primary }));
    const restore = install();
    try {
      return call();
    } catch (error) {
      if (!Array.isArray(error)) throw error;
      return { failures: error.map(failureFrom) };
    } finally {
      restore();
      use(before);
    }
  }
}

function requestOf({ controller = 'test', deleting, attempt = 0, traceId = 'test', ...rest }, primary) {
  const { namespace = null, name = 'test', uid = null } = { ...primary?.metadata, ...rest };
  const isGoing = deleting ?? primary?.metadata.deletionTimestamp !== undefined;
  const object = primary === undefined ? null : stringify(primary, 'the primary');
  return { controller, namespace, name, uid, object, deleting: isGoing, attempt, traceId };
}

function requeueFrom({ requeue }) {
  if (requeue === undefined) return {};
  return requeue.tag === 'backoff' ? { requeueBackoff: true } : { requeueAfterMs: requeue.val };
}

function failureFrom({ message, api, terminal, retryAfterMs }) {
  if (api !== undefined) return { api: apiErrorFrom(api) };
  if (terminal) return { terminal: message };
  return retryAfterMs === undefined ? { transient: message } : { transient: message, retryAfterMs };
}
