"""Tests of the pure parts: the desired children, the decisions about them, and the status."""

from __future__ import annotations

import copy
import dataclasses
import unittest
from collections.abc import Callable

import children
from api import Spec, Status, WebApp
from children import Decision
from status import PROGRESSING, READY, Problem, new_status
from windlass import ApiError, Object, ObjectRef, Reason, conditions
from windlass.clock import Timestamp

NOW = Timestamp(1_795_258_125, 0)


def new_app() -> WebApp:
    """A `WebApp` of generation 1 that was never reconciled."""
    return WebApp.of(
        {
            "metadata": {"name": "shop", "namespace": "default", "uid": "u-1", "generation": 1},
            "spec": {"image": "nginx"},
        }
    )


def stored(wanted: Object) -> Object:
    """A child as the server stores it, with defaults and an owner."""
    obj = copy.deepcopy(wanted)
    obj["metadata"] |= {"resourceVersion": "7", "generation": 1, "ownerReferences": [{"uid": "u-1", "controller": True}]}
    obj["spec"]["sessionAffinity"] = "None"
    return obj


def ready_deployment(app: WebApp, ready: int = 2, generation: int = 1) -> Object:
    deployment = stored(children.deployment(app).wanted)
    deployment["metadata"]["generation"] = generation
    deployment["status"] = {"observedGeneration": 1, "readyReplicas": ready, "updatedReplicas": 2}
    return deployment


def running_app() -> WebApp:
    """An app like `new_app`, whose replicas have become ready."""
    app = new_app()
    return dataclasses.replace(app, status=new_status(app, ready_deployment(app), None, NOW))


def decide_service(app: WebApp, edit: Callable[[Object], object]) -> Decision:
    service = children.service(app)
    cached = stored(service.wanted)
    edit(cached)
    return children.decide(app, service, cached)


def condition(status: Status, type: str) -> Object:
    found = conditions.find(status.conditions, type)
    assert found is not None
    return dict(found)


class ChildrenTest(unittest.TestCase):
    def test_the_plugins_defaults_equal_those_of_the_schema(self) -> None:
        self.assertEqual(new_app().spec, Spec("nginx", 2, 8080))

    def test_the_service_selects_the_pods_and_names_their_port(self) -> None:
        deployment, service = children.deployment(new_app()).wanted, children.service(new_app()).wanted
        template = deployment["spec"]["template"]
        self.assertLessEqual(service["spec"]["selector"].items(), template["metadata"]["labels"].items())
        self.assertEqual(deployment["spec"]["selector"]["matchLabels"], service["spec"]["selector"])
        port = template["spec"]["containers"][0]["ports"][0]
        self.assertEqual((service["spec"]["ports"][0]["targetPort"], port["containerPort"]), (port["name"], 8080))

    def test_a_missing_child_is_created_first_and_healed_later(self) -> None:
        child = children.service(new_app())
        self.assertIs(children.decide(new_app(), child, None), Decision.CREATE)
        self.assertIs(children.decide(running_app(), child, None), Decision.HEAL)

    def test_an_unchanged_child_is_left_alone(self) -> None:
        self.assertIs(decide_service(running_app(), lambda service: None), Decision.LEAVE)

    def test_fields_of_others_in_a_child_are_left_alone(self) -> None:
        decision = decide_service(running_app(), lambda service: service["metadata"]["labels"].update(team="a"))
        self.assertIs(decision, Decision.LEAVE)

    def test_an_edited_child_is_healed(self) -> None:
        for edit in (
            lambda service: service["spec"]["ports"][0].update(port=81),
            lambda service: service["spec"]["selector"].update(tier="x"),
        ):
            self.assertIs(decide_service(running_app(), edit), Decision.HEAL)

    def test_a_child_of_another_spec_is_updated(self) -> None:
        app = running_app()
        scaled = dataclasses.replace(app, spec=Spec("nginx", 5), generation=2)
        decision = children.decide(scaled, children.deployment(scaled), ready_deployment(app))
        self.assertIs(decision, Decision.UPDATE)

    def test_a_deleting_child_is_left_until_it_is_gone(self) -> None:
        def end(service: Object) -> None:
            service["metadata"]["deletionTimestamp"] = "2026-11-21T10:48:45Z"
            service["spec"]["ports"] = []

        self.assertIs(decide_service(running_app(), end), Decision.LEAVE)

    def test_an_object_of_another_owner_is_not_adopted(self) -> None:
        owners = [{"uid": "u-2", "controller": True}]
        taken = decide_service(new_app(), lambda service: service["metadata"].update(ownerReferences=owners))
        self.assertIs(taken, Decision.NAME_TAKEN)
        hand_made = decide_service(new_app(), lambda service: service.update(metadata={"name": "shop"}))
        self.assertIs(hand_made, Decision.NAME_TAKEN)

    def test_an_orphan_with_our_labels_is_adopted(self) -> None:
        decision = decide_service(running_app(), lambda service: service["metadata"].update(ownerReferences=[]))
        self.assertIs(decision, Decision.HEAL)

    def test_a_changed_port_is_removed_before_the_apply(self) -> None:
        deployment = children.deployment(running_app()).wanted
        edited = stored(deployment)
        edited["spec"]["template"]["spec"]["containers"] = [
            {"name": "sidecar", "ports": [{"containerPort": 1}]},
            {"name": "web", "image": "nginx", "ports": [{"name": "http", "containerPort": 81, "protocol": "TCP"}]},
        ]
        ports = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
        cut = {"op": "replace", "path": "/spec/template/spec/containers/1/ports", "value": ports}
        self.assertEqual(children.surplus(edited, deployment), [cut])
        self.assertEqual(children.surplus(stored(deployment), deployment), [])


