"""Output and logging go to the host's log."""

from __future__ import annotations

import io
import sys
from typing import Any, NoReturn

from .. import _host
from .._text import plain
from ._replacing import Replaced


class Lines(io.TextIOBase):
    """A stream that writes its lines to the log."""

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


stdout = Lines(_host.INFO)
stderr = Lines(_host.WARN)


def streams(replaced: Replaced) -> None:
    for name, stream in (("stdout", stdout), ("stderr", stderr), ("stdin", io.StringIO())):
        for known in (getattr(sys, name), getattr(sys, f"__{name}__")):
            if known is not None:
                replaced.put(known, stream)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def logging_module(logging: Any, replaced: Replaced) -> None:
    from .. import _logging

    _logging.install(logging)
