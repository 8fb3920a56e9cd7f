"""Replaces objects of the interpreter, wherever other code already refers to them.

Only this package keeps the originals, because its replacements use them.

"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable
from typing import Any


class Replaced:
    """A map from originals to replacements, by identity. It keeps the originals alive, because the address of a freed
    object is soon reused."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Any, Any]] = {}

    def put(self, old: Any, new: Any) -> None:
        self._by_id[id(old)] = (old, new)

    def new(self, value: Any) -> Any:
        known = self._by_id.get(id(value))
        return value if known is None else known[1]


def replace(replaced: Replaced) -> None:
    """Replaces all references to the originals, such as `from time import sleep` in another module, a default value of
    a function, a closure, or an attribute of a class."""
    new = replaced.new
    for module in list(sys.modules.values()):
        members = getattr(module, "__dict__", None)
        if isinstance(members, dict) and not _is_own(members.get("__name__")):
            _swap(members, new)
    for known in gc.get_objects():
        if isinstance(known, types.FunctionType) and not _is_own(known.__module__):
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


def _is_own(module: object) -> bool:
    return isinstance(module, str) and module.startswith(_PACKAGE)


_PACKAGE = __name__.rpartition(".")[0]

#: The flag of types that are defined in Python.
_HEAP_TYPE = 1 << 9


def _swap(members: dict[str, Any], new: Callable[[Any], Any]) -> None:
    for name, value in list(members.items()):
        other = new(value)
        if other is not value:
            members[name] = other