class StatusTest(unittest.TestCase):
    def test_a_new_app_is_pending_until_all_replicas_are_ready(self) -> None:
        pending = new_status(new_app(), ready_deployment(new_app(), ready=1), None, NOW)
        self.assertEqual((pending.phase, pending.ready_replicas), ("Pending", 1))
        self.assertEqual(condition(pending, READY)["message"], "1 of 2 replicas are ready")
        self.assertEqual(running_app().status.phase, "Running")

    def test_an_app_that_loses_a_replica_is_degraded_until_it_is_back(self) -> None:
        app = running_app()
        degraded = new_status(app, ready_deployment(app, ready=1), None, NOW)
        self.assertEqual(degraded.phase, "Degraded")
        app = dataclasses.replace(app, status=degraded)
        self.assertEqual(new_status(app, ready_deployment(app), None, NOW).phase, "Running")

    def test_a_running_app_that_is_scaled_up_is_pending_not_degraded(self) -> None:
        app = dataclasses.replace(running_app(), spec=Spec("nginx", 4), generation=2)
        scaled = new_status(app, ready_deployment(running_app()), None, NOW)
        self.assertEqual((scaled.phase, scaled.observed_generation), ("Pending", 2))
        self.assertEqual(condition(scaled, PROGRESSING)["status"], "True")

    def test_a_deployment_status_for_an_older_spec_does_not_count(self) -> None:
        deployment = ready_deployment(new_app(), generation=2)
        self.assertEqual(new_status(new_app(), deployment, None, NOW).phase, "Pending")

    def test_an_unchanged_status_stays_equal_over_time(self) -> None:
        app = running_app()
        later = NOW._replace(seconds=NOW.seconds + 60)
        self.assertEqual(new_status(app, ready_deployment(app), None, later), app.status)

    def test_an_empty_image_is_a_problem_that_is_reported_once(self) -> None:
        app = new_app()
        self.assertIsNone(Problem.of_spec(app.spec))
        app = dataclasses.replace(app, spec=Spec(" \t"))
        problem = Problem.of_spec(app.spec)
        assert problem is not None
        self.assertTrue(problem.is_news(app))
        app = dataclasses.replace(app, status=new_status(app, None, problem, NOW))
        self.assertFalse(problem.is_news(app))
        ready = condition(app.status, READY)
        self.assertEqual((ready["status"], ready["reason"]), ("False", "Invalid"))

    def test_only_a_lasting_refusal_is_a_problem(self) -> None:
        child = ObjectRef("v1", "Service", "shop", "default")
        lasting = Problem.lasting(ApiError(Reason.INVALID, "message", verb="patch", resource="services", object=child))
        self.assertEqual(lasting, Problem("ApplyFailed", "patch services Service default/shop: Invalid: message"))
        self.assertIsNone(Problem.lasting(ApiError(Reason.CONFLICT)))
        self.assertIsNone(Problem.lasting(ApiError(Reason.SERVER_ERROR)))


if __name__ == "__main__":
    unittest.main()
