"""Tests of whole calls, on the SDK's host in memory."""

from __future__ import annotations

import unittest
from typing import Any

import app
import windlass
from lifetimes import instant
from windlass import Object, Reason, testing

CREATED = "2026-01-05T12:00:00Z"
HOUR = 3_600

PULL_REQUESTS = {"id": "pull-requests", "resources": ["deployments"], "jmespath": "starts_with(metadata.name, 'pr-')", "ttl": "4h"}
UNLABELLED = {"id": "unlabelled", "resources": ["deployments"], "jmespath": "!(spec.template.metadata.labels.team)", "ttl": "8h"}
UNUSED = {
    "id": "unused", "resources": ["persistentvolumeclaims"], "ttl": "12h",
    "jmespath": "_context.pvc_is_not_mounted && _context.pvc_is_not_referenced",
}  # fmt: skip


#: It is about objects that a deployer does not manage. No plugin gets these fields.
UNMANAGED = {
    "id": "unmanaged", "resources": ["deployments"], "ttl": "8h",
    "jmespath": "!contains(to_string(metadata.managedFields), 'deployer')",
}  # fmt: skip
RULE_KINDS = [{"apiVersion": "apps/v1", "kind": "Deployment"}, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}]


def deployment(name: str = "web", namespace: str = "shop", **annotations: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": CREATED, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


def claim() -> Object:
    metadata = {"name": "data", "namespace": "shop", "creationTimestamp": CREATED}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}


def pod(claim: str) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}, "spec": {"volumes": volumes}}


class JanitorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.host = self.enterContext(testing.Host())
        app.reported.clear()

    def at(self, hours: float, obj: Object, controller: str = "janitor", **settings: Any) -> windlass.Outcome:
        """Reconciles an object this many hours after its creation."""
        self.set(hours, **settings)
        return self.host.reconcile(app.reconcile, obj, controller=controller)

    def behind(self, hours: float, cached: Object, current: Object, **settings: Any) -> windlass.Outcome:
        """Applies rules to an object of which the cache has an older state."""
        self.set(hours, **settings)
        for obj in (cached, current):
            obj["metadata"]["uid"] = "uid-of-both"
        self.host.add(current)
        return app.reconcile(testing.request(cached, controller="rules"))

    def set(self, hours: float, **settings: Any) -> None:
        self.host.configuration = {"ruleKinds": RULE_KINDS, **settings}
        self.host.clock = windlass.clock.Timestamp(instant(CREATED) + int(hours * HOUR), 0)

    def deleted(self) -> list[str]:
        return [write.target.name for write in self.host.writes if write.verb == "delete"]

    def reasons(self) -> list[str]:
        return [event.reason for event in self.host.events]

    def test_an_object_lives_for_its_time(self) -> None:
        obj = deployment(**{"janitor/ttl": "2h"})
        self.assertEqual(self.at(0.5, obj), windlass.requeue_after(1.5 * HOUR))
        self.assertEqual(self.deleted(), [])
        self.assertIs(self.at(2, obj), windlass.DONE)
        self.assertEqual((self.deleted(), self.reasons()), (["web"], ["TimeToLiveExpired"]))
        self.assertIn("janitor/ttl=2h", self.host.events[0].note)
        self.assertEqual(self.host.metrics[0].labels, {"reason": "TimeToLiveExpired"})

    def test_exactly_the_judged_object_is_deleted(self) -> None:
        self.at(3, deployment(**{"janitor/ttl": "2h"}))
        write = self.host.writes[0]
        self.assertEqual((write.target.uid, write.options["resource_version"]), ("uid-1", "1"))

    def test_a_long_wait_looks_at_the_clock_in_between(self) -> None:
        outcome = self.at(0, deployment(**{"janitor/ttl": "52w"}))
        self.assertEqual(outcome, windlass.requeue_after(app.REST_MAX))

    def test_an_object_expires_at_its_time(self) -> None:
        obj = deployment(**{"janitor/expires": "2026-01-05T18:00"})
        self.assertEqual(self.at(4, obj), windlass.requeue_after(2 * HOUR))
        self.at(7, obj)
        self.assertEqual((self.deleted(), self.reasons()), (["web"], ["ExpiryTimeReached"]))

    def test_an_invalid_annotation_is_reported_and_not_retried(self) -> None:
        self.assertIs(self.at(1_000, deployment(**{"janitor/ttl": "soon"})), windlass.DONE)
        self.assertEqual((self.deleted(), self.reasons()), ([], ["InvalidAnnotation"]))
        self.assertIn("janitor/ttl: 'soon' is not a time to live", self.host.events[0].note)

    def test_a_warning_comes_before_the_deletion(self) -> None:
        obj = deployment(**{"janitor/ttl": "2h"})
        settings = {"deleteNotificationSeconds": 600}
        self.assertEqual(self.at(1, obj, **settings), windlass.requeue_after(HOUR - 600))
        self.assertEqual(self.at(2 - 1 / 6, obj, **settings), windlass.requeue_after(600))
        self.assertEqual((self.deleted(), self.reasons()), ([], ["DeleteNotification"]))
        self.assertIn("will be deleted at 2026-01-05T14:00:00Z", self.host.events[0].note)

    def test_excluded_namespaces_and_dying_objects_are_left_alone(self) -> None:
        self.at(9, deployment(namespace="kube-system", **{"janitor/ttl": "2h"}))
        dying = deployment(**{"janitor/ttl": "2h"})
        dying["metadata"]["deletionTimestamp"] = CREATED
        self.at(9, dying)
        self.host.reconcile(app.reconcile, None)
        self.assertEqual(self.deleted(), [])

    def test_a_dry_run_deletes_and_announces_nothing(self) -> None:
        obj = deployment(**{"janitor/ttl": "2h"})
        self.at(1.9, obj, dryRun=True, deleteNotificationSeconds=600)
        self.at(3, obj, dryRun=True)
        self.assertEqual((self.host.writes, self.host.events), ([], []))
        self.assertIn("would delete", self.host.logs[-1].message)

    def test_an_object_that_is_gone_was_deleted_by_another(self) -> None:
        self.host.fail("delete", Reason.NOT_FOUND)
        self.assertIs(self.at(3, deployment(**{"janitor/ttl": "2h"})), windlass.DONE)
        self.assertEqual(self.reasons(), [])

    def test_a_conflict_is_returned_so_that_the_host_asks_again(self) -> None:
        self.host.fail("delete", Reason.CONFLICT)
        with self.assertRaises(windlass.ApiError):
            self.at(3, deployment(**{"janitor/ttl": "2h"}))

    def test_a_rule_by_metadata_needs_no_read(self) -> None:
        self.host.fail("get")
        self.assertEqual(self.at(1, deployment("pr-7"), "rules", rules=[PULL_REQUESTS]), windlass.requeue_after(3 * HOUR))
        self.assertIs(self.at(9, deployment("web"), "rules", rules=[PULL_REQUESTS]), windlass.DONE)
        self.at(4, deployment("pr-7"), "rules", rules=[PULL_REQUESTS])
        self.assertEqual((self.deleted(), self.reasons()), (["pr-7"], ["TimeToLiveExpired"]))
        self.assertIn("rule pull-requests", self.host.events[0].note)

    def test_a_rule_by_the_spec_reads_the_object_only_when_it_may_be_due(self) -> None:
        self.host.fail("get", times=1)
        self.assertEqual(self.at(1, deployment(), "rules", rules=[UNLABELLED]), windlass.requeue_after(7 * HOUR))
        with self.assertRaises(windlass.ApiError):
            self.at(8, deployment(), "rules", rules=[UNLABELLED])
        self.at(8, deployment(), "rules", rules=[UNLABELLED])
        self.assertEqual(self.deleted(), ["web"])

    def test_an_annotation_that_the_cache_lacks_saves_the_object(self) -> None:
        kept = deployment(**{"janitor/ttl": "forever"})
        self.assertIs(self.behind(9, deployment(), kept, rules=[UNLABELLED]), windlass.DONE)
        dying = deployment()
        dying["metadata"]["deletionTimestamp"] = CREATED
        self.assertIs(self.behind(9, deployment(), dying, rules=[UNLABELLED]), windlass.DONE)
        self.assertEqual(self.deleted(), [])
        self.behind(9, deployment(), deployment(), rules=[UNLABELLED])
        self.assertEqual(self.deleted(), ["web"])

    def test_a_rule_about_managed_fields_stops_all_rules(self) -> None:
        self.assertIs(self.at(9, deployment("pr-7"), "rules", rules=[UNMANAGED, PULL_REQUESTS]), windlass.DONE)
        self.assertEqual(self.deleted(), [])
        self.assertIn("could match too much: name other fields", str(self.host.logs[-1].fields))

    def test_an_object_that_no_rule_matches_waits_for_a_change(self) -> None:
        obj = deployment()
        obj["spec"] = {"template": {"metadata": {"labels": {"team": "a"}}}}
        self.assertIs(self.at(9, obj, "rules", rules=[UNLABELLED]), windlass.DONE)
        self.assertEqual(self.deleted(), [])

    def test_a_mounted_claim_is_looked_at_again(self) -> None:
        self.host.add(pod("data"))
        self.assertEqual(self.at(13, claim(), "rules", rules=[UNUSED]), windlass.requeue_after(app.RECHECK_INTERVAL))
        self.host.remove("v1", "Pod", "p", "shop")
        self.at(13, claim(), "rules", rules=[UNUSED])
        self.assertEqual(self.deleted(), ["data"])

    def test_a_claim_in_a_template_stays_without_pods(self) -> None:
        spec = {"template": {"spec": pod("data")["spec"]}}
        self.host.add(deployment() | {"spec": spec})
        self.assertEqual(self.at(13, claim(), "rules", rules=[UNUSED]), windlass.requeue_after(app.RECHECK_INTERVAL))
        self.host.remove("apps/v1", "Deployment", "web", "shop")
        job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "backup", "namespace": "shop"}}
        self.host.add(job | {"spec": {"jobTemplate": {"spec": spec}}})
        self.at(13, claim(), "rules", rules=[UNUSED])
        self.assertEqual(self.deleted(), [])

    def test_a_claim_that_no_rule_can_match_costs_no_read(self) -> None:
        self.host.fail("list")
        self.host.fail("get")
        labelled = {**UNUSED, "jmespath": f"metadata.labels.scratch && {UNUSED['jmespath']}"}
        self.assertIs(self.at(13, claim(), "rules", rules=[labelled]), windlass.DONE)
        scratch = claim()
        scratch["metadata"]["labels"] = {"scratch": "yes"}
        with self.assertRaises(windlass.ApiError):
            self.at(13, scratch, "rules", rules=[labelled])

    def test_an_unwatched_change_is_seen_before_the_deadline(self) -> None:
        labelled = {"id": "all", "resources": ["persistentvolumeclaims"], "jmespath": "metadata.name", "ttl": "24h"}
        self.host.add(pod("data"))
        self.assertEqual(self.at(13, claim(), "rules", rules=[UNUSED, labelled]), windlass.requeue_after(app.RECHECK_INTERVAL))
        self.host.remove("v1", "Pod", "p", "shop")
        self.at(13.5, claim(), "rules", rules=[UNUSED, labelled])
        self.assertEqual(self.deleted(), ["data"])

    def test_a_time_to_live_of_zero_deletes_nothing(self) -> None:
        self.assertIs(self.at(9, deployment(**{"janitor/ttl": "0d"})), windlass.DONE)
        self.assertIs(self.at(9, deployment("pr-7"), "rules", rules=[{**PULL_REQUESTS, "ttl": "0s"}]), windlass.DONE)
        self.assertEqual((self.deleted(), self.reasons()), ([], []))

    def test_cluster_scoped_objects_stay_and_the_log_says_so(self) -> None:
        volume = {"apiVersion": "v1", "kind": "PersistentVolume"}
        metadata = {"name": "data", "creationTimestamp": CREATED, "annotations": {"janitor/ttl": "1h"}}
        for _ in range(2):
            self.assertIs(self.at(9, volume | {"metadata": metadata}), windlass.DONE)
        self.assertEqual(self.deleted(), [])
        self.assertEqual(["cluster-scoped" in line.message for line in self.host.logs], [True])

    def test_a_rule_about_an_unknown_resource_stops_all_rules(self) -> None:
        keep = {"id": "databases", "resources": ["webs"], "jmespath": "metadata.name", "ttl": "forever"}
        self.assertIs(self.at(9, deployment("pr-7"), "rules", rules=[keep, PULL_REQUESTS]), windlass.DONE)
        self.assertEqual(self.deleted(), [])
        self.assertIn("no rule is in force", self.host.logs[-1].message)
        self.assertIn("'webs' is the plural of no kind in ruleKinds: add", str(self.host.logs[-1].fields))

    def test_an_invalid_rule_stops_all_rules(self) -> None:
        broken = {**UNLABELLED, "jmespath": "("}
        self.assertIs(self.at(9, deployment("pr-7"), "rules", rules=[PULL_REQUESTS, broken]), windlass.DONE)
        self.assertEqual(self.deleted(), [])
        self.assertIn("no rule is in force", self.host.logs[-1].message)


if __name__ == "__main__":
    unittest.main()
