import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasFields, type KubernetesObject } from 'windlass';
import { type CompositionResult, TestHost } from 'windlass/testing';
import { composer } from './plugin.js';

type App = KubernetesObject & { status?: any };

/** A WebApp of generation 1 that was never reconciled. */
function newApp(): App {
  return {
    apiVersion: 'apps.kubedojo.io/v1beta1',
    kind: 'WebApp',
    metadata: { name: 'shop', namespace: 'default', uid: 'u-1', generation: 1 },
    spec: { image: 'nginx', replicas: 2, port: 8080 },
  };
}

function compose(parent: App, children: KubernetesObject[] = [], deleting = false): CompositionResult {
  const composed = new TestHost().compose(composer, { parent, children, deleting });
  assert.deepEqual(composed.failures, []);
  return composed;
}

function reasons({ events = [] }: CompositionResult): string[] {
  return events.map(({ reason }) => reason);
}

/** The children as the server stores them, with this many ready replicas in the Deployment. */
function stored(ready: number): [KubernetesObject, KubernetesObject] {
  const [deployment, service] = compose(newApp()).children as [KubernetesObject, KubernetesObject];
  for (const child of [deployment, service]) {
    child.metadata.generation = 1;
    child['spec'].added = 'by the server';
  }
  deployment['status'] = { observedGeneration: 1, readyReplicas: ready, updatedReplicas: 2 };
  return [deployment, service];
}

function runningApp(): App {
  return { ...newApp(), status: compose(newApp(), stored(2)).status };
}

test('a new app gets its children and is pending', () => {
  const composition = compose(newApp());
  assert.deepEqual(composition.children?.map(({ kind }) => kind), ['Deployment', 'Service']);
  assert.deepEqual(reasons(composition), ['Created', 'Created']);
  assert.equal(composition.status.phase, 'Pending');
});

test('the service selects the pods and names their port', () => {
  const [{ spec: pods }, { spec: service }] = compose(newApp()).children as [KubernetesObject, KubernetesObject];
  assert.ok(hasFields(pods.template.metadata.labels, service.selector));
  assert.deepEqual(pods.selector.matchLabels, service.selector);
  assert.equal(service.ports[0].targetPort, pods.template.spec.containers[0].ports[0].name);
  assert.equal(pods.template.spec.containers[0].ports[0].containerPort, 8080);
});

test('an unchanged app reports nothing', () => {
  const composition = compose(runningApp(), stored(2));
  assert.equal(composition.status.phase, 'Running');
  assert.deepEqual(reasons(composition), []);
  assert.deepEqual(composition.status, runningApp().status);
});

test('a child that was deleted or edited is healed', () => {
  const [deployment] = stored(2);
  deployment['spec'].replicas = 7;
  const composition = compose(runningApp(), [deployment]);
  assert.deepEqual(reasons(composition), ['Healed', 'Healed']);
  assert.equal(composition.status.phase, 'Degraded');
});

test('a deleting child causes no event until it is gone', () => {
  const [deployment, service] = stored(2);
  service.metadata.deletionTimestamp = '2026-11-21T10:48:45Z';
  service['spec'].ports = [];
  assert.deepEqual(reasons(compose(runningApp(), [deployment, service])), []);
});

test('a changed spec updates the children and is pending', () => {
  const app = runningApp();
  app.metadata.generation = 2;
  app['spec'].image = 'nginx:2';
  const composition = compose(app, stored(2));
  assert.deepEqual(reasons(composition), ['Updated']);
  assert.deepEqual([composition.status.phase, composition.status.observedGeneration], ['Pending', 2]);
});

test('an app that loses a replica is degraded', () => {
  const { status } = compose(runningApp(), stored(1));
  assert.deepEqual([status.phase, status.readyReplicas], ['Degraded', 1]);
  assert.equal(status.conditions[0].message, '1 of 2 replicas are ready');
});

test('an empty image keeps the children and is reported once', () => {
  const app = runningApp();
  app.metadata.generation = 2;
  app['spec'].image = ' \t';
  const composition = compose(app, stored(2));
  assert.deepEqual(composition.children, []);
  assert.equal(composition.events?.[0]?.eventType, 'warning');
  const { status } = composition;
  assert.deepEqual(status.conditions.map(({ status, reason }: any) => [status, reason]), [['False', 'Invalid'], ['False', 'Invalid']]);
  assert.equal(status.phase, 'Pending');
  assert.deepEqual(reasons(compose({ ...app, status })), []);
});

test('a deleting app is left to the garbage collector', () => {
  const composition = compose(newApp(), [], true);
  assert.deepEqual(composition.children, []);
  assert.equal(composition.status, undefined);
});
