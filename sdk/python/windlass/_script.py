"""The plugin that `windlass dev` builds: an interpreter that imports the author's sources from the component's script.

The build of a component takes 20 seconds. Nearly all of that goes into parts that no edit changes: the interpreter, this
package, and other packages. So `windlass dev` builds a *base* of these parts once, with this module as its application. It
appends the sources to the base, as JSON in the component's last section (`script` in wit/). An instance imports `app` from
there at its first call.

The plugin must behave like a plugin of `windlass build`, which imports `app` at the end of the build. So while `app` is
imported here, there is no host, the time is the time of the base's build, and random numbers are always the same. Files,
and modules that the base has not imported, exist only in a build. If the plugin asks for one, this is noted even if the
plugin catches the error, and `windlass dev` makes another base, or a whole build.

A component keeps the modules that were imported during its build, and a call can import no others. So a base fits only
sources that import the same modules from elsewhere. With a module less, the plugin would fail. With a module more, a call
could import a module that it cannot import after `windlass build`. In both cases `windlass dev` makes another base.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import linecache
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import _entry, _host
from ._runtime import _absent, end
from ._text import plain

_APP = "app"
#: The folder of the sources, as componentize-py names the first one.
_ROOT = "/0/"
_METHODS = {
    "Reconciler": ("describe", "reconcile"),
    "Mapper": ("map", "matches"),
    "Composer": ("describe", "compose"),
    "Customize": ("customize",),
}

# The beginnings of errors in `describe`, and the mark for the end of a line in them. `windlass dev` reads them:
# host/author/src/edits.rs.
_LACKS = "the base lacks modules: "
_UNUSED = "the base has unused modules: "
_WHOLE = "this needs a whole build: "
_LINE_END = " ⏎ "
#: Conditions that only hold for a type checker.
_FOR_TYPES = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
#: The host keeps 2 KiB of an error in `describe`.
_ERROR_BYTES = 1800

#: When the base was built.
_BUILT = divmod(time.time_ns(), 1_000_000_000)
#: The modules whose import failed when the base was built, with the error, or None if there is no such module.
_failed: dict[str, BaseException | None] = {}
#: The names that the base has imported for the plugin, each with the modules that this has loaded.
_imported: dict[str, set[str]] = {}
#: The component's script. Only a base has one.
_text: Callable[[], str]
_plugin: ModuleType | None = None


class _Lacks(Exception):
    """The plugin imports modules which the base has not tried to import."""


class _Unused(Exception):
    """The base has imported modules which the plugin does not import."""


class _NeedsWholeBuild(Exception):
    """The plugin does something that it can only do in a build."""


def exports(script: str, more: Iterable[str], without: Iterable[str]) -> dict[str, type]:
    """The classes that the base exports. For the end of the base's build: the modules that the plugin takes from elsewhere, and `more`, are
    imported now, since they cannot be later. Modules in `without` are left out: the sources name them, but do not import them."""
    from wit_world.imports import script as binding  # type: ignore[import-not-found]

    from . import _wit_exports

    global _text
    _text = binding.text
    sys.addaudithook(_refuse_to_open)
    files, _ = _contents(script)
    for name in dict.fromkeys((*more, *(name for name in outside(files) if name not in without))):
        before = set(sys.modules)
        _import_outside(name)
        _imported[name] = sys.modules.keys() - before
    return {
        interface: type(interface, (_entry._Export,), {method: _forward(interface, method) for method in methods})
        for interface, methods in _METHODS.items()
        if _wit_exports.has_export(interface)
    }


def _refuse_to_open(event: str, arguments: Any) -> None:
    """Refuses to open files. For a syntax error, the compiler opens its file, which would end the instance."""
    if event == "open" and _absent.noted is not None:
        raise OSError(f"a plugin has no files, such as {arguments[0]!r}")


def _import_outside(name: str) -> None:
    parent, _, member = name.rpartition(".")
    if parent:
        _import_outside(parent)
        if parent in _failed or hasattr(sys.modules.get(parent), member):  # the member of a `from … import` need not be a module
            return
    try:
        importlib.import_module(name)
    except BaseException as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        _failed[name] = None if is_missing else error.with_traceback(None)


def _contents(script: str) -> tuple[dict[str, str], set[str]]:
    """The source of each file, and the folders whose files are not in the script."""
    contents = json.loads(script)
    files = {path: source for path, source in contents.items() if source is not None}
    return files, contents.keys() - files.keys()


def outside(files: dict[str, str]) -> list[str]:
    """The modules that are not in `files` and that `app` imports while it is imported.

    A top-level folder without `__init__.py` is among them, because a package may have modules for the same namespace.
    """
    found: dict[str, None] = {}
    own, seen, todo = _top_modules(files), set(), [_APP]
    while todo:
        module = todo.pop()
        file, is_package = _file_of(module, files)
        if module in seen:
            continue
        seen.add(module)
        if file is None:
            if module in own:
                found[module] = None
            continue
        for name in _imports(ast.parse(files[file], _ROOT + file), module if is_package else module.rpartition(".")[0]):
            if name.partition(".")[0] in own:
                todo.extend(_with_parents(name))
            else:
                found[name] = None
    return list(found)


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The names that a module imports when it is imported. Each member of a `from … import` may be a module."""
    is_for_types = isinstance(tree, ast.If) and isinstance(tree.test, ast.Name | ast.Attribute) and ast.unparse(tree.test) in _FOR_TYPES
    for node in tree.orelse if is_for_types else ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(node.module or "", package, node.level)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names if alias.name != "*")
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield from _imports(node, package)


