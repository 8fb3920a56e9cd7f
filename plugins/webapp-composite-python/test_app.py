"""Tests of the composer, which is a plain function."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import app
import windlass
from windlass import testing


def new_app() -> windlass.Object:
    """A `WebApp` of generation 1 that was never reconciled."""
    return {
        "apiVersion": "apps.kubedojo.io/v1beta1",
        "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"image": "nginx", "replicas": 2, "port": 8080},
    }


def compose(parent: windlass.Object, children: list[windlass.Object], **options: Any) -> windlass.Composition:
    with testing.Host() as host:
        return host.compose(app.compose, parent, children=children, **options)


def stored(ready: int = 2) -> list[windlass.Object]:
    """The children as the server stores them, with this many ready replicas in the Deployment."""
    children = [copy.deepcopy(dict(child)) for child in compose(new_app(), []).children]
    for child in children:
        child["metadata"]["generation"] = 1
        child["spec"]["added"] = "by the server"
    children[0]["status"] = {"observedGeneration": 1, "readyReplicas": ready, "updatedReplicas": 2}
    return children


def reported(parent: windlass.Object, composition: windlass.Composition) -> windlass.Object:
    """A `WebApp` with the status that the composer returned."""
    return {**parent, "status": composition.status}


def running_app() -> windlass.Object:
    return reported(new_app(), compose(new_app(), stored()))


def reasons(composition: windlass.Composition) -> list[str]:
    return [event.reason for event in composition.events]


def status(composition: windlass.Composition) -> dict[str, Any]:
    assert composition.status is not None
    return dict(composition.status)


class WebAppComposerTest(unittest.TestCase):
    def test_a_new_app_gets_its_children_and_is_pending(self) -> None:
        composition = compose(new_app(), [])
        self.assertEqual([child["kind"] for child in composition.children], ["Deployment", "Service"])
        self.assertEqual(reasons(composition), ["Created", "Created"])
        self.assertEqual(status(composition)["phase"], "Pending")

    def test_the_service_selects_the_pods_and_names_their_port(self) -> None:
        deployment, service = compose(new_app(), []).children
        template = deployment["spec"]["template"]
        self.assertTrue(windlass.has_fields(template["metadata"]["labels"], service["spec"]["selector"]))
        self.assertEqual(deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"])
        port = template["spec"]["containers"][0]["ports"][0]
        self.assertEqual((service["spec"]["ports"][0]["targetPort"], port["containerPort"]), (port["name"], 8080))

    def test_an_unchanged_app_reports_nothing(self) -> None:
        composition = compose(running_app(), stored())
        self.assertEqual(status(composition)["phase"], "Running")
        self.assertEqual(composition.events, [])
        self.assertEqual(composition.status, running_app()["status"])

    def test_a_child_that_was_deleted_or_edited_is_healed(self) -> None:
        deployment, _ = stored()
        deployment["spec"]["replicas"] = 7
        composition = compose(running_app(), [deployment])
        self.assertEqual(reasons(composition), ["Healed", "Healed"])
        self.assertEqual(status(composition)["phase"], "Degraded")

    def test_a_deleting_child_causes_no_event_until_it_is_gone(self) -> None:
        deployment, service = stored()
        service["metadata"]["deletionTimestamp"] = "2026-11-21T10:48:45Z"
        service["spec"]["ports"] = []
        self.assertEqual(compose(running_app(), [deployment, service]).events, [])

    def test_a_changed_spec_updates_the_children_and_is_pending(self) -> None:
        parent = running_app()
        parent["metadata"]["generation"] = 2
        parent["spec"]["image"] = "nginx:2"
        composition = compose(parent, stored())
        self.assertEqual(reasons(composition), ["Updated"])
        self.assertEqual((status(composition)["phase"], status(composition)["observedGeneration"]), ("Pending", 2))

    def test_an_app_that_loses_a_replica_is_degraded(self) -> None:
        degraded = status(compose(running_app(), stored(ready=1)))
        self.assertEqual((degraded["phase"], degraded["readyReplicas"]), ("Degraded", 1))
        self.assertEqual(degraded["conditions"][0]["message"], "1 of 2 replicas are ready")

    def test_an_empty_image_keeps_the_children_and_is_reported_once(self) -> None:
        parent = running_app()
        parent["metadata"]["generation"] = 2
        parent["spec"]["image"] = " \t"
        composition = compose(parent, stored())
        self.assertEqual((composition.children, composition.allow_empty), ((), False))
        self.assertEqual([event.event_type for event in composition.events], ["warning"])
        ready, progressing = status(composition)["conditions"]
        self.assertEqual((ready["status"], ready["reason"], progressing["status"]), ("False", "Invalid", "False"))
        self.assertEqual(status(composition)["phase"], "Pending")
        self.assertEqual(compose(reported(parent, composition), []).events, [])

    def test_a_deleting_app_is_left_to_the_garbage_collector(self) -> None:
        composition = compose(new_app(), [], deleting=True)
        self.assertEqual((composition.children, composition.status), ((), None))


if __name__ == "__main__":
    unittest.main()
