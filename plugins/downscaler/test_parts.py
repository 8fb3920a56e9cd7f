"""Tests of the pure parts."""

from __future__ import annotations

import datetime
import unittest
from typing import Any

import decision
import zones
from decision import DOWN_REPLICAS, ORIGINAL_REPLICAS, Change, Verdict, Wanted, Workload, decide, instant, plan
from kinds import KINDS
from schedules import Defaults, schedule, weekdays
from settings import Settings

#: A Monday.
CREATED = "2026-01-05T06:00:00Z"
HOUR = 3_600
BERLIN = "Mon-Fri 07:30-20:30 Europe/Berlin"


def at(text: str) -> int:
    """An instant with an offset, in seconds since 1970."""
    return int(datetime.datetime.fromisoformat(text).timestamp())


def annotated(kind: str = "Deployment", **annotations: str) -> dict[str, Any]:
    """An object with annotations of the downscaler, whose dashes are written as underscores."""
    names = {f"downscaler/{name.replace('_', '-')}": text for name, text in annotations.items()}
    metadata = {"name": "web", "namespace": "shop", "creationTimestamp": CREATED, "annotations": names}
    return {"kind": kind, "metadata": metadata, "spec": {"replicas": 3}}


def verdict(
    time: str, own: dict[str, str] | None = None, namespace: dict[str, str] | None = None, is_forced: bool = False, **settings: Any
) -> Verdict:
    spaces = annotated("Namespace", **(namespace or {}))
    return decide(Workload(annotated(**(own or {})), spaces, Settings.of(settings), at(time)), is_forced)


def wanted(time: str, own: dict[str, str] | None = None, namespace: dict[str, str] | None = None, **settings: Any) -> Wanted:
    return verdict(time, own, namespace, **settings).wanted


def planned(size: int, then: Wanted, resource: str = "deployments", replicas: int = 0, **annotations: str) -> Change | None:
    obj = annotated()
    obj["metadata"]["annotations"] = {{"original": ORIGINAL_REPLICAS, "down": DOWN_REPLICAS}[key]: text for key, text in annotations.items()}
    obj |= KINDS[resource].change(size)
    return plan(KINDS[resource], Workload(obj, annotated("Namespace"), Settings.of({"downtimeReplicas": replicas}), at(CREATED)), then)


