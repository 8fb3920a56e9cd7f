import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApiError, type ApiReason, conditions, hasFields, type KubernetesObject } from 'windlass';
import { TestHost, type TestObject } from 'windlass/testing';
import { type WebApp, webAppOf } from './api.js';
import * as children from './children.js';
import { reconciler } from './plugin.js';
import { isNews, lastingProblem, PROGRESSING, problemOfSpec, READY, statusOf } from './status.js';

const NOW = { seconds: 1_795_258_125, nanoseconds: 0 };

/** A WebApp of generation 1 that was never reconciled. */
function newObject() {
  return {
    apiVersion: 'apps.kubedojo.io/v1beta1',
    kind: 'WebApp',
    metadata: { name: 'shop', namespace: 'default', uid: 'u-1', generation: 1 },
    spec: { image: 'nginx' },
  };
}

function newApp(): WebApp {
  return webAppOf(newObject());
}

/** An app like `newApp`, whose replicas have become ready. */
function runningApp(): WebApp {
  const app = newApp();
  app.status = statusOf(app, readyDeployment(app), undefined, NOW);
  assert.equal(app.status.phase, 'Running');
  return app;
}

/** A child as the server stores it, with defaults and an owner. */
function stored(wanted: KubernetesObject): KubernetesObject {
  const child = structuredClone(wanted);
  const ownerReferences = [{ apiVersion: 'v1', kind: 'WebApp', name: 'shop', uid: 'u-1', controller: true }];
  Object.assign(child.metadata, { resourceVersion: '7', generation: 1, ownerReferences });
  child['spec'].sessionAffinity = 'None';
  return child;
}

function readyDeployment(app: WebApp): KubernetesObject {
  return { ...stored(children.deployment(app).wanted), status: { observedGeneration: 1, readyReplicas: 2, updatedReplicas: 2 } };
}

function decideService(app: WebApp, edit: (service: KubernetesObject) => void = () => {}) {
  const service = children.service(app);
  const cached = stored(service.wanted);
  edit(cached);
  return children.decide(app, service, cached);
}

test('the plugin has the defaults of the schema', () => {
  const { spec } = newApp();
  assert.deepEqual([spec.replicas, spec.port], [2, 8080]);
});

test('the service selects the pods and names their port', () => {
  const { wanted: { spec: pods } } = children.deployment(newApp());
  const { wanted: { spec: service } } = children.service(newApp());
  assert.ok(hasFields(pods.template.metadata.labels, service.selector));
  assert.deepEqual(pods.selector.matchLabels, service.selector);
  assert.equal(service.ports[0].targetPort, pods.template.spec.containers[0].ports[0].name);
  assert.equal(pods.template.spec.containers[0].ports[0].containerPort, 8080);
});

test('a missing child is created first and healed later', () => {
  const child = children.service(newApp());
  assert.equal(children.decide(newApp(), child, undefined), 'create');
  assert.equal(children.decide(runningApp(), child, undefined), 'heal');
});

test('an unchanged child and fields of others are left alone', () => {
  assert.equal(decideService(runningApp()), 'leave');
  assert.equal(decideService(runningApp(), ({ metadata }) => { metadata.labels!['team'] = 'a'; }), 'leave');
});

test('an edited child is healed', () => {
  assert.equal(decideService(runningApp(), (service) => { service['spec'].ports[0].port = 81; }), 'heal');
  assert.equal(decideService(runningApp(), (service) => { service['spec'].selector.tier = 'x'; }), 'heal');
});

test('a child of another spec is updated', () => {
  const app = runningApp();
  const deployment = readyDeployment(app);
  app.spec.replicas = 5;
  app.metadata.generation = 2;
  assert.equal(children.decide(app, children.deployment(app), deployment), 'update');
});

test('a deleting child is left until it is gone', () => {
  const decision = decideService(runningApp(), (service) => {
    service.metadata.deletionTimestamp = '2026-11-21T10:48:45Z';
    service['spec'].ports = [];
  });
  assert.equal(decision, 'leave');
});

