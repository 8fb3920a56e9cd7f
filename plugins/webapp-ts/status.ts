// The status of a WebApp, computed from its Deployment and from the failures. Pure: nothing here calls the host.

import { ApiError, clock, conditions, formatRef, type Instant, type KubernetesObject, type NewCondition, type ObjectRef } from 'windlass';
import { isChanged, type Phase, type Spec, type Status, trimmed, type WebApp } from './api.js';

/** The condition that is true if all replicas of the current spec are ready. */
export const READY = 'Ready';
/** The condition that is true while the current spec is being rolled out. */
export const PROGRESSING = 'Progressing';

/** Why a WebApp cannot reach its desired state until someone acts. */
export interface Problem {
  /** The reason, for conditions and events. */
  reason: 'Invalid' | 'NameTaken' | 'ApplyFailed';
  /** The text for people. */
  message: string;
}

/** The problem of a spec that the CRD's schema accepts. */
export function problemOfSpec({ image }: Spec): Problem | undefined {
  return trimmed(image) === '' ? { reason: 'Invalid', message: 'spec.image is empty' } : undefined;
}

/** The name of a child belongs to another object. */
export function nameTaken(child: ObjectRef): Problem {
  return { reason: 'NameTaken', message: `${formatRef(child)} exists and is not this WebApp's` };
}

/** A refusal that lasts until someone acts. A failure that may pass by itself is retried, and is not a problem. */
export function lastingProblem(error: unknown): Problem | undefined {
  const isLasting = error instanceof ApiError && ['invalid', 'forbidden', 'not-granted', 'too-large'].includes(error.reason);
  return isLasting ? { reason: 'ApplyFailed', message: String(error) } : undefined;
}

/** Whether the problem is new and so worth an event. A known problem is not reported again at each reconcile. */
export function isNews({ reason, message }: Problem, { metadata, status }: WebApp): boolean {
  const ready = conditions.find(status.conditions, READY);
  const isKnown = ready?.reason === reason && ready.message === message;
  return !isKnown || ready.observedGeneration !== metadata.generation;
}

/** The Deployment's report. */
interface Rollout {
  readyReplicas: number;
  /** Whether the report is about the current spec, and all replicas have that spec. */
  isComplete: boolean;
}

/**
 * The new status. It equals the old one if nothing has changed, so that it need not be written. Only a condition with
 * a new status needs `now`.
 */
export function statusOf(
  app: WebApp,
  deployment: KubernetesObject | undefined,
  problem: Problem | undefined,
  now: Instant | (() => Instant) = clock.now,
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
    : { type: PROGRESSING, status: true, reason: 'RollingOut', message: 'the Deployment is rolling out this spec' };
  return [ready, progressing];
}
