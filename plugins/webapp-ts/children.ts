// The desired children of a WebApp, and how the existing ones differ. Pure: nothing here calls the host.

import { controllerOf, hasFields, isControlledBy, type KubernetesObject, type ObjectRef, sibling } from 'windlass';
import { isChanged, trimmed, type WebApp } from './api.js';

/** The Service's port. The container may have any port, so the Service finds it by name. */
const SERVICE_PORT = 80;
/** The name of the port, in the container and in the Service. */
const PORT_NAME = 'http';
/** The name of the container. */
const CONTAINER = 'web';

/**
 * Why a child must be applied: it never existed, the spec of the WebApp has changed, or someone deleted or edited the
 * child.
 */
export type Change = 'create' | 'update' | 'heal';

/**
 * The decision about a child: `leave` it, apply it, or do nothing because the name belongs to an object that is not
 * ours.
 */
export type Decision = 'leave' | Change | 'nameTaken';

/** A desired child. */
export interface Child {
  target: ObjectRef;
  /** The fields to apply. */
  wanted: KubernetesObject;
}

/** The desired Deployment of a WebApp. */
export function deployment(app: WebApp): Child {
  const container = {
    name: CONTAINER,
    image: trimmed(app.spec.image),
    ports: [{ name: PORT_NAME, containerPort: app.spec.port, protocol: 'TCP' }],
  };
  return child(app, 'apps/v1', 'Deployment', {
    replicas: app.spec.replicas,
    selector: { matchLabels: selector(app) },
    template: { metadata: { labels: labels(app) }, spec: { containers: [container] } },
  });
}

/** The desired Service of a WebApp. */
export function service(app: WebApp): Child {
  const port = { name: PORT_NAME, port: SERVICE_PORT, targetPort: PORT_NAME, protocol: 'TCP' };
  return child(app, 'v1', 'Service', { selector: selector(app), ports: [port] });
}

function child(app: WebApp, apiVersion: string, kind: string, spec: object): Child {
  const target = sibling(app, apiVersion, kind);
  const metadata = { name: target.name, namespace: target.namespace as string, labels: labels(app) };
  return { target, wanted: { apiVersion, kind, metadata, spec } };
}

function selector({ metadata }: WebApp): Record<string, string> {
  return { 'app.kubernetes.io/name': 'webapp', 'app.kubernetes.io/instance': metadata.name };
}

function labels(app: WebApp): Record<string, string> {
  return { ...selector(app), 'app.kubernetes.io/managed-by': 'windlass' };
}

/** Decides about a child. `cached` is its current state. */
export function decide(app: WebApp, { wanted }: Child, cached: KubernetesObject | undefined): Decision {
  const mend = isChanged(app) ? 'update' : 'heal';
  const isNew = app.status.observedGeneration === undefined;
  if (cached === undefined) return isNew ? 'create' : mend;
  const isTerminating = cached.metadata.deletionTimestamp !== undefined;
  if (isControlledBy(cached, app)) {
    const isRight = hasFields(cached, wanted) && surplus(cached, wanted).length === 0;
    return isTerminating || isRight ? 'leave' : mend;
  }
  // An orphan is adopted only if it has our labels, as after `kubectl delete --cascade=orphan`.
  const isOurOrphan = controllerOf(cached) === undefined && hasFields(cached.metadata.labels, labels(app));
  return isOurOrphan && !isTerminating ? mend : 'nameTaken';
}

/** An operation of a JSON patch. */
export interface Replacement {
  op: 'replace';
  path: string;
  value: unknown;
}

/**
 * The JSON patch that removes entries which break the child and which an apply would leave: ports that are not ours,
 * and additional labels in a selector. If a port was renumbered by hand, an apply would add ours beside it, and the
 * server would refuse both because they have the same name.
 */
export function surplus(actual: unknown, wanted: unknown, pointer = ''): Replacement[] {
  if (isOursAlone(pointer) && exceeds(actual, wanted)) return [{ op: 'replace', path: pointer, value: wanted }];
  if (isRecord(actual) && isRecord(wanted)) {
    // A key with a slash, which a pointer would have to escape, is a label. A label has nothing below it.
    const shared = Object.keys(wanted).sort().filter((key) => Object.hasOwn(actual, key));
    return shared.flatMap((key) => surplus(actual[key], wanted[key], `${pointer}/${key}`));
  }
  if (Array.isArray(actual) && Array.isArray(wanted)) {
    return wanted.flatMap((part) => {
      const place = actual.findIndex((element) => element?.name === part?.name);
      return place === -1 ? [] : surplus(actual[place], part, `${pointer}/${place}`);
    });
  }
  return [];
}

/** Whether only this plugin can change a field. A Deployment's selector is immutable, but a Service's is not. */
function isOursAlone(pointer: string): boolean {
  return pointer.endsWith('/ports') || pointer === '/spec/selector';
}

/** Whether there is an entry that is not wanted. */
function exceeds(actual: unknown, wanted: unknown): boolean {
  if (Array.isArray(actual) && Array.isArray(wanted)) {
    return actual.some((element) => !wanted.some((part) => hasFields(element, part)));
  }
  return isRecord(actual) && isRecord(wanted) && Object.keys(actual).some((key) => !Object.hasOwn(wanted, key));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
