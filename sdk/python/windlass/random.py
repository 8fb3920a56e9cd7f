"""The host's randomness, so that a call can be replayed. It is cryptographically secure for a reconciler. For a
composer it is the same in each call about a parent, and not secret.

The standard `random`, `secrets`, `uuid` and `os.urandom` use it as well.

"""

from __future__ import annotations

import builtins

from . import _host
from ._text import number as _number

__all__ = ["bytes", "number"]


def number() -> int:
    """Four random bytes as a number."""
    return _host.current.random_u32()


def bytes(length: int) -> builtins.bytes:
    """This many random bytes."""
    return _host.current.random_bytes(_number(length, "the number of random bytes"))
