"""The values that are passed to the host: `_wit` and `_entry`, on bindings that record their arguments."""

from __future__ import annotations

import enum
import importlib
import sys
import unittest
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import windlass
from windlass import ApiError, ObjectRef, Reason, _entry, _host, cache, events, http, live, metrics, owners, triggers, writes
from windlass._mapping import Customize, Map, Matches
from windlass.manifest import Controller, Manifest, MappedWatch, Mapping, Watch

MANIFEST = Manifest("shop", "0.1.0", controllers=[Controller("shop", primary=Watch("v1", "ConfigMap"))])


def mapped_by(mapping: Mapping) -> Manifest:
    watches = [MappedWatch("v1", "Pod", name="pods", mapping=mapping)]
    return Manifest("shop", "0.1.0", controllers=[Controller("shop", primary=Watch("v1", "ConfigMap"), watches=watches)])


POD = ObjectRef("v1", "Pod", "p", "prod")


class Err(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Bindings(ModuleType):
    """An interface of the bindings. Its functions record their arguments, and its records keep their fields by
    position."""

    def __init__(self, name: str, calls: list[Any], **members: Any) -> None:
        super().__init__(name)
        self.calls = calls
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            return lambda *values: (name, *values)
        return lambda *values: self.calls.append((name, *values))


def bindings(calls: list[Any]) -> dict[str, ModuleType]:
    def enumeration(name: str, *members: str) -> Any:
        return enum.Enum(name, {member: at for at, member in enumerate(members)})

    def told(reason: str, watch: str | None, target: Any) -> Any:
        return SimpleNamespace(reason=reason, watch=watch, object=target)

    members: dict[str, dict[str, Any]] = {
        "types": {
            "ApiReason": lambda at: list(Reason)[at],
            "EventType": enumeration("EventType", "NORMAL", "WARNING"),
        },
        "log": {"Level": enumeration("Level", "TRACE", "DEBUG", "INFO", "WARN", "ERROR")},
        "writes": {
            "FieldValidation": enumeration("FieldValidation", "STRICT", "WARN", "IGNORE"),
            "PatchType": enumeration("PatchType", "MERGE", "JSON", "STRATEGIC"),
            "Propagation": enumeration("Propagation", "BACKGROUND", "FOREGROUND", "ORPHAN"),
        },
        "triggers": {"list": lambda: [told("Changed", "pods", POD), told("Resync", None, None)]},
    }
    names = (
        "cache", "clock", "config", "events", "http", "live", "log", "metrics", "owners", "random", "triggers", "types", "writes"
    )  # fmt: skip
    imports = {name: Bindings(name, calls, **members.get(name, {})) for name in names}
    modules: dict[str, ModuleType] = {f"wit_world.imports.{name}": module for name, module in imports.items()}
    modules["wit_world.imports"] = package("wit_world.imports", **imports)
    exports = {name: Bindings(name, calls) for name in ("reconciler", "mapper", "composer", "customize")}
    modules |= {f"wit_world.exports.{name}": module for name, module in exports.items()}
    modules["wit_world.exports"] = package("wit_world.exports", **exports, **{name.capitalize(): object for name in exports})
    modules["wit_world"] = package("wit_world", imports=modules["wit_world.imports"], exports=modules["wit_world.exports"])
    modules["componentize_py_types"] = package("componentize_py_types", Err=Err)
    modules["windlass._runtime"] = package("windlass._runtime", begin=lambda: None, end=lambda: None)
    modules["app"] = package("app")
    return modules


def package(name: str, **members: Any) -> ModuleType:
    module = ModuleType(name)
    module.__path__ = []
    module.__dict__.update(members)
    return module


class WitTest(unittest.TestCase):
    def setUp(self) -> None:
        self.calls: list[Any] = []
        self.enterContext(mock.patch.object(_host, "current", _host.current))
        self.enterContext(mock.patch.dict(sys.modules, bindings(self.calls)))
        for name in ("_wit", "_wit_exports"):
            sys.modules.pop(f"windlass.{name}", None)
            self.addCleanup(windlass.__dict__.pop, name, None)
            self.enterContext(mock.patch.object(_entry, name, importlib.import_module(f"windlass.{name}")))
        self.wit, self.exports = _entry._wit, _entry._wit_exports
        _host.current = self.wit.HOST


class OutTest(WitTest):
    def test_a_value_of_a_wrong_type_raises_an_error_that_names_it(self) -> None:
        nobody: Any = None
        number: Any = 1.5
        for what, act in (
            ("name of the target", lambda: cache.get(ObjectRef("v1", "Secret", nobody))),
            ("uid of the target", lambda: cache.get_many([POD.with_uid(number)])),
            ("namespace of the target", lambda: live.get(ObjectRef("v1", "Secret", "s", number))),
            ("the target must be an ObjectRef", lambda: writes.patch(nobody, {})),
            ("the target must be an ObjectRef", lambda: writes.batch([writes.op_delete(nobody)])),
            ("each of the fields", lambda: cache.get(POD, fields=[nobody])),
            ("fields must be a list", lambda: cache.get(POD, fields="/spec")),
            ("kind", lambda: cache.page("v1", nobody)),
            ("label_selector", lambda: cache.page("v1", "Pod", label_selector=number)),
            ("the value of the index", lambda: cache.page("v1", "Pod", index=("by-node", nobody))),
            ("page_token", lambda: live.page("v1", "Pod", page_token=number)),
            ("field_selector", lambda: live.page("v1", "Pod", field_selector=number)),
            ("subresource", lambda: live.get(POD, subresource=number)),
            ("each of the fields", lambda: live.get(POD, fields=[nobody])),
            ("tail_lines", lambda: live.log(POD, tail_lines=number)),
            ("container", lambda: live.log(POD, container=number)),
            ("kind", lambda: live.served("v1", nobody)),
            ("manager_suffix", lambda: writes.apply({}, manager_suffix=number)),
            ("label_selector", lambda: writes.delete_collection("v1", "Pod", label_selector=number)),
            ("the limit of a list", lambda: live.page("v1", "Pod", limit=number)),
            ("resource_version", lambda: writes.apply({}, resource_version=number)),
            ("each of the fields", lambda: writes.apply({}, fields=[nobody])),
            ("fields must be a list", lambda: writes.patch(POD, {}, fields="/spec")),
            ("subresource", lambda: writes.apply({}, subresource=number)),
            ("name of the parent", lambda: writes.create({}, subresource="eviction", parent=ObjectRef("v1", "Pod", nobody))),
            ("grace", lambda: writes.delete(POD, grace_period_ms=number)),
            ("label_selector", lambda: owners.claim("v1", "Pod", nobody)),
            ("api_version of regarding", lambda: events.normal("A", "B", "c", regarding=ObjectRef(nobody, "Pod", "p"))),
            ("method", lambda: http.request(nobody, "https://a.dev")),
            ("ms of a RequeueAfter", lambda: self.exports.outcome(windlass.RequeueAfter(number))),
        ):
            with self.subTest(what), self.assertRaisesRegex(TypeError, what):
                act()
        self.assertEqual(self.calls, [])

    def test_values_are_passed_unchanged_except_lone_surrogates(self) -> None:
        cache.get(POD, fields=["/spec"])
        cache.get(ObjectRef("v1", "Pod", "\ud800ü"))
        self.assertIs(self.calls[0][1], POD)
        self.assertIsNone(self.calls[0][1].cluster)  # which the bindings ask for, too
        self.assertEqual(self.calls[0], ("get", POD, ["/spec"]))
        self.assertEqual(self.calls[1], ("get", ObjectRef("v1", "Pod", "\ufffdü"), None))
        self.calls.clear()
        writes.delete(POD, grace_period_ms=1500, dry_run=True)
        metrics.add("runs", 1)
        _, target, options = self.calls[0]
        self.assertEqual((target, options[1], options[3:]), (POD, None, (1500, True)))
        self.assertEqual(self.calls[1], ("add", "runs", 1.0, []))

    def test_the_view_of_an_object_is_passed_as_a_variant(self) -> None:
        live.get(POD, metadata_only=True)
        live.get(POD, subresource="status", fields=["/spec"])
        live.get(POD)
        self.assertEqual(self.calls[0], ("get", POD, None, ("View_Metadata",)))
        self.assertEqual(self.calls[1], ("get", POD, "status", ("View_Fields", ["/spec"])))
        self.assertEqual(self.calls[2], ("get", POD, None, ("View_Whole",)))
        self.calls.clear()
        live.log(POD, tail_lines=5)
        self.assertEqual(self.calls[0], ("log", ("LogQuery", POD, None, False, 5, None, None)))

    def test_an_outcome_and_a_composition_may_ask_for_another_call(self) -> None:
        after, backoff = ("Requeue_AfterMs", 1500), ("Requeue_Backoff",)
        for answer, requeue in (
            (None, None),
            (windlass.DONE, None),
            (windlass.requeue_after(1.5), after),
            (windlass.requeue_with_backoff(), backoff),
        ):
            with self.subTest(answer):
                self.assertEqual(self.exports.outcome(answer), ("Outcome", requeue))
        for composition, requeue in (
            (windlass.Composition(), None),
            (windlass.Composition(requeue_after=1.5), after),
            (windlass.Composition(requeue_backoff=True), backoff),
        ):
            with self.subTest(composition):
                self.assertEqual(self.exports.composition(composition)[4], requeue)
        both = windlass.Composition(requeue_after=1.5, requeue_backoff=True)
        with self.assertRaisesRegex(TypeError, "requeue_after and requeue_backoff of a Composition exclude each other"):
            self.exports.composition(both)
        with self.assertRaisesRegex(TypeError, "reconcile returned 5; .*windlass.requeue_with_backoff"):
            self.exports.outcome(5)

    def test_the_fields_of_the_answer_are_an_option_of_a_write(self) -> None:
        sent: list[Any] = []
        with mock.patch.dict(self.wit.writes.__dict__, batch=lambda operations: sent.extend(operations) or []):
            writes.batch([writes.op_apply({}, fields=("/data",)), writes.op_update({}), writes.op_patch(POD, {}, fields=[])])
        self.assertEqual([write[-1][-1] for _, write in sent], [["/data"], None, []])

    def test_kinds_are_read_from_the_bindings(self) -> None:
        served = SimpleNamespace(resource="pods", namespaced=True, verbs=["get"], subresources=["log"])
        listed = [SimpleNamespace(kind=SimpleNamespace(api_version="v1", kind="Pod"), served=served)]
        with mock.patch.dict(self.wit.live.__dict__, kinds=lambda: listed):
            self.assertEqual(live.kinds(), [live.ListedKind("v1", "Pod", live.ServedKind("pods", True, ["get"], ["log"]))])


class InTest(WitTest):
    def test_triggers_may_have_objects(self) -> None:
        self.assertEqual(triggers.list(), [triggers.Trigger("Changed", "pods", POD), triggers.Trigger("Resync")])

    def test_a_composer_has_no_triggers(self) -> None:
        with mock.patch.object(self.wit, "triggers", None), self.assertRaisesRegex(RuntimeError, "windlass.triggers is for reconcilers"):
            triggers.list()


class CallTest(WitTest):
    def failures(self, error: BaseException) -> list[Any]:
        """The failures that the host receives for an exception of a reconcile."""

        def reconcile(request: windlass.Request) -> windlass.Outcome:
            raise error

        windlass.reconciler(MANIFEST)(reconcile)
        export = sys.modules["app"].__dict__.pop("Reconciler")
        asked = SimpleNamespace(
            controller="shop", cluster=None, name="p", namespace=None, uid=None, object=None, deleting=False, attempt=0, trace_id=""
        )
        with self.assertRaises(Err) as raised:
            export.reconcile(object.__new__(export), asked)
        return list(raised.exception.value)

    def test_an_api_error_is_reported_with_all_fields(self) -> None:
        error = ApiError(Reason.CONFLICT, "m", retry_after_ms=5, verb="get", resource="pods", object=POD)
        [failure] = self.failures(error)
        told = ("ApiError", 409, Reason.CONFLICT, "Conflict", "m", 5, "get", "pods", POD)
        self.assertEqual(failure, ("Failure", "", told, False, None))

    def test_a_failure_is_reported_with_its_class_and_delay(self) -> None:
        never, later, soon = windlass.Terminal("never"), windlass.Transient("later"), windlass.Transient("soon", retry_after=1.5)
        told = self.failures(ExceptionGroup("all", [never, later, soon]))
        self.assertEqual(
            told,
            [
                ("Failure", "all: never", None, True, None),
                ("Failure", "all: later", None, False, None),
                ("Failure", "all: soon", None, False, 1500),
            ],
        )

    def test_an_unknown_reason_becomes_other(self) -> None:
        [(_, _, told, _, _)] = self.failures(ApiError("gone-fishing", "m"))  # type: ignore[arg-type]
        self.assertEqual((told[2], told[3]), (Reason.OTHER, "GoneFishing"))

    def test_an_unreportable_error_is_transient_and_its_stack_is_logged(self) -> None:
        half: Any = 1.5
        for what, error in (
            ("retry_after_ms of an ApiError must be a whole number, and is 1.5", ApiError(Reason.CONFLICT, retry_after_ms=half)),
            ("code of an ApiError must be a number from 0 to 65535", ApiError(Reason.CONFLICT, code=65_536)),
            ("name of the object of an ApiError", ApiError(Reason.CONFLICT, object=ObjectRef("v1", "Pod", half))),
        ):
            with self.subTest(what):
                self.calls.clear()
                [(_, message, *rest)] = self.failures(error)
                self.assertEqual(rest, [None, False, None])
                self.assertIn(what, message)
                self.assertRegex(message, "^ApiError: .*Conflict")
                [(_, level, line, [(_, stack)])] = self.calls
                self.assertEqual(level.name, "ERROR")
                self.assertIn(what, line)
                self.assertIn("raise error", stack)

    def test_an_invalid_delay_is_dropped_and_its_stack_is_logged(self) -> None:
        error: Any = windlass.Transient("busy")
        error.retry_after_ms = 1.5
        [(_, message, *rest)] = self.failures(error)
        self.assertEqual(rest, [None, False, None])
        self.assertRegex(message, "^busy .*retry_after_ms of a Transient must be a whole number, and is 1.5")
        self.assertEqual([call[0] for call in self.calls], ["log"])

    def test_an_unreportable_member_does_not_affect_the_others(self) -> None:
        odd = ApiError(Reason.CONFLICT, "changed", code=65_536)
        told = self.failures(ExceptionGroup("all", [odd, windlass.Terminal("never"), ApiError(Reason.INVALID, "bad")]))
        classes = [(api is not None, terminal) for _, _, api, terminal, _ in told]
        self.assertEqual(classes, [(False, False), (False, True), (True, False)])
        self.assertRegex(told[0][1], "^all: changed .the rest cannot be reported: ValueError: code of an ApiError")
        self.assertEqual(told[1][1], "all: never")

    def test_an_exception_without_a_text_fails_only_its_call(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise ValueError("no text")

        [(_, message, *rest)] = self.failures(Mute())
        self.assertEqual(rest, [None, False, None])
        self.assertIn("Mute: (its text cannot be read)", message)


class OptionalTest(WitTest):
    """The optional exports of a mapper and a customizer."""

    def map(self, function: Map, *changes: tuple[str | None, str | None]) -> Any:
        @windlass.reconciler(mapped_by(Mapping.mapper()), map=function)
        def reconcile(request: windlass.Request) -> windlass.Outcome:
            return windlass.DONE

        del sys.modules["app"].Reconciler
        export = sys.modules["app"].__dict__.pop("Mapper")
        batch = SimpleNamespace(controller="shop", watch="pods", changes=[SimpleNamespace(old=old, new=new) for old, new in changes])
        return export.map(object.__new__(export), batch)

    def matches(self, function: Matches | None, *changes: tuple[str | None, str | None]) -> Any:
        windlass.reconciler(MANIFEST, matches=function)(lambda request: None)
        del sys.modules["app"].Reconciler
        export = sys.modules["app"].__dict__.pop("Mapper")
        batch = SimpleNamespace(controller="shop", watch="pods", changes=[SimpleNamespace(old=old, new=new) for old, new in changes])
        return export.matches(object.__new__(export), batch)

    def customize(self, function: Customize, parent: str) -> Any:
        @windlass.composer(mapped_by(Mapping.customize()), customize=function)
        def compose(request: windlass.CompositionRequest) -> windlass.Composition:
            return windlass.Composition()

        del sys.modules["app"].Composer
        export = sys.modules["app"].__dict__.pop("Customize")
        asked = SimpleNamespace(
            controller="shop", cluster=None, name="p", namespace=None, uid=None, object=parent, deleting=True, attempt=0, trace_id=""
        )
        return export.customize(object.__new__(export), asked)

    def test_a_mapper_is_called_for_each_change_of_a_batch(self) -> None:
        seen: list[Any] = []

        def map(watch: str, change: windlass.Change) -> list[windlass.Target]:
            seen.append((watch, change))
            if change.new is None:
                return []
            return [windlass.Primary(namespace=change.new["ns"], name="a\ud800"), windlass.Indexed("by-app", "web")]

        answer = self.map(map, (None, '{"ns":"prod"}'), ('{"n":1}', None), ("{}", '{"ns":null}'))
        indexed = ("Target_Indexed", ("IndexValue", "by-app", "web"))
        primary = [("Target_Primary", ("ObjectKey", namespace, "a\ufffd")) for namespace in ("prod", None)]
        self.assertEqual(answer, [[primary[0], indexed], [], [primary[1], indexed]])
        changes = [windlass.Change(None, {"ns": "prod"}), windlass.Change({"n": 1}), windlass.Change({}, {"ns": None})]
        self.assertEqual(seen, [("pods", change) for change in changes])

    def test_an_error_of_a_mapper_is_a_text_and_its_stack_is_in_the_log(self) -> None:
        def deepest(watch: str, change: windlass.Change) -> list[windlass.Target]:
            raise ValueError("no") from KeyError("odd")

        with self.assertRaises(Err) as raised:
            self.map(deepest, (None, "{}"))
        self.assertEqual(raised.exception.value, "ValueError: no: 'odd'")
        [(_, level, line, [(_, stack)])] = self.calls
        self.assertEqual((level.name, line), ("ERROR", "ValueError: no"))
        self.assertIn("in deepest", stack)

        def several(watch: str, change: windlass.Change) -> list[windlass.Target]:
            raise ExceptionGroup("both", [windlass.Terminal("never"), windlass.Transient("later\ud800")])

        with self.assertRaises(Err) as raised:
            self.map(several, (None, "{}"))
        self.assertEqual(raised.exception.value, "both: never; both: later\\ud800")

    def test_a_predicate_is_called_for_each_change_of_a_batch_and_needs_no_mapper(self) -> None:
        def counts(watch: str, change: windlass.Change) -> bool:
            return watch == "pods" and change.old is None and change.new == {"n": 1}

        self.assertEqual(self.matches(counts, (None, '{"n":1}'), ('{"n":1}', '{"n":1}'), (None, "{}")), [True, False, False])

    def test_without_a_predicate_every_change_counts(self) -> None:
        self.assertEqual(self.matches(None, (None, "{}"), ("{}", "{}")), [True, True])

    def test_an_error_of_a_predicate_is_a_text(self) -> None:
        wrong: Any = "web"
        for function, told in (
            (lambda watch, change: wrong, "TypeError: matches returned 'web'; it returns True or False"),
            (lambda watch, change: None, "TypeError: matches returned None"),
            (lambda watch, change: change.new["none"], "KeyError: 'none'"),
        ):
            with self.subTest(told), self.assertRaises(Err) as raised:
                self.matches(function, (None, "{}"))
            self.assertIn(told, raised.exception.value)

    def test_an_invalid_result_of_a_mapper_is_an_error(self) -> None:
        wrong: Any = "web"
        with self.assertRaises(Err) as raised:
            self.map(lambda watch, change: [wrong], (None, "{}"))
        self.assertIn("TypeError: map returned 'web' at [0]", raised.exception.value)

    def test_a_customizer_returns_the_rules_of_its_parent(self) -> None:
        def related(request: windlass.Request) -> list[windlass.RelatedRule]:
            assert request.object is not None and request.deleting
            return [windlass.RelatedRule("pods", names=(request.object["a"],)), windlass.RelatedRule("pods", "prod", label_selector="b=c")]

        self.assertEqual(
            self.customize(related, '{"a":"x"}'),
            [("RelatedRule", "pods", None, ["x"], None), ("RelatedRule", "pods", "prod", [], "b=c")],
        )

    def test_an_error_of_a_customize_keeps_its_class(self) -> None:
        def related(request: windlass.Request) -> list[windlass.RelatedRule]:
            raise windlass.Terminal("never")

        with self.assertRaises(Err) as raised:
            self.customize(related, "{}")
        self.assertEqual(raised.exception.value, [("Failure", "never", None, True, None)])

    def test_the_optional_exports_always_exist(self) -> None:
        windlass.reconciler(MANIFEST)(lambda request: None)
        windlass.composer(MANIFEST)(lambda request: windlass.Composition())
        self.assertLessEqual({"Reconciler", "Mapper", "Composer", "Customize"}, set(vars(sys.modules["app"])))

    def test_a_world_without_the_export_refuses_only_the_function(self) -> None:
        del sys.modules["wit_world.exports"].Mapper  # type: ignore[attr-defined]
        windlass.reconciler(MANIFEST)(lambda request: None)
        self.assertFalse(hasattr(sys.modules["app"], "Mapper"))
        del sys.modules["app"].Reconciler
        with self.assertRaisesRegex(RuntimeError, "has a `map`, but is being built for a world that does not export `mapper`"):
            windlass.reconciler(MANIFEST, map=lambda watch, change: [])(lambda request: None)
        del sys.modules["app"].Reconciler
        with self.assertRaisesRegex(RuntimeError, "has a `matches`, but is being built for a world that does not export `mapper`"):
            windlass.reconciler(MANIFEST, matches=lambda watch, change: True)(lambda request: None)


if __name__ == "__main__":
    unittest.main()
