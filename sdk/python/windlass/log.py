"""The plugin's log. The host adds the plugin, the controller, the object and the trace to each line.

The usual way to log is the standard `logging` module, whose records go to this log: levels are kept, `extra` becomes
fields, and an exception (`log.exception`, `exc_info`) becomes the field `stack`. Whole lines from `print` are logged as
`info`, and lines to `sys.stderr` as `warn`. Never log values of a Secret.

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from . import _host
from ._text import plain

__all__ = ["TRACE", "Level", "debug", "error", "info", "trace", "warning", "write"]

Level = Literal["trace", "debug", "info", "warn", "error"]

#: The number of the level below `logging.DEBUG`: `logging.getLogger().log(windlass.log.TRACE, "every detail")`.
TRACE = 5

_LEVELS = {"trace": _host.TRACE, "debug": _host.DEBUG, "info": _host.INFO, "warn": _host.WARN, "error": _host.ERROR}


def write(level: Level, message: str, fields: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
    """Writes a line, with fields."""
    pairs = fields.items() if isinstance(fields, Mapping) else fields
    _host.current.log(_LEVELS[level], plain(message), [(plain(key), plain(value)) for key, value in pairs])


def trace(message: str, /, **fields: object) -> None:
    """Writes a line about a detail."""
    write("trace", message, fields)


def debug(message: str, /, **fields: object) -> None:
    """Writes a line for finding faults."""
    write("debug", message, fields)


def info(message: str, /, **fields: object) -> None:
    """Writes a line about an action."""
    write("info", message, fields)


def warning(message: str, /, **fields: object) -> None:
    """Writes a line about a problem that someone should look at."""
    write("warn", message, fields)


def error(message: str, /, **fields: object) -> None:
    """Writes a line about a failure."""
    write("error", message, fields)