def _absolute(module: str, package: str, level: int) -> str:
    """The name of a module that `package` imports with `level` dots in front."""
    above = package.rsplit(".", level - 1)[0] if level else ""
    return ".".join(part for part in (above, module) if part)


def _file_of(module: str, files: dict[str, str]) -> tuple[str | None, bool]:
    """The file of a module, and whether it is a package."""
    stem = module.replace(".", "/")
    for file, is_package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
        if file in files:
            return file, is_package
    return None, False


def _top_modules(files: dict[str, str]) -> set[str]:
    return {file.partition("/")[0].removesuffix(".py") for file in files}


class Importer:
    """Imports modules from the sources of a script."""

    def __init__(self, files: dict[str, str], left_out: Iterable[str] = ()) -> None:
        self._files = files
        self._left_out = left_out
        self._own = _top_modules(files)
        #: All names in imports so far, also if the module was imported before.
        self.asked: set[str] = set()
        #: The modules that neither the script nor the base has.
        self.missed: list[str] = []
        #: Why only a whole build can decide whether there is a module.
        self.undecided: list[str] = []
        for file, source in files.items():
            # Without a modification time, the cache never looks for a file.
            linecache.cache[_ROOT + file] = (len(source), None, source.splitlines(keepends=True), _ROOT + file)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Fills `asked`: Python asks no finder for a module that is in `sys.modules`."""
        bootstrap: Any = importlib._bootstrap  # type: ignore[attr-defined]
        statement, function = builtins.__import__, bootstrap._gcd_import

        def note(name: str, package: str | None, level: int, members: Iterable[str] | None) -> None:
            module = _absolute(name, package or "", level)
            self.asked.update(_with_parents(module))
            self.asked.update(f"{module}.{member}" for member in members or ())

        def by_statement(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
            note(name, (globals or {}).get("__package__"), level, fromlist)
            return statement(name, globals, locals, fromlist, level)

        def by_function(name: str, package: Any = None, level: int = 0) -> Any:
            note(name, package, level, None)
            return function(name, package, level)

        builtins.__import__, bootstrap._gcd_import = by_statement, by_function
        try:
            yield
        finally:
            builtins.__import__, bootstrap._gcd_import = statement, function

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        file, is_package = _file_of(name, self._files)
        folder = name.replace(".", "/")
        if file is not None:
            spec = ModuleSpec(name, self, origin=_ROOT + file, is_package=is_package)
            spec.has_location = True
        elif any(other.startswith(folder + "/") for other in self._files) and not self._is_elsewhere(name):
            spec = ModuleSpec(name, None, is_package=True)  # a namespace package
        elif folder in self._left_out:
            self.undecided.append(f"app.py imports {name} from a folder that `windlass dev` does not follow")
            return None
        else:
            return self._elsewhere(name)
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(_ROOT + folder)
        return spec

    def _is_elsewhere(self, name: str) -> bool:
        """Whether a package may have a module with the name of a top-level folder. A folder without `__init__.py` comes after it."""
        return name in self._own and _failed.get(name, name) is not None

    def _elsewhere(self, name: str) -> None:
        top = name.partition(".")[0]
        if top != name and top in self._own:
            return  # All modules of an own package are in the script.
        if name not in _failed:
            if name in self.asked:
                self.missed.append(name)
            else:
                self.undecided.append(f"app.py looks for {name} and does not import it")
        elif (error := _failed[name]) is not None:
            raise error

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        file = module.__spec__.origin if module.__spec__ else None
        code = compile(self.get_source(module.__name__) or "", file or module.__name__, "exec", dont_inherit=True)
        exec(code, module.__dict__)

    def get_source(self, name: str) -> str | None:
        """For `inspect` and `linecache`."""
        file, _ = _file_of(name, self._files)
        return None if file is None else self._files[file]


class _Building(_host.NoHost):
    """Stands in for the host while the plugin is imported. It is the same in each instance."""

    def __init__(self, log: Callable[[int, str, _host.Pairs], None] | None) -> None:
        self._log = log
        self._state = 0

    def log(self, level: int, message: str, fields: _host.Pairs) -> None:
        if self._log is not None:
            self._log(level, message, fields)

    def now(self) -> tuple[int, int]:
        return _BUILT

    def random_u32(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return self._state >> 32

    def random_bytes(self, length: int) -> bytes:
        return b"".join(self.random_u32().to_bytes(4, "little") for _ in range((length + 3) // 4))[:length]


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts) + 1)]


def _unused(asked: set[str]) -> list[str]:
    """The names that the base has imported and that are not in `asked`, except names that have loaded no module."""
    unused = [name for name in _imported if name not in asked]
    # The next base must not load these modules through another name.
    loaded = {module for name in unused for module in _imported[name]}
    return [name for name in unused if _imported[name] or name in loaded]


def load(script: str, log: Callable[[int, str, _host.Pairs], None] | None) -> ModuleType:
    """Imports the plugin. Lines that it writes meanwhile go to `log`, if that is not None."""
    files, left_out = _contents(script)
    for name in _top_modules(files) & sys.modules.keys():
        raise _NeedsWholeBuild(f"{name} is the name of a module that the base has")
    importer, refused = Importer(files, left_out), []  # type: ignore[var-annotated]
    try:
        with _importing(importer, _Building(log), refused), importer.noting():
            app = importlib.import_module(_APP)
            if not hasattr(app, "Reconciler") and not hasattr(app, "Composer"):
                raise RuntimeError("app.py registers no plugin: a function needs @windlass.reconciler(…) or @windlass.composer(…)")
    finally:
        if importer.undecided:
            raise _NeedsWholeBuild(importer.undecided[0])
        if importer.missed:
            raise _Lacks(" ".join(importer.missed))
        if refused:
            raise _NeedsWholeBuild(f"app.py calls {refused[0]} when it is imported")
    if unused := _unused(importer.asked):
        raise _Unused(" ".join(unused))
    return app


@contextmanager
def _importing(importer: Importer, host: _host.Host, refused: list[str]) -> Iterator[None]:
    """Imports from `importer`. Lists in `refused` the functions that modules call but a plugin does not have."""
    finders, outer = sys.meta_path[:], _host.current
    sys.meta_path[:] = [finder for finder in finders if not isinstance(finder, _absent.NoLateImports)]
    sys.meta_path.append(importer)
    _host.current, _absent.noted = host, refused
    logging = sys.modules.get("logging")
    if logging is not None:
        from . import _logging

        _logging.uninstall()
    try:
        yield
        end()
    finally:
        sys.meta_path[:] = finders
        _host.current, _absent.noted = outer, None
        if logging is not None:
            _logging.install(logging)


def _forward(interface: str, method: str) -> Callable[..., Any]:
    """Creates a method of an export. It calls the method of the plugin's own class."""

    def call(self: Any, *asked: Any) -> Any:
        return getattr(getattr(_loaded(method != "describe"), interface), method)(self, *asked)

    return call