class SchedulesTest(unittest.TestCase):
    def test_a_recurring_schedule_holds_at_its_hours_in_its_zone(self) -> None:
        times = schedule(BERLIN)
        covered = [times.covers(at(text)) for text in (
            "2026-01-05T07:29:59+01:00", "2026-01-05T07:30:00+01:00", "2026-01-05T20:29:59+01:00", "2026-01-05T20:30:00+01:00",
            "2026-01-10T12:00:00+01:00", "2026-07-06T07:30:00+02:00", "2026-07-06T07:29:59+02:00",
        )]  # fmt: skip
        self.assertEqual(covered, [False, True, True, False, False, True, False])

    def test_a_list_holds_if_one_part_holds(self) -> None:
        times = schedule("Sat-Sun 00:00-24:00 CET,Fri-Fri 20:00-24:00 CET")
        covered = [times.covers(at(text)) for text in ("2026-01-09T19:59:00+01:00", "2026-01-09T20:00:00+01:00", "2026-01-11T23:59:59+01:00")]
        self.assertEqual(covered, [False, True, True])
        self.assertFalse(times.covers(at("2026-01-12T00:00:00+01:00")))

    def test_an_absolute_schedule_holds_once(self) -> None:
        times = schedule("2026-12-24T00:00:00+01:00-2026-12-27T00:00:00+01:00")
        covered = [times.covers(at(text)) for text in ("2026-12-23T22:59:59+00:00", "2026-12-23T23:00:00+00:00", "2026-12-26T23:00:00+00:00")]
        self.assertEqual(covered, [False, True, False])
        self.assertEqual(times.next_change(at("2026-12-25T00:00:00+00:00")), at("2026-12-26T23:00:00+00:00"))
        self.assertIsNone(times.next_change(at("2027-01-01T00:00:00+00:00")))

    def test_constant_schedules_never_change(self) -> None:
        self.assertEqual([schedule(text).covers(0) for text in ("always", "Never")], [True, False])
        self.assertEqual([schedule(text).next_change(0) for text in ("always", "never")], [None, None])

    def test_days_may_go_over_the_end_of_a_week(self) -> None:
        self.assertEqual([sorted(weekdays(text)) for text in ("Mon-Fri", "sat-mon", "Wed-Wed")], [[0, 1, 2, 3, 4], [0, 5, 6], [2]])

    def test_days_and_the_zone_may_come_from_the_configuration(self) -> None:
        defaults = Defaults("Mon-Fri", "Europe/Paris")
        for text in ("08:00-20:00", "Mon-Fri 08:00-20:00", "08:00-20:00 Europe/Paris"):
            with self.subTest(text):
                self.assertEqual(schedule(text, defaults).parts, schedule("Mon-Fri 08:00-20:00 Europe/Paris").parts)

    def test_other_texts_are_refused_with_a_hint(self) -> None:
        texts = {
            "": "not a schedule: write", "daily": "not a schedule", "Mon-Fri 7-20 CET": "not a schedule",
            "Mon-Fri 23:30-09:30 CET": "ends before it begins: write two", "Mon-Fri 08:00-08:00 CET": "ends before it begins",
            "Mon-Fry 08:00-20:00 CET": "not a range of days", "Mon-Fri 08:00-25:00 CET": "not a time of day",
            "Mon-Fri 08:00-20:60 CET": "not a time of day", "Mon-Fri 08:00-20:00 Berlin": "not a time zone",
            "Mon-Fri 08:00-20:00 ../zones": "not a time zone", "08:00-20:00 CET": "names no days", "Mon-Fri 08:00-20:00": "names no time zone",
            "2026-12-27T00:00:00+01:00-2026-12-24T00:00:00+01:00": "ends before it begins",
            "2026-02-30T00:00:00+01:00-2026-12-24T00:00:00+01:00": "does not exist",
        }  # fmt: skip
        for text, problem in texts.items():
            with self.subTest(text), self.assertRaisesRegex(ValueError, problem):
                schedule(text)

    def test_a_schedule_has_a_limited_number_of_parts(self) -> None:
        part = "Mon-Fri 07:30-20:30 Europe/Berlin"
        self.assertEqual(len(schedule(",".join([part] * 100)).parts), 100)
        with self.assertRaisesRegex(ValueError, "has 101 parts, and at most 100 are read: merge"):
            schedule(",".join([part] * 101))

    def test_no_change_is_overlooked_in_any_week(self) -> None:
        """Looks every five minutes in days on which clocks are set, in zones of both hemispheres and with half hours."""
        texts = (
            BERLIN, "Sun-Sun 02:15-02:45 Europe/Berlin", "Sat-Sun 00:00-24:00 America/New_York", "Mon-Sun 01:30-02:15 Australia/Lord_Howe",
            "Sun-Mon 23:45-24:00 America/Havana,Sun-Sun 00:00-00:30 America/Havana", "Mon-Sun 02:00-03:00 Africa/Casablanca",
        )  # fmt: skip
        weeks = ("2026-03-06T00:00:00+00:00", "2026-03-27T00:00:00+00:00", "2026-04-03T00:00:00+00:00", "2026-10-02T00:00:00+00:00",
                 "2026-10-23T00:00:00+00:00", "2026-10-30T00:00:00+00:00", "2026-02-13T00:00:00+00:00", "2026-03-20T00:00:00+00:00")  # fmt: skip
        for text in texts:
            times = schedule(text)
            for week in weeks:
                now = at(week)
                end, due = now + 4 * 86_400, 0
                before = times.covers(now)
                while now < end:
                    if now >= due:
                        change = times.next_change(now)
                        assert change is not None
                        due = change
                    now += 300
                    holds = times.covers(now)
                    if holds != before and now < due:
                        self.fail(f"{text} changes at {now}, before {due}")
                    before = holds

    def test_every_zone_can_be_read(self) -> None:
        names = list(zones._ZONES)
        self.assertGreater(len(names), 500)
        for name in names:
            zones.offset(0, zones.zone(name))


