"""JSON, conditions, references, requests: the values that need no host."""

from __future__ import annotations

import datetime
import unittest
from unittest import mock

import windlass
from windlass import ObjectRef, Reason, conditions, has_fields
from windlass._text import decode, encode, number, plain, text, text_or_none
from windlass.clock import Timestamp

EARLY, LATE = Timestamp(60, 0), Timestamp(120, 0)


class TextTest(unittest.TestCase):
    def test_json_keeps_numbers_texts_and_lone_surrogates(self) -> None:
        value = [2**64 - 1, -(2**63), 0.1, -0.0, 1e300, "grüße 世界 \U0001f600", "\0", "\ud800", None, True, {"a": []}]
        text = encode(value)
        text.encode()
        self.assertEqual(decode(text), value)

    def test_values_that_are_not_json_are_refused(self) -> None:
        for value in (float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                encode({"a": value})
        with self.assertRaises(TypeError):
            encode({"a": object()})

    def test_a_refused_value_is_named_by_its_path(self) -> None:
        for value, error, message in (
            ({"spec": {"args": {"b", "a"}}}, TypeError, "/spec/args is a set, .* make it a list, such as with sorted()"),
            ({"spec": {"args": [1, frozenset("a")]}}, TypeError, "/spec/args/1 is a set"),
            ({"metadata": {"annotations": {"a.dev/when~": object()}}}, TypeError, "/metadata/annotations/a.dev~1when~0 is of type object"),
            ({"a": {"a": 1}.keys()}, TypeError, "/a is of type dict_keys"),
            ({"a": (1.5, float("nan"))}, ValueError, "/a/1 is nan"),
            ({"a"}, TypeError, "the value is a set"),
            ({("a", "b"): 1}, TypeError, r"the value has the key \('a', 'b'\) of type tuple, and keys of JSON are texts"),
            ({"data": {"a~b": {8080: "http"}}}, TypeError, "/data/a~0b has the key 8080 of type int, and keys of JSON are texts"),
            ({"data": [{True: 1}]}, TypeError, "/data/0 has the key True of type bool"),
            ({"data": {False: 1}}, TypeError, "/data has the key False of type bool"),
            ({"data": {"x": "grüße", None: 1}}, TypeError, "/data has the key None of type NoneType"),
            ({"data": {1.5: 1}}, TypeError, "/data has the key 1.5 of type float"),
            ({"data": {1e300: 1}}, TypeError, r"/data has the key 1e\+300 of type float"),
            ({"data": {float("nan"): 1}}, TypeError, "/data has the key nan of type float"),
            ({"data": {b"a": {"b"}}}, TypeError, "/data has the key b'a' of type bytes"),
        ):
            with self.subTest(message), self.assertRaisesRegex(error, f"^{message}"):
                encode(value)

    def test_text_keys_may_look_like_other_values(self) -> None:
        class Name(str):
            pass

        value = {"8080": 1, "1.5": 1, "true": 1, "false": 1, "null": 1, "a1": {Name("2"): Reason.CONFLICT}, "b": '"1":'}
        self.assertEqual(decode(encode(value)), value)

    def test_texts_that_look_like_keys_avoid_the_full_check(self) -> None:
        for value in ({"port-1": 1}, {"spec": [({"is-true": [{"8080": {}}]},)]}, {"1": "grüße"}):
            with self.subTest(value), mock.patch("windlass._text._refuse") as refuse:
                encode(value)
                refuse.assert_not_called()
        for value in ({"port-1": [{1: 2}]}, {"a": ({"b": {True: 1}},)}):
            with self.subTest(value), self.assertRaisesRegex(TypeError, "has the key"):
                encode(value)

    def test_json_is_compact_and_in_the_order_of_the_dict(self) -> None:
        self.assertEqual(encode({"b": 1, "a": [1, 2]}), '{"b":1,"a":[1,2]}')

    def test_any_plain_text_can_be_encoded(self) -> None:
        self.assertEqual((plain("ü"), plain("\ud800"), plain(7)), ("ü", "\\ud800", "7"))

    def test_a_text_argument_is_checked_and_made_valid(self) -> None:
        self.assertEqual((text("ü", "it"), text("a\ud800b", "it"), text_or_none(None, "it")), ("ü", "a\ufffdb", None))
        for value in (None, 7, b"a"):
            with self.assertRaisesRegex(TypeError, "the name must be a text, and is of type"):
                text(value, "the name")

    def test_a_number_is_whole_and_within_its_bounds(self) -> None:
        self.assertEqual((number(0, "it"), number(2**32 - 1, "it")), (0, 2**32 - 1))
        for value, largest in ((-1, 1), (2**32, 2**32 - 1), (65_536, 65_535)):
            with self.assertRaisesRegex(ValueError, "code must be a number from 0 to"):
                number(value, "code", largest)
        with self.assertRaisesRegex(TypeError, "grace_period_ms must be a whole number, and is 1500.0"):
            number(1500.0, "grace_period_ms")  # type: ignore[arg-type]


class ConditionsTest(unittest.TestCase):
    def test_the_transition_time_stays_while_the_status_does(self) -> None:
        first = conditions.updated(None, conditions.condition("Ready", False, "Starting"), generation=None, now=EARLY)
        later = conditions.condition("Ready", False, "Waiting", "for a node")
        [ready] = conditions.updated(first, later, generation=None, now=LATE)
        self.assertEqual((ready["reason"], ready["lastTransitionTime"]), ("Waiting", "1970-01-01T00:01:00Z"))
        self.assertNotIn("observedGeneration", ready)

    def test_the_transition_time_moves_with_the_status_of_its_own_type_only(self) -> None:
        names = ("Ready", "Progressing")
        both = conditions.updated([], *[conditions.condition(name, False, "R") for name in names], generation=1, now=EARLY)
        both = conditions.updated(both, conditions.condition("Ready", True, "R"), generation=2, now=LATE)
        self.assertEqual([one["lastTransitionTime"][14:16] for one in both], ["02", "01"])
        self.assertEqual([one["observedGeneration"] for one in both], [2, 1])

    def test_setting_the_same_conditions_again_changes_nothing(self) -> None:
        ready, progressing = conditions.condition("Ready", True, "R"), conditions.condition("Progressing", "Unknown", "P")
        before = conditions.updated([], ready, progressing, generation=1, now=EARLY)
        self.assertEqual(conditions.updated(before, progressing, ready, generation=1, now=LATE), before)

        def unread() -> Timestamp:
            self.fail("a call that reads the time cannot be saved")

        self.assertEqual(conditions.updated(before, progressing, ready, generation=1, now=unread), before)
        [changed] = conditions.updated([], ready, generation=1, now=lambda: LATE)
        self.assertEqual(changed["lastTransitionTime"], "1970-01-01T00:02:00Z")
        self.assertEqual(conditions.removed(before, "Ready"), before[1:])
        truths = [conditions.is_true(before, name) for name in ("Ready", "Progressing", "Other")]
        self.assertEqual(truths, [True, False, False])
        with self.assertRaises(ValueError):
            conditions.condition("Ready", "yes", "R")


class ObjectTest(unittest.TestCase):
    def test_has_fields_ignores_fields_of_others(self) -> None:
        obj = {"spec": {"ports": [{"name": "admin"}, {"name": "http", "port": 80}], "type": "ClusterIP"}}
        self.assertTrue(has_fields(obj, {"spec": {"ports": [{"name": "http"}]}}))
        self.assertFalse(has_fields(obj, {"spec": {"ports": [{"name": "http", "port": 81}]}}))
        self.assertFalse(has_fields(obj, {"spec": {"selector": {}}}))
        self.assertFalse(has_fields({"a": True}, {"a": 1}))

    def test_a_reference_reads_as_kind_and_name(self) -> None:
        self.assertEqual(str(ObjectRef("v1", "Pod", "p", "prod")), "Pod prod/p")
        self.assertEqual(str(ObjectRef("v1", "Node", "n")), "Node n")
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "prod", "uid": "u"}}
        self.assertEqual(ObjectRef.of(obj), ObjectRef("v1", "Pod", "p", "prod"))
        self.assertEqual(windlass.sibling(obj, "v1", "Secret"), ObjectRef("v1", "Secret", "p", "prod"))

    def test_a_timestamp_reads_as_kubernetes_writes_it(self) -> None:
        for seconds, text in (
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_258_125, "2026-11-21T10:48:45Z"),
            (2**32 - 1, "2106-02-07T06:28:15Z"),
        ):
            self.assertEqual(str(Timestamp(seconds, 5)), text)
        self.assertEqual(Timestamp(1, 5000).datetime().microsecond, 5)

    def test_a_delay_is_in_milliseconds_and_limited(self) -> None:
        self.assertEqual(windlass.requeue_after(0.05).ms, 50)
        self.assertEqual(windlass.requeue_after(datetime.timedelta(minutes=1)).ms, 60_000)
        self.assertEqual(windlass.requeue_after(2_147_483.647).ms, 2**31 - 1)
        self.assertEqual(windlass.requeue_after(1e300).ms, 2**31 - 1)
        self.assertEqual(windlass.requeue_after(-1).ms, 0)


if __name__ == "__main__":
    unittest.main()
