"""Plugins that `windlass dev` builds: sources that an interpreter imports from its script."""

from __future__ import annotations

import colorsys
import json
import linecache
import logging
import sys
import traceback
import unittest
import xml.sax
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import windlass
from windlass import _host, _script
from windlass._errors import NotAvailable
from windlass._runtime import _absent

from .test_wit import MANIFEST, WitTest

PLUGIN = "class Reconciler: pass\n"


def script(more: dict[str, str | None] | None = None, **files: str) -> str:
    return json.dumps({file + ".py": text for file, text in files.items()} | (more or {}))


def keep_logging(test: unittest.TestCase) -> None:
    """Keeps the standard `logging` for the other tests: a plugin that is loaded replaces it."""
    root = logging.getLogger()
    test.enterContext(mock.patch.object(root, "handlers", root.handlers[:]))
    test.addCleanup(root.setLevel, root.level)
    test.enterContext(mock.patch("windlass._logging.install"))


class ScriptTest(unittest.TestCase):
    def setUp(self) -> None:
        self.enterContext(mock.patch.dict(sys.modules))
        # No package has a module with the names of these folders.
        self.enterContext(mock.patch.dict(_script._failed, {"shop": None}, clear=True))
        self.enterContext(mock.patch.dict(_script._imported, clear=True))
        self.enterContext(mock.patch.dict(linecache.cache))
        keep_logging(self)
        self.lines: list[str] = []

    def load(self, more: dict[str, str | None] | None = None, **files: str) -> ModuleType:
        for name in ("app", "prices", "shop"):
            sys.modules.pop(name, None)
        return _script.load(script(more, **files), lambda level, message, fields: self.lines.append(message))

    def error(self, more: dict[str, str | None] | None = None, **files: str) -> str:
        try:
            self.load(more, **files)
        except BaseException as error:
            return _script.told(error)
        self.fail("it was imported")

    def test_modules_and_packages_are_imported_from_the_script(self) -> None:
        app = self.load(
            app=f"import prices, shop.till\nfrom shop.parts import deep\nSUM = prices.EURO + shop.till.CASH + deep.ONE\n{PLUGIN}",
            prices="EURO = 1\n",
            more={
                "shop/__init__.py": "",
                "shop/till.py": "from prices import EURO\nCASH = EURO\n",
                "shop/parts/deep.py": "ONE = 1\n",  # `parts` is a namespace
            },
        )
        self.assertEqual(app.SUM, 3)
        self.assertEqual((app.__file__, app.__name__), ("/0/app.py", "app"))
        self.assertEqual(sys.modules["shop.till"].__file__, "/0/shop/till.py")

    def test_a_traceback_shows_files_lines_and_sources(self) -> None:
        app = self.load(app=f"import prices\n{PLUGIN}def fail():\n    prices.fail()\n", prices="def fail():\n    return {}['x']\n")
        try:
            app.fail()
        except KeyError as error:
            text = "".join(traceback.format_exception(error))
        self.assertIn('File "/0/app.py", line 4, in fail\n    prices.fail()', text)
        self.assertIn("File \"/0/prices.py\", line 2, in fail\n    return {}['x']", text)

    def test_an_error_of_the_import_is_told_with_its_place_alone(self) -> None:
        told = self.error(app="import prices\n", prices="x = 1\nraise RuntimeError('on purpose')\n")
        lines = told.split(" ⏎ ")
        self.assertEqual(lines[-1], "RuntimeError: on purpose")
        self.assertIn('  File "prices.py", line 2, in <module>', lines)
        self.assertIn("    raise RuntimeError('on purpose')", lines)
        self.assertEqual([line for line in lines if "/_script.py" in line or "importlib" in line], [])
        told = self.error(app="def plugin(:\n    pass\n")
        self.assertIn('File "app.py", line 1 ⏎     def plugin(: ⏎', told)
        self.assertIn("SyntaxError", told)
        self.assertIn("app.py registers no plugin", self.error(app=""))

    def test_a_long_error_keeps_its_beginning_and_end(self) -> None:
        told = self.error(app="raise RuntimeError('ü' * 4000 + ' at the end')\n")
        self.assertLess(len(told.encode()), 2048)
        self.assertTrue(told.startswith("Traceback") and told.endswith(" at the end"), told)

    def test_a_module_that_the_base_has_not_tried_is_told_even_if_the_plugin_does_without(self) -> None:
        missing = "try:\n    import no_such_module\nexcept ImportError:\n    pass\n"
        self.assertEqual(self.error(app=missing + PLUGIN), "the base lacks modules: no_such_module")
        self.assertEqual(self.error(app="import no_such_module\n"), "the base lacks modules: no_such_module")

    def test_a_module_that_the_base_has_tried_is_missing_as_in_any_build(self) -> None:
        _script._failed.update(no_such_module=None, this_fails=ValueError("no"))
        self.load(app=f"try:\n    import no_such_module\nexcept ModuleNotFoundError:\n    pass\n{PLUGIN}")
        self.assertIn("ModuleNotFoundError: No module named 'no_such_module'", self.error(app="import no_such_module\n"))
        self.load(app=f"try:\n    import this_fails\nexcept ValueError:\n    pass\n{PLUGIN}")
        told = self.error(app=f"try:\n    import this_fails\nexcept ImportError:\n    pass\n{PLUGIN}")
        self.assertTrue(told.endswith("ValueError: no"), told)

    def test_a_module_missing_in_an_own_package_is_missing_without_another_base(self) -> None:
        tried = "".join(f"try:\n    {statement}\nexcept ImportError:\n    pass\n" for statement in ("import shop.fast", "from shop import fast"))
        tried += PLUGIN
        for file in ("shop/__init__.py", "shop/till.py"):
            self.load(app=tried, more={file: ""})
            self.assertIn("No module named 'shop.fast'", self.error(app="import shop.fast\n", more={file: ""}))

    def test_a_base_has_looked_for_a_folder_without_init(self) -> None:
        for failed in ({}, {"shop": ImportError("of a package")}):
            with mock.patch.dict(_script._failed, failed, clear=True):
                told = self.error(app=f"import shop.till\n{PLUGIN}", more={"shop/till.py": ""})
            self.assertTrue(told.endswith("ImportError: of a package" if failed else "the base lacks modules: shop"), told)

    def test_an_import_from_a_folder_that_is_left_out_needs_a_whole_build(self) -> None:
        more = {"target": None, "shop/__init__.py": "", "shop/build": None}
        self.load(more, app=PLUGIN)
        for module in ("target.prices", "shop.build"):
            told = self.error(more, app=f"try:\n    import {module}\nexcept ImportError:\n    pass\n{PLUGIN}")
            folder = module.removesuffix(".prices")
            self.assertEqual(told, f"this needs a whole build: app.py imports {folder} from a folder that `windlass dev` does not follow")

    def test_a_look_for_a_module_needs_a_whole_build(self) -> None:
        look = f"import importlib.util\nHAS_IT = importlib.util.find_spec('no_such_module') is not None\n{PLUGIN}"
        whole = "this needs a whole build: app.py looks for no_such_module and does not import it"
        self.assertEqual(self.error(app=look), whole)
        _script._failed["no_such_module"] = None
        self.assertFalse(self.load(app=look).HAS_IT)

    def test_a_module_of_the_base_that_the_plugin_no_longer_imports_is_told(self) -> None:
        late = f"{PLUGIN}def call():\n    import colorsys\n"
        self.load(app=late)
        self.assertLessEqual({colorsys.__name__, xml.sax.__name__}, sys.modules.keys())
        _script._imported.update({"colorsys": {"colorsys"}, "colorsys.none": set(), "xml.sax": {"xml.sax", "xml.sax.handler"}})
        _script._imported["xml.sax.handler"] = set()
        self.assertEqual(self.error(app=late), "the base has unused modules: colorsys xml.sax xml.sax.handler")
        self.assertEqual(self.error(app=f"import xml.sax\n{late}"), "the base has unused modules: colorsys")
        self.load(app=f"from xml import sax\nimport colorsys\n{late}")
        self.load(app=f"from importlib import import_module\nimport_module('xml.sax')\n__import__('colorsys')\n{late}")
        self.assertIn("ZeroDivisionError", self.error(app="1 / 0\n"), "the imports after a mistake are unknown")

    def test_names_that_loaded_nothing_may_be_unused(self) -> None:
        _script._imported.update({"json": set(), "typing.Any": set()})
        self.load(app=PLUGIN)

    def test_a_call_that_only_a_build_answers_is_told_even_if_the_plugin_does_without(self) -> None:
        def refuse(path: str) -> None:
            _absent._refusal("open", "a plugin has no files")(path)

        with mock.patch("builtins.open", refuse):
            told = self.error(app=f"try:\n    open('a.txt')\nexcept OSError:\n    pass\n{PLUGIN}")
            self.assertEqual(told, "this needs a whole build: app.py calls open('a.txt') when it is imported")
            app = self.load(app=f"{PLUGIN}def read():\n    open('a.txt')\n")
            with self.assertRaises(NotAvailable):
                app.read()
        self.assertIsNone(_absent.noted)

    def test_a_file_with_the_name_of_a_module_of_the_base_needs_a_whole_build(self) -> None:
        self.assertEqual(
            self.error(app=PLUGIN, json=""), "this needs a whole build: json is the name of a module that the base has"
        )

    def test_no_import_of_a_call_comes_from_the_script(self) -> None:
        late = _absent.NoLateImports()
        with mock.patch.object(sys, "meta_path", [*sys.meta_path, late]):
            app = self.load(app=f"{PLUGIN}def late():\n    import prices\n", prices="")
            with self.assertRaisesRegex(ModuleNotFoundError, "move the import to the top of app.py"):
                app.late()

    def test_each_instance_imports_alike(self) -> None:
        source = f"from windlass import clock, random\nMADE = (clock.now(), random.number(), random.bytes(5))\n{PLUGIN}"
        first = self.load(app=source).MADE
        self.assertEqual(self.load(app=source).MADE, first)
        self.assertIsInstance(_host.current, _host.NoHost)

    def test_the_root_logger_is_as_in_a_build_while_the_plugin_is_imported(self) -> None:
        root = logging.getLogger()
        root.setLevel(1)
        root.handlers[:] = [logging.NullHandler()]
        app = self.load(app=f"import logging\nROOT = logging.getLogger()\nWAS = ROOT.level, ROOT.handlers[:]\n{PLUGIN}")
        self.assertEqual(app.WAS, (logging.WARNING, []))


