/** A kind of object, named as in a manifest: `apps/v1` and `Deployment`. */
export interface ObjectKind {
  /** Group and version; the core group is left out, as in `v1`. */
  apiVersion: string;
  /** In CamelCase and the singular. */
  kind: string;
}

/**
 * One object. With a `uid`, it does not match another object of the same name: then a read finds nothing and a write fails with `conflict`.
 */
export interface ObjectRef extends ObjectKind {
  /** Left out for a cluster-scoped object. */
  namespace?: string | undefined;
  /** The name. */
  name: string;
  /** Left out: the object that has the name now. */
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
  /** Whether foreground deletion of the owner waits until the object is deleted. */
  blockOwnerDeletion?: boolean;
}

/** The part of an object that all kinds share. */
export interface ObjectMeta {
  name?: string | undefined;
  /** The prefix of a name that the server generates. */
  generateName?: string | undefined;
  /** Left out for a cluster-scoped object. */
  namespace?: string | undefined;
  /** The UID, as opposed to that of a later object of the same name. */
  uid?: string | undefined;
  /** The version, an opaque text. */
  resourceVersion?: string | undefined;
  /** Counts the changes of the desired state, if the kind has a generation. */
  generation?: number | undefined;
  creationTimestamp?: string | undefined;
  /** The time at which the deletion began. */
  deletionTimestamp?: string | undefined;
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
  ownerReferences?: OwnerReference[] | undefined;
  finalizers?: string[] | undefined;
  // Any, since an interface of a plugin or of another package does not fit an index signature of `unknown`.
  [field: string]: any;
}

/**
 * Any object, of any kind. To read one as a type of your own, name the type: `cache.get<Deployment>(…)`. Types of other packages also work,
 * such as those of `kubernetes-types`.
 */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  // Any, since its content depends on the kind.
  [field: string]: any;
}

/** The form that most custom kinds have. */
export interface CustomObject<Spec, Status = unknown> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta & { name: string };
  spec: Spec;
  /** The status as last written. Left out before it was first written. */
  status?: Status | undefined;
}

/** A value that can be written: an object, or fields of one. */
export type Writable = object;

/** A part of a list. */
export interface Page<T> {
  items: T[];
  /** The `pageToken` of the next page. Left out: this is the last one. */
  nextToken?: string;
}

/** The result of one of several reads or writes: the object (or none), or the error. */
export type Settled<T, E> = { object: T; error?: undefined } | { object?: undefined; error: E };

/** Names and values; a name may occur twice in the list of pairs. Values become text. */
export type Fields = Record<string, unknown> | ReadonlyArray<readonly [string, unknown]>;
