// A plugin on the modules that ComponentizeJS makes of wit/.
import { apply } from 'windlass:plugin/writes@0.2.0';

const MANIFEST = {
  apiVersion: 'windlass.dev/v1alpha1',
  kind: 'PluginManifest',
  name: 'stock-js',
  version: '0.1.0',
  controllers: [
    {
      name: 'stock',
      primary: { apiVersion: 'apps.kubedojo.io/v1beta1', kind: 'WebApp' },
      owns: [{ apiVersion: 'v1', kind: 'ConfigMap' }],
    },
  ],
};

const OWNED = { owned: true, force: false, dryRun: false, fieldValidation: 'strict' };

export const reconciler = {
  describe: () => JSON.stringify(MANIFEST),
  async reconcile(request) {
    let [file, said] = ['opened', 'opened'];
    try {
      await fetch('file:///etc/hostname');
    } catch (error) {
      [file, said] = ['refused', error.message];
    }
    const now = Math.floor(Date.now() / 1000);
    const drawn = crypto.getRandomValues(new Uint32Array(1))[0].toString(16).padStart(8, '0');
    console.log(`for ${request.name} at ${now} drew ${drawn}, and /etc/hostname: ${said}`);
    const child = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: `${request.name}-stock-js`, namespace: request.namespace },
      data: { file },
    };
    try {
      apply(JSON.stringify(child), OWNED);
    } catch (error) {
      throw [{ message: '', api: error.payload ?? error, terminal: false }];
    }
    return {};
  },
};
