"""The requests that `writes.ensure` sends, for the cases that the tests of all SDKs share."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

from windlass._ensure import other_controller, patch_of, version_of

#: The tests of all SDKs share this file.
CASES = json.loads((Path(__file__).parents[2] / "cases" / "ensure.json").read_text())


class EnsureTest(unittest.TestCase):
    def test_ensure_sends_the_smallest_patch(self) -> None:
        for case in CASES:
            with self.subTest(case["name"]):
                cached, desired = case["cached"], case["desired"]
                self.assertEqual(other_controller(cached, desired), case.get("controlledBy"))
                if "controlledBy" in case:
                    continue
                patch = patch_of(cached, desired)
                self.assertEqual(patch, case["patch"])
                self.assertEqual(patch and version_of(cached, patch), case.get("version"))
