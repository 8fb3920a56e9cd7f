"""Makes the interpreter of a component behave: time and randomness are the host's, output and logging lead to its log, and what a
plugin has not (files, sockets, threads, sleep, late imports) says so.

componentize-py runs the interpreter up to the end of the application's imports, and keeps what it finds in memory: its clock, its
seeds and its open files would be those of the build, and each system call afterwards ends the instance. So `seal` replaces, as the
last act of the build, whatever would make one. Nothing of this happens natively. Called by `_entry` alone.
"""

from __future__ import annotations

import codecs
import datetime
import errno
import gc
import io
import linecache
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

from . import _host
from ._errors import NotAvailable
from ._text import plain

_NS = 1_000_000_000

_sealed = False

#: What is done at the start of each call, for modules that the plugin uses and that keep a state.
_at_begin: list[Callable[[], None]] = []


class _Replaced:
    """What is replaced by what. Told by the object itself, which is kept: the address of one that is gone is soon another's."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, Any]] = {}

    def put(self, old: Any, new: Any) -> None:
        self._by_id[id(old)] = (old, new)

    def new(self, value: Any) -> Any:
        known = self._by_id.get(id(value))
        return value if known is None else known[1]


def begin() -> None:
    """A call begins."""
    for act in _at_begin:
        act()


def end() -> None:
    """A call ends: what has no end of line is a line all the same."""
    _stdout.finish()
    _stderr.finish()


def seal() -> None:
    """The build ends. componentize-py asks for it more than once."""
    global _sealed
    if _sealed:
        return
    _sealed = True
    _warm_up()
    if "random" not in sys.modules:
        # componentize-py imports it at the very end of the build. Nobody else may have it, for it would have no seed of the host's.
        import random  # noqa: F401

        _at_begin.append(_forget_random)
        del _MODULES["random"]
    replaced = _Replaced()
    for prepare in (_time, _datetime, _random, _files, _others, _output):
        prepare(replaced)
    for module, prepare_module in _MODULES.items():
        if module in sys.modules:
            prepare_module(sys.modules[module], replaced)
    _replace(replaced)
    os.environ.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") in ("BuiltinImporter", "FrozenImporter")]
    sys.meta_path.append(_NoLateImports())
    # What is there now lives for ever: looking through it would copy its memory into each instance.
    gc.collect()
    gc.freeze()


def _forget_random() -> None:
    sys.modules.pop("random", None)


# --- Time ---


def _now_ns() -> int:
    seconds, nanoseconds = _host.current.now()
    return seconds * _NS + nanoseconds


def _now() -> float:
    return _now_ns() / _NS


def _sleep(seconds: float, /) -> NoReturn:
    raise NotAvailable(
        errno.ENOTSUP,
        f"time.sleep({seconds!r}): a plugin cannot wait within a call. Return windlass.requeue_after({seconds!r}) to be called again, "
        "or declare a watch of what it waits for",
    )


def _time(replaced: _Replaced) -> None:
    def put(name: str, new: Callable[..., Any]) -> None:
        old = getattr(time, name, None)
        if old is not None:
            new.__name__ = new.__qualname__ = name
            replaced.put(old, new)
            setattr(time, name, new)

    gmtime, asctime, strftime = time.gmtime, time.asctime, time.strftime
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        put(name, lambda: _now_ns() / _NS)
        put(f"{name}_ns", lambda: _now_ns())
    info = types.SimpleNamespace(implementation="windlass.clock", monotonic=True, adjustable=False, resolution=1e-9)
    put("get_clock_info", lambda name, /: info)
    put("clock_getres", lambda clock, /: 1e-9)
    put("clock_gettime", lambda clock, /: _now())
    put("clock_gettime_ns", lambda clock, /: _now_ns())
    put("sleep", lambda seconds, /: _sleep(seconds))
    # There is no other time zone than UTC.
    put("gmtime", lambda seconds=None, /: gmtime(_now_ns() // _NS if seconds is None else seconds))
    put("localtime", lambda seconds=None, /: gmtime(_now_ns() // _NS if seconds is None else seconds))
    put("ctime", lambda seconds=None, /: asctime(gmtime(_now_ns() // _NS if seconds is None else seconds)))
    put("asctime", lambda tuple=None, /: asctime(gmtime(_now_ns() // _NS) if tuple is None else tuple))
    put("strftime", lambda form, tuple=None, /: strftime(form, gmtime(_now_ns() // _NS) if tuple is None else tuple))


def _datetime(replaced: _Replaced) -> None:
    """`datetime.now` asks the system beneath Python. Its type cannot be changed but through the dict that it is made of, which
    has the merit of reaching whoever has imported it before."""

    def now(cls: Any, tz: Any = None) -> Any:
        seconds, nanoseconds = _host.current.now()
        return cls.fromtimestamp(seconds, tz).replace(microsecond=nanoseconds // 1000)

    def utcnow(cls: Any) -> Any:
        return now(cls, datetime.timezone.utc).replace(tzinfo=None)

    def today(cls: Any) -> Any:
        return now(cls)

    def date_today(cls: Any) -> Any:
        return cls.fromtimestamp(_now_ns() // _NS)

    members = gc.get_referents(datetime.datetime.__dict__)[0]
    members.update(now=classmethod(now), utcnow=classmethod(utcnow), today=classmethod(today))
    gc.get_referents(datetime.date.__dict__)[0]["today"] = classmethod(date_today)
    clear = getattr(sys, "_clear_internal_caches", None) or getattr(sys, "_clear_type_cache", None)
    if clear is not None:
        clear()


# --- Randomness ---


def _urandom(size: int, /) -> bytes:
    # By numbers: the bindings of componentize-py never give back the memory of bytes.
    numbers = b"".join(_host.current.random_u32().to_bytes(4, "little") for _ in range((size + 3) // 4))
    return numbers[:size]


def _seed() -> int:
    return _host.current.random_u32() << 32 | _host.current.random_u32()


def _random(replaced: _Replaced) -> None:
    replaced.put(os.urandom, _urandom)
    if hasattr(os, "getrandom"):
        replaced.put(os.getrandom, lambda size, flags=0: _urandom(size))


def _random_module(random: Any, replaced: _Replaced) -> None:
    seed = random.Random.seed

    def seeded(self: Any, a: Any = None, version: int = 2) -> None:
        seed(self, _seed() if a is None else a, version)

    random.Random.seed = seeded
    generator = random._inst
    _at_begin.append(lambda: seed(generator, _seed()))


def _uuid_module(uuid: Any, replaced: _Replaced) -> None:
    """What it remembers of earlier calls would depend on which instance runs the next one."""
    uuid.getnode = lambda: int.from_bytes(_urandom(6), "big") | 1 << 40
    initial = {name: value for name, value in vars(uuid).items() if name.startswith("_last_")}
    _at_begin.append(lambda: vars(uuid).update(initial))


# --- What a plugin has not ---


def _refusal(what: str, instead: str, error: int = errno.ENOTSUP) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        given = ", ".join(repr(arg) for arg in args[:1])
        raise NotAvailable(error, f"{what}({given}): {instead}")

    refuse.__name__ = refuse.__qualname__ = what.rpartition(".")[2]
    return refuse


_NO_FILES = (
    "a plugin has no files. Read at the top of app.py what is to come with the component, "
    "or keep it in the configuration or a ConfigMap"
)
_NO_SOCKETS = "a plugin has no sockets. Use windlass.http, and name the host in the manifest"
_NO_THREADS = "a plugin has one thread, and cannot start another"
_NO_PROCESSES = "a plugin cannot start processes"
_FILE_CALLS = (
    "open stat lstat fstat listdir scandir mkdir rmdir remove unlink rename replace link symlink readlink chmod utime access "
    "truncate ftruncate read write pread pwrite readv writev close closerange lseek pipe chdir fchdir statvfs fstatvfs fsync fdatasync "
    "dup dup2 mkfifo isatty set_blocking get_blocking sync posix_fallocate posix_fadvise getcwd getcwdb set_inheritable fdopen popen"
).split()


def _files(replaced: _Replaced) -> None:
    for name in _FILE_CALLS:
        known = getattr(os, name, None)
        if known is not None:
            replaced.put(known, _refusal(f"os.{name}", _NO_FILES))
    replaced.put(io.open, _refusal("open", _NO_FILES))
    replaced.put(io.open_code, _refusal("io.open_code", _NO_FILES))


def _others(replaced: _Replaced) -> None:
    for name in ("fork", "forkpty", "system", "execv", "execve", "posix_spawn", "posix_spawnp", "kill", "waitpid"):
        if hasattr(os, name):
            replaced.put(getattr(os, name), _refusal(f"os.{name}", _NO_PROCESSES))
    import _thread

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        if hasattr(_thread, name):
            replaced.put(getattr(_thread, name), _refusal("threading.Thread.start", _NO_THREADS))


def _socket_module(socket: Any, replaced: _Replaced) -> None:
    refuse = _refusal("socket.socket", _NO_SOCKETS)
    socket.socket.__init__ = lambda self, *args, **kwargs: refuse()
    socket.socket.__del__ = lambda self: None
    socket.socket.__repr__ = object.__repr__
    for name in ("create_connection", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "gethostname",
                 "getfqdn", "socketpair", "create_server"):  # fmt: skip
        if hasattr(socket, name):
            replaced.put(getattr(socket, name), _refusal(f"socket.{name}", _NO_SOCKETS))


def _select_module(select: Any, replaced: _Replaced) -> None:
    for name in ("select", "poll", "epoll"):
        if hasattr(select, name):
            replaced.put(getattr(select, name), _refusal(f"select.{name}", _NO_SOCKETS))


def _subprocess_module(subprocess: Any, replaced: _Replaced) -> None:
    refuse = _refusal("subprocess.Popen", _NO_PROCESSES)
    subprocess.Popen.__init__ = lambda self, *args, **kwargs: refuse(*args)
    subprocess.Popen.__del__ = lambda self, *args: None


def _asyncio_module(asyncio: Any, replaced: _Replaced) -> None:
    """A loop for what is ready at once: tasks, gathering, timeouts. There is nothing else to wait for."""
    from asyncio import base_events, events

    class Selector:
        def select(self, timeout: float | None) -> list[Any]:
            if timeout is None or timeout > 0:
                raise NotAvailable(
                    errno.ENOTSUP,
                    "asyncio: every task waits, and a plugin cannot wait within a call. "
                    "Return windlass.requeue_after(seconds) to be called again",
                )
            return []

        def close(self) -> None:
            pass

    class Loop(base_events.BaseEventLoop):
        def __init__(self) -> None:
            super().__init__()
            self._selector = Selector()

        def _process_events(self, event_list: list[Any]) -> None:
            pass

        def _write_to_self(self) -> None:
            pass

    replaced.put(events.new_event_loop, Loop)


class _NoLateImports:
    """The last finder of modules: at this time, all are imported that can be."""

    __name__ = "NoLateImports"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> NoReturn:
        raise ModuleNotFoundError(
            f"{name} is imported within a call, and the component holds only what was imported when it was built: "
            "move the import to the top of app.py",
            name=name,
        )


# --- Output ---


class _Lines(io.TextIOBase):
    """A stream whose lines go to the log."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level
        self._line = ""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> NoReturn:
        raise io.UnsupportedOperation("a plugin has no files")

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if "\n" in text:
            first, *rest = text.split("\n")
            self._send(self._line + first)
            for line in rest[:-1]:
                self._send(line)
            self._line = rest[-1]
        else:
            self._line += text
        return len(text)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def finish(self) -> None:
        if self._line:
            line, self._line = self._line, ""
            self._send(line)

    def _send(self, line: str) -> None:
        if line:
            _host.current.log(self._level, plain(line), [])