class DecisionTest(unittest.TestCase):
    DAY, NIGHT = "2026-01-06T12:00:00+01:00", "2026-01-06T22:00:00+01:00"

    def test_a_workload_without_a_schedule_is_up(self) -> None:
        self.assertEqual(verdict(self.NIGHT), Verdict("up", "uptime: always, downtime: never", None))

    def test_it_is_up_in_its_uptime_until_that_ends(self) -> None:
        self.assertEqual(verdict(self.DAY, {"uptime": BERLIN}).until, at("2026-01-06T20:30:00+01:00"))
        self.assertEqual([wanted(time, {"uptime": BERLIN}) for time in (self.DAY, self.NIGHT)], ["up", "down"])

    def test_a_downtime_takes_precedence_over_an_uptime(self) -> None:
        own = {"uptime": BERLIN, "downtime": "Mon-Sun 11:00-13:00 Europe/Berlin"}
        self.assertEqual(wanted(self.DAY, own), "down")
        self.assertEqual(verdict(self.DAY, own).until, at("2026-01-06T13:00:00+01:00"))

    def test_the_nearest_annotation_counts(self) -> None:
        self.assertEqual(wanted(self.NIGHT, {"uptime": "always"}, {"uptime": BERLIN}), "up")
        self.assertEqual(wanted(self.NIGHT, {}, {"uptime": BERLIN}, defaultUptime="always"), "down")
        self.assertEqual(wanted(self.NIGHT, {}, {}, defaultUptime=BERLIN), "down")

    def test_periods_take_precedence_and_leave_the_rest_of_the_time_alone(self) -> None:
        own = {"upscale_period": "Mon-Fri 07:00-08:00 CET", "downscale_period": "Mon-Fri 19:00-20:00 CET", "uptime": "never"}
        times = ("2026-01-06T07:30:00+01:00", self.DAY, "2026-01-06T19:30:00+01:00", self.NIGHT)
        self.assertEqual([wanted(time, own) for time in times], ["up", "as it is", "down", "as it is"])
        self.assertEqual(verdict(self.DAY, own).until, at("2026-01-06T19:00:00+01:00"))
        self.assertEqual(wanted(self.DAY, {"upscale_period": "always", "downscale_period": "always"}), "as it is")

    def test_a_namespace_may_force_its_workloads(self) -> None:
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN}, {"force_uptime": "true"}), "up")
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN}, {"force_uptime": "Mon-Sun 21:00-23:00 CET"}), "up")
        self.assertEqual(wanted(self.DAY, {"uptime": BERLIN}, {"force_downtime": "True", "force_uptime": "false"}), "down")
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN, "force_uptime": "true"}), "down", "only namespaces and Pods force")

    def test_a_pod_may_force_the_cluster_up(self) -> None:
        self.assertEqual(verdict(self.NIGHT, {"uptime": BERLIN}, is_forced=True).wanted, "up")
        self.assertEqual(verdict(self.NIGHT, {}, {"force_downtime": "true"}, is_forced=True).wanted, "up")

    def test_a_namespace_may_refuse_to_be_forced_up_by_pods(self) -> None:
        for text, expected in (("false", "down"), ("Mon-Sun 11:00-13:00 CET", "down"), ("Mon-Sun 21:00-23:00 CET", "up")):
            with self.subTest(text):
                found = verdict(self.NIGHT, {"uptime": BERLIN}, {"force_uptime": text}, is_forced=True)
                self.assertEqual(found.wanted, expected)

    def test_an_excluded_workload_is_up(self) -> None:
        ways: tuple[tuple[dict[str, str], dict[str, str]], ...] = (
            ({"exclude": "true"}, {}), ({"exclude": "yes"}, {}), ({"exclude": "false"}, {"exclude": "true"}), ({"exclude_until": "2026-01-07"}, {}),
            ({}, {"exclude_until": "2026-01-07"}),
        )  # fmt: skip
        for own, namespace in ways:
            with self.subTest((own, namespace)):
                self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN, **own}, namespace), "up")
                self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN, **own}, namespace, upscaleTargetOnly=True), "as it is")
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN, "exclude": "False"}), "down")
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN, "exclude_until": "2026-01-06T20:00"}), "down")
        self.assertEqual(verdict(self.NIGHT, {"downtime": "always", "exclude_until": "2026-01-07"}).until, at("2026-01-07T00:00:00+00:00"))

    def test_a_workload_without_a_matching_label_is_up(self) -> None:
        settings: dict[str, Any] = {"matchingLabels": ["a=b"]}
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN}, **settings), "up")
        self.assertEqual(wanted(self.NIGHT, {"uptime": BERLIN}, upscaleTargetOnly=True, **settings), "as it is")

    def test_a_new_workload_has_a_grace_period(self) -> None:
        own = {"uptime": "never"}
        self.assertEqual(verdict("2026-01-05T06:10:00+00:00", own), Verdict("as it is", "grace period", at("2026-01-05T06:15:00+00:00")))
        self.assertEqual(wanted("2026-01-05T06:15:00+00:00", own), "down")
        self.assertEqual(wanted("2026-01-05T06:10:00+00:00", {**own, "grace_period": "300"}), "down")
        self.assertEqual(wanted("2026-01-05T06:20:00+00:00", {**own, "grace_period": "3600"}), "down", "only a shorter one counts")
        deployed = {**own, "deployed": "2026-01-05T07:00:00Z"}
        self.assertEqual(wanted("2026-01-05T07:10:00+00:00", deployed, deploymentTimeAnnotation="downscaler/deployed"), "as it is")

    def test_a_grace_period_of_zero_does_not_count(self) -> None:
        own = {"uptime": "never", "grace_period": "0"}
        self.assertEqual([wanted(f"2026-01-05T06:{minute}:00+00:00", own) for minute in (10, 15)], ["as it is", "down"])
        self.assertEqual(wanted("2026-01-05T06:00:00+00:00", own, gracePeriodSeconds=0), "down")

    def test_a_deployment_before_the_creation_does_not_end_the_grace_period(self) -> None:
        own = {"uptime": "never", "deployed": "2025-01-05T07:00:00Z"}
        self.assertEqual(wanted("2026-01-05T06:10:00+00:00", own, deploymentTimeAnnotation="downscaler/deployed"), "as it is")

    def test_unreadable_grace_periods_and_deployments_are_ignored(self) -> None:
        problems = {"downscaler/grace-period: '5m' is not a number": {"grace_period": "5m"}, "downscaler/grace-period: '-5'": {"grace_period": "-5"},
                    "downscaler/deployed: 'noon' is not a time": {"deployed": "noon"}}  # fmt: skip
        settings = Settings.of({"deploymentTimeAnnotation": "downscaler/deployed"})
        for problem, own in problems.items():
            for time, expected in (("2026-01-05T06:10:00+00:00", "as it is"), ("2026-01-05T06:15:00+00:00", "down")):
                with self.subTest((problem, time)):
                    workload = Workload(annotated(uptime="never", **own), annotated("Namespace"), settings, at(time))
                    self.assertEqual(decide(workload, False).wanted, expected)
                    self.assertEqual([problem in it for it in workload.ignored], [True])

    def test_an_invalid_annotation_is_named(self) -> None:
        problems = {
            "downscaler/uptime: 'day' is not a schedule": ({"uptime": "day"}, {}),
            "downscaler/uptime of the namespace: 'day' is not": ({}, {"uptime": "day"}),
        }  # fmt: skip
        for problem, annotations in problems.items():
            with self.subTest(problem), self.assertRaisesRegex(ValueError, problem):
                verdict(self.DAY, *annotations)

    def test_an_unreadable_exclusion_protects_and_prevents_no_uptime(self) -> None:
        own = {"uptime": BERLIN, "exclude_until": "2026-02-30"}
        found = verdict(self.NIGHT, own)
        self.assertEqual((found.wanted, found.until), ("as it is", at("2026-01-07T07:30:00+01:00")))
        self.assertEqual([wanted(self.DAY, own), wanted(self.NIGHT, own, {"force_uptime": "true"})], ["up", "up"])
        self.assertEqual(wanted(self.DAY, own, upscaleTargetOnly=True), "as it is")
        self.assertEqual(wanted(self.NIGHT, own, {"exclude": "true"}), "up", "the namespace excludes it")
        workload = Workload(annotated(**own), annotated("Namespace"), Settings.of({}), at(self.NIGHT))
        decide(workload, False)
        self.assertIn("downscaler/exclude-until: '2026-02-30' is not a time", str(workload.doubt))

    def test_a_job_with_an_owner_never_goes_down(self) -> None:
        for owners, expected in (([], "down"), ([{"apiVersion": "batch/v1", "kind": "CronJob"}], "as it is")):
            with self.subTest(owners):
                job = annotated("Job", uptime=BERLIN)
                job["metadata"]["ownerReferences"] = owners
                found = [decide(Workload(job, annotated("Namespace"), Settings.of({}), at(time)), False).wanted for time in (self.DAY, self.NIGHT)]
                self.assertEqual(found, ["up", expected])

    def test_times_have_the_forms_of_the_original(self) -> None:
        texts = ("2026-01-06T12:00:00Z", "2026-01-06T12:00", "2026-01-06 12:00")
        self.assertEqual([instant(text) - instant("2026-01-06") for text in texts], [12 * HOUR] * 3)
        for text in ("", "tomorrow", "2026-01-06T25:00", "2026-01-06T12"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "not a time: write"):
                instant(text)


