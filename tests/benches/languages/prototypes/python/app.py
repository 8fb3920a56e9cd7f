"""The prototype of the benchmark `languages`, on the bare bindings."""
import json

from wit_world import exports
from wit_world.imports import cache, types, writes
from wit_world.exports.reconciler import Outcome

MANIFEST = '{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"prototype","version":"0.1.0","controllers":[{"name":"prototype","primary":{"apiVersion":"v1","kind":"ConfigMap"}}]}'


class Reconciler(exports.Reconciler):
    def describe(self) -> str:
        return MANIFEST

    def reconcile(self, request):
        target = types.ObjectRef(None, "apps.kubedojo.io/v1beta1", "WebApp", request.namespace, request.name, None)
        app = json.loads(cache.get(target, None))
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
        options = writes.WriteOptions(None, None, True, True, False, writes.FieldValidation.STRICT, None)
        writes.apply(json.dumps(deployment), options)
        return Outcome(None)


class Mapper(exports.Mapper):
    def map(self, batch):
        return [[] for _ in batch.changes]