_stdout = _Lines(_host.INFO)
_stderr = _Lines(_host.WARN)


def _output(replaced: _Replaced) -> None:
    for name, stream in (("stdout", _stdout), ("stderr", _stderr), ("stdin", io.StringIO())):
        for known in (getattr(sys, name), getattr(sys, f"__{name}__")):
            if known is not None:
                replaced.put(known, stream)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _logging_module(logging: Any, replaced: _Replaced) -> None:
    from . import _logging

    _logging.install(logging)


_MODULES: dict[str, Callable[[Any, _Replaced], None]] = {
    "random": _random_module,
    "uuid": _uuid_module,
    "socket": _socket_module,
    "select": _select_module,
    "subprocess": _subprocess_module,
    "asyncio": _asyncio_module,
    "logging": _logging_module,
}


# --- The build's last acts ---


def _warm_up() -> None:
    """Has the library import now what it would import at first use, and reads the sources that tracebacks show."""
    import _strptime  # type: ignore[import-not-found]  # noqa: F401  `strptime` imports it
    import traceback

    if "logging" in sys.modules:
        from . import _logging  # noqa: F401  it looks at a record, which has a time

    for codec in ("ascii", "latin-1", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "unicode_escape", "hex", "base64"):
        codecs.lookup(codec)
    for broken in ("undefined_name", "''.undefined_attribute", "int('x')", "{}['x']"):
        try:
            eval(broken, {"defined_name": 1})
        except Exception as error:
            traceback.format_exception(ExceptionGroup("group", [error]))
    # The marks below a line of a traceback need a parse of it, whose failure would look for a file.
    if hasattr(traceback, "_extract_caret_anchors_from_line_segment"):
        traceback._extract_caret_anchors_from_line_segment = lambda segment: None
        traceback.StackSummary._should_show_carets = lambda self, *args: False  # type: ignore[attr-defined]
    linecache.clearcache()
    for module in list(sys.modules.values()):
        file, loader = getattr(module, "__file__", None), getattr(module, "__loader__", None)
        if loader is not None and file and file.startswith(("/0/", "/1/")) and hasattr(loader, "get_source"):
            source = loader.get_source(module.__name__) or ""
            # Without a time of its own it is never looked at again.
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)


