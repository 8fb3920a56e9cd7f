"""Files, sockets, threads, processes, waiting, late imports: these facilities raise an error that names an alternative."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from typing import Any, NoReturn

from .._errors import NotAvailable
from ._replacing import Replaced


#: While a script is imported, a list of the calls that were refused, even if the caller catches the error.
noted: list[str] | None = None


def _refusal(what: str, instead: str, error: int = errno.ENOTSUP) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        given = ", ".join(repr(arg) for arg in args[:1])
        if noted is not None:
            noted.append(f"{what}({given})")
        raise NotAvailable(error, f"{what}({given}): {instead}")

    refuse.__name__ = refuse.__qualname__ = what.rpartition(".")[2]
    return refuse


_NO_FILES = (
    "a plugin has no files. At the top of app.py, read the files that the component needs, "
    "or keep the content in the configuration or a ConfigMap"
)
_NO_SOCKETS = "a plugin has no sockets. Use windlass.http, and name the host in the manifest"
_NO_THREADS = "a plugin has one thread, and cannot start another"
_NO_PROCESSES = "a plugin cannot start processes"
_FILE_CALLS = (
    "open stat lstat fstat listdir scandir mkdir rmdir remove unlink rename replace link symlink readlink chmod utime access "
    "truncate ftruncate read write pread pwrite readv writev close closerange lseek pipe chdir fchdir statvfs fstatvfs fsync fdatasync "
    "dup dup2 mkfifo isatty set_blocking get_blocking sync posix_fallocate posix_fadvise getcwd getcwdb set_inheritable fdopen popen"
).split()


def files(replaced: Replaced) -> None:
    for name in _FILE_CALLS:
        known = getattr(os, name, None)
        if known is not None:
            replaced.put(known, _refusal(f"os.{name}", _NO_FILES))
    replaced.put(io.open, _refusal("open", _NO_FILES))
    replaced.put(io.open_code, _refusal("io.open_code", _NO_FILES))


def others(replaced: Replaced) -> None:
    for name in ("fork", "forkpty", "system", "execv", "execve", "posix_spawn", "posix_spawnp", "kill", "waitpid"):
        if hasattr(os, name):
            replaced.put(getattr(os, name), _refusal(f"os.{name}", _NO_PROCESSES))
    import _thread

    for name in ("start_new_thread", "start_new", "start_joinable_thread"):
        if hasattr(_thread, name):
            replaced.put(getattr(_thread, name), _refusal("threading.Thread.start", _NO_THREADS))


def socket_module(socket: Any, replaced: Replaced) -> None:
    refuse = _refusal("socket.socket", _NO_SOCKETS)
    socket.socket.__init__ = lambda self, *args, **kwargs: refuse()
    socket.socket.__del__ = lambda self: None
    socket.socket.__repr__ = object.__repr__
    for name in ("create_connection", "getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "gethostname",
                 "getfqdn", "socketpair", "create_server"):  # fmt: skip
        if hasattr(socket, name):
            replaced.put(getattr(socket, name), _refusal(f"socket.{name}", _NO_SOCKETS))


def select_module(select: Any, replaced: Replaced) -> None:
    for name in ("select", "poll", "epoll"):
        if hasattr(select, name):
            replaced.put(getattr(select, name), _refusal(f"select.{name}", _NO_SOCKETS))


def subprocess_module(subprocess: Any, replaced: Replaced) -> None:
    refuse = _refusal("subprocess.Popen", _NO_PROCESSES)
    subprocess.Popen.__init__ = lambda self, *args, **kwargs: refuse(*args)
    subprocess.Popen.__del__ = lambda self, *args: None


def asyncio_module(asyncio: Any, replaced: Replaced) -> None:
    """An event loop that only runs callbacks that are ready: tasks, gathering, timeouts. A plugin has nothing to wait
    for."""
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


class NoLateImports:
    """The last finder of modules. All modules that a plugin can use are imported already, so it raises an error."""

    __name__ = "NoLateImports"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> NoReturn:
        raise ModuleNotFoundError(
            f"{name} is imported within a call, and the component holds only what was imported when it was built: "
            "move the import to the top of app.py",
            name=name,
        )
