// The WebApp kind, as far as the plugin reads and writes it. The CRD is in examples/webapp/crd.yaml.

import { type Condition, type KubernetesObject, type ObjectMeta, Terminal } from 'windlass';

export const API_VERSION = 'apps.kubedojo.io/v1beta1';
export const KIND = 'WebApp';

/** An application that answers HTTP. */
export interface WebApp {
  metadata: ObjectMeta & { name: string };
  spec: Spec;
  /** What is, as this plugin wrote it last. */
  status: Status;
}

/** What is asked for. */
export interface Spec {
  image: string;
  /** How many Pods. */
  replicas: number;
  /** The port that the container listens on. */
  port: number;
}

/** What is. */
export interface Status {
  /** The generation that the rest is about. */
  observedGeneration?: number;
  /** How many Pods are ready. */
  readyReplicas: number;
  /** The state in one word. Left out: not reconciled yet. */
  phase?: Phase;
  /** The state in detail: `Ready` and `Progressing`. */
  conditions: Condition[];
}

/** Not ready yet, ready, or ready before and not now. */
export type Phase = 'Pending' | 'Running' | 'Degraded';

/** A WebApp of an object. The defaults are the CRD's. */
export function webAppOf({ metadata, spec, status }: KubernetesObject): WebApp {
  if (typeof spec?.image !== 'string') throw new Terminal('the primary: spec.image is missing');
  const { image, replicas = 2, port = 8080 } = spec;
  return { metadata: { ...metadata, name: metadata.name as string }, spec: { image, replicas, port }, status: statusOf(status ?? {}) };
}

function statusOf({ observedGeneration, readyReplicas = 0, phase, conditions = [] }: Partial<Status>): Status {
  return {
    ...(observedGeneration !== undefined && { observedGeneration }),
    readyReplicas,
    ...(phase !== undefined && { phase }),
    conditions,
  };
}

/** Whether the spec is another than the one that the status is about. */
export function isChanged({ metadata, status }: WebApp): boolean {
  return status.observedGeneration !== metadata.generation;
}

/** An image without white space around it, which the server refuses. `trim` leaves U+0085, and takes U+FEFF, which is none. */
export function trimmed(image: string): string {
  // One look at each character: an expression with an end begins anew at each run of spaces within.
  const isSpace = (place: number) => /\p{White_Space}/u.test(image.charAt(place));
  let [first, end] = [0, image.length];
  while (first < end && isSpace(first)) first += 1;
  while (first < end && isSpace(end - 1)) end -= 1;
  return image.slice(first, end);
}
