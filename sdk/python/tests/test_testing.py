"""The test double, and through it the modules that call the host."""

from __future__ import annotations

import logging
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import windlass
from windlass import ApiError, ObjectRef, Reason, cache, config, http, live, metrics, owners, random, testing, triggers, writes

CRDS = Path(__file__).parents[2] / "cases" / "shop.crd.yaml"

SHOP = {
    "apiVersion": "example.dev/v1",
    "kind": "Shop",
    "metadata": {"name": "shop", "namespace": "prod", "uid": "u-1"},
    "spec": {"currency": "EUR"},
}


def pod(name: str, **labels: str) -> windlass.Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "prod", "labels": labels}}


def ref(name: str) -> ObjectRef:
    return ObjectRef("v1", "Pod", name, "prod")


class ImportTest(unittest.TestCase):
    def test_the_test_double_is_not_imported_by_the_package(self) -> None:
        told = "import sys, windlass; print(sorted(name for name in sys.modules if name.startswith('windlass')))"
        loaded = subprocess.run([sys.executable, "-c", told], check=True, capture_output=True, text=True).stdout
        self.assertIn("windlass.writes", loaded)
        self.assertNotIn("windlass.testing", loaded)


class HostTest(unittest.TestCase):
    def setUp(self) -> None:
        self.host = self.enterContext(testing.Host(SHOP, config={"registry": "r"}))
        self.host.primary = self.host.get("example.dev/v1", "Shop", "shop", "prod")

    def test_a_written_object_is_stored_as_a_copy(self) -> None:
        mine = pod("a")
        writes.create(mine, owned=True)
        found = cache.get(ref("a"))
        assert found is not None
        self.assertTrue(windlass.is_controlled_by(found, SHOP))
        found["metadata"]["name"] = "b"
        self.assertNotEqual(cache.get(ref("a")), found)
        self.assertNotIn("uid", mine["metadata"])
        self.assertIsNone(cache.get(ref("a").with_uid("another")))

    def test_a_list_goes_over_its_pages(self) -> None:
        self.host.add(*[pod(f"p{number}", app="shop") for number in range(5)], pod("other"))
        names = [one["metadata"]["name"] for one in cache.list("v1", "Pod", label_selector="app=shop", limit=2)]
        self.assertEqual(names, ["p0", "p1", "p2", "p3", "p4"])
        page = live.page("v1", "Pod", limit=4)
        self.assertEqual(len(list(cache.list("v1", "Pod", page_token=page.next_token))), 2)
        self.assertEqual((len(page.items), len(live.page("v1", "Pod", page_token=page.next_token).items)), (4, 2))

    def test_writes_check_the_stored_object_like_a_server(self) -> None:
        writes.create(pod("a"))
        for reason, act in (
            (Reason.ALREADY_EXISTS, lambda: writes.create(pod("a"))),
            (Reason.NOT_FOUND, lambda: writes.update(pod("b"))),
            (Reason.CONFLICT, lambda: writes.patch(ref("a"), {}, resource_version="0")),
            (Reason.CONFLICT, lambda: writes.delete(ref("a").with_uid("another"))),
        ):
            with self.assertRaises(ApiError) as raised:
                act()
            self.assertIs(raised.exception.reason, reason)
        writes.patch(ref("a"), {"metadata": {"labels": {"tier": "x"}}})
        writes.patch(ref("a"), [{"op": "add", "path": "/metadata/labels/a~1b", "value": "y"}], patch_type="json")
        self.assertEqual(self.host.get("v1", "Pod", "a", "prod")["metadata"]["labels"], {"tier": "x", "a/b": "y"})
        self.assertIsNone(writes.delete(ref("a")))
        self.assertIsNone(cache.get(ref("a")))

    def test_ensure_creates_or_patches_only_if_needed(self) -> None:
        def effect_of(obj: windlass.Object) -> str:
            now, effect = writes.ensure(obj)
            self.assertEqual(now, self.host.get("v1", "Pod", "a", "prod"))
            return effect

        wanted = {**pod("a", app="x"), "spec": {"args": ("a", "b")}}
        self.assertEqual([effect_of(wanted), effect_of(wanted)], ["created", "unchanged"])
        writes.patch(ref("a"), {"metadata": {"labels": {"theirs": "v"}}})
        self.assertEqual(effect_of(pod("a", app="y")), "patched")
        metadata = self.host.get("v1", "Pod", "a", "prod")["metadata"]
        self.assertEqual(metadata["labels"], {"app": "y", "theirs": "v"})
        self.assertEqual(self.host.writes[2].target, ref("a").with_uid(metadata["uid"]))
        self.assertEqual([write.verb for write in self.host.writes], ["create", "patch", "patch"])

    def test_ensure_refuses_an_object_of_another_controller(self) -> None:
        def owned_by(name: str) -> windlass.Object:
            owner = {"apiVersion": "v1", "kind": "Shop", "name": name, "uid": f"u-{name}", "controller": True}
            return {**pod("a"), "metadata": {**pod("a")["metadata"], "ownerReferences": [owner]}}

        self.host.add(owned_by("theirs"))
        with self.assertRaises(ApiError) as raised:
            writes.ensure(owned_by("ours"))
        self.assertIs(raised.exception.reason, Reason.ALREADY_EXISTS)
        self.assertEqual(str(raised.exception), "ensure Pod Pod prod/a: AlreadyExists: it exists, and Shop theirs controls it")
        self.assertEqual(self.host.writes, [])

    def test_an_object_without_a_name_is_refused_before_any_read(self) -> None:
        with self.assertRaisesRegex(ValueError, "the object to write has no metadata.name"):
            writes.ensure({"apiVersion": "v1", "kind": "Pod", "metadata": {}})

    def test_options_are_recorded(self) -> None:
        writes.apply(pod("a"), owned=True, force=True)
        writes.delete(ref("a"), propagation="orphan")
        self.assertEqual([write.options for write in self.host.writes], [{"owned": True, "force": True}, {"propagation": "orphan"}])

    def test_the_common_subresources_are_written_as_their_kinds_have_them(self) -> None:
        self.host.add(pod("a"))
        writes.apply_status(ref("a"), {"phase": "Running"})
        writes.scale(ref("a"), 3)
        writes.evict(ref("a").with_uid("u-9"))
        status, scale, eviction = self.host.writes
        self.assertEqual((status.body["status"], status.options), ({"phase": "Running"}, {"subresource": "status", "force": True}))
        self.assertEqual((scale.body, scale.options["subresource"]), ({"spec": {"replicas": 3}}, "scale"))
        self.assertEqual(eviction.body["deleteOptions"], {"preconditions": {"uid": "u-9"}})
        self.assertEqual(eviction.options, {"subresource": "eviction", "parent": ref("a")})

    def test_evicting_a_missing_pod_succeeds_and_a_refusal_fails(self) -> None:
        self.host.fail("create", Reason.NOT_FOUND, times=1)
        writes.evict(ref("a"))
        self.host.fail("create", Reason.TOO_MANY_REQUESTS)
        with self.assertRaises(ApiError):
            writes.evict(ref("a"))

    def test_live_reads_have_views_and_parts(self) -> None:
        self.host.add({**pod("a"), "spec": {"replicas": 3, "paused": True}})
        whole = live.get(ref("a"), metadata_only=True)
        self.assertEqual((whole or {}).keys(), {"apiVersion", "kind", "metadata"})
        self.assertEqual((live.get(ref("a"), fields=["/spec/replicas"]) or {})["spec"], {"replicas": 3})
        scale = live.get(ref("a"), subresource="scale") or {}
        self.assertEqual((scale["kind"], scale["spec"]), ("Scale", {"replicas": 3}))
        [listed] = live.list("v1", "Pod", metadata_only=True)
        self.assertNotIn("spec", listed)
        with self.assertRaises(ApiError):
            live.get(ref("a"), subresource="binding")

    def test_the_test_sets_logs_and_served_kinds(self) -> None:
        with self.assertRaises(ApiError):
            live.log(ref("a"))
        self.host.pod_logs[ref("a")] = "one\ntwo\nthree\n"
        self.assertEqual(live.log(ref("a").with_uid("u"), tail_lines=2), "two\nthree\n")
        self.assertEqual(live.log(ref("a"), container="c", limit_bytes=5), "one\nt")
        served = live.served("v1", "Pod")
        self.assertEqual(served and served.resource, "pods")
        self.host.unserved.add(("v1", "Pod"))
        self.assertIsNone(live.served("v1", "Pod"))

    def test_the_kinds_of_the_host_are_listed_once_by_group_and_kind(self) -> None:
        self.host.define(CRDS.read_text())
        for version in ("v2", "v1"):
            self.host.add({"apiVersion": f"autoscaling/{version}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": version}})
        self.host.add(pod("y"), pod("z"), {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        self.host.unserved.add(("v1", "Node"))
        kinds = [(listed.api_version, listed.kind) for listed in live.kinds()]
        self.assertEqual(kinds, [
            ("v1", "Pod"), ("autoscaling/v1", "HorizontalPodAutoscaler"), ("example.com/v1", "Shop"), ("example.dev/v1", "Shop"),
        ])  # fmt: skip
        self.assertEqual(live.kinds()[0].served, live.served("v1", "Pod"))
        self.host.fail("kinds", times=1)
        with self.assertRaises(ApiError):
            live.kinds()

    def test_a_write_returns_the_fields_that_it_names_and_keeps_the_rest(self) -> None:
        self.host.add(pod("w"))
        uid = self.host.get("v1", "Pod", "w", "prod")["metadata"]["uid"]
        identity = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w", "namespace": "prod", "uid": uid}}
        wanted = {**pod("w"), "spec": {"node": "a", "image": "x"}}
        self.assertEqual(writes.apply(wanted, fields=["/spec/node", "/spec/none"]), {**identity, "spec": {"node": "a"}})
        self.assertEqual(writes.update(wanted, fields=[]), identity)
        [patched] = writes.batch([writes.op_patch(ref("w"), {"spec": {"node": "b"}}, fields=["/spec/node"])])
        self.assertEqual(patched, {**identity, "spec": {"node": "b"}})
        self.assertEqual(self.host.get("v1", "Pod", "w", "prod")["spec"], {"node": "b", "image": "x"})
        given = [write.options.get("fields") for write in self.host.writes]
        self.assertEqual(given, [["/spec/node", "/spec/none"], [], ["/spec/node"]])

    def test_a_review_is_answered_and_not_stored(self) -> None:
        self.host.answers["SubjectAccessReview"] = {"status": {"allowed": True}}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}}
        before = list(self.host.objects)
        self.assertEqual(writes.create(review), {"status": {"allowed": True}})
        self.assertEqual((self.host.writes[0].target.name, list(self.host.objects)), ("", before))

    def test_a_collection_is_deleted_by_its_labels(self) -> None:
        labels = {"app": "web"}
        for name in ("a", "b"):
            self.host.add({**pod(name), "metadata": {"name": name, "namespace": "prod", "labels": labels}})
        self.host.add({**pod("c"), "metadata": {"name": "c", "namespace": "prod"}})
        with self.assertRaises(ApiError):
            writes.delete_collection("v1", "Pod")
        deleted = writes.delete_collection("v1", "Pod", namespace="prod", label_selector="app=web")
        self.assertEqual([target.name for target in deleted or []], ["a", "b"])
        self.assertEqual([key[3] for key in self.host.objects if key[1] == "Pod"], ["c"])
        writes.apply(pod("d"), manager_suffix="tls")
        self.assertEqual(self.host.writes[-1].options, {"manager_suffix": "tls"})

    def test_a_batch_answers_each_operation_in_its_place(self) -> None:
        self.host.fail("create", Reason.FORBIDDEN, name="b")
        results = writes.batch([writes.op_create(pod("a")), writes.op_create(pod("b")), writes.op_delete(ref("a"))])
        self.assertEqual([type(result).__name__ for result in results], ["dict", "ApiError", "NoneType"])
        with self.assertRaises(ApiError):
            windlass.Failures(results).raise_any()

    def test_a_request_fails_as_often_as_the_test_sets(self) -> None:
        self.host.fail("get", Reason.NOT_WATCHED, kind="Pod", times=1)
        with self.assertRaises(ApiError):
            cache.get(ref("a"))
        self.assertEqual(cache.get_many([ref("a")]), [None])
        self.host.fail("get", Reason.EXPIRED)
        [failed] = cache.get_many([ref("a")])
        self.assertIsInstance(failed, ApiError)

    def test_a_claim_adopts_and_releases_by_labels(self) -> None:
        self.host.add(pod("mine", app="shop"), pod("other"))
        claimed = owners.claim("v1", "Pod", "app=shop")
        self.assertEqual([one.name for one in claimed.adopted], ["mine"])
        self.assertEqual([one["metadata"]["name"] for one in cache.list("v1", "Pod", owned=True)], ["mine"])
        self.assertEqual([one.name for one in owners.claim("v1", "Pod", "app=other").released], ["mine"])

    def test_log_lines_events_and_metrics_are_recorded(self) -> None:
        windlass.events.warning("Bad", "Reconcile", "it is bad")
        logging.getLogger("shop").info("hello %s", "you", extra={"name": "shop", "n": 1})
        windlass.log.warning("look", at="it")
        metrics.Counter("runs", "Runs.", ["result"]).add(result="ok")
        try:
            raise ValueError("boom")
        except ValueError:
            logging.getLogger("shop").exception("failed")
        self.assertEqual(self.host.events[0].reason, "Bad")
        hello, look, failed = self.host.logs
        self.assertEqual((hello.level, hello.message, hello.fields), ("info", "hello you", {"name": "shop", "n": "1"}))
        self.assertEqual((look.level, look.fields), ("warn", {"at": "it"}))
        self.assertIn("ValueError: boom", failed.fields["stack"])
        self.assertEqual(self.host.metrics, [testing.MetricValue("add", "runs", 1.0, {"result": "ok"})])

    def test_time_and_randomness_are_the_same_each_time(self) -> None:
        self.assertEqual(str(windlass.clock.now()), "2026-11-21T10:48:45Z")
        self.host.advance(60)
        self.assertEqual(str(windlass.clock.now()), "2026-11-21T10:49:45Z")
        drawn = random.number(), random.bytes(3)
        with testing.Host():
            self.assertEqual((random.number(), random.bytes(3)), drawn)
        self.assertEqual(config.get(), {"registry": "r"})

    def test_the_test_sets_the_triggers(self) -> None:
        self.assertEqual(triggers.list(), [])
        told = [triggers.Trigger("Changed", "pods", ref("a")), triggers.Trigger("Resync")]
        self.host.triggers += told
        self.assertEqual(triggers.list(), told)
        self.assertEqual([str(trigger) for trigger in triggers.list()], ["Changed Pod prod/a", "Resync"])

    def test_http_returns_the_responses_of_the_test(self) -> None:
        self.host.respond("POST", "https://a.dev/x", http.Response(201, [("a", "b")], '{"id": 7}'))
        response = http.post("https://a.dev/x", json={"size": 1}, headers={"x": "y"}, timeout=2).raise_for_status()
        self.assertEqual((response.json(), response.header("A"), response.content), ({"id": 7}, "b", b'{"id": 7}'))
        sent = self.host.requests[0]
        self.assertEqual((sent.body, sent.timeout_ms), ('{"size":1}', 2000))
        self.assertEqual(sent.headers, [("x", "y"), ("content-type", "application/json")])
        with self.assertRaises(http.HttpError) as raised:
            http.get("https://b.dev")
        self.assertIs(raised.exception.reason, http.HttpReason.NOT_GRANTED)
        with self.assertRaisesRegex(http.HttpError, "answered with status 404"):
            http.Response(404).raise_for_status()

    def test_a_reconcile_gets_the_given_object(self) -> None:
        seen: list[Any] = []

        def reconcile(request: windlass.Request) -> windlass.Outcome:
            seen.append((request.name, request.namespace, request.uid, request.deleting, request.object is not None))
            seen.append(request.beside("v1", "Secret"))
            return windlass.requeue_after(1)

        self.assertEqual(self.host.reconcile(reconcile, SHOP), windlass.RequeueAfter(1000))
        self.assertEqual(seen[0], ("shop", "prod", "u-1", False, True))
        self.assertEqual(seen[1], ObjectRef("v1", "Secret", "shop", "prod"))

    def test_a_primary_without_uid_is_the_same_at_each_reconcile(self) -> None:
        shop = {**SHOP, "metadata": {"name": "new", "namespace": "prod"}}
        owned: list[int] = []

        def reconcile(request: windlass.Request) -> windlass.Outcome:
            owned.append(len(list(cache.list("v1", "Pod", owned=True))))
            writes.apply(pod("child"), owned=True)
            return windlass.DONE

        self.host.reconcile(reconcile, shop)
        self.host.reconcile(reconcile, shop)
        self.assertEqual(owned, [0, 1])
        self.assertEqual(len(self.host.get("v1", "Pod", "child", "prod")["metadata"]["ownerReferences"]), 1)

    def test_a_dry_run_deletion_changes_nothing(self) -> None:
        held = pod("held")
        held["metadata"]["finalizers"] = ["example.dev/hold"]
        self.host.add(held, pod("free"))
        answer = writes.delete(ref("held"), dry_run=True)
        assert answer is not None
        self.assertIn("deletionTimestamp", answer["metadata"])
        self.assertNotIn("deletionTimestamp", self.host.get("v1", "Pod", "held", "prod")["metadata"])
        self.assertIsNone(writes.delete(ref("free"), dry_run=True))
        self.assertIsNotNone(cache.get(ref("free")))
        writes.delete(ref("held"))
        self.assertIn("deletionTimestamp", self.host.get("v1", "Pod", "held", "prod")["metadata"])

    def test_a_composition_request_finds_children_and_related_objects(self) -> None:
        def compose(request: windlass.CompositionRequest) -> windlass.Composition:
            self.assertEqual(request.child("v1", "Pod", "a"), pod("a"))
            self.assertIsNone(request.child("v1", "Pod"))
            self.assertEqual(request.related_object("v1", "Pod", "b"), pod("b"))
            self.assertIsNone(request.related_object("v1", "Pod", "b", namespace="test"))
            return windlass.Composition(children=request.children, status=request.config)

        composition = self.host.compose(compose, SHOP, children=[pod("a")], related=[pod("b")])
        self.assertEqual((composition.children, composition.status), ([pod("a")], {"registry": "r"}))


class NoHostTest(unittest.TestCase):
    def test_a_call_without_a_host_names_the_missing_host(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "windlass.cache.get needs the Windlass host; in a test, use"):
            cache.get(ref("a"))
        with self.assertRaisesRegex(RuntimeError, "windlass.writes.apply needs"):
            writes.apply(pod("a"))
        with self.assertRaisesRegex(RuntimeError, "windlass.triggers.list needs"):
            triggers.list()
        self.assertEqual(config.get(), {})


if __name__ == "__main__":
    unittest.main()
