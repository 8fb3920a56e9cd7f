"""Tests of whole calls, on the SDK's host in memory."""

from __future__ import annotations

import unittest
from typing import Any

import app
import windlass
from decision import DOWN_REPLICAS, ORIGINAL_REPLICAS, instant
from windlass import Object, Reason, testing

CREATED = "2026-01-05T06:00:00Z"
UPTIME = {"downscaler/uptime": "Mon-Fri 07:30-20:30 UTC"}
DAY, NIGHT = "2026-01-06T12:00:00Z", "2026-01-06T22:00:00Z"
HOUR = 3_600


def deployment(replicas: int = 3, **annotations: str) -> Object:
    metadata = {"name": "web", "namespace": "shop", "creationTimestamp": CREATED, "annotations": {**UPTIME, **annotations}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


def namespace(**annotations: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}


def forcing_pod(phase: str, text: str = "true") -> Object:
    metadata = {"name": "p", "namespace": "other", "annotations": {"downscaler/force-uptime": text}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}}


class DownscalerTest(unittest.TestCase):
    def setUp(self) -> None:
        self.host = self.enterContext(testing.Host())
        self.host.add(namespace())

    def at(self, time: str, obj: Object, controller: str = "deployments", **settings: Any) -> windlass.Outcome:
        self.host.configuration = settings
        self.host.clock = windlass.clock.Timestamp(instant(time), 0)
        return self.host.reconcile(app.reconcile, obj, controller=controller)

    def current(self) -> tuple[int, dict[str, str]]:
        """The replicas of the Deployment, and its annotations but for the schedule."""
        obj = self.host.get("apps/v1", "Deployment", "web", "shop")
        annotations = {name: text for name, text in obj["metadata"]["annotations"].items() if name not in UPTIME and text is not None}
        return obj["spec"]["replicas"], annotations

    def reasons(self) -> list[str]:
        return [event.reason for event in self.host.events]

    def test_a_workload_goes_down_and_up_again(self) -> None:
        self.assertEqual(self.at(DAY, deployment()), windlass.requeue_after(8.5 * HOUR))
        self.assertEqual(self.host.writes, [])
        self.assertEqual(self.at(NIGHT, deployment()), windlass.requeue_after(2 * HOUR + 7.5 * HOUR))
        self.assertEqual(self.current(), (0, {ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "0"}))
        self.at(DAY, self.host.get("apps/v1", "Deployment", "web", "shop"))
        self.assertEqual(self.current(), (3, {}))
        self.assertEqual(self.reasons(), ["ScaledDown", "ScaledUp"])
        self.assertIn("uptime: Mon-Fri 07:30-20:30 UTC", self.host.events[0].note)
        labels = [value.labels for value in self.host.metrics]
        self.assertEqual(labels, [{"kind": "Deployment", "direction": "down"}, {"kind": "Deployment", "direction": "up"}])

    def test_a_write_needs_the_version_that_was_judged(self) -> None:
        self.at(NIGHT, deployment())
        self.assertEqual(self.host.writes[0].options["resource_version"], "2")
        self.host.fail("patch", Reason.CONFLICT)
        with self.assertRaises(windlass.ApiError):
            self.at(NIGHT, deployment())

    def test_a_long_wait_looks_at_the_clock_in_between(self) -> None:
        outcome = self.at(DAY, deployment(**{"downscaler/uptime": "2026-01-01T00:00:00+00:00-2027-01-01T00:00:00+00:00"}))
        self.assertEqual(outcome, windlass.requeue_after(app.REST_MAX))

    def test_a_workload_without_a_schedule_waits_for_a_change(self) -> None:
        self.assertIs(self.at(NIGHT, deployment(**{"downscaler/uptime": "always"})), windlass.DONE)

    def test_the_namespace_counts(self) -> None:
        self.host.add(namespace(**{"downscaler/exclude": "true"}))
        self.at(NIGHT, deployment())
        self.assertEqual(self.host.writes, [])

    def test_a_workload_waits_for_its_namespace_to_be_known(self) -> None:
        self.host.remove("v1", "Namespace", "shop")
        self.assertIs(self.at(NIGHT, deployment()), windlass.DONE)
        self.assertEqual(self.host.writes, [])

    def test_dying_objects_and_namespaces_are_left_alone(self) -> None:
        dying = deployment()
        dying["metadata"]["deletionTimestamp"] = CREATED
        self.assertIs(self.at(NIGHT, dying), windlass.DONE)
        space = namespace()
        space["metadata"]["deletionTimestamp"] = CREATED
        self.host.add(space)
        self.assertIs(self.at(NIGHT, deployment()), windlass.DONE)
        self.assertIs(self.host.reconcile(app.reconcile, None, controller="deployments"), windlass.DONE)
        self.assertEqual(self.host.writes, [])

    def test_a_running_pod_may_force_everything_up(self) -> None:
        for phase, replicas in (("Running", 3), ("Pending", 3), ("Succeeded", 0)):
            with self.subTest(phase):
                self.host.add(forcing_pod(phase))
                self.at(NIGHT, deployment())
                self.assertEqual(self.current()[0], replicas)

    def test_a_pod_forces_by_the_word_true_in_any_case(self) -> None:
        for text, replicas in (("True", 3), ("TRUE", 3), ("false", 0)):
            with self.subTest(text):
                self.host.add(forcing_pod("Running", text))
                self.at(NIGHT, deployment())
                self.assertEqual(self.current()[0], replicas)

    def test_only_pods_of_the_configured_namespaces_force(self) -> None:
        self.host.add(forcing_pod("Running"))
        for namespaces, replicas in ((["shop", "other"], 3), (["shop"], 0)):
            with self.subTest(namespaces):
                self.at(NIGHT, deployment(), namespaces=namespaces)
                self.assertEqual(self.current()[0], replicas)

    def test_a_workload_outside_of_the_scope_does_not_come_up(self) -> None:
        down = deployment(0, **{ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "0"})
        for scope in ({"excludeNamespaces": ["shop"]}, {"namespaces": ["bar"]}, {"excludeDeployments": ["web"]}):
            with self.subTest(scope):
                self.assertIs(self.at(DAY, down, **scope), windlass.DONE)
        self.assertEqual(self.host.writes, [])

    def test_an_ignored_annotation_is_reported_and_the_rest_counts(self) -> None:
        self.at(NIGHT, deployment(**{"downscaler/grace-period": "5m"}))
        self.assertEqual(self.current()[0], 0)
        self.assertEqual(self.reasons(), ["InvalidAnnotation", "ScaledDown"])
        self.assertIn("ignores this annotation: downscaler/grace-period: '5m'", self.host.events[0].note)

    def test_kinds_are_left_alone_unless_they_are_included(self) -> None:
        self.assertIs(self.at(NIGHT, deployment(), includeResources=["cronjobs"]), windlass.DONE)
        job = deployment() | {"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        self.assertIs(self.at(NIGHT, job, "jobs", includeResources=["jobs"]), windlass.DONE)
        self.assertEqual(self.host.writes, [])

    def test_a_cron_job_is_suspended(self) -> None:
        cron = deployment() | {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"suspend": False}}
        self.at(NIGHT, cron, "cronjobs", includeResources=["cronjobs"])
        self.assertEqual(self.host.get("batch/v1", "CronJob", "web", "shop")["spec"], {"suspend": True})

    def test_an_invalid_annotation_is_reported_and_not_retried(self) -> None:
        self.assertIs(self.at(NIGHT, deployment(**{"downscaler/uptime": "always", "downscaler/downtime": "nights"})), windlass.DONE)
        self.assertEqual((self.host.writes, self.reasons()), ([], ["InvalidAnnotation"]))
        self.assertIn("leaves this object as it is", self.host.events[0].note)
        self.assertIn("downscaler/downtime: 'nights' is not a schedule: write Mon-Fri", self.host.events[0].note)

    def test_a_typo_at_night_keeps_nothing_down_in_the_morning(self) -> None:
        down = deployment(0, **{ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "0"})
        for typo in ({"downscaler/downtime-replicas": "one"}, {"downscaler/exclude-until": "tomorrow"}):
            with self.subTest(typo):
                self.host.add(namespace(**typo))
                self.assertEqual(self.at(NIGHT, down), windlass.requeue_after(9.5 * HOUR))
                self.assertEqual(self.current()[0], 0)
                self.assertIn("leaves this object scaled down: downscaler/", self.host.events[-1].note)
                self.host.add(namespace(**typo, **{"downscaler/force-uptime": "true"}))
                self.at(NIGHT, down)
                self.assertEqual(self.current(), (3, {}))
                self.host.add(namespace(**typo))
                self.at(DAY, down)
                self.assertEqual(self.current(), (3, {}))

    def test_an_event_says_which_size_is_replaced(self) -> None:
        self.at(NIGHT, deployment(1, **{ORIGINAL_REPLICAS: "10", DOWN_REPLICAS: "0"}))
        self.assertEqual(self.current(), (0, {ORIGINAL_REPLICAS: "1", DOWN_REPLICAS: "0"}))
        self.assertIn("it comes back with 1 and not with 10, because another client", self.host.events[0].note)

    def test_a_job_that_the_original_has_suspended_is_resumed(self) -> None:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "u", "controller": True}
        for annotations, suspend in (({ORIGINAL_REPLICAS: "1"}, False), ({}, True)):
            with self.subTest(annotations):
                job = deployment(**annotations) | {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True}}
                job["metadata"]["ownerReferences"] = [owner]
                self.at(DAY, job, "jobs", includeResources=["jobs", "cronjobs"])
                self.assertEqual(self.host.get("batch/v1", "Job", "web", "shop")["spec"], {"suspend": suspend})

    def test_an_invalid_configuration_stops_everything(self) -> None:
        with self.assertRaisesRegex(windlass.Terminal, "defaultUptime: 'day' is not a schedule"):
            self.at(NIGHT, deployment(), defaultUptime="day")

    def test_a_dry_run_writes_nothing(self) -> None:
        self.at(NIGHT, deployment(), dryRun=True)
        self.assertEqual((self.host.writes, self.host.events), ([], []))
        self.assertIn("would scale", self.host.logs[-1].message)

    def test_a_size_by_another_client_stays(self) -> None:
        self.at(DAY, deployment(2, **{ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "0"}))
        self.assertEqual(self.current(), (2, {}))
        self.assertEqual(self.reasons(), [])


if __name__ == "__main__":
    unittest.main()
