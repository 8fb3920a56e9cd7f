"""The usual work of an author's test in Python, by the official client: python usual_work.py KUBECONFIG."""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client import ApiException

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Shop", "plural": "shops"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            }}},
        }],
    },
}

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}


def refused(code, call, *arguments, **options):
    """Expects an answer with this code."""
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, error
    else:
        raise AssertionError(f"{call.__name__} was to be refused with {code}")


def main(kubeconfig):
    config.load_kube_config(kubeconfig)
    core, apps, api = client.CoreV1Api(), client.AppsV1Api(), client.ApiClient()
    assert client.VersionApi().get_code().git_version.startswith("v1.")
    core.create_namespace({"metadata": {"name": "shop"}})

    # Create, conflict, patch, list by labels and in pages, delete.
    for name in ("a", "b", "c"):
        core.create_namespaced_config_map("shop", {"metadata": {"name": name, "labels": {"of": "test"}}, "data": {"x": name}})
    refused(409, core.create_namespaced_config_map, "shop", {"metadata": {"name": "a"}})
    refused(404, core.read_namespaced_config_map, "absent", "shop")
    stale = core.read_namespaced_config_map("a", "shop")
    core.patch_namespaced_config_map("a", "shop", {"data": {"y": "1"}})
    refused(409, core.replace_namespaced_config_map, "a", "shop", stale)
    page = core.list_namespaced_config_map("shop", label_selector="of=test", limit=2)
    rest = core.list_namespaced_config_map("shop", label_selector="of=test", limit=2, _continue=page.metadata._continue)
    assert [it.metadata.name for it in page.items + rest.items] == ["a", "b", "c"]

    # A watch that starts at the version of a list, in another thread.
    since = core.list_namespaced_config_map("shop").metadata.resource_version
    seen = []

    def follow():
        stream = watch.Watch().stream(core.list_namespaced_config_map, "shop", resource_version=since, timeout_seconds=30)
        for event in stream:
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 3:
                return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    core.create_namespaced_config_map("shop", {"metadata": {"name": "d"}})
    core.patch_namespaced_config_map("d", "shop", {"data": {"x": "2"}})
    core.delete_namespaced_config_map("d", "shop")
    follower.join(30)
    assert seen == [("ADDED", "d"), ("MODIFIED", "d"), ("DELETED", "d")], seen

    # A workload becomes ready.
    apps.create_namespaced_deployment("shop", DEPLOYMENT)
    for event in watch.Watch().stream(apps.list_namespaced_deployment, "shop", timeout_seconds=30):
        if event["object"].status.ready_replicas == 2:
            break
    else:
        raise AssertionError("the deployment does not become ready")
    assert apps.read_namespaced_deployment_scale("web", "shop").spec.replicas == 2

    # A custom resource, by server-side apply of two managers.
    client.ApiextensionsV1Api().create_custom_resource_definition(DEFINITION)
    shops = dynamic.DynamicClient(api).resources.get(api_version="example.com/v1", kind="Shop")
    shop = {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "tea"}, "spec": {"size": 3}}
    shops.server_side_apply(body=shop, name="tea", namespace="shop", field_manager="one")
    shop["spec"]["size"] = 4
    refused(409, shops.server_side_apply, body=shop, name="tea", namespace="shop", field_manager="two")
    shop["spec"]["size"] = 0
    refused(422, shops.server_side_apply, body=shop, name="tea", namespace="shop", field_manager="one")
    assert shops.get(name="tea", namespace="shop").spec.size == 3
    core.delete_namespace("shop")


if __name__ == "__main__":
    main(sys.argv[1])
