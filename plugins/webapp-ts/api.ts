// The fields of the WebApp kind that the plugin reads and writes. The CRD is in examples/webapp/crd.yaml.

import { type Condition, type KubernetesObject, type ObjectMeta, Terminal } from 'windlass';

export const API_VERSION = 'apps.kubedojo.io/v1beta1';
export const KIND = 'WebApp';

/** An application that answers HTTP. */
export interface WebApp {
  metadata: ObjectMeta & { name: string };
  spec: Spec;
  /** The status as this plugin last wrote it. */
  status: Status;
}

/** The desired state. */
export interface Spec {
  image: string;
  /** The desired number of Pods. */
  replicas: number;
  /** The port that the container listens on. */
  port: number;
}

/** The observed state. */
export interface Status {
  /** The generation that the other fields are about. */
  observedGeneration?: number;
  /** The number of ready Pods. */
  readyReplicas: number;
  /** The state in one word. Left out before the first reconcile. */
  phase?: Phase;
  /** The state in detail: `Ready` and `Progressing`. */
  conditions: Condition[];
}

/** `Pending`: not ready yet. `Running`: ready. `Degraded`: ready before, but not now. */
export type Phase = 'Pending' | 'Running' | 'Degraded';

/** Reads a WebApp from an object. The defaults are the CRD's. */
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

/** Whether the spec is newer than the spec that the status is about. */
export function isChanged({ metadata, status }: WebApp): boolean {
  return status.observedGeneration !== metadata.generation;
}

/**
 * Trims an image, because the server refuses white space around it. `trim` differs from the server: it leaves U+0085,
 * and removes U+FEFF, which is not white space.
 */
export function trimmed(image: string): string {
  // This checks each character once. A regular expression for trailing space would start again at each run of spaces
  // inside.
  const isSpace = (place: number) => /\p{White_Space}/u.test(image.charAt(place));
  let [first, end] = [0, image.length];
  while (first < end && isSpace(first)) first += 1;
  while (first < end && isSpace(end - 1)) end -= 1;
  return image.slice(first, end);
}
