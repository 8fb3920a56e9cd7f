import type { ApiError, ApiReason, HttpReason } from './errors.js';
import type { EventInput } from './events.js';
import type { Level } from './log.js';
import type { Composition, ComposerPlugin, Outcome, ReconcilerPlugin, RelatedRule, Target } from './plugin.js';
import type { Trigger } from './triggers.js';
import type { KubernetesObject, ObjectKind, ObjectMeta, ObjectRef } from './types.js';
import type { Collection, DeleteOptions, PatchType, WriteOptions } from './writes.js';

/** An object that a test passes. */
export type TestObject = KubernetesObject | { apiVersion: string; kind: string; metadata: ObjectMeta };

/** The initial state of a host. */
export interface TestHostOptions {
  /** The objects of the cluster. */
  objects?: TestObject[];
  /** The definitions for {@link TestHost.define}: `readFileSync('crd.yaml', 'utf8')`. */
  crds?: string;
  /** The operator's configuration. Default: `{}`. */
  config?: object;
  /** The time, which does not advance. Default: 2026-01-01T00:00:00Z. */
  now?: Date;
  /** The seed of the random numbers. */
  seed?: number;
  /** Answers HTTP requests. Without it, no request is granted. */
  fetch?: (request: TestHttpRequest) => TestHttpResponse | TestHttpFailure;
  /** The result of `triggers.list`. Default: empty. */
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

/** A test's response to the request. */
export interface TestHttpResponse {
  /** Default: 200. */
  status?: number;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
}

/** A test's answer if the request gets no response. */
export interface TestHttpFailure {
  reason: Exclude<HttpReason, 'status'>;
  message?: string;
}

/** A test's request. Fields that are left out come from the object. */
export interface TestRequest {
  /** The primary. Left out: it was deleted. */
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

/** A test's composer request. */
export interface TestCompositionRequest extends Omit<TestRequest, 'object'> {
  parent: TestObject;
  children?: TestObject[] | undefined;
  related?: TestObject[] | undefined;
}

/** A change that a test passes to `map` or `matches`. */
export interface TestChange {
  /** The name of the watch in the manifest. */
  watch: string;
  /** The state before the change. Left out: the object is new. */
  old?: TestObject | null | undefined;
  /** The state after the change. Left out: the object was deleted. */
  new?: TestObject | null | undefined;
  controller?: string | undefined;
}

/** A test's request for the rules of a customizer. */
export interface TestCustomizeRequest extends Omit<TestRequest, 'object'> {
  parent: TestObject;
}

/** One failure, as the host receives it. One of the first three fields is set. */
export interface Failure {
  api?: ApiError;
  transient?: string;
  terminal?: string;
  /** The minimum delay of a transient failure's retry in milliseconds. */
  retryAfterMs?: number;
}

/** The result of a call. */
export interface Result extends Outcome {
  /** The failures; empty if the call succeeded. */
  failures: Failure[];
}

/** The result of a composer's call. If it failed, only the failures are set. */
export interface CompositionResult extends Partial<Omit<Composition, 'children' | 'status'>> {
  /** The children; empty if the call failed. */
  children: KubernetesObject[];
  status?: any;
  /** The failures; empty if the call succeeded. */
  failures: Failure[];
}

/** The result of a mapper's call. */
export interface MapResult {
  /** The targets; empty if the call failed. */
  targets: Target[];
  /** The error's text. Left out: the call succeeded. */
  error?: string;
}

/** The result of a predicate's call. */
export interface MatchResult {
  /** Whether the change counts; true if the call failed. */
  counts: boolean;
  /** The error's text. Left out: the call succeeded. */
  error?: string;
}

/** The result of a customizer's call. */
export interface CustomizeResult {
  /** The rules; empty if the call failed. */
  rules: RelatedRule[];
  /** The failures; empty if the call succeeded. */
  failures: Failure[];
}

/** A write that the plugin has sent, even if it failed. */
export interface Write {
  op: 'create' | 'update' | 'apply' | 'patch' | 'delete' | 'deleteCollection';
  /** The object that was created, updated or applied. */
  object?: any;
  /** The object that was patched or deleted. */
  target?: ObjectRef;
  patchType?: PatchType;
  patch?: any;
  /** The collection that was deleted. */
  collection?: Collection;
  options: Omit<WriteOptions, 'subresource'> & DeleteOptions & { subresource?: { name: string; parent?: ObjectRef } };
}

/** Selects the request to fail: the next one that meets all conditions. */
export interface Failing {
  /** The function, such as `writes.apply` or `cache.get`. */
  call?: string;
  apiVersion?: string;
  kind?: string;
  namespace?: string;
  name?: string;
}

/**
 * A host in memory, for unit tests. While it calls a plugin, it replaces `Date`, `Math.random`, `crypto` and `console`,
 * as in a component.
 *
 * ```js
 * const host = new TestHost();
 * const { failures } = host.reconcile(reconciler, { object: shop });
 * assert.deepEqual(failures, []);
 * assert.equal(host.writes[0].object.kind, 'ConfigMap');
 * ```
 *
 * It is not an API server: an apply merges objects and replaces lists as a whole, and only the plugin's own writes
 * change an object. Objects are validated and defaulted if the test defines their kind. Deleting an object also deletes
 * the objects that it controls. As in the real host, the cache contains only objects that the manifest watches.
 */
export class TestHost {
  constructor(options?: TestHostOptions);
  /** The time that the plugin sees. */
  now: Date;
  /** The operator's configuration. */
  config: object;
  /** Answers HTTP requests. */
  fetch: TestHostOptions['fetch'];
  /** The result of `triggers.list`. */
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
  /**
   * The logs of Pods, by `NAMESPACE/NAME`, for all their containers. For any other Pod, a read fails with `not-found`.
   */
  podLogs: Record<string, string>;
  /**
   * The kinds that the API server does not serve. According to `live.served` it serves all other kinds; `live.kinds`
   * returns those of the host's objects and definitions.
   */
  unserved: ObjectKind[];
  /**
   * The responses to creates of objects without a name, by kind, such as a `SubjectAccessReview`. Such objects are not
   * stored.
   */
  answers: Record<string, object>;
  /**
   * Defines kinds by CustomResourceDefinitions in YAML, usually the folder's `crd.yaml`.
   *
   * From now on objects of these kinds get their defaults, and a write of an invalid object fails with `invalid`, with the paths in its
   * message; an invalid child in a composer's response is an error of `compose`. An unknown field is invalid, as for an API server with
   * strict field validation; a write with another `fieldValidation` keeps it. It does not check `format`, `allOf` and similar keywords,
   * list types, and rules in CEL.
   */
  define(yaml: string): void;
  /**
   * Puts an object into the cluster. It replaces an object of the same name, and takes over that object's uid if it has
   * no uid of its own.
   */
  put(object: TestObject): KubernetesObject;
  /** Returns an object of the cluster. */
  get<T = any>(target: ObjectRef): T | undefined;
  /** Returns the objects of a kind. */
  list<T = any>(kind: ObjectKind): T[];
  /** Removes an object from the cluster, and the objects that it controls. */
  remove(target: ObjectRef): void;
  /** Makes the next matching request fail. Each call of `failNext` is for one request. */
  failNext(
    what: Failing,
    error: { reason: ApiReason; message?: string; code?: number; statusReason?: string; retryAfterMs?: number },
  ): void;
  /** Calls a reconciler. The object is put into the cluster first. */
  reconcile(plugin: ReconcilerPlugin, request?: TestRequest): Result;
  /** Calls a composer. */
  compose(plugin: ComposerPlugin, request: TestCompositionRequest): CompositionResult;
  /** Calls a reconciler's `map` for a change. */
  map(plugin: ReconcilerPlugin, change: TestChange): MapResult;
  /** Calls a reconciler's `matches` for a change. */
  matches(plugin: ReconcilerPlugin, change: TestChange): MatchResult;
  /** Calls a composer's `customize` for a parent. */
  customize(plugin: ComposerPlugin, request: TestCustomizeRequest): CustomizeResult;
  /**
   * Runs any function that uses the SDK, such as a part of a plugin, and returns its result. There is no primary, so `owned` cannot be
   * used.
   */
  run<T>(call: () => T): T;
}