def _loaded(in_call: bool) -> ModuleType:
    """The plugin, imported at the first call. An error is logged, and ends the instance."""
    global _plugin
    if _plugin is None:
        to_host = _entry._wit.HOST.log
        try:
            _plugin = load(_text(), to_host if in_call else None)  # `describe` may not log
        except BaseException as error:
            to_host(_host.ERROR, plain(told(error)), [])
            raise
    return _plugin


def told(error: BaseException) -> str:
    """An error on one line, for the message of the build."""
    if isinstance(error, _Lacks):
        return f"{_LACKS}{error}"
    if isinstance(error, _Unused):
        return f"{_UNUSED}{error}"
    if isinstance(error, _NeedsWholeBuild):
        return f"{_WHOLE}{error}"
    report = traceback.TracebackException.from_exception(error)
    own = (__file__, "<frozen importlib", getattr(importlib, "__file__", None) or __file__)
    report.stack = traceback.StackSummary.from_list([frame for frame in report.stack if not frame.filename.startswith(own)])
    text = "".join(report.format()).strip().replace(f'File "{_ROOT}', 'File "')
    coded = text.encode(errors="replace")
    if len(coded) > _ERROR_BYTES:
        text = coded[:200].decode(errors="ignore") + "\n…\n" + coded[200 - _ERROR_BYTES :].decode(errors="ignore")
    return text.replace("\n", _LINE_END)
