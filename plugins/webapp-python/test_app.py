"""Tests of whole calls, on the SDK's host in memory."""

from __future__ import annotations

import unittest

import app
import windlass
from windlass import Object, Reason, conditions, testing


def webapp(image: str = "nginx") -> Object:
    return {
        "apiVersion": "apps.kubedojo.io/v1beta1",
        "kind": "WebApp",
        "metadata": {"name": "shop", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {"image": image, "replicas": 2, "port": 8080},
    }


class WebAppTest(unittest.TestCase):
    def setUp(self) -> None:
        self.host = self.enterContext(testing.Host())

    def reconcile(self, obj: Object | None = None) -> windlass.Outcome:
        return self.host.reconcile(app.reconcile, webapp() if obj is None else obj)

    def written(self) -> list[tuple[str, str, str | None]]:
        return [(write.verb, write.target.kind, write.options.get("subresource")) for write in self.host.writes]

    def test_a_new_app_gets_a_deployment_a_service_and_a_status(self) -> None:
        self.reconcile()
        self.assertEqual(
            self.written(), [("apply", "Deployment", None), ("apply", "Service", None), ("apply", "WebApp", "status")]
        )
        self.assertTrue(all(write.options["force"] for write in self.host.writes))
        self.assertEqual([event.reason for event in self.host.events], ["Created", "Created"])
        self.assertEqual(self.host.logs[0].fields, {"kind": "Deployment", "reason": "Created"})
        service = self.host.get("v1", "Service", "shop", "default")
        self.assertEqual(windlass.controller_of(service), windlass.owner_reference(webapp()))

    def test_an_unchanged_app_causes_no_writes(self) -> None:
        self.reconcile()
        self.host.writes.clear()
        self.reconcile(self.host.primary)
        self.assertEqual(self.written(), [("apply", "WebApp", "status")] if self.host.writes else [])
        self.host.writes.clear()
        self.host.events.clear()
        self.reconcile(self.host.get("apps.kubedojo.io/v1beta1", "WebApp", "shop", "default"))
        self.assertEqual((self.host.writes, self.host.events), ([], []))

    def test_a_changed_port_is_removed_and_healed(self) -> None:
        self.reconcile()
        service = self.host.get("v1", "Service", "shop", "default")
        service["spec"]["ports"].append({"name": "admin", "port": 9})
        self.host.writes.clear()
        self.reconcile(self.host.get("apps.kubedojo.io/v1beta1", "WebApp", "shop", "default"))
        self.assertEqual(self.written()[:2], [("patch", "Service", None), ("apply", "Service", None)])
        self.assertEqual(self.host.writes[0].options["resource_version"], service["metadata"]["resourceVersion"])

    def test_a_failed_child_does_not_stop_the_other(self) -> None:
        self.host.fail("apply", Reason.FORBIDDEN, kind="Deployment")
        with self.assertRaises(windlass.ApiError) as raised:
            self.reconcile()
        self.assertIs(raised.exception.reason, Reason.FORBIDDEN)
        self.assertIn(("apply", "Service", None), self.written())
        status = self.host.get("apps.kubedojo.io/v1beta1", "WebApp", "shop", "default")["status"]
        ready = conditions.find(status["conditions"], "Ready")
        assert ready is not None
        self.assertEqual(ready["reason"], "ApplyFailed")

    def test_a_transient_failure_leaves_status_and_events_alone(self) -> None:
        self.host.fail("apply", Reason.CONFLICT, kind="Deployment")
        with self.assertRaises(windlass.ApiError):
            self.reconcile()
        self.assertNotIn(("apply", "WebApp", "status"), self.written())
        self.assertEqual([event.event_type for event in self.host.events], ["normal"])

    def test_a_taken_name_is_checked_again(self) -> None:
        self.host.add({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "default"}})
        self.assertEqual(self.reconcile(), windlass.requeue_after(60))
        self.assertEqual(self.host.events[-1].note, "Service default/shop exists and is not this WebApp's")

    def test_an_empty_image_is_a_terminal_failure(self) -> None:
        with self.assertRaises(windlass.Terminal):
            self.reconcile(webapp(image=" "))
        self.assertEqual(self.written(), [("apply", "WebApp", "status")])

    def test_a_deleted_or_deleting_app_needs_nothing(self) -> None:
        self.assertIs(self.host.reconcile(app.reconcile, None), windlass.DONE)
        self.assertIs(self.host.reconcile(app.reconcile, webapp(), deleting=True), windlass.DONE)
        self.assertEqual(self.host.writes, [])


if __name__ == "__main__":
    unittest.main()
