import type { ObjectMeta, ObjectRef, OwnerReference } from './types.js';

/** The fields that identify an object. */
interface Named {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** A reference for people: `Pod prod/shop-0`, or `Node n1`. */
export function formatRef(target: ObjectRef): string;

/** The reference to an object, including its UID. */
export function refOf(object: Named): ObjectRef;

/** The reference to the object of another kind that has the same namespace and name. */
export function sibling(object: { metadata: ObjectMeta }, apiVersion: string, kind: string): ObjectRef;

/** The owner that controls an object. */
export function controllerOf(object: { metadata: ObjectMeta }): OwnerReference | undefined;

/** Whether an object's controller is this owner. */
export function isControlledBy(object: { metadata: ObjectMeta }, owner: { metadata: ObjectMeta }): boolean;

/** The reference that makes `owner` the controller of another object. With the option `owned`, the host adds it. */
export function ownerReference(owner: Named): OwnerReference;

/** A LabelSelector, such as the `spec.selector` of a Deployment. */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: Array<{ key: string; operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist'; values?: string[] }>;
}

/**
 * The text of a LabelSelector, such as `app=web,tier in (a,b)`, for `cache.list`, `live.list` and `owners.claim`. An
 * empty selector selects everything. If an object has no selector, it selects nothing, so do not list.
 */
export function selectorText(selector: LabelSelector): string;

/**
 * Whether an object has every wanted field with the wanted value. Fields that the server or other clients have added
 * are ignored, as in an apply. A list must contain each wanted element, at any position.
 *
 * Do not use it to decide whether to apply: it does not notice a field that is no longer wanted, or a missing owner.
 * The host itself skips an apply that would change nothing.
 */
export function hasFields(object: unknown, wanted: unknown): boolean;

/** Whether two JSON values are equal. A field that is undefined counts as missing. */
export function deepEqual(a: unknown, b: unknown): boolean;

