import type { ApiError, ApiReason, HttpReason } from './errors.js';
import type { EventInput } from './events.js';
import type { Level } from './log.js';
import type { Composition, ComposerPlugin, Outcome, ReconcilerPlugin, RelatedRule, Target } from './plugin.js';
import type { Trigger } from './triggers.js';
import type { KubernetesObject, ObjectKind, ObjectMeta, ObjectRef } from './types.js';
import type { Collection, DeleteOptions, PatchType, WriteOptions } from './writes.js';

/** An object that a test gives. */
export type TestObject = KubernetesObject | { apiVersion: string; kind: string; metadata: ObjectMeta };

/** What a host begins with. */
export interface TestHostOptions {
  /** The objects of the cluster. */
  objects?: TestObject[];
  /** What {@link TestHost.define} is given: `readFileSync('crd.yaml', 'utf8')`. */
  crds?: string;
  /** The operator's configuration. Default: `{}`. */
  config?: object;
  /** The time. Default: 2026-01-01T00:00:00Z. It stands still. */
  now?: Date;
  /** What the random numbers begin with. */
  seed?: number;
  /** What answers HTTP requests. Without it none is granted. */
  fetch?: (request: TestHttpRequest) => TestHttpResponse | TestHttpFailure;
  /** What `triggers.list` answers. Default: nothing. */
  triggers?: Trigger[];
}

/** An HTTP request that the plugin sent. */
export interface TestHttpRequest {
  method: string;
  url: string;
  headers: Array<[string, string]>;
  body?: string | Uint8Array | undefined;
  timeoutMs?: number | undefined;
}

/** What a test answers to it. */
export interface TestHttpResponse {
  /** Default: 200. */
  status?: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
}

/** That it brings no response. */
export interface TestHttpFailure {
  reason: Exclude<HttpReason, 'status'>;
  message?: string;
}

/** A request of a test. What is left out is taken from the object. */
export interface TestRequest {
  /** The primary. Left out: it is gone. */
  object?: TestObject | undefined;
  controller?: string | undefined;
  namespace?: string | undefined;
  name?: string | undefined;
  uid?: string | undefined;
  /** Default: whether the object has a `deletionTimestamp`. */
  deleting?: boolean | undefined;
  attempt?: number | undefined;
  traceId?: string | undefined;
}

/** A composer's request of a test. */
export interface TestCompositionRequest extends Omit<TestRequest, 'object'> {
  parent: TestObject;
  children?: TestObject[] | undefined;
  related?: TestObject[] | undefined;
}

/** A change that a test tells a mapper. */
export interface TestChange {
  /** The name of the watch in the manifest. */
  watch: string;
  /** The state before. Left out: the object is new. */
  old?: TestObject | null | undefined;
  /** The state now. Left out: the object has gone. */
  new?: TestObject | null | undefined;
  controller?: string | undefined;
}

/** The question of a test which objects are related to a parent. */
export interface TestCustomizeRequest extends Omit<TestRequest, 'object'> {
  parent: TestObject;
}

/** One thing that went wrong, as the host is told of it. One of the first three is there. */
export interface Failure {
  api?: ApiError;
  transient?: string;
  terminal?: string;
  /** How many milliseconds a transient one has the next attempt wait. */
  retryAfterMs?: number;
}

/** What came of a call. */
export interface Result extends Outcome {
  /** Empty if nothing failed. */
  failures: Failure[];
}

/** What came of a composer's call. One that failed has answered nothing but the failures. */
export interface CompositionResult extends Partial<Omit<Composition, 'children' | 'status'>> {
  /** Empty if it failed. */
  children: KubernetesObject[];
  status?: any;
  /** Empty if nothing failed. */
  failures: Failure[];
}

/** The result of a mapper's call. */
export interface MapResult {
  /** Empty if it failed. */
  targets: Target[];
  /** The error's text. Left out: nothing failed. */
  error?: string;
}

/** The result of the question which objects are related. */
export interface CustomizeResult {
  /** Empty if it failed. */
  rules: RelatedRule[];
  /** Empty if nothing failed. */
  failures: Failure[];
}