class PlanTest(unittest.TestCase):
    def test_a_workload_goes_down_and_its_size_is_kept(self) -> None:
        self.assertEqual(planned(3, "down"), Change(0, {ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "0"}))
        self.assertEqual(planned(3, "down", replicas=1), Change(1, {ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "1"}))
        self.assertIsNone(planned(1, "down", replicas=1))
        self.assertIsNone(planned(3, "as it is"))

    def test_it_comes_back_with_its_size(self) -> None:
        gone = {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}
        self.assertEqual(planned(0, "up", original="3", down="0"), Change(3, gone))
        self.assertIsNone(planned(0, "up"), "it was scaled to 0 by its owner")

    def test_a_workload_that_the_original_has_scaled_comes_back_too(self) -> None:
        gone = {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}
        self.assertEqual(planned(0, "up", original="3"), Change(3, gone))
        self.assertEqual(planned(1, "up", replicas=1, original="3"), Change(3, gone))

    def test_a_size_by_another_client_stays(self) -> None:
        gone = {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}
        self.assertEqual(planned(2, "up", original="3", down="0"), Change(None, gone))
        self.assertEqual(planned(2, "down", original="3", down="0"), Change(0, {ORIGINAL_REPLICAS: "2", DOWN_REPLICAS: "0"}))

    def test_a_downtime_with_another_size_keeps_the_original_one(self) -> None:
        self.assertEqual(planned(2, "down", original="5", down="2"), Change(0, {ORIGINAL_REPLICAS: "5", DOWN_REPLICAS: "0"}))
        self.assertEqual(planned(0, "up", replicas=1, original="5", down="0"), Change(5, {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}))

    def test_an_autoscaler_keeps_one_replica(self) -> None:
        self.assertEqual(planned(3, "down", "horizontalpodautoscalers"), Change(1, {ORIGINAL_REPLICAS: "3", DOWN_REPLICAS: "1"}))

    def test_an_autoscaler_comes_back_within_its_limit(self) -> None:
        for most, size in ((9, 4), (3, 3), (1, None)):
            with self.subTest(most):
                obj = annotated(original_replicas="4")
                obj["spec"] = {"minReplicas": 1, "maxReplicas": most}
                workload = Workload(obj, annotated("Namespace"), Settings.of({}), at(CREATED))
                change = plan(KINDS["horizontalpodautoscalers"], workload, "up")
                self.assertEqual(change, Change(size, {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}))

    def test_the_cache_has_the_fields_that_decisions_need(self) -> None:
        self.assertEqual(KINDS["horizontalpodautoscalers"].fields, ["/spec/minReplicas", "/spec/maxReplicas"])
        self.assertEqual(KINDS["jobs"].fields, ["/spec/suspend", "/status/conditions"])
        self.assertEqual(KINDS["deployments"].fields, ["/spec/replicas"])

    def test_jobs_and_daemon_sets_are_switched_off(self) -> None:
        for resource in ("cronjobs", "jobs", "daemonsets"):
            with self.subTest(resource):
                self.assertEqual(planned(1, "down", resource), Change(0, {ORIGINAL_REPLICAS: "1", DOWN_REPLICAS: "0"}))
                self.assertEqual(planned(0, "up", resource, original="1"), Change(1, {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}))
                self.assertIsNone(planned(1, "down", resource, replicas=2))
                self.assertIsNone(planned(0, "up", resource))

    def test_sizes_are_in_the_fields_of_their_kinds(self) -> None:
        nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"kube-downscaler-non-existent": "true"}}}}}
        self.assertEqual(KINDS["daemonsets"].change(0), nowhere)
        self.assertEqual([KINDS["daemonsets"].size(obj) for obj in (nowhere, {}, {"spec": None})], [0, 1, 1])
        self.assertEqual(KINDS["cronjobs"].change(1), {"spec": {"suspend": False}})
        self.assertEqual([KINDS["cronjobs"].size({"spec": {"suspend": flag}}) for flag in (True, False)], [0, 1])
        self.assertEqual([KINDS["deployments"].size({"spec": spec}) for spec in ({}, {"replicas": 0})], [1, 0])

    def test_an_unreadable_size_of_downtimes_prevents_no_uptime(self) -> None:
        gone = {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}
        for left in ({DOWN_REPLICAS: "0"}, {DOWN_REPLICAS: "x"}, {}):
            with self.subTest(left):
                obj = annotated(original_replicas="3", downtime_replicas="one") | KINDS["deployments"].change(0)
                obj["metadata"]["annotations"] |= left
                workload = Workload(obj, annotated("Namespace"), Settings.of({}), at(CREATED))
                self.assertEqual(plan(KINDS["deployments"], workload, "up"), Change(3, gone))
                self.assertIn("downscaler/downtime-replicas: 'one' is not a number", str(workload.ignored))
                with self.assertRaisesRegex(ValueError, "downscaler/downtime-replicas: 'one' is not a number"):
                    plan(KINDS["deployments"], workload, "down")

    def test_an_unreadable_original_size_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "downscaler/original-replicas: 'x' is not a number"):
            planned(0, "up", original="x")