class OutsideTest(unittest.TestCase):
    def outside(self, more: dict[str, str | None] | None = None, **files: str) -> set[str]:
        return set(_script.outside(json.loads(script(more, **files))))

    def test_what_the_import_of_the_plugin_imports_is_found(self) -> None:
        found = self.outside(
            app="import re, xml.sax as sax\nimport shop.till\nif True:\n    try:\n        from yaml import nodes\n    except ImportError: pass\n"
            "class Late:\n    import csv\ndef call():\n    import bisect\ncall = lambda: __import__('cmd')\n",
            more={
                "shop/__init__.py": "from . import till, prices\nfrom .parts.deep import One\n",
                "shop/till.py": "import heapq\n",
                "shop/prices.py": "from email.message import *\n",
                "shop/parts/deep.py": "from .. import more\nfrom ..prices import EURO\nfrom string import Template\n",
                "shop/more.py": "import base64\n",
                "test_app.py": "import unittest\n",
            },
        )
        wanted = {"re", "xml.sax", "yaml", "yaml.nodes", "csv", "heapq", "email.message", "string", "string.Template", "base64"}
        self.assertEqual(found, wanted)

    def test_imports_for_type_checkers_are_left_out(self) -> None:
        source = "import typing\nif typing.TYPE_CHECKING:\n    import csv\nelse:\n    import cmd\n"
        self.assertEqual(self.outside(app=source), {"typing", "cmd"})
        self.assertEqual(self.outside(app="if TYPE_CHECKING:\n    import csv\nelif x:\n    import cmd\n"), {"cmd"})

    def test_a_folder_without_init_may_be_elsewhere_too(self) -> None:
        app = "import shop.till, own.till\n"
        found = self.outside(app=app, more={"shop/till.py": "import csv\n", "own/__init__.py": "", "own/till.py": ""})
        self.assertEqual(found, {"shop", "csv"})

    def test_a_mistake_in_the_sources_is_told_with_its_place(self) -> None:
        with self.assertRaises(SyntaxError) as raised:
            self.outside(app="import prices\n", prices="x = (\n")
        self.assertEqual((raised.exception.filename, raised.exception.lineno), ("/0/prices.py", 1))