test('orphans are adopted, but not objects of other owners', () => {
  assert.equal(decideService(newApp(), ({ metadata }) => { metadata.ownerReferences![0]!.uid = 'u-2'; }), 'nameTaken');
  assert.equal(decideService(newApp(), (service) => { service.metadata = { name: 'shop' }; }), 'nameTaken');
  assert.equal(decideService(runningApp(), ({ metadata }) => { metadata.ownerReferences = []; }), 'heal');
});

test('a changed port is removed before the apply', () => {
  const { wanted } = children.deployment(runningApp());
  const edited = stored(wanted);
  edited['spec'].template.spec.containers = [
    { name: 'sidecar', ports: [{ containerPort: 1 }] },
    { name: 'web', image: 'nginx', ports: [{ name: 'http', containerPort: 81, protocol: 'TCP' }] },
  ];
  const value = wanted['spec'].template.spec.containers[0].ports;
  assert.deepEqual(children.surplus(edited, wanted), [{ op: 'replace', path: '/spec/template/spec/containers/1/ports', value }]);
  assert.deepEqual(children.surplus(stored(wanted), wanted), []);
});

test('a new app is pending until all replicas are ready, and degraded when it loses one', () => {
  const deployment = readyDeployment(newApp());
  deployment['status'].readyReplicas = 1;
  const pending = statusOf(newApp(), deployment, undefined, NOW);
  assert.deepEqual([pending.phase, pending.readyReplicas], ['Pending', 1]);
  assert.equal(conditions.find(pending.conditions, READY)?.message, '1 of 2 replicas are ready');
  const app = runningApp();
  app.status = statusOf(app, deployment, undefined, NOW);
  assert.equal(app.status.phase, 'Degraded');
  assert.equal(statusOf(app, readyDeployment(app), undefined, NOW).phase, 'Running');
});

test('a running app that is scaled up is pending, not degraded', () => {
  const app = runningApp();
  app.spec.replicas = 4;
  app.metadata.generation = 2;
  const scaled = statusOf(app, readyDeployment(runningApp()), undefined, NOW);
  assert.deepEqual([scaled.phase, scaled.observedGeneration], ['Pending', 2]);
  assert.ok(conditions.isTrue(scaled.conditions, PROGRESSING));
});

test('a deployment status for an older spec does not count', () => {
  const deployment = readyDeployment(newApp());
  deployment.metadata.generation = 2;
  assert.equal(statusOf(newApp(), deployment, undefined, NOW).phase, 'Pending');
});

test('an unchanged status stays equal over time', () => {
  const app = runningApp();
  assert.deepEqual(statusOf(app, readyDeployment(app), undefined, { ...NOW, seconds: NOW.seconds + 60 }), app.status);
});

test('an empty image is a problem that is reported once', () => {
  const app = newApp();
  assert.equal(problemOfSpec(app.spec), undefined);
  app.spec.image = ' \t';
  const problem = problemOfSpec(app.spec)!;
  assert.ok(isNews(problem, app));
  app.status = statusOf(app, undefined, problem, NOW);
  assert.ok(!isNews(problem, app));
  const ready = conditions.find(app.status.conditions, READY);
  assert.deepEqual([ready?.status, ready?.reason], ['False', 'Invalid']);
});

test('only a lasting refusal is a problem', () => {
  const error = (reason: ApiReason) =>
    new ApiError({ code: 400, reason, statusReason: 'Reason', message: 'message', verb: 'patch', resource: 'services' });
  assert.deepEqual(lastingProblem(error('invalid')), { reason: 'ApplyFailed', message: 'patch services: Reason: message' });
  assert.equal(lastingProblem(error('conflict')), undefined);
  assert.equal(lastingProblem(error('server-error')), undefined);
  assert.equal(lastingProblem(new Error('odd')), undefined);
});

