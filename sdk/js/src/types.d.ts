/** A kind of object, named as in a manifest: `apps/v1` and `Deployment`. */
export interface ObjectKind {
  /** Group and version; the core group is left out, as in `v1`. */
  apiVersion: string;
  /** The kind's name, in CamelCase and singular. */
  kind: string;
}

/**
 * A reference to one object. With a `uid`, it does not match another object of the same name: then a read finds nothing
 * and a write fails with `conflict`.
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
  /** Whether the owner is the object's controller. An object has at most one. */
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
  /** Identifies the object. A later object of the same name has another UID. */
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
  // The type is `any`, because an interface of a plugin or of another package does not fit an index signature of
  // `unknown`.
  [field: string]: any;
}

/**
 * Any object, of any kind. To read one as a type of your own, name the type: `cache.get<Deployment>(…)`. Types of other
 * packages also work, such as `kubernetes-types`.
 */
export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  // The type is `any`, because the content depends on the kind.
  [field: string]: any;
}

/** The form that most custom kinds have. */
export interface CustomObject<Spec, Status = unknown> {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta & { name: string };
  spec: Spec;
  /** The status as last written. Left out: it has not been written yet. */
  status?: Status | undefined;
}

/** A value that can be written: an object, or some fields of an object. */
export type Writable = object;

/** A part of a list. */
export interface Page<T> {
  items: T[];
  /** The `pageToken` of the next page. Left out: this is the last page. */
  nextToken?: string;
}

/** The result of one of several reads or writes: the object (or none), or the error. */
export type Settled<T, E> = { object: T; error?: undefined } | { object?: undefined; error: E };

/** Names and values. In a list of pairs, a name may occur twice. Values are converted to texts. */
export type Fields = Record<string, unknown> | ReadonlyArray<readonly [string, unknown]>;