class ExportsTest(WitTest):
    def setUp(self) -> None:
        super().setUp()
        keep_logging(self)
        self.enterContext(mock.patch.dict(_script._failed, clear=True))
        self.enterContext(mock.patch.dict(_script._imported, clear=True))
        self.enterContext(mock.patch.object(_script, "_plugin", None))
        self.addCleanup(sys.modules.pop, "app", None)
        sys.modules.pop("app")

    def joined(self, source: str, more: list[str] | None = None, without: list[str] | None = None) -> dict[str, Callable[..., Any]]:
        """The exports of a base that is joined with a script."""
        binding = ModuleType("script")
        binding.__dict__["text"] = lambda: script(app=source)
        self.enterContext(mock.patch.object(sys.modules["wit_world.imports"], "script", binding, create=True))
        self.enterContext(mock.patch.object(_script, "_text", None, create=True))
        classes = _script.exports(script(app=source), more or [], without or [])
        return {name: object.__new__(made) for name, made in classes.items()}

    def test_the_exports_are_those_of_the_plugin(self) -> None:
        source = "import windlass\nfrom windlass.manifest import *\nM = Manifest('shop', '1.0.0', controllers=[])\nCALLS = []\n"
        source += "windlass.log.info('imported')\n@windlass.reconciler(M)\ndef reconcile(request):\n    CALLS.append(request.name)\n"
        exports: Any = self.joined(source)
        self.assertEqual(json.loads(exports["Reconciler"].describe())["name"], "shop")
        self.assertEqual(self.calls, [], "`describe` may not log")
        asked = SimpleNamespace(
            controller="shop", cluster=None, name="p", namespace=None, uid=None, object=None, deleting=False, attempt=0, trace_id=""
        )
        exports["Reconciler"].reconcile(asked)
        exports["Reconciler"].reconcile(asked)
        self.assertEqual(sys.modules["app"].CALLS, ["p", "p"], "an instance imports its plugin once")

    def test_a_base_forwards_all_methods_of_the_exports(self) -> None:
        sys.modules["app"] = ModuleType("app")
        windlass.reconciler(MANIFEST)(lambda request: None)
        windlass.composer(MANIFEST)(lambda request: windlass.Composition())
        exported = {name: cls for name, cls in vars(sys.modules["app"]).items() if isinstance(cls, type)}
        methods = {name: {method for method in vars(cls) if not method.startswith("__")} for name, cls in exported.items()}
        self.assertEqual(methods, {name: set(forwarded) for name, forwarded in _script._METHODS.items()})

    def test_an_error_of_the_import_is_logged_before_the_instance_ends(self) -> None:
        exports: Any = self.joined("raise RuntimeError('on purpose')\n")
        with self.assertRaisesRegex(RuntimeError, "on purpose"):
            exports["Reconciler"].describe()
        [(_, level, line, _)] = self.calls
        self.assertEqual(level.name, "ERROR")
        self.assertIn('File "app.py", line 1', line)

    def test_a_base_imports_what_the_plugin_takes_from_elsewhere(self) -> None:
        source = "import colorsys, no_such_module\nfrom xml.etree import ElementTree\nfrom xml.etree.ElementTree import XML\nif {}:\n    import cmd\n"
        with mock.patch.dict(sys.modules):
            for name in ("colorsys", "cmd", "xml.etree.ElementTree"):
                sys.modules.pop(name, None)
            self.joined(source, more=["sndhdr_of_nobody"], without=["cmd"])
            self.assertIn("colorsys", sys.modules)
            self.assertIn("xml.etree.ElementTree", sys.modules)
            self.assertNotIn("cmd", sys.modules)
        self.assertEqual(_script._failed, {"no_such_module": None, "sndhdr_of_nobody": None})
        self.assertEqual(_script._imported["colorsys"], {"colorsys"})
        self.assertEqual(_script._imported["xml.etree.ElementTree.XML"], set())


if __name__ == "__main__":
    unittest.main()
