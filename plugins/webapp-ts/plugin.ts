// The WebApp plugin: a Deployment and a Service for each WebApp.
//
// This file reads, writes and reports. Pure functions in children.ts and status.ts compute the children and the status.

import {
  cache, deepEqual, defineReconciler, events, isControlledBy, type KubernetesObject, type Manifest, type Outcome, type Request,
  refOf, requeueAfter, sibling, Terminal, throwAll, writes,
} from 'windlass';
import { API_VERSION, KIND, type WebApp, webAppOf } from './api.js';
import { type Change, type Child, decide, deployment, service, surplus } from './children.js';
import { isNews, lastingProblem, nameTaken, type Problem, problemOfSpec, statusOf } from './status.js';

/** The interval for checking a taken name again. No watch shows when it becomes free. */
const NAME_TAKEN_RETRY = 60_000;

/**
 * The fields of a child that the plugin compares or reports. For a change of any other field, such as the time in a
 * condition of the Deployment, the host need not call the plugin.
 */
const CHILD_FIELDS = [
  '/metadata/uid', '/metadata/labels', '/metadata/ownerReferences', '/metadata/deletionTimestamp', '/metadata/generation', '/spec',
  '/status/observedGeneration', '/status/readyReplicas', '/status/updatedReplicas',
];

const manifest: Manifest = {
  name: 'webapp-ts',
  version: '0.1.0',
  description: 'Runs each WebApp as a Deployment behind a Service.',
  controllers: [{
    name: 'webapp',
    primary: { apiVersion: API_VERSION, kind: KIND, predicates: [{ type: 'generation' }] },
    owns: [{ apiVersion: 'apps/v1', kind: 'Deployment' }, { apiVersion: 'v1', kind: 'Service' }],
  }],
};

function reconcile({ object, deleting }: Request): Outcome | void {
  // The garbage collector deletes the children, because the WebApp owns them.
  if (object === undefined || deleting) return;
  const app = webAppOf(object);
  const problem = problemOfSpec(app.spec);
  const progress = problem === undefined ? bringAbout(app) : new Progress(problem, [new Terminal(problem.message)]);
  try {
    report(app, progress);
  } catch (error) {
    progress.errors.push(error);
  }
  throwAll(progress.errors);
  if (progress.isNameTaken) return requeueAfter(NAME_TAKEN_RETRY);
}

/** The result of applying the children. */
class Progress {
  /** The Deployment after this call. Undefined if it is unknown. */
  deployment: KubernetesObject | undefined;
  isNameTaken = false;

  constructor(
    public problem?: Problem,
    readonly errors: unknown[] = [],
  ) {}

  note(child: Child, error: unknown): void {
    if (error instanceof NameTaken) {
      this.problem ??= nameTaken(child.target);
      this.isNameTaken = true;
    } else {
      this.problem ??= lastingProblem(error);
      this.errors.push(error);
    }
  }
}

/** The name of a child belongs to an object that is not ours. */
class NameTaken extends Error {}

/** Brings both children to their desired states. If one fails, it still tries the other. */
function bringAbout(app: WebApp): Progress {
  const progress = new Progress();
  const [first, second] = [deployment(app), service(app)];
  try {
    progress.deployment = ensure(app, first);
  } catch (error) {
    progress.note(first, error);
  }
  try {
    ensure(app, second);
  } catch (error) {
    progress.note(second, error);
  }
  return progress;
}

/** Brings one child to its desired state, and returns its new state. */
function ensure(app: WebApp, child: Child): KubernetesObject {
  const cached = cache.get(child.target, { fields: CHILD_FIELDS });
  const decision = decide(app, child, cached);
  if (decision === 'nameTaken') throw new NameTaken();
  if (decision === 'leave') return cached as KubernetesObject;
  if (cached !== undefined) cut(child, cached);
  // The apply uses force: a field that someone edited becomes ours again.
  const applied = writes.apply(child.wanted, { owned: true, force: true, fields: CHILD_FIELDS });
  announce(child, decision);
  return applied.object;
}

/**
 * Removes the entries that an apply would leave. An earlier removal counts as another manager's change, so this also
 * concerns the port of an older spec.
 */
function cut({ target, wanted }: Child, judged: KubernetesObject): void {
  // Read again, with the version that the entries are in. By now, another client may have created a new object under
  // the name: only the judged one is known to be ours.
  const cached = cache.get(refOf(judged));
  if (cached === undefined) return;
  const operations = surplus(cached, wanted);
  if (operations.length > 0) {
    writes.patch(target, 'json', operations, { resourceVersion: cached.metadata.resourceVersion ?? '' });
  }
}

const ANNOUNCEMENTS = {
  create: ['Created', 'Create', 'created'],
  update: ['Updated', 'Update', 'updated to the new spec'],
  heal: ['Healed', 'Heal', 'was deleted or edited, and is restored'],
} as const;

function announce({ target: { kind, name } }: Child, change: Change): void {
  const [reason, action, what] = ANNOUNCEMENTS[change];
  console.info('applied a child', { kind, reason });
  events.normal(reason, action, `${kind} ${name}: ${what}`);
}

/** Writes the status, if it has changed, and reports a new problem. */
function report(app: WebApp, { problem, deployment: known, errors }: Progress): void {
  // A failure that may pass by itself leaves the status alone. The retry that succeeds will write it.
  if (problem === undefined && errors.length > 0) return;
  if (problem !== undefined && isNews(problem, app)) events.warning(problem.reason, 'Reconcile', problem.message);
  const status = statusOf(app, problem === undefined ? known : ownDeployment(app), problem);
  if (!deepEqual(status, app.status)) writes.applyStatus(sibling(app, API_VERSION, KIND), status);
}

/** The existing Deployment of a WebApp with an invalid spec, which may still run. */
function ownDeployment(app: WebApp): KubernetesObject | undefined {
  const cached = cache.get(deployment(app).target, { fields: CHILD_FIELDS });
  return cached !== undefined && isControlledBy(cached, app) ? cached : undefined;
}

export const reconciler = defineReconciler({ manifest, reconcile });
