"""What `windlass new python` writes."""

from __future__ import annotations

import unittest
from pathlib import Path

READMES = sorted((Path(__file__).parent.parent / "templates").glob("*/README.md.tmpl"))


class ReadmeTest(unittest.TestCase):
    def test_no_command_reaches_for_another_cluster_than_that_of_windlass_dev(self) -> None:
        self.assertEqual(len(READMES), 2)
        for readme in READMES:
            for line in readme.read_text().splitlines():
                if line.startswith("kubectl"):
                    self.assertTrue(line.startswith("kubectl --kubeconfig .windlass/kubeconfig "), line)

    def test_the_files_are_named(self) -> None:
        for readme in READMES:
            for name in ("`{{name}}.policy.yaml`", "`windlass.yaml`"):
                self.assertIn(f"| {name} |", readme.read_text())


if __name__ == "__main__":
    unittest.main()