def _replace(replaced: _Replaced) -> None:
    """Puts replacements wherever somebody has the originals already: `from time import sleep` in another module, a default value of
    a function, a closure, an attribute of a class."""
    new = replaced.new
    for module in list(sys.modules.values()):
        members = getattr(module, "__dict__", None)
        if isinstance(members, dict) and module is not sys.modules[__name__]:
            _swap(members, new)
    for known in gc.get_objects():
        if isinstance(known, types.FunctionType) and known.__module__ != __name__:
            if known.__defaults__:
                known.__defaults__ = tuple(map(new, known.__defaults__))
            if known.__kwdefaults__:
                _swap(known.__kwdefaults__, new)
            for cell in known.__closure__ or ():
                try:
                    cell.cell_contents = new(cell.cell_contents)
                except ValueError:  # an empty cell
                    pass
        elif isinstance(known, type) and known.__flags__ & _HEAP_TYPE:
            for name, value in list(vars(known).items()):
                plain_value = value.__func__ if isinstance(value, staticmethod) else value
                other = new(plain_value)
                if other is not plain_value:
                    setattr(known, name, staticmethod(other))


#: The flag of types that are made in Python.
_HEAP_TYPE = 1 << 9


def _swap(members: dict[str, Any], new: Callable[[Any], Any]) -> None:
    for name, value in list(members.items()):
        other = new(value)
        if other is not value:
            members[name] = other
