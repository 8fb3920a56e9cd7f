"""Tests of the pure parts."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import lifetimes
import rules
from lifetimes import Verdict, annotated, instant, ttl_seconds
from rules import Rule
from settings import Settings

#: The time at which the objects of the tests were created.
CREATED = "2026-01-05T12:00:00Z"
BIRTH = instant(CREATED)


def obj(kind: str = "Deployment", name: str = "web", namespace: str | None = "shop", **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "creationTimestamp": CREATED, "annotations": annotations, "labels": {"app": name}, "generation": 1}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata if namespace is None else {**metadata, "namespace": namespace}}


def with_ttl(ttl: str, **more: str) -> Verdict:
    return annotated(obj(**{lifetimes.TTL: ttl}, **more), "deployed")


def rule(jmespath: str, ttl: str = "4h", *resources: str, id: str = "r") -> Rule:
    return Rule.of({"id": id, "resources": resources or ("deployments",), "jmespath": jmespath, "ttl": ttl})


def context_of(users: dict[str, list[dict[str, Any]]]) -> Callable[[str], tuple[bool, ...]]:
    """The context of claims by their names, where these objects may refer to them."""
    return lambda claim: tuple(rules.claim_context(claim, lambda user: users.get(user.kind, [])).values())


class LifetimesTest(unittest.TestCase):
    def test_a_time_to_live_is_a_number_and_a_unit(self) -> None:
        seconds = [ttl_seconds(text) for text in ("120s", "5m", "8h", "7d", "2w", "0s", "forever", "Forever")]
        self.assertEqual(seconds, [120, 300, 28_800, 604_800, 1_209_600, None, None, None])

    def test_a_time_to_live_of_zero_never_ends(self) -> None:
        for text in ("0s", "0m", "000d", "0w"):
            with self.subTest(text):
                self.assertEqual((ttl_seconds(text), with_ttl(text)), (None, Verdict()))
                self.assertIsNone(rules.soonest([rule("metadata.name", text)], obj()))

    def test_other_times_to_live_are_refused(self) -> None:
        for text in ("", "5", "m", "-5m", "5 m", "5M", "1.5h", "5m\n", "٥m", "1h30m"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "not a time to live: write"):
                ttl_seconds(text)

    def test_a_time_has_a_date_and_maybe_a_time_of_day_in_utc(self) -> None:
        self.assertEqual(instant("2026-01-05T12:00"), BIRTH)
        self.assertEqual(instant("2026-1-5T12:0"), BIRTH)
        self.assertEqual(instant("2026-01-05"), BIRTH - 12 * 3_600)
        self.assertEqual(instant("2028-02-29T00:00:01Z") - instant("2028-02-28"), 86_401)

    def test_other_times_are_refused(self) -> None:
        for text in ("", "2026-02-30", "2026-13-01", "2026-01-05T24:00", "2026-01-05T12:00:00", "tomorrow", "0000-01-01"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "not a time: write"):
                instant(text)

    def test_the_age_counts_from_the_creation(self) -> None:
        deadline = with_ttl("1h").deadline
        assert deadline is not None
        self.assertEqual((deadline.due, deadline.reason), (BIRTH + 3_600, "TimeToLiveExpired"))

    def test_the_age_counts_from_the_latest_deployment_if_it_is_annotated(self) -> None:
        deadline = with_ttl("1h", deployed="2026-01-06T12:00:00Z").deadline
        assert deadline is not None
        self.assertEqual(deadline.due, BIRTH + 86_400 + 3_600)

    def test_a_deployment_before_the_creation_does_not_count(self) -> None:
        deadline = with_ttl("1h", deployed="2020-01-06T12:00:00Z").deadline
        assert deadline is not None
        self.assertEqual(deadline.due, BIRTH + 3_600)

    def test_an_object_whose_deployment_has_no_valid_time_stays(self) -> None:
        verdict = with_ttl("1h", deployed="yesterday")
        self.assertIsNone(verdict.deadline)
        self.assertIn("janitor/ttl: deployed: 'yesterday' is not a time", verdict.problems[0])

    def test_the_earlier_of_both_annotations_counts(self) -> None:
        verdicts = [with_ttl(ttl, **{lifetimes.EXPIRES: "2026-01-06"}) for ttl in ("1h", "7d", "forever")]
        reasons = [verdict.deadline and verdict.deadline.reason for verdict in verdicts]
        self.assertEqual(reasons, ["TimeToLiveExpired", "ExpiryTimeReached", "ExpiryTimeReached"])

    def test_an_invalid_annotation_does_not_hide_the_other_one(self) -> None:
        verdict = with_ttl("soon", **{lifetimes.EXPIRES: "2026-01-06"})
        self.assertEqual(verdict.deadline and verdict.deadline.reason, "ExpiryTimeReached")
        self.assertEqual(len(verdict.problems), 1)

    def test_an_object_without_annotations_stays(self) -> None:
        self.assertEqual(annotated({"kind": "Pod", "metadata": {"name": "a", "creationTimestamp": CREATED}}, None), Verdict())


class RulesTest(unittest.TestCase):
    def test_resources_are_the_plurals_of_kinds(self) -> None:
        kinds = {
            "Deployment": "deployments", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies", "Gateway": "gateways",
            "Endpoints": "endpoints", "StatefulSet": "statefulsets",
        }  # fmt: skip
        self.assertEqual({kind: rules.plural(kind) for kind in kinds}, kinds)

    def test_a_rule_is_about_its_resources_or_about_all(self) -> None:
        some, all = rule("metadata", "4h", "deployments", "pods"), rule("metadata", "4h", "*")
        self.assertEqual(rules.rules_for([some, all], "pods"), [some, all])
        self.assertEqual(rules.rules_for([some, all], "services"), [all])

    def test_a_rule_matches_true_and_what_is_not_empty(self) -> None:
        matches = {text: rule(text).matches(obj()) for text in (
            "metadata.name == 'web'", "metadata.labels", "metadata.labels.app", "metadata.labels.other", "metadata.annotations",
            "metadata.generation", "starts_with(metadata.labels.other, 'a')", "!(spec.template)", "`[]`",
        )}  # fmt: skip
        self.assertEqual(list(matches.values()), [True, True, True, False, False, False, False, True, False], matches)

    def test_an_invalid_expression_names_its_rule(self) -> None:
        with self.assertRaisesRegex(ValueError, "the rule r: its jmespath is invalid"):
            rule("metadata.")

    def test_a_rule_knows_which_members_of_an_object_it_looks_at(self) -> None:
        members = {
            "starts_with(metadata.name, 'pr-')": {"metadata"},
            "!(spec.template.metadata.labels.foo) && metadata.creationTimestamp > '2019-04-01'": {"spec", "metadata"},
            "_context.pvc_is_not_mounted || metadata.labels.a": {"_context", "metadata"},
            "spec.containers[?image == 'a'].name | [0]": {"spec"},
            "spec.template.spec.containers[*].image": {"spec"},
            "length(metadata.ownerReferences || `[]`) == `0`": {"metadata"},
            "{a: kind, b: metadata.name}": {"kind", "metadata"},
            "contains(keys(@), 'data')": {"*"},
            "*.replicas": {"*"},
            "metadata.ownerReferences[0].kind": {"metadata"},
            "metadata.ownerReferences[?kind == 'Job'].name": {"metadata"},
            "metadata.resourceVersion": {"*"},
            "metadata && !(metadata)": {"metadata"},
            "spec.items[?contains(@, 'a')]": {"spec"},
        }
        self.assertEqual({text: set(rule(text).members) for text in members}, members)

    def test_a_rule_cannot_look_at_managed_fields(self) -> None:
        for text in (
            "!(metadata.managedFields[?manager == 'a'])", "!contains(to_string(metadata.managedFields), 'a')", "contains(to_string(metadata), 'a')",
            "contains(to_string(@), 'a')", "metadata.*", "metadata.[name]", "metadata | managedFields", "metadata == `1`", "[metadata]", "*", "*.*",
            'metadata."managedFields"[0].manager', "*.managedFields", "@.metadata.managedFields", "length(metadata)", "keys(metadata)", "{a: @}",
            "contains(to_string(metadata || spec), 'a')", "(metadata && spec) | managedFields",
        ):  # fmt: skip
            with self.subTest(text), self.assertRaisesRegex(ValueError, "the rule r: its jmespath depends on metadata.managedFields"):
                rule(text)

    def test_a_match_by_metadata_hides_the_rules_after_it(self) -> None:
        named, other, body = rule("metadata.name == 'web'", "4h"), rule("metadata.name", "1h"), rule("spec.replicas", "2h")
        self.assertEqual(rules.soonest([named, other], obj()), 4 * 3_600)
        self.assertEqual(rules.soonest([body, named, other], obj()), 2 * 3_600)
        self.assertEqual(rules.soonest([named, body], obj()), 4 * 3_600)
        self.assertIsNone(rules.soonest([rule("metadata.name", "forever"), body], obj()))
        self.assertIsNone(rules.soonest([rule("metadata.name == 'other'")], obj()))

    def test_the_first_match_decides(self) -> None:
        found = [rule("spec.absent", id="a"), rule("metadata.name", id="b"), rule("kind", id="c")]
        self.assertIs(rules.first_match(found, obj()), found[1])
        self.assertIsNone(rules.first_match(found[:1], obj()))

    def test_changes_of_specs_are_noticed_only_for_kinds_with_generations(self) -> None:
        body, status = [rule("spec.replicas")], [rule("status.phase")]
        claim = obj("PersistentVolumeClaim")
        del claim["metadata"]["generation"]
        seen = [rules.is_noticed(body, obj()), rules.is_noticed(status, obj()), rules.is_noticed(body, claim)]
        self.assertEqual(seen, [True, False, False])

    def test_the_context_is_read_only_if_a_match_depends_on_it(self) -> None:
        free = "_context.pvc_is_not_mounted && _context.pvc_is_not_referenced"
        claim = obj("PersistentVolumeClaim", "data")
        read = {"pvc_is_not_mounted": True, "pvc_is_not_referenced": False}
        for text, is_read in ((free, True), (f"metadata.labels.other && {free}", False), (f"metadata.labels.app || {free}", False)):
            with self.subTest(text):
                reads: list[int] = []
                found = [rule(text, "4h", "*")]
                seen = rules.with_context(claim, found, lambda: reads.append(1) or read)
                self.assertEqual((len(reads), rules.first_match(found, seen) is found[0]), (int(is_read), "app ||" in text))
                self.assertEqual(rules.judged(found[0], claim) is None, is_read)
        self.assertIs(rules.judged(rule(free), obj()), False, "only claims have a context")

    def test_a_mounted_claim_is_also_referenced(self) -> None:
        volumes = [{"name": "a", "emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "data"}}]
        context = context_of({"Pod": [{"metadata": {"name": "p"}, "spec": {"volumes": volumes}}, {"metadata": {"name": "q"}}]})
        self.assertEqual([context("data"), context("free")], [(False, False), (True, True)])

    def test_claims_of_templates_are_referenced_without_pods(self) -> None:
        spec: dict[str, Any] = {"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}}
        for kind in ("Deployment", "StatefulSet", "Job", "CronJob"):
            with self.subTest(kind):
                template = {"jobTemplate": {"spec": {"template": spec}}} if kind == "CronJob" else {"template": spec}
                context = context_of({kind: [{"metadata": {"name": "a"}, "spec": template}]})
                self.assertEqual([context("data"), context("free")], [(True, False), (True, True)])

    def test_a_stateful_set_refers_to_claims_by_their_names(self) -> None:
        context = context_of({
            "StatefulSet": [{"metadata": {"name": "db"}, "spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}]
        })  # fmt: skip
        self.assertEqual([context(name) for name in ("data-db-0", "data-db-x")], [(True, False), (True, True)])

    def test_only_fields_about_claims_are_read(self) -> None:
        fields = {user.kind: user.fields for user in (rules.POD, *rules.OWNERS_OF_PODS)}
        self.assertEqual(fields["Pod"], ["/spec/volumes"])
        self.assertEqual(fields["StatefulSet"], ["/spec/template/spec/volumes", "/spec/volumeClaimTemplates"])
        self.assertEqual(fields["CronJob"], ["/spec/jobTemplate/spec/template/spec/volumes"])


class SettingsTest(unittest.TestCase):
    def test_an_invalid_rule_puts_all_rules_out_of_force(self) -> None:
        good = {"id": "a", "resources": ["*"], "jmespath": "metadata", "ttl": "4h"}
        settings = Settings.of({"rules": [good, {**good, "id": "b", "jmespath": "("}]})
        self.assertEqual((settings.rules, len(settings.problems)), ((), 1))

    def test_a_rule_names_plurals_of_configured_kinds(self) -> None:
        kinds = [{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "mongodb.com/v1", "kind": "MongoDB"}]
        about = {"id": "a", "jmespath": "kind", "ttl": "forever"}
        problems = {}
        for resources in (["pods"], ["*"], ["pods", "mongodb"], ["services"]):
            document = {"ruleKinds": kinds, "rules": [{**about, "resources": resources}]}
            problems[tuple(resources)] = len(Settings.of(document).problems)
        self.assertEqual(list(problems.values()), [0, 0, 1, 1], problems)
        settings = Settings.of({"ruleKinds": kinds, "plurals": {"MongoDB": "mongodb"}, "rules": [{**about, "resources": ["mongodb"]}]})
        self.assertEqual([len(settings.rules), settings.plural_of("MongoDB"), settings.plural_of("Pod")], [1, "mongodb", "pods"])

    def test_namespaces_are_excluded_before_they_are_included(self) -> None:
        settings = Settings.of({"includeNamespaces": ["shop", "bar"], "excludeNamespaces": ["bar"]})
        covered = [settings.covers(obj(namespace=name)) for name in ("shop", "bar", "other", None)]
        self.assertEqual(covered, [True, False, False, False])

    def test_a_namespace_counts_as_inside_itself(self) -> None:
        of = [Settings.of({}).covers(obj("Namespace", name, None)) for name in ("kube-system", "shop")]
        self.assertEqual(of, [False, True])

    def test_other_cluster_scoped_objects_are_never_covered(self) -> None:
        other = obj("Namespace", "shop", None) | {"apiVersion": "example.com/v1"}
        self.assertEqual([Settings.of({}).covers(it) for it in (obj("PersistentVolume", "data", None), other)], [False, False])


if __name__ == "__main__":
    unittest.main()
