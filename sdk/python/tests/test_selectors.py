"""Label selectors and their text."""

from __future__ import annotations

import unittest

import windlass


class SelectorTest(unittest.TestCase):
    def test_every_requirement_is_in_the_text(self) -> None:
        selector = {
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a", "b"]},
                {"key": "zone", "operator": "NotIn", "values": ["x"]},
                {"key": "team", "operator": "Exists"},
                {"key": "canary", "operator": "DoesNotExist"},
            ],
        }
        self.assertEqual(windlass.selector_text(selector), "a=1,b=2,tier in (a,b),zone notin (x),team,!canary")
        self.assertEqual(windlass.selector_text({}), "")

    def test_an_invalid_selector_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "one of In, NotIn, Exists, DoesNotExist, and not 'Gt'"):
            windlass.selector_text({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]})
        with self.assertRaisesRegex(ValueError, "'a' has none"):
            windlass.selector_text({"matchExpressions": [{"key": "a", "operator": "In"}]})


if __name__ == "__main__":
    unittest.main()
