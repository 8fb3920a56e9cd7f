"""Mappings by a plugin's code: invalid results, and the calls of a test."""

from __future__ import annotations

import unittest
from typing import Any

import windlass
from windlass import Change, Indexed, Primary, RelatedRule, testing
from windlass._mapping import counts_of, rules_of, targets_of

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "prod", "labels": {"app": "web"}}}


class AnswerTest(unittest.TestCase):
    def test_a_wrong_target_is_named_by_its_place(self) -> None:
        for answer, told in (
            (None, "map returned None; it returns a list of windlass.Primary and windlass.Indexed"),
            ("web", "map returned 'web'; it returns a list"),
            ([Indexed("i", "v"), ("prod", "web")], r"map returned \('prod', 'web'\) at \[1\]; it returns a list"),
            ([Primary(name=7)], r"name of the Primary at \[0\] must be a text, and is of type int"),  # type: ignore[arg-type]
            ([Primary(name="a", namespace=7)], r"namespace of the Primary at \[0\]"),  # type: ignore[arg-type]
            ([Indexed("i", None)], r"value of the Indexed at \[0\] must be a text, and is of type NoneType"),  # type: ignore[arg-type]
            ([Indexed(None, "v")], r"index of the Indexed at \[0\]"),  # type: ignore[arg-type]
        ):
            with self.subTest(told), self.assertRaisesRegex(TypeError, told):
                targets_of(answer)

    def test_a_change_counts_or_does_not(self) -> None:
        self.assertEqual([counts_of(True), counts_of(False)], [True, False])
        for answer in (None, 0, "yes", [True]):
            with self.subTest(answer), self.assertRaisesRegex(TypeError, "it returns True or False"):
                counts_of(answer)

    def test_a_wrong_rule_is_named_by_its_place(self) -> None:
        text: Any = "a"
        number: Any = 7
        for answer, told in (
            (None, "customize returned None; it returns a list of windlass.RelatedRule"),
            ([RelatedRule("w"), "w"], r"customize returned 'w' at \[1\]; it returns a list of windlass.RelatedRule"),
            ([RelatedRule(number)], r"watch of the RelatedRule at \[0\] must be a text, and is of type int"),
            ([RelatedRule("w", namespace=number)], r"namespace of the RelatedRule at \[0\]"),
            ([RelatedRule("w", names=text)], r"names of the RelatedRule at \[0\] is a list, and not 'a'"),
            ([RelatedRule("w", names=["a", number])], r"each of the names of the RelatedRule at \[0\] must be a text"),
            ([RelatedRule("w", label_selector=number)], r"label_selector of the RelatedRule at \[0\]"),
        ):
            with self.subTest(told), self.assertRaisesRegex(TypeError, told):
                rules_of(answer)


class HostTest(unittest.TestCase):
    def test_a_mapper_receives_copies(self) -> None:
        def services_of(watch: str, change: Change) -> list[windlass.Target]:
            labels = [state.pop("metadata")["labels"] for state in change.states]
            return [Indexed("by-selector", windlass.selector_text({"matchLabels": each})) for each in labels]

        with testing.Host() as host:
            self.assertEqual(host.map(services_of, "pods", new=POD), [Indexed("by-selector", "app=web")])
            self.assertEqual(len(host.map(services_of, "pods", old=POD, new=POD)), 2)
            self.assertEqual(host.map(services_of, "pods"), [])
            with self.assertRaisesRegex(TypeError, "map returned None"):
                host.map(lambda watch, change: None, "pods")  # type: ignore[arg-type, return-value]

    def test_a_predicate_receives_copies(self) -> None:
        def labelled(watch: str, change: Change) -> bool:
            return watch == "pods" and change.new is not None and "labels" in change.new.pop("metadata")

        with testing.Host() as host:
            for _ in range(2):
                self.assertIs(host.matches(labelled, "pods", new=POD), True)
            self.assertIs(host.matches(labelled, "others", new=POD), False)
            with self.assertRaisesRegex(TypeError, "matches returned None"):
                host.matches(lambda watch, change: None, "pods")  # type: ignore[arg-type, return-value]

    def test_a_customizer_receives_its_parent(self) -> None:
        def related(request: windlass.Request) -> list[RelatedRule]:
            assert request.object is not None
            return [RelatedRule("settings", request.namespace, [request.object["metadata"]["name"]])] if request.deleting else []

        with testing.Host() as host:
            self.assertEqual(host.customize(related, POD), [])
            self.assertEqual(host.customize(related, POD, deleting=True), [RelatedRule("settings", "prod", ["p"])])


if __name__ == "__main__":
    unittest.main()