class SettingsTest(unittest.TestCase):
    def test_the_defaults_are_those_of_the_original(self) -> None:
        settings = Settings.of({})
        self.assertEqual((settings.grace, settings.replicas, set(settings.include_resources)), (900, 0, {"deployments"}))
        names = [("web", "shop"), ("web", "kube-system"), ("downscaler", "shop")]
        included = [settings.includes("deployments", {"metadata": {"name": name, "namespace": space}}) for name, space in names]
        self.assertEqual(included, [True, False, False])

    def test_workloads_outside_of_the_scope_are_not_included(self) -> None:
        scopes: dict[str, dict[str, Any]] = {
            "its namespace": {"namespaces": ["shop"], "excludeNamespaces": ["shop"]}, "another namespace": {"namespaces": ["bar"]},
            "an excluded namespace": {"excludeNamespaces": ["sh.p"]}, "an excluded name": {"excludeDeployments": ["web"]},
        }  # fmt: skip
        included = {scope: Settings.of(document).includes("deployments", annotated()) for scope, document in scopes.items()}
        self.assertEqual([scope for scope in included if included[scope]], ["its namespace"])

    def test_an_invalid_part_is_named(self) -> None:
        problems: dict[str, dict[str, Any]] = {
            "defaultUptime: 'day' is not": {"defaultUptime": "day"},
            "defaultTimezone: 'Berlin' is not": {"defaultTimezone": "Berlin"},
            "defaultWeekframe: 'workdays' is not": {"defaultWeekframe": "workdays"},
            r"excludeNamespaces: '\(' is not a regular expression": {"excludeNamespaces": ["("]},
        }
        for problem, document in problems.items():
            with self.subTest(problem), self.assertRaisesRegex(ValueError, problem):
                Settings.of(document)

    def test_jobs_with_owners_are_left_alone_unless_they_are_down(self) -> None:
        settings = Settings.of({"includeResources": ["jobs", "cronjobs"]})
        included = []
        for owners in ([], [{"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}], [{"apiVersion": "example.com/v1", "kind": "Shop"}]):
            job = annotated("Job")
            job["metadata"]["ownerReferences"] = owners
            included.append(settings.includes("jobs", job))
        self.assertEqual(included, [True, False, False])
        suspended = annotated("Job", original_replicas="1")
        suspended["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "CronJob", "controller": True}]
        self.assertTrue(settings.includes("jobs", suspended))

    def test_deployments_of_stacks_are_left_alone(self) -> None:
        included = []
        for version in ("zalando.org/v1", "example.com/v1"):
            obj = annotated()
            obj["metadata"]["ownerReferences"] = [{"apiVersion": version, "kind": "Stack", "controller": True}]
            included.append(Settings.of({}).includes("deployments", obj))
        self.assertEqual(included, [False, True])

    def test_labels_match_as_a_whole(self) -> None:
        obj = annotated()
        obj["metadata"]["labels"] = {"it-plt": "yes"}
        selected = [Settings.of({"matchingLabels": [text]}).selects(obj) for text in ("^it-plt.*", "it-plt=yes", "it-plt", "plt.*")]
        self.assertEqual(selected, [True, True, False, False])

    def test_every_annotation_has_the_prefix_of_the_original(self) -> None:
        names = [decision.UPTIME, decision.DOWNTIME, decision.EXCLUDE_UNTIL, decision.ORIGINAL_REPLICAS]
        self.assertEqual(names, ["downscaler/uptime", "downscaler/downtime", "downscaler/exclude-until", "downscaler/original-replicas"])


if __name__ == "__main__":
    unittest.main()
