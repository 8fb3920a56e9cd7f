import type { Counter, Gauge, Histogram } from './metrics.js';

/** A plugin's watches and rights. A field that is left out has the host's default. */
export interface Manifest {
  /** The version of this schema. Left out: the SDK's version. */
  apiVersion?: 'windlass.dev/v1alpha1';
  /** The kind of this document. */
  kind?: 'PluginManifest';
  /** The plugin's name, a DNS label: the stem of the file that it is installed as. */
  name: string;
  /** The plugin's own version, by semver.org. */
  version: string;
  /** The plugin's purpose in a sentence. */
  description?: string;
  /** The reconcile loops. */
  controllers: Controller[];
  /** The complete CustomResourceDefinitions that the plugin installs. */
  crds?: object[];
  /** Rights beyond those that the watches imply: to read watched objects, to change owned ones, and to write the status of primaries. */
  permissions?: Permission[];
  /** Metrics that the plugin may set. */
  metrics?: Array<Metric | Counter | Gauge | Histogram>;
  /** The configuration that an operator may give. */
  config?: { /** A JSON schema, which the configuration must fit. */ schema: object };
  /** Finalizers, other than its own, that the plugin adds or removes; `*` for all. */
  finalizers?: string[];
  /** HTTP hosts that the plugin may call. */
  http?: HttpAccess[];
}

/** One reconcile loop: a primary kind, and the other objects that make its objects run again. */
export interface Controller {
  /** Unique in the plugin, a DNS label. It is in requests, logs and metrics. */
  name: string;
  /** The objects that are reconciled, or a timer instead. */
  primary: Watch | { /** When the plugin is called. */ timer: Timer };
  /** Children: a change of one runs the primary that controls it. */
  owns?: OwnedWatch[];
  /** Other objects: a change of one runs the primaries that its mapping finds. */
  watches?: MappedWatch[];
  /** Web addresses at which other systems name objects that are to run. */
  hooks?: Hook[];
  /** How the loop runs. */
  options?: Options;
}

/** A timer that calls the plugin at certain times, in place of objects. */
export type Timer = TimerOptions & (CronTimer | IntervalTimer);

/** A timer that is due when the local time matches. */
export interface CronTimer {
  /** As in Kubernetes' CronJob: minute, hour, day of the month, month, and day of the week. */
  cron: string;
  /** The IANA name of the time zone, such as `Europe/Berlin`. Left out: UTC. */
  timeZone?: string;
}

/** A timer that is due once in each interval. */
export interface IntervalTimer {
  /** The interval, at least 1000. The first call comes at once. */
  intervalMs: number;
  /** An interval has no time zone. */
  timeZone?: never;
}

/** The options of all timers. */
export interface TimerOptions {
  /** Each call comes at a random time up to this long after its due time. */
  jitterMs?: number;
  /**
   * Due times at which no call could be made, such as while the host was down. `once`: one call for the last of them, as
   * soon as it can be made. `skip`: none, if it could begin only a minute late or later. Left out: `once`.
   */
  missed?: 'once' | 'skip';
}

/**
 * A web address at which other systems name objects to reconcile: `POST /hooks/PLUGIN/NAME`. It is open only if the
 * operator's policy names its secret. A delivery maps as an object of kind `HookDelivery` does that has the JSON of the
 * request in `/payload`. Only objects that exist run.
 */
export interface Hook {
  /** Unique in the plugin, and among the watches of the controller. The function `map` gets it as the watch. */
  name: string;
  /** Of the types `field`, `reference`, `mapper` and `all`. */
  mapping: Mapping;
}

/** Objects that the host keeps in its cache for the plugin: of one kind, or of the kinds that the configuration names. */
export type Watch = WatchedObjects & (NamedKind | ConfiguredKinds);

/** The kind of the watched objects. */
export interface NamedKind {
  /** Group and version, such as `apps/v1`; the core group is left out, as in `v1`. */
  apiVersion: string;
  /** The kind, such as `Deployment`. */
  kind: string;
}

/** The kinds of the watched objects are in the configuration. For reconcilers. */
export interface ConfiguredKinds {
  /** A JSON pointer to a list of kinds in the configuration, each with `apiVersion` and `kind`. */
  kindsFrom: string;
  /** All that the cache can keep of kinds that the plugin does not know. */
  projection: { type: 'metadata' };
  /** The rights to change objects of these kinds. */
  verbs?: Array<'create' | 'update' | 'patch' | 'delete' | 'deletecollection'>;
}

