// The prototype of the benchmark `languages`, on the bare bindings.
import { get } from 'windlass:plugin/cache@0.2.0';
import { apply } from 'windlass:plugin/writes@0.2.0';

const MANIFEST =
  '{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"prototype","version":"0.1.0","controllers":[{"name":"prototype","primary":{"apiVersion":"v1","kind":"ConfigMap"}}]}';

export const reconciler = {
  describe: () => MANIFEST,
  reconcile(request) {
    const target = { apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp', namespace: request.namespace, name: request.name };
    const app = JSON.parse(get(target, undefined));
    const labels = { app: app.metadata.name };
    const deployment = {
      apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: app.metadata.name, namespace: app.metadata.namespace, labels },
      spec: {
        replicas: app.spec.replicas, selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'web', image: app.spec.image, ports: [{ containerPort: app.spec.port }] }] } },
      },
    };
    apply(JSON.stringify(deployment), { owned: true, force: true, dryRun: false, fieldValidation: 'strict' });
    return { requeueAfterMs: undefined };
  },
};
