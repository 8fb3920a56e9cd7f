"""The time is the host's, in UTC."""

from __future__ import annotations

import datetime
import errno
import gc
import sys
import time
import types
from collections.abc import Callable
from typing import Any, NoReturn

from .. import _host
from .._errors import NotAvailable
from ._replacing import Replaced

_NS = 1_000_000_000


def _now_ns() -> int:
    seconds, nanoseconds = _host.current.now()
    return seconds * _NS + nanoseconds


def _now() -> float:
    return _now_ns() / _NS


def _sleep(seconds: float, /) -> NoReturn:
    raise NotAvailable(
        errno.ENOTSUP,
        f"time.sleep({seconds!r}): a plugin cannot wait within a call. Return windlass.requeue_after({seconds!r}) to be called again, "
        "or declare a watch of the object that it waits for",
    )


def clocks(replaced: Replaced) -> None:
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
    # UTC is the only time zone.
    put("gmtime", lambda seconds=None, /: gmtime(_now_ns() // _NS if seconds is None else seconds))
    put("localtime", lambda seconds=None, /: gmtime(_now_ns() // _NS if seconds is None else seconds))
    put("ctime", lambda seconds=None, /: asctime(gmtime(_now_ns() // _NS if seconds is None else seconds)))
    put("asctime", lambda tuple=None, /: asctime(gmtime(_now_ns() // _NS) if tuple is None else tuple))
    put("strftime", lambda form, tuple=None, /: strftime(form, gmtime(_now_ns() // _NS) if tuple is None else tuple))


def calendar(replaced: Replaced) -> None:
    """Replaces `datetime.now`, which asks the system from C code. The type can only be changed through its dict. This
    also reaches modules that have imported it before."""

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
