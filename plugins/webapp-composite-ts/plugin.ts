// The WebApp plugin as a composer: a function that computes the desired children of a WebApp.

import {
  type Composition, type CompositionRequest, type Condition, conditions, type CustomObject, deepEqual, defineComposer,
  type EventInput, hasFields, type KubernetesObject, type Manifest, sibling, Terminal,
} from 'windlass';

interface Status {
  observedGeneration: number | null;
  readyReplicas: number;
  phase: string;
  conditions: Condition[];
}

/** The CRD, which sets defaults and bounds, is in examples/webapp/crd.yaml. */
type WebApp = CustomObject<{ image: string; replicas: number; port: number }, Partial<Status>>;

const manifest: Manifest = {
  name: 'webapp-composite-ts',
  version: '0.1.0',
  controllers: [{
    name: 'webapp',
    primary: { apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp', predicates: [{ type: 'generation' }] },
    owns: [{ apiVersion: 'apps/v1', kind: 'Deployment' }, { apiVersion: 'v1', kind: 'Service' }],
  }],
};

function compose(request: CompositionRequest<WebApp>): Composition {
  const app = request.parent;
  if (typeof app.spec?.image !== 'string') throw new Terminal('the parent: spec.image is missing');
  if (request.deleting) return { children: [] };
  const [deployment, service] = childrenOf(app);
  const running = request.child<KubernetesObject>(sibling(app, 'apps/v1', 'Deployment'));
  const serving = request.child<KubernetesObject>(sibling(app, 'v1', 'Service'));
  const problem = trimmed(app.spec.image) === '' ? 'spec.image is empty' : undefined;
  const status = statusOf(app, deployment, running, problem);
  if (problem !== undefined) {
    // Without `allowEmpty`, an answer without children leaves the existing ones.
    const isNews = !deepEqual(status.conditions, app.status?.conditions ?? []);
    const warning: EventInput = { eventType: 'warning', reason: 'Invalid', action: 'Reconcile', note: problem };
    return { children: [], status, events: isNews ? [warning] : [] };
  }
  const events = [change(app, deployment, running), change(app, service, serving)].filter((event) => event !== undefined);
  return { children: [deployment, service], status, events };
}

/**
 * Trims an image, because the server refuses white space around it. `trim` differs from the server: it leaves U+0085,
 * and removes U+FEFF, which is not white space.
 */
function trimmed(image: string): string {
  // This checks each character once. A regular expression for trailing space would start again at each run of spaces
  // inside.
  const isSpace = (place: number) => /\p{White_Space}/u.test(image.charAt(place));
  let [first, end] = [0, image.length];
  while (first < end && isSpace(first)) first += 1;
  while (first < end && isSpace(end - 1)) end -= 1;
  return image.slice(first, end);
}

/** The desired Deployment and Service of a WebApp. */
function childrenOf({ metadata: { name, namespace }, spec }: WebApp) {
  const selector = { 'app.kubernetes.io/name': 'webapp', 'app.kubernetes.io/instance': name };
  const labels = { ...selector, 'app.kubernetes.io/managed-by': 'windlass' };
  const port = { name: 'http', containerPort: spec.port, protocol: 'TCP' };
  const container = { name: 'web', image: trimmed(spec.image), ports: [port] };
  const template = { metadata: { labels }, spec: { containers: [container] } };
  const pods = { replicas: spec.replicas, selector: { matchLabels: selector }, template };
  const ports = [{ name: 'http', port: 80, targetPort: 'http', protocol: 'TCP' }];
  const child = (apiVersion: string, kind: string, spec: object) => ({ apiVersion, kind, metadata: { name, namespace, labels }, spec });
  return [child('apps/v1', 'Deployment', pods), child('v1', 'Service', { selector, ports })] as const;
}

/** The event for the host's next action on a child. */
function change(app: WebApp, wanted: { kind: string }, child: KubernetesObject | undefined): EventInput | undefined {
  if (child !== undefined && (hasFields(child, wanted) || child.metadata.deletionTimestamp !== undefined)) return undefined;
  const event = (reason: string, action: string, what: string) => ({ reason, action, note: `${wanted.kind} ${app.metadata.name}: ${what}` });
  const seen = app.status?.observedGeneration ?? undefined;
  if (seen === undefined && child === undefined) return event('Created', 'Create', 'created');
  if (seen !== app.metadata.generation) return event('Updated', 'Update', 'updated to the new spec');
  return event('Healed', 'Heal', 'was deleted or edited, and is restored');
}

/** The new status, from the Deployment's report about the current spec. */
function statusOf(app: WebApp, wanted: object, deployment: KubernetesObject | undefined, problem: string | undefined): Status {
  const { observedGeneration: seen, phase: before, conditions: known } = app.status ?? {};
  const count = (value: unknown) => (Number.isInteger(value) ? (value as number) : 0);
  const [report, { generation }, { replicas }] = [deployment?.['status'], app.metadata, app.spec];
  const readyReplicas = count(report?.readyReplicas);
  const isRolledOut = hasFields(deployment, wanted) && count(report?.updatedReplicas) >= replicas &&
    count(report?.observedGeneration) >= count(deployment?.metadata.generation);
  const isReady = problem === undefined && isRolledOut && readyReplicas >= replicas;
  const ready = { type: 'Ready', status: isReady, reason: isReady ? 'ReplicasReady' : 'ReplicasNotReady', message: `${readyReplicas} of ${replicas} replicas are ready` };
  const progressing = isRolledOut
    ? { type: 'Progressing', status: false, reason: 'RolledOut', message: 'the Deployment runs this spec' }
    : { type: 'Progressing', status: true, reason: 'RollingOut', message: 'the Deployment is rolling out this spec' };
  const entered = problem === undefined
    ? [ready, progressing]
    : ['Ready', 'Progressing'].map((type) => ({ type, status: false, reason: 'Invalid', message: problem }));
  const wasReady = (before === 'Running' || before === 'Degraded') && (seen ?? undefined) === generation;
  return {
    observedGeneration: generation ?? null,
    readyReplicas,
    phase: isReady ? 'Running' : wasReady ? 'Degraded' : 'Pending',
    conditions: conditions.set(known, entered, { generation }),
  };
}

export const composer = defineComposer({ manifest, compose });
