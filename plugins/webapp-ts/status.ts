// The status of a WebApp, computed from its Deployment and from what failed. Pure: no call to the host.

import { ApiError, clock, conditions, formatRef, type Instant, type KubernetesObject, type NewCondition, type ObjectRef } from 'windlass';
import { isChanged, type Phase, type Spec, type Status, trimmed, type WebApp } from './api.js';

/** The condition that says whether all replicas of the present spec are ready. */
export const READY = 'Ready';
/** The condition that says whether the present spec is still being brought about. */
export const PROGRESSING = 'Progressing';

/** Why a WebApp cannot become what it asks for, until someone does something. */
export interface Problem {
  /** For conditions and events. */
  reason: 'Invalid' | 'NameTaken' | 'ApplyFailed';
  /** The text for people. */
  message: string;
}

/** What is wrong with a spec that the CRD's schema lets pass. */
export function problemOfSpec({ image }: Spec): Problem | undefined {
  return trimmed(image) === '' ? { reason: 'Invalid', message: 'spec.image is empty' } : undefined;
}

/** The name of a child belongs to someone else. */
export function nameTaken(child: ObjectRef): Problem {
  return { reason: 'NameTaken', message: `${formatRef(child)} exists and is not this WebApp's` };
}

/** A refusal that stays until someone does something. What passes by itself is retried, and is no problem. */
export function lastingProblem(error: unknown): Problem | undefined {
  const isLasting = error instanceof ApiError && ['invalid', 'forbidden', 'not-granted', 'too-large'].includes(error.reason);
  return isLasting ? { reason: 'ApplyFailed', message: String(error) } : undefined;
}

/** Whether a problem is worth an event: each is reported once, not at every reconcile that meets it. */
export function isNews({ reason, message }: Problem, { metadata, status }: WebApp): boolean {
  const ready = conditions.find(status.conditions, READY);
  const isKnown = ready?.reason === reason && ready.message === message;
  return !isKnown || ready.observedGeneration !== metadata.generation;
}

/** What the Deployment reports. */
interface Rollout {
  readyReplicas: number;
  /** The report is about the spec that we ask for, and all replicas have it. */
  isComplete: boolean;
}

/** The new status. It equals the old one if nothing has changed, so that it need not be written. */
export function statusOf(
  app: WebApp,
  deployment: KubernetesObject | undefined,
  problem: Problem | undefined,
  now: Instant = clock.now(),
): Status {
  const rollout = deployment === undefined ? { readyReplicas: 0, isComplete: false } : rolloutOf(app, deployment);
  const isReady = problem === undefined && rollout.isComplete && rollout.readyReplicas >= app.spec.replicas;
  const { generation } = app.metadata;
  return {
    ...(generation !== undefined && { observedGeneration: generation }),
    readyReplicas: rollout.readyReplicas,
    phase: phaseOf(app, isReady),
    conditions: conditions.set(app.status.conditions, conditionsOf(app, rollout, isReady, problem), { generation, at: now }),
  };
}

function rolloutOf(app: WebApp, { metadata, status }: KubernetesObject): Rollout {
  const isAboutThis = count(status?.observedGeneration) >= count(metadata.generation);
  return {
    readyReplicas: count(status?.readyReplicas),
    isComplete: isAboutThis && count(status?.updatedReplicas) >= app.spec.replicas,
  };
}

function count(value: unknown): number {
  return Number.isInteger(value) ? (value as number) : 0;
}

function phaseOf(app: WebApp, isReady: boolean): Phase {
  if (isReady) return 'Running';
  const wasReady = app.status.phase === 'Running' || app.status.phase === 'Degraded';
  return wasReady && !isChanged(app) ? 'Degraded' : 'Pending';
}

function conditionsOf(app: WebApp, rollout: Rollout, isReady: boolean, problem: Problem | undefined): NewCondition[] {
  if (problem !== undefined) {
    return [READY, PROGRESSING].map((type) => ({ type, status: false, ...problem }));
  }
  const message = `${rollout.readyReplicas} of ${app.spec.replicas} replicas are ready`;
  const ready = { type: READY, status: isReady, reason: isReady ? 'ReplicasReady' : 'ReplicasNotReady', message };
  const progressing = rollout.isComplete
    ? { type: PROGRESSING, status: false, reason: 'RolledOut', message: 'the Deployment runs this spec' }
    : { type: PROGRESSING, status: true, reason: 'RollingOut', message: 'the Deployment is on its way to this spec' };
  return [ready, progressing];
}