const WEB_APP = { apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp', namespace: 'default', name: 'shop' };

/** The writes, each in a few words. */
function written({ writes }: TestHost): string[] {
  return writes.map(({ op, object, target, options }) => [op, object?.kind ?? target?.kind, options.subresource?.name].filter(Boolean).join(' '));
}

function reconcile(host: TestHost, object: TestObject = host.get(WEB_APP) ?? newObject()) {
  return host.reconcile(reconciler, { object });
}

test('a new app gets its children and status once', () => {
  const host = new TestHost();
  assert.deepEqual(reconcile(host), { failures: [] });
  assert.deepEqual(written(host), ['apply Deployment', 'apply Service', 'apply WebApp status']);
  assert.deepEqual(host.events.map(({ reason, note }) => [reason, note]), [['Created', 'Deployment shop: created'], ['Created', 'Service shop: created']]);
  const { owned, force } = host.writes[0]?.options ?? {};
  assert.ok(owned && force);
  assert.equal(host.get(WEB_APP).status.phase, 'Pending');
  reconcile(host);
  assert.equal(host.writes.length, 3);
});

test('a failed child does not stop the other, and the status waits', () => {
  const host = new TestHost();
  host.failNext({ call: 'writes.apply', kind: 'Deployment' }, { reason: 'conflict' });
  const { failures } = reconcile(host);
  assert.deepEqual(failures.map(({ api }) => api?.reason), ['conflict']);
  assert.deepEqual(written(host), ['apply Deployment', 'apply Service']);
});

test('a lasting refusal is in the status, and every failure is reported', () => {
  const host = new TestHost();
  host.failNext({ kind: 'Deployment', call: 'writes.apply' }, { reason: 'forbidden', message: 'no' });
  host.failNext({ kind: 'Service', call: 'writes.apply' }, { reason: 'server-error' });
  const { failures } = reconcile(host);
  assert.deepEqual(failures.map(({ api }) => api?.reason), ['forbidden', 'server-error']);
  const [ready] = host.get(WEB_APP).status.conditions;
  assert.deepEqual([ready.reason, ready.message], ['ApplyFailed', 'patch deployments.apps Deployment default/shop: Forbidden: no']);
  assert.deepEqual(host.events.map(({ eventType, reason }) => [eventType, reason]), [['warning', 'ApplyFailed']]);
});

test('a taken name is checked again in a minute', () => {
  const host = new TestHost({ objects: [{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'shop', namespace: 'default' } }] });
  assert.deepEqual(reconcile(host), { requeueAfterMs: 60_000, failures: [] });
  assert.deepEqual(host.events.at(-1)?.note, 'Service default/shop exists and is not this WebApp\'s');
  assert.equal(host.get(WEB_APP).status.conditions[0].reason, 'NameTaken');
});

test('an empty image is terminal, and the children stay', () => {
  const host = new TestHost();
  const object = { ...newObject(), spec: { image: ' ' } };
  assert.deepEqual(reconcile(host, object), { failures: [{ terminal: 'spec.image is empty' }] });
  assert.deepEqual(written(host), ['apply WebApp status']);
});

test('a changed port is removed with the version that was read', () => {
  const host = new TestHost();
  reconcile(host);
  const service = host.get({ ...WEB_APP, apiVersion: 'v1', kind: 'Service' });
  service.spec.ports[0].port = 81;
  const { metadata } = host.put(service);
  reconcile(host);
  assert.deepEqual(written(host).slice(3), ['patch Service', 'apply Service']);
  assert.equal(host.writes[3]?.options.resourceVersion, metadata.resourceVersion);
  assert.equal(host.events.at(-1)?.reason, 'Healed');
});

test('a deleted or deleting app needs nothing', () => {
  const host = new TestHost();
  assert.deepEqual(host.reconcile(reconciler, { name: 'shop' }), { failures: [] });
  assert.deepEqual(host.reconcile(reconciler, { object: newObject(), deleting: true }), { failures: [] });
  assert.deepEqual(host.writes, []);
});
