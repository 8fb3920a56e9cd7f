"""Kinds that a test defines: refused objects, defaults, and errors."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from windlass import ApiError, Object, ObjectRef, Reason, testing, writes
from windlass.testing._yaml import documents

#: The tests of all SDKs share these files.
CASES = Path(__file__).parents[2] / "cases"
CRD = (CASES / "shop.crd.yaml").read_text()
WRONG = json.loads((CASES / "misfits.json").read_text())


def shop(spec: Object, name: str = "a") -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": name, "namespace": "prod"}, "spec": spec}


def pod(name: str, owner: str, *finalizers: str) -> Object:
    owners = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": True}]
    metadata = {"name": name, "namespace": "prod", "uid": name, "ownerReferences": owners, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


SHOP = ObjectRef("example.com/v1", "Shop", "a", "prod")


class DefinitionsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.host = self.enterContext(testing.Host(crds=CRD))

    def test_an_object_that_does_not_fit_its_definition_is_refused_with_the_paths(self) -> None:
        for case in WRONG:
            with self.subTest(case["told"]), self.assertRaises(ApiError) as raised:
                writes.create(shop(case["spec"]))
            self.assertIs(raised.exception.reason, Reason.INVALID)
            self.assertEqual(raised.exception.message, f"the object does not fit its definition: {case['told']}")
        self.assertEqual(self.host.objects, {})
        writes.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "prod"}, "sise": 1})

    def test_defaults_are_filled_in_and_allowed_unknown_fields_kept(self) -> None:
        spec = '{"n": 1, "size": null, "port": "http", "name": null, "extra": {"a": 1}, "parts": [{}]}'
        filled = '{"n": 1, "size": "small", "port": "http", "name": null, "extra": {"a": 1}, "parts": [{"on": true}]}'
        self.assertEqual(writes.apply(shop(json.loads(spec)))["spec"], json.loads(filled))
        self.host.add(shop({"n": 2}, "b"))
        self.assertEqual(self.host.get("example.com/v1", "Shop", "b", "prod")["spec"], {"n": 2, "size": "small"})
        writes.create(shop({"n": 1, "sise": 1}, "c"), field_validation="ignore")

    def test_a_status_write_is_validated_by_the_status_alone(self) -> None:
        self.host.add(shop({}))
        writes.apply_status(SHOP, {"ready": True})
        with self.assertRaisesRegex(ApiError, ".status.redy: there is no such field"):
            writes.apply_status(SHOP, {"redy": True})

    def test_controlled_objects_are_deleted_with_their_owner(self) -> None:
        self.host.add({**shop({"n": 1}), "metadata": {"name": "a", "namespace": "prod", "uid": "u-1"}})
        self.host.add(pod("child", "u-1"), pod("grandchild", "child"), pod("waits", "u-1", "example.com/x"), pod("other", "u-2"))
        writes.delete(SHOP)
        self.assertEqual([name for _, _, _, name in self.host.objects], ["waits", "other"])
        self.assertIn("deletionTimestamp", self.host.get("v1", "Pod", "waits", "prod")["metadata"])
        writes.patch(ObjectRef("v1", "Pod", "waits", "prod"), {"metadata": {"finalizers": []}})
        self.host.remove("v1", "Pod", "other", "prod")
        self.assertEqual(self.host.objects, {})

    def test_orphans_stay_without_their_owner(self) -> None:
        self.host.add({**shop({"n": 1}), "metadata": {"name": "a", "namespace": "prod", "uid": "u-1"}})
        self.host.add(pod("child", "u-1"))
        writes.delete(SHOP, propagation="orphan")
        self.assertEqual(self.host.get("v1", "Pod", "child", "prod")["metadata"]["ownerReferences"], [])


class YamlTest(unittest.TestCase):
    def test_unsupported_definitions_are_refused_with_their_line(self) -> None:
        for text, told in {
            "kind: ConfigMap": "no CustomResourceDefinition",
            "spec:\n  a: &x 1": "line 2: anchors, aliases and tags",
            "a: [1,\n  2": "line 2: a value does not end",
            "a: {b c}": "line 1: the key b c has no value",
            "a: 1\nb": "line 2: b does not belong",
        }.items():
            with self.subTest(text), self.assertRaisesRegex(ValueError, told):
                testing.Host(crds=text)

    def test_scalars_are_parsed_to_their_values(self) -> None:
        text = "- 1\n- -1.5e3\n- 'it''s'\n- \"a\\tb # c\"\n- no # comment\n- ~\n- >\n  a\n  b\n- |\n  a\n   b\n-\n  c: d\n- http://x\n"
        self.assertEqual(documents(text), [[1, -1500.0, "it's", "a\tb # c", "no", None, "a b\n", "a\n b\n", {"c": "d"}, "http://x"]])
        self.assertEqual(documents('{"a": [1]}'), [{"a": [1]}])


if __name__ == "__main__":
    unittest.main()