/** Which objects are watched, and what the cache keeps of them. */
export interface WatchedObjects {
  /** A DNS label that no other watch of the controller has. */
  name?: string;
  /** Only objects in these namespaces. Left out or empty: all namespaces, and objects without one. */
  namespaces?: string[];
  /** Only objects with these labels, in Kubernetes' syntax, such as `app=web,tier in (front,back)`. */
  labelSelector?: string;
  /** Only objects with these fields, in Kubernetes' syntax, as far as the API supports them for the kind. */
  fieldSelector?: string;
  /**
   * Only objects that meet all of these conditions. The host evaluates them, so the server still sends all objects. An
   * object that no longer meets them counts as deleted.
   */
  where?: Array<WhereTest | { /** At least one of these holds. */ any: WhereTest[] }>;
  /** How much of an object the cache keeps. Left out: all but `managedFields`. */
  projection?: Projection;
  /** `true`: the cache keeps `metadata.managedFields`, which are left out otherwise. */
  managedFields?: boolean;
  /** Indexes, by which `cache.list` finds objects quickly. */
  indexes?: Index[];
  /**
   * Selects the updates that run primaries: the updates that at least one predicate accepts. Left out: all updates.
   * Creations, deletions, and the beginning of a deletion always run primaries.
   */
  predicates?: Predicate[];
  /**
   * `true`: the reconciler's `matches` also decides which new objects and updates count. Deletions always count. The
   * watch needs a name. Only for reconcilers.
   */
  codePredicate?: boolean;
  /**
   * A call receives only these fields of an object, as JSON pointers, and its identity: of the primary in a request, and
   * of a composer's parent, children and related objects. A reconciler has this only for its primary, because it names
   * the fields of its other objects in each read. Left out: all that the cache keeps.
   */
  callFields?: string[];
  /** `false`: sends even a write that would provably change nothing, for webhooks that must run at each write. */
  noOpSkip?: boolean;
}

/** Children of one kind. */
export interface OwnedWatch extends WatchedObjects, NamedKind {
  /** `false`: ignores the beginning and the end of a child's deletion. */
  deleted?: boolean;
  /** How a composer's children of this kind are updated. */
  updateStrategy?: 'inPlace' | 'recreate' | 'onDelete';
}

/** Other objects. */
export type MappedWatch = Watch & {
  /** `false`: ignores the beginning and the end of an object's deletion. */
  deleted?: boolean;
  /** How a changed object maps to the primaries that run. On an update, both the old and the new object count. */
  mapping: Mapping;
};

/** A condition on an annotation, which is a text, or on the values at a JSON pointer, of which one must match. */
export type WhereTest =
  | ({ /** The annotation's key. */ annotation: string } & WantedValue<string>)
  | ({ /** A JSON pointer; `*` in it stands for each element of a list. */ field: string } & WantedValue<string | number | boolean>);

/** The condition's requirement on a value. */
export type WantedValue<Value> =
  | { is: Value }
  | { in: Value[] }
  /** Absent, or another value than these. */
  | { notIn: Value[] }
  /** `true`: has a value other than null. `false`: has no value, or null. */
  | { exists: boolean };

/** How much of an object the cache keeps. */
export type Projection =
  /** All but `managedFields`. */
  | { type: 'full' }
  /** The object's identity and its metadata. */
  | { type: 'metadata' }
  /** The metadata, and the values at these JSON pointers. In a pointer, `*` stands for each element of a list. */
  | { type: 'fields'; pointers: string[] }
  /**
   * The metadata, and in the field `digest` a digest of the values at these JSON pointers, which are not kept
   * themselves. With the predicate `fields` of `/digest`, only a change of these values runs primaries.
   */
  | { type: 'digest'; pointers: string[] };

/** A way to find objects by a value in them. */
export interface Index {
  /** Unique in the watch. */
  name: string;
  /** The value that the index contains. */
  source: IndexSource;
}

/** The value that an index contains. */
export type IndexSource =
  /** A text, or each element of a list of texts. In the pointer, `*` stands for each element of a list. */
  | { type: 'field'; pointer: string }
  /** A label. */
  | { type: 'label'; key: string }
  /**
   * An annotation. With `split`, each part of an annotation that is a list such as `a, b`; `split` is the separator.
   */
  | { type: 'annotation'; key: string; split?: string }
  /** References with the namespace and the name in two fields: each value is `namespace/name`. */
  | ({ type: 'reference' } & ReferencePath)
  /**
   * Label selectors, for `selectedBy`. `cache.list` finds an object by labels that its selector matches, such as
   * `app=web,tier=front`.
   *
   * `form` is `labelSelector` for selectors with `matchLabels` and `matchExpressions`, the default; `labels` for maps
   * of labels, as in a Service; `text` for texts such as `app in (web,api)`. An empty map of labels selects nothing. An
   * empty selector of the other forms selects everything.
   */
  | { type: 'selector'; pointer: string; form?: 'labelSelector' | 'labels' | 'text' };

/** Where to find references with the namespace and the name in two fields. */
export interface ReferencePath {
  /** Leads to the references; for a list of them its last segment is `*`. Left out: the object itself. */
  base?: string;
  /**
   * Leads to the namespace, below the base. If it is left out, or the field is missing, the reference is to the
   * object's own namespace.
   */
  namespace?: string;
  /** Leads to the name, below the base. */
  name: string;
}

