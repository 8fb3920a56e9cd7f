// Tests as authors write them, in strict mode. This file is compiled by tsc, but never run.

import {
  type CustomObject, defineComposer, defineReconciler, type KubernetesObject, type Manifest, type RelatedRule, sibling, type Target,
} from 'windlass';
import { type CompositionResult, TestHost, type TestObject } from 'windlass/testing';

type Shop = CustomObject<{ message: string }, { ready: boolean }>;

/** An author's own types, which do not mention other fields. */
interface Metadata {
  name: string;
  namespace?: string;
}

interface Deployment {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec: { replicas: number };
}

declare const manifest: Manifest;
const reconciler = defineReconciler<Shop>({ manifest, reconcile() {} });
const composer = defineComposer<Shop>({ manifest, compose: () => ({ children: [] }) });

const shop: Shop = { apiVersion: 'example.com/v1', kind: 'Shop', metadata: { name: 'a', namespace: 'prod' }, spec: { message: 'hello' } };
const deployment: Deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'a' }, spec: { replicas: 1 } };

const host = new TestHost({ crds: '', objects: [shop, deployment], now: new Date(0), triggers: [{ reason: 'Resync' }] });
host.triggers = [{ reason: 'Changed', watch: 'shops', object: sibling(shop, shop.apiVersion, shop.kind) }];

// A reference may have no namespace.
const { apiVersion, kind, ...metadata } = sibling(shop, 'v1', 'ConfigMap');
const child: TestObject = { apiVersion, kind, metadata };
host.put(child);
host.reconcile(reconciler, { object: shop, namespace: shop.metadata.namespace, uid: shop.metadata.uid });
host.reconcile(reconciler, { object: { ...shop, status: host.get<Shop>(sibling(shop, shop.apiVersion, shop.kind))?.status } });

// The children always exist; they are empty if the composer failed.
const composed: CompositionResult = host.compose(composer, { parent: shop, children: [child], related: [deployment] });
export const kinds: string[] = composed.children.map((each) => each.kind);
export const [first]: KubernetesObject[] = composed.children;
export const replicas: number | undefined = first?.['spec'].replicas;
export const ready: boolean = composed.status.ready;
export const reasons: Array<string | undefined> = composed.failures.map(({ api }) => api?.reason);
export const delays: Array<number | undefined> = composed.failures.map(({ retryAfterMs }) => retryAfterMs);
export const written: unknown[] = host.writes.map(({ object, target }) => object?.kind ?? target?.kind);

// The host also calls mappers and customizers.
export const targets: Target[] = host.map(reconciler, { watch: 'pods', old: deployment, new: child }).targets;
export const counts: boolean = host.matches(reconciler, { watch: 'pods', new: child }).counts;
export const noText: string | undefined = host.map(reconciler, { watch: 'pods', new: null }).error;
export const rules: RelatedRule[] = host.customize(composer, { parent: shop, deleting: true }).rules;
