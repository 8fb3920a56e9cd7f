"""A plugin on the bindings that componentize-py generates from wit/."""

import json
import os
import time

import client
from componentize_py_types import Err
from wit_world import exports
from wit_world.exports.reconciler import Outcome
from wit_world.imports import config, writes
from wit_world.imports.windlass_plugin_types import Failure

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
    "config": {"schema": {"type": "object", "properties": {"url": {"type": "string"}}}},
    "http": [{"scheme": "http", "host": "127.0.0.1", "port": 28765, "methods": ["GET", "POST"]}],
}

OWNED = writes.WriteOptions(None, None, True, False, False, writes.FieldValidation.STRICT, None)


HEADERS = {"x-toolchain": "python"}


def said(future):
    """The response of a server, or the error."""
    try:
        status, headers, body = client.answer(future)
    except Err as error:
        return repr(error.value)
    return f"{status} {headers['x-answer']} {body.decode()}"


def requests(url):
    both = [client.send("GET", f"{url}/both", HEADERS) for _ in range(2)]
    return {
        "get": said(client.send("GET", f"{url}/get", HEADERS)),
        "post": said(client.send("POST", f"{url}/post", HEADERS, b"a body")),
        "both": ", ".join(said(it) for it in both),
        "moved": said(client.send("GET", f"{url}/moved", HEADERS)),
        "late": said(client.send("GET", f"{url}/never", HEADERS, timeout=0.1)),
        "denied": said(client.send("GET", "http://not-granted.test/", HEADERS)),
    }


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
        url = json.loads(config.get()).get("url")
        answers = requests(url) if url else {}
        child = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{request.name}-stock-python", "namespace": request.namespace},
            "data": {"file": file, **answers},
        }
        try:
            writes.apply(json.dumps(child), OWNED)
        except Err as error:
            raise Err([Failure("", error.value, False, None)])
        return Outcome(None)
