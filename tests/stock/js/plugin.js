// A plugin on the modules that ComponentizeJS generates from wit/.
import { get as config } from 'windlass:plugin/config@0.2.0';
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
  config: { schema: { type: 'object', properties: { url: { type: 'string' } } } },
  http: [{ scheme: 'http', host: '127.0.0.1', port: 28765, methods: ['GET', 'POST'] }],
};

const OWNED = { owned: true, force: false, dryRun: false, fieldValidation: 'strict' };

// The response of a server, or the error.
async function fetched(url, options) {
  try {
    const response = await fetch(url, { ...options, headers: { 'x-toolchain': 'js' } });
    return `${response.status} ${response.headers.get('x-answer')} ${await response.text()}`;
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

async function requests(url) {
  const both = await Promise.all([fetched(`${url}/both`), fetched(`${url}/both`)]);
  return {
    get: await fetched(`${url}/get`),
    post: await fetched(`${url}/post`, { method: 'POST', body: 'a body' }),
    both: both.join(', '),
    moved: await fetched(`${url}/moved`),
    late: await fetched(`${url}/never`, { signal: AbortSignal.timeout(100) }),
    denied: await fetched('http://not-granted.test/'),
  };
}

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
    const { url } = JSON.parse(config());
    const child = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: `${request.name}-stock-js`, namespace: request.namespace },
      data: { file, ...(url && (await requests(url))) },
    };
    try {
      apply(JSON.stringify(child), OWNED);
    } catch (error) {
      throw [{ message: '', api: error.payload ?? error, terminal: false }];
    }
    return {};
  },
};