/** How a changed object maps to the primaries that run. */
export type Mapping =
  /** The primary that controls the object. */
  | { type: 'owner' }
  /** Each primary that owns the object, whether it is its controller or not. */
  | { type: 'anyOwner' }
  /** The primary that a label names. */
  | { type: 'label'; key: string }
  /** The primary that an annotation names. */
  | { type: 'annotation'; key: string }
  /** The primary that a field names. If the pointer contains `*`, every primary that the matching fields name. */
  | { type: 'field'; pointer: string }
  /** The primaries that references name, with the namespace and the name in two fields. */
  | ({ type: 'reference' } & ReferencePath)
  /** Every primary whose index contains the object's name, or its namespace and name. */
  | { type: 'referencedBy'; index: string }
  /** Every primary whose selector in this index matches the object's labels. */
  | { type: 'selectedBy'; index: string }
  /** The primary with the object's own name. */
  | { type: 'sameName' }
  /** No primary: the plugin only reads the objects. */
  | { type: 'none' }
  /** Every primary, at low priority. */
  | { type: 'all' }
  /** The primaries that the reconciler's `map` names. The watch needs a name. */
  | { type: 'mapper' }
  /** The parents to which the composer's `customize` relates the object. The watch needs a name. */
  | { type: 'customize' };

/** An update that counts. */
export type Predicate =
  /** The desired state has changed, if the kind has a generation. */
  | { type: 'generation' }
  /** A label has changed. */
  | { type: 'labels' }
  /** An annotation has changed. */
  | { type: 'annotations' }
  /** A value at one of these JSON pointers has changed. In a pointer, `*` stands for each element of a list. */
  | { type: 'fields'; pointers: string[] }
  /** The inner predicate rejects the update. */
  | { type: 'not'; predicate: Predicate }
  /** All inner predicates, at least one, accept the update. */
  | { type: 'and'; predicates: Predicate[] };

/** How a loop runs. All durations are in milliseconds. */
export interface Options {
  /** How many objects are reconciled at once, at most 64. Default: 16. */
  workers?: number;
  /** How many counted retries an object gets before it runs only in the slow lane. Default: 15. */
  maxRetries?: number;
  /**
   * The delay before the n-th retry: `baseMs` (default 5) doubled n times, at most `maxMs` (default 1000000). With the
   * limiter `tokenBucket`, the retries of all objects share a rate: `perSecond` of them on average (default 10), and up
   * to `burst` at once (default 100). With `maxOf`, the longer of both delays applies.
   */
  backoff?: {
    limiter?: 'exponential' | 'tokenBucket' | 'maxOf';
    baseMs?: number;
    maxMs?: number;
    perSecond?: number;
    burst?: number;
  };
  /** How often every object runs again even if nothing changed. Default: ten hours. */
  resyncMs?: number;
  /** How long a call may take, at most 600000. Default: 30000. */
  deadlineMs?: number;
  /** Whether objects get the finalizer `windlass.dev/NAME`, so that the plugin can clean up before they are deleted. */
  finalizer?: boolean;
  /**
   * Whether the controller writes the status of its primaries. With `false`, the manifest does not ask for that right.
   * Default: true.
   */
  status?: boolean;
  /**
   * How to treat an object whose writes do not appear in the caches for too long. `probe` holds it until the caches are
   * known to be new enough. `run` runs it nevertheless. Default: `probe`.
   */
  expectationTimeout?: 'probe' | 'run';
  /**
   * Whether the host may leave out calls that would read the same as the last call about their object, if that call
   * changed nothing. Default: true.
   */
  savedCalls?: boolean;
}

/** Rights to resources of the API, as in a rule of a Kubernetes Role. */
export interface Permission {
  /** API groups; the core group is the empty text. */
  apiGroups: string[];
  /** Resources and subresources, such as `deployments` and `deployments/scale`. */
  resources: string[];
  /**
   * API verbs. An apply needs `patch`. It also needs `create`, unless it has a `uid` or a `resourceVersion`. `approve` and
   * `sign` are for `signers` of `certificates.k8s.io`, `bind` and `escalate` for roles; `*` does not include these four.
   */
  verbs: Array<
    | 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection'
    | 'approve' | 'sign' | 'bind' | 'escalate' | '*'
  >;
  /** Only in these namespaces. Left out or empty: in all namespaces, and for cluster-scoped objects. */
  namespaces?: string[];
  /** Only objects with these names. Left out or empty: all. */
  names?: string[];
}

/** A metric that the plugin may set. `metrics.counter` and similar functions create one that the code can use too. */
export interface Metric {
  /** Unique in the plugin. The host adds a prefix. */
  name: string;
  /** A counter only grows, a gauge goes up and down, a histogram counts values by size. */
  type: 'counter' | 'gauge' | 'histogram';
  /** A description of the metric and its unit, for people. */
  help: string;
  /** The labels that each value carries. */
  labels?: string[];
  /** A histogram's upper bounds, ascending, in the metric's unit. */
  buckets?: number[];
}

/** An HTTP host that the plugin may call. */
export interface HttpAccess {
  /** The protocol for the host. */
  scheme: 'https' | 'http';
  /** The host's name. `*` stands for one label, as in `*.example.com`. Or an address, IPv6 in brackets. */
  host: string;
  /** The port. Left out: the scheme's default. */
  port?: number;
  /** The methods, such as `GET`; `*` for all. */
  methods: string[];
}
