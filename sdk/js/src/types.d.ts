/** A kind of object, named as in a manifest: `apps/v1` and `Deployment`. */
export interface ObjectKind {
  /** Group and version; the core group is left out, as in `v1`. */
  apiVersion: string;
  /** In CamelCase and the singular. */
  kind: string;
}

/**
 * One object. With a `uid`, it is that incarnation of the name only: when the name belongs to another one, a read finds
 * nothing and a write fails with `conflict`.
 */
export interface ObjectRef extends ObjectKind {
  /** Left out for a cluster-scoped object. */
  namespace?: string | undefined;
  /** The name. */
  name: string;
  /** Left out: whichever incarnation has the name now. */
  uid?: string | undefined;
}

/** An entry of `metadata.ownerReferences`. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  /** Whether the owner is the object's controller, of which there is at most one. */
  controller?: boolean;
  /** Whether the owner cannot go in the foreground before the object. */
  blockOwnerDeletion?: boolean;
}

/** The part of an object that all kinds share. */
export interface ObjectMeta {
  name?: string | undefined;
  /** What the server makes a name of. */
  generateName?: string | undefined;
  /** Left out for a cluster-scoped object. */
  namespace?: string | undefined;
  /** The incarnation of the name. */
  uid?: string | undefined;
  /** The version, an opaque text. */
  resourceVersion?: string | undefined;
  /** Counts the changes of what was asked for, where the kind has one. */
  generation?: number | undefined;
  creationTimestamp?: string | undefined;
  /** Since when the object is being deleted. */
  deletionTimestamp?: string | undefined;
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
  ownerReferences?: OwnerReference[] | undefined;
  finalizers?: string[] | undefined;
  // Any, since an interface of a plugin's own or of another package fits no index signature of `unknown`.
  [field: string]: any;
}

/**
 * Any object, of whatever kind. To read one as a type of your own, name the type: `cache.get<Deployment>(…)`. The types of
 * other packages do too, such as those of `kubernetes-types`.
 */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  // Any, since what is in here is the kind's own affair.
  [field: string]: any;
}

/** What most custom kinds are. */
export interface CustomObject<Spec, Status = unknown> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta & { name: string };
  spec: Spec;
  /** What is, as it was written last. Left out before it was first written. */
  status?: Status | undefined;
}

/** What can be written: an object, or fields of one. */
export type Writable = object;

/** A part of a list. */
export interface Page<T> {
  items: T[];
  /** The `pageToken` of the next page. Left out: this is the last one. */
  nextToken?: string;
}

/** What came of one of several reads or writes: the object (or none), or why it failed. */
export type Settled<T, E> = { object: T; error?: undefined } | { object?: undefined; error: E };

/** Names and values; a name may occur twice in the list of pairs. Values become text. */
export type Fields = Record<string, unknown> | ReadonlyArray<readonly [string, unknown]>;
