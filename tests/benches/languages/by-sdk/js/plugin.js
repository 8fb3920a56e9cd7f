// Does the same as the prototype of the benchmark `languages`, with the SDK.
import { cache, defineReconciler, writes } from 'windlass';

const manifest = {
  name: 'by-sdk',
  version: '0.1.0',
  controllers: [
    {
      name: 'by-sdk',
      primary: { apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp' },
      owns: [{ apiVersion: 'apps/v1', kind: 'Deployment' }],
    },
  ],
};

function reconcile({ namespace, name }) {
  const app = cache.get({ apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp', namespace, name });
  const labels = { app: app.metadata.name };
  const deployment = {
    apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: app.metadata.name, namespace: app.metadata.namespace, labels },
    spec: {
      replicas: app.spec.replicas, selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: app.spec.image, ports: [{ containerPort: app.spec.port }] }] } },
    },
  };
  writes.apply(deployment, { owned: true, force: true });
}

export const reconciler = defineReconciler({ manifest, reconcile });
