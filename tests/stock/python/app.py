"""A plugin on the bindings that componentize-py makes of wit/."""

import json
import os
import time

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.reconciler import Outcome
from wit_world.imports import writes
from wit_world.imports.types import Failure

MANIFEST = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "PluginManifest",
    "name": "stock-python",
    "version": "0.1.0",
    "controllers": [
        {
            "name": "stock",
            "primary": {"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp"},
            "owns": [{"apiVersion": "v1", "kind": "ConfigMap"}],
        }
    ],
}

OWNED = writes.WriteOptions(None, None, True, False, False, writes.FieldValidation.STRICT, None)


class Reconciler(exports.Reconciler):
    def describe(self):
        return json.dumps(MANIFEST)

    def reconcile(self, request):
        file, said = "opened", "opened"
        try:
            open("/etc/hostname").close()
        except OSError as error:
            file, said = "refused", str(error)
        now, drawn = int(time.time()), os.urandom(4).hex()
        print(f"for {request.name} at {now} drew {drawn}, and /etc/hostname: {said}", flush=True)
        child = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{request.name}-stock-python", "namespace": request.namespace},
            "data": {"file": file},
        }
        try:
            writes.apply(json.dumps(child), OWNED)
        except Err as error:
            raise Err([Failure("", error.value, False, None)])
        return Outcome(None)
