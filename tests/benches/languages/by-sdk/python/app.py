"""Does the same as the prototype of the benchmark `languages`, with the SDK."""

import windlass
from windlass import cache, writes
from windlass.manifest import Controller, Manifest, Watch

MANIFEST = Manifest(
    name="by-sdk",
    version="0.1.0",
    controllers=[
        Controller(name="by-sdk", primary=Watch("apps.kubedojo.io/v1beta1", "WebApp"), owns=[Watch("apps/v1", "Deployment")])
    ],
)


@windlass.reconciler(MANIFEST)
def reconcile(request: windlass.Request) -> windlass.Outcome:
    app = cache.get(windlass.ObjectRef("apps.kubedojo.io/v1beta1", "WebApp", request.name, request.namespace))
    labels = {"app": app["metadata"]["name"]}
    container = {"name": "web", "image": app["spec"]["image"], "ports": [{"containerPort": app["spec"]["port"]}]}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": app["metadata"]["name"], "namespace": app["metadata"]["namespace"], "labels": labels},
        "spec": {
            "replicas": app["spec"]["replicas"], "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    writes.apply(deployment, owned=True, force=True)
    return windlass.DONE