/** A write that the plugin has sent, also one that failed. */
export interface Write {
  op: 'create' | 'update' | 'apply' | 'patch' | 'delete' | 'deleteCollection';
  /** What was created, updated or applied. */
  object?: any;
  /** What was patched or deleted. */
  target?: ObjectRef;
  patchType?: PatchType;
  patch?: any;
  /** Of which objects a collection was deleted. */
  collection?: Collection;
  options: Omit<WriteOptions, 'subresource'> & DeleteOptions & { subresource?: { name: string; parent?: ObjectRef } };
}

/** Which request fails: the next one that all of this is true of. */
export interface Failing {
  /** The function, such as `writes.apply` or `cache.get`. */
  call?: string;
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
}

/**
 * A host in memory, for unit tests. While it calls a plugin, `Date`, `Math.random`, `crypto` and `console` are the host's,
 * as they are in a component.
 *
 * ```js
 * const host = new TestHost();
 * const { failures } = host.reconcile(reconciler, { object: shop });
 * assert.deepEqual(failures, []);
 * assert.equal(host.writes[0].object.kind, 'ConfigMap');
 * ```
 *
 * It is no API server: an apply merges and replaces lists whole, and nothing but the plugin's own writes changes an
 * object. Objects are validated and defaulted if the test defines their kind. With an object goes what it controls. What
 * the manifest does not watch, the cache does not hold, as in the host.
 */
export class TestHost {
  constructor(options?: TestHostOptions);
  /** The time that the plugin sees. */
  now: Date;
  /** The operator's configuration. */
  config: object;
  /** What answers HTTP requests. */
  fetch: TestHostOptions['fetch'];
  /** What `triggers.list` answers. */
  triggers: Trigger[];
  /** All writes that were sent, in order. */
  writes: Write[];
  /** All events that were emitted. */
  events: EventInput[];
  /** All log lines. */
  logs: Array<{ level: Level; message: string; fields: Record<string, string> }>;
  /** All values of metrics. */
  metrics: Array<{ type: 'counter' | 'gauge' | 'histogram'; name: string; value: number; labels: Record<string, string> }>;
  /** All HTTP requests. */
  requests: TestHttpRequest[];
  /** The logs of Pods, by `NAMESPACE/NAME`, whatever their container. A Pod without one is not found. */
  podLogs: Record<string, string>;
  /** The kinds that the API server does not have, as far as `live.served` tells. All others it has. */
  unserved: ObjectKind[];
  /** The answers to creates of objects without a name, such as a `SubjectAccessReview`, by kind. Nothing is stored of them. */
  answers: Record<string, object>;
  /**
   * Defines kinds by CustomResourceDefinitions in YAML, usually the folder's `crd.yaml`.
   *
   * From now on objects of these kinds get their defaults, and a write of one that does not fit fails with `invalid`, with the
   * paths in its message; an answer of a composer that does not fit is an error of `compose`. A field that the kind does not
   * have does not fit, as for an API server with strict field validation; a write with another `fieldValidation` keeps it. Not
   * checked are `format`, `allOf` and its like, list types, and rules in CEL.
   */
  define(yaml: string): void;
  /** Puts an object into the cluster, in place of the one of its name, whose uid it keeps if it has none. */
  put(object: TestObject): KubernetesObject;
  /** An object of the cluster. */
  get<T = any>(target: ObjectRef): T | undefined;
  /** The objects of a kind. */
  list<T = any>(kind: ObjectKind): T[];
  /** Takes an object out of the cluster, and with it what it controls. */
  remove(target: ObjectRef): void;
  /** Has the next request fail that fits. Each call of this is for one request. */
  failNext(
    what: Failing,
    error: { reason: ApiReason; message?: string; code?: number; statusReason?: string; retryAfterMs?: number },
  ): void;
  /** Calls a reconciler. The object is put into the cluster first. */
  reconcile(plugin: ReconcilerPlugin, request?: TestRequest): Result;
  /** Calls a composer. */
  compose(plugin: ComposerPlugin, request: TestCompositionRequest): CompositionResult;
  /** Asks a reconciler's `map` which primaries a change concerns. */
  map(plugin: ReconcilerPlugin, change: TestChange): MapResult;
  /** Asks a composer's `customize` which objects are related to a parent. */
  customize(plugin: ComposerPlugin, request: TestCustomizeRequest): CustomizeResult;
  /**
   * Runs any function that uses the SDK, such as a part of a plugin, and returns what it returns. There is no primary, and so nothing
   * with `owned`.
   */
  run<T>(call: () => T): T;
}
