"""The folder that `windlass new python` writes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SDK = Path(__file__).parent.parent
ALL_READMES = sorted((SDK / "templates").glob("*/README.md.tmpl"))
#: Definition templates need types that `windlass new --from-crd` generates. A story in tests/cases tests them.
READMES = [readme for readme in ALL_READMES if not readme.parent.name.endswith("-definition")]
#: The folders of all languages share these files.
CRD = SDK / "../../host/author/src/new/common/crd.yaml"
PLACES = {
    "name": "my-shop", "Kind": "MyShop", "plural": "myshops", "singular": "myshop", "module": "my_shop",
    "group": "example.com", "version": "v1",
}


def filled(text: str) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda place: PLACES.get(place[1], place[0]), text)


class ReadmeTest(unittest.TestCase):
    def test_every_command_uses_the_cluster_of_windlass_dev(self) -> None:
        self.assertEqual(len(READMES), 2)
        for readme in READMES:
            for line in readme.read_text().splitlines():
                if line.startswith("kubectl"):
                    self.assertTrue(line.startswith("kubectl --kubeconfig .windlass/kubeconfig "), line)

    def test_the_files_are_named(self) -> None:
        for readme in READMES:
            for name in ("`{{name}}.policy.yaml`", "`windlass.yaml`"):
                self.assertIn(f"| {name} |", readme.read_text())


class TestsTest(unittest.TestCase):
    def test_the_tests_of_the_templates_pass(self) -> None:
        for readme in READMES:
            with self.subTest(readme.parent.name), tempfile.TemporaryDirectory() as folder:
                for template in readme.parent.glob("*.tmpl"):
                    Path(folder, template.stem).write_text(filled(template.read_text()))
                Path(folder, "crd.yaml").write_text(filled(CRD.read_text()))
                environment = {**os.environ, "PYTHONPATH": str(SDK)}
                command = [sys.executable, "-m", "unittest"]
                tested = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
                self.assertEqual(tested.returncode, 0, tested.stderr)


if __name__ == "__main__":
    unittest.main()
