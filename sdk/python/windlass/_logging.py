"""The standard `logging`, forwarded to the host's log."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from typing import Any

from . import _host
from ._text import plain

def level_of(number: int) -> int:
    """Converts a level of `logging` to the host's level."""
    if number >= logging.ERROR:
        return _host.ERROR
    if number >= logging.WARNING:
        return _host.WARN
    if number >= logging.INFO:
        return _host.INFO
    return _host.DEBUG if number >= logging.DEBUG else _host.TRACE


#: The attributes of the standard library's records. All other attributes come from `extra`.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class Record(logging.LogRecord):
    """A record that asks for the time only if a formatter uses it, and that has no data about processes and threads.

    Its own attributes are in slots, so that `extra` may use any name: its dict contains only `extra`.

    """

    __slots__ = (
        "args", "asctime", "exc_info", "exc_text", "filename", "funcName", "levelname", "levelno", "lineno", "message", "module",
        "msg", "name", "pathname", "process", "processName", "stack_info", "taskName", "thread", "threadName",
    )  # fmt: skip

    def __init__(
        self, name: str, level: int, pathname: str, lineno: int, msg: object, args: Any, exc_info: Any,
        func: str | None = None, sinfo: str | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        if args and len(args) == 1 and isinstance(args[0], Mapping) and args[0]:
            args = args[0]
        self.name, self.levelno, self.levelname, self.msg, self.args = name, level, logging.getLevelName(level), msg, args
        self.exc_info, self.stack_info, self.funcName = exc_info, sinfo, func or ""
        self.lineno, self.pathname = lineno, pathname
        self.exc_text = self.thread = self.threadName = self.processName = self.process = self.taskName = None
        self.filename = self.module = ""

    @property
    def created(self) -> float:  # type: ignore[override]
        """The time of the call."""
        seconds, nanoseconds = _host.current.now()
        return seconds + nanoseconds / 1e9

    @property
    def msecs(self) -> float:  # type: ignore[override]
        """The milliseconds within the second."""
        return self.created % 1 * 1000

    @property
    def relativeCreated(self) -> float:  # type: ignore[override]
        """Always 0: the time since the call began is not measured."""
        return 0.0


class Handler(logging.Handler):
    """Sends each record to the host: its message, the values of `extra` as fields, and an exception as the field
    `stack`."""

    def _extra(self, record: logging.LogRecord) -> list[tuple[str, Any]]:
        if isinstance(record, Record):
            return list(vars(record).items())
        return [(key, value) for key, value in vars(record).items() if key not in _OWN]

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage() if record.args else str(record.msg)
        except Exception as error:
            # As in `logging`: a wrong format is reported, but does not fail the call.
            message = f"{record.msg!r} % {record.args!r}: {error!r}"
        fields = [(plain(key), plain(value)) for key, value in self._extra(record)]
        if record.exc_info and record.exc_info[0] is not None:
            fields.append(("stack", plain("".join(traceback.format_exception(*record.exc_info)).strip())))
        elif record.stack_info:
            fields.append(("stack", plain(record.stack_info)))
        _host.current.log(level_of(record.levelno), plain(message), fields)


_original_log = logging.Logger._log


def _log(
    self: logging.Logger, level: int, msg: object, args: Any, exc_info: Any = None, extra: Any = None, stack_info: bool = False,
    stacklevel: int = 1,
) -> None:  # fmt: skip
    """Logs a line as `logging` does, but in a third of the time, if there are no additional handlers or filters. That
    is the usual case in a plugin."""
    logger: logging.Logger | None = self
    if exc_info or stack_info or self.filters or not isinstance(msg, str):
        logger = None
    while logger is not None and logger.parent is not None:
        logger = None if logger.handlers or not logger.propagate else logger.parent
    if logger is None or len(logger.handlers) != 1 or type(logger.handlers[0]) is not Handler or logger.handlers[0].filters:
        _original_log(self, level, msg, args, exc_info, extra, stack_info, stacklevel)
        return
    text: str = msg if isinstance(msg, str) else str(msg)
    if args:
        try:
            first = args[0] if len(args) == 1 else None
            text = text % (first if first and isinstance(first, Mapping) else args)
        except Exception as error:
            text = f"{msg!r} % {args!r}: {error!r}"
    fields = [(plain(key), plain(value)) for key, value in extra.items()] if extra else []
    _host.current.log(level_of(level), plain(text), fields)


def install(module: Any = logging) -> None:
    """Sends all log records to the host, which decides which of them it keeps."""
    logging.addLevelName(5, "TRACE")
    root = logging.getLogger()
    root.handlers[:] = [Handler()]
    logging.setLogRecordFactory(Record)
    logging.Logger._log = _log  # type: ignore[method-assign]
    if root.level == logging.WARNING:  # the level was not changed
        root.setLevel(1)
    # No field shows these values, so `logging` need not look for them.
    for name in ("logThreads", "logProcesses", "logMultiprocessing", "logAsyncioTasks"):
        setattr(logging, name, False)
    logging.raiseExceptions = False
    logging._srcfile = None


def uninstall() -> None:
    """Restores the root logger's state from before `install`, for a plugin that is imported only now."""
    root = logging.getLogger()
    root.handlers.clear()
    root.setLevel(logging.WARNING)
