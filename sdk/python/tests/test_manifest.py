"""The manifest: its names match the schema, and invalid values are refused."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

import windlass
from windlass import metrics
from windlass.manifest import (
    Backoff,
    Controller,
    Hook,
    HttpAccess,
    Index,
    Manifest,
    MappedWatch,
    Mapping,
    Options,
    OwnedWatch,
    Permission,
    Predicate,
    Projection,
    Timer,
    Watch,
    Where,
)

SCHEMA = Path(__file__).parents[3] / "wit" / "manifest.schema.json"


def manifest(**fields: Any) -> Manifest:
    controllers = [Controller("shop", Watch("example.dev/v1", "Shop"))]
    return Manifest("shop", "0.1.0", **{"controllers": controllers, **fields})


class ManifestTest(unittest.TestCase):
    def test_unset_fields_are_not_in_the_document(self) -> None:
        self.assertEqual(
            manifest().document(),
            {
                "apiVersion": "windlass.dev/v1alpha1",
                "kind": "PluginManifest",
                "name": "shop",
                "version": "0.1.0",
                "controllers": [{"name": "shop", "primary": {"apiVersion": "example.dev/v1", "kind": "Shop"}}],
            },
        )

    def test_every_field_has_the_name_in_the_schema(self) -> None:
        primary = Watch(
            "v1", "A", ["n"], "a=b", "c=d", Projection.metadata(), [
                Index.field("i", "/a"), Index.label("j", "k"), Index.reference("r", "/n", "/ns", base="/r/*"), Index.selector("s", "/s"),
                Index.selector("t", "/t", "labels"), Index.selector("u", "/u", "text"), Index.annotation("l", "k", ","),
                Index.annotation("n", "k"),
            ],
            [
                Predicate.generation(), Predicate.labels(), Predicate.annotations(), Predicate.fields("/a"),
                Predicate.and_(Predicate.not_(Predicate.labels()), Predicate.fields("/a/*")),
            ],
            name="a", no_op_skip=False, managed_fields=True, code_predicate=True, call_fields=["/spec"], where=[
                Where.any(Where.annotation("a").is_("true"), Where.annotation("b").exists()), Where.field("/c").in_(1, True),
                Where.field("/d").not_in("e"), Where.field("/f").absent(),
            ],
        )  # fmt: skip
        mappings = [
            Mapping.owner(), Mapping.any_owner(), Mapping.label("k"), Mapping.annotation("k"), Mapping.field("/a"),
            Mapping.referenced_by("i"), Mapping.same_name(), Mapping.all(), Mapping.mapper(), Mapping.customize(),
            Mapping.none(), Mapping.reference("/n"), Mapping.selected_by("s"),
        ]  # fmt: skip
        by_configuration = MappedWatch(projection=Projection.metadata(), kinds_from="/kinds", verbs=["delete"], mapping=Mapping.all())
        controller = Controller(
            "c", primary, [OwnedWatch("v1", "B", deleted=False, update_strategy="onDelete", projection=Projection.fields("/a"))],
            [
                by_configuration,
                *(MappedWatch("v1", f"C{at}", name=f"c{at}", mapping=mapping, projection=Projection.digest("/data")) for at, mapping in enumerate(mappings)),
            ],
            Options(1, 2, Backoff(3, 4, "maxOf", 10, 100), 5000, 6, True, "run", False),
            [Hook("pushed", Mapping.field("/payload/name"))],
        )  # fmt: skip
        nightly = Timer("0 3 * * *", "Europe/Berlin", jitter_ms=60_000, missed="skip")
        whole = manifest(
            controllers=[controller, Controller("nightly", nightly), Controller("often", Timer(interval_ms=1000))],
            description="All of it.",
            crds=[{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}],
            permissions=[Permission([""], ["pods"], ["get"], ["n"], ["p"])],
            metrics=[metrics.Counter("c", "C."), metrics.Gauge("g", "G.", ["l"]), metrics.Histogram("h", "H.", buckets=[1.0])],
            config_schema={"type": "object"},
            finalizers=["f"],
            http=[HttpAccess("https", "a.dev", ["GET"], 8443)],
        ).document()
        check(whole, json.loads(SCHEMA.read_text()), json.loads(SCHEMA.read_text())["$defs"])
        self.assertEqual([metric["type"] for metric in whole["metrics"]], ["counter", "gauge", "histogram"])
        self.assertEqual(whole["config"], {"schema": {"type": "object"}})
        [written, *timed] = whole["controllers"]
        timer = {"cron": "0 3 * * *", "timeZone": "Europe/Berlin", "jitterMs": 60_000, "missed": "skip"}
        self.assertEqual([each["primary"] for each in timed], [{"timer": timer}, {"timer": {"intervalMs": 1000}}])
        self.assertEqual(written["hooks"], [{"name": "pushed", "mapping": {"type": "field", "pointer": "/payload/name"}}])
        self.assertEqual((written["owns"][0]["deleted"], written["primary"]["noOpSkip"]), (False, False))
        alternatives = [{"annotation": "a", "is": "true"}, {"annotation": "b", "exists": True}]
        conditions = [{"field": "/c", "in": [1, True]}, {"field": "/d", "notIn": ["e"]}, {"field": "/f", "exists": False}]
        self.assertEqual((written["primary"]["managedFields"], written["primary"]["codePredicate"]), (True, True))
        self.assertEqual(written["primary"]["callFields"], ["/spec"])
        self.assertNotIn("callFields", written["watches"][0])
        self.assertEqual(Watch("v1", "Pod", call_fields=[]).document()["callFields"], [])
        self.assertEqual(written["primary"]["where"], [{"any": alternatives}, *conditions])
        reference = {"type": "reference", "base": "/r/*", "namespace": "/ns", "name": "/n"}
        self.assertEqual(written["primary"]["indexes"][2], {"name": "r", "source": reference})
        configured = {"kindsFrom": "/kinds", "verbs": ["delete"], "projection": {"type": "metadata"}, "mapping": {"type": "all"}}
        self.assertEqual(written["watches"][0], configured)
        self.assertEqual(written["watches"][1]["projection"], {"type": "digest", "pointers": ["/data"]})
        self.assertEqual(written["watches"][-2]["mapping"], {"type": "reference", "name": "/n"})
        predicates = [{"type": "not", "predicate": {"type": "labels"}}, {"type": "fields", "pointers": ["/a/*"]}]
        self.assertEqual(written["primary"]["predicates"][-1], {"type": "and", "predicates": predicates})

    def test_unknown_fields_are_refused(self) -> None:
        with self.assertRaises(TypeError):
            manifest(replicas=2)
        with self.assertRaises(TypeError):
            Watch("v1", "Pod", labels="a=b")  # type: ignore[call-arg]
        with self.assertRaisesRegex(TypeError, "needs api_version and kind, or kinds_from"):
            Watch("v1")
        with self.assertRaisesRegex(TypeError, "needs either cron or interval_ms"):
            Timer()

    def test_lists_and_pointers_are_checked(self) -> None:
        with self.assertRaisesRegex(TypeError, "verbs of a Permission is a list, and not the text 'get'"):
            Permission([""], ["pods"], "get")
        with self.assertRaisesRegex(ValueError, "JSON pointers"):
            Projection.fields("spec.image")
        with self.assertRaisesRegex(TypeError, "needs a mapping"):
            MappedWatch("v1", "Pod")
        for mapping in (Mapping.mapper(), Mapping.customize()):
            with self.assertRaisesRegex(TypeError, "a MappedWatch of Pod that the plugin maps itself needs a name"):
                MappedWatch("v1", "Pod", mapping=mapping)

    def test_a_decorator_takes_a_manifest_and_returns_the_function(self) -> None:
        def reconcile(request: windlass.Request) -> windlass.Outcome:
            return None

        self.assertIs(windlass.reconciler(manifest())(reconcile), reconcile)
        with self.assertRaisesRegex(TypeError, "takes the plugin's Manifest"):
            windlass.reconciler(reconcile)  # type: ignore[arg-type]

    def test_a_watch_that_is_mapped_by_code_needs_the_code(self) -> None:
        def mapped_by(mapping: Mapping) -> Manifest:
            watches = [MappedWatch("v1", "Pod", name="pods", mapping=mapping)]
            return manifest(controllers=[Controller("shop", Watch("example.dev/v1", "Shop"), watches=watches)])

        with self.assertRaisesRegex(TypeError, r"the watch 'pods' by `mapper`, and the plugin has no `map`: @windlass\.reconciler\("):
            windlass.reconciler(mapped_by(Mapping.mapper()))
        with self.assertRaisesRegex(TypeError, "the watch 'pods' by `customize`, and the plugin has no `customize`"):
            windlass.composer(mapped_by(Mapping.customize()))
        with self.assertRaisesRegex(TypeError, "map=…\\) takes a function, and not 'pods'"):
            windlass.reconciler(manifest(), map="pods")  # type: ignore[arg-type]
        windlass.reconciler(mapped_by(Mapping.mapper()), map=lambda watch, change: [])
        windlass.composer(mapped_by(Mapping.customize()), customize=lambda request: [])
        hooked = manifest(controllers=[Controller("shop", Watch("example.dev/v1", "Shop"), hooks=[Hook("pushed", Mapping.mapper())])])
        with self.assertRaisesRegex(TypeError, "the hook 'pushed' by `mapper`, and the plugin has no `map`"):
            windlass.reconciler(hooked)
        windlass.reconciler(hooked, map=lambda watch, change: [])
        windlass.reconciler(mapped_by(Mapping.same_name()))

    def test_a_watch_with_a_predicate_in_code_needs_the_code(self) -> None:
        shop, pods = Watch("example.dev/v1", "Shop"), Watch("v1", "Pod", name="pods", code_predicate=True)
        mapped = MappedWatch("v1", "Pod", name="pods", code_predicate=True, mapping=Mapping.same_name())
        for controller in (Controller("a", pods), Controller("a", shop, owns=[pods]), Controller("a", shop, watches=[mapped])):
            with self.subTest(controller):
                told = r"a code_predicate for the watch 'pods', and the plugin has no `matches`: @windlass\.reconciler\("
                with self.assertRaisesRegex(TypeError, told):
                    windlass.reconciler(manifest(controllers=[controller]))
                windlass.reconciler(manifest(controllers=[controller]), matches=lambda watch, change: True)
        windlass.reconciler(manifest(controllers=[Controller("often", Timer(interval_ms=1000))]))
        with self.assertRaisesRegex(TypeError, "matches=…\\) takes a function, and not True"):
            windlass.reconciler(manifest(), matches=True)  # type: ignore[arg-type]


def check(value: Any, schema: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Checks a value by the parts of JSON schema that the manifest's schema uses: names, required properties, types,
    enumerations."""
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].removeprefix("#/$defs/")], **schema}
    if "oneOf" in schema and "properties" in schema:
        assert sum(set(one["required"]) <= set(value) for one in schema["oneOf"]) == 1, (value, schema)
    elif "oneOf" in schema:
        [schema] = [one for one in schema["oneOf"] if one["properties"]["type"]["const"] == value["type"]]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    types = schema.get("type", [])
    names = types if isinstance(types, list) else [types]
    assert not names or any(isinstance(value, kinds[name]) for name in names), (value, schema)
    assert value == schema.get("const", value) and value in schema.get("enum", [value]), (value, schema)
    if isinstance(value, dict) and "properties" in schema:
        assert schema.get("additionalProperties", True) or set(value) <= set(schema["properties"]), (value, schema)
        assert set(schema.get("required", ())) <= set(value), (value, schema)
        for name, member in value.items():
            if name in schema["properties"]:
                check(member, schema["properties"][name], definitions)
    if isinstance(value, list) and "items" in schema:
        for element in value:
            check(element, schema["items"], definitions)


if __name__ == "__main__":
    unittest.main()
