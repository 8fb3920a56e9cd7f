"""Randomness comes from the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .. import _host
from ._replacing import Replaced

#: Functions that run at the start of each call, for modules that the plugin uses and that keep a state.
at_begin: list[Callable[[], None]] = []


def _urandom(size: int, /) -> bytes:
    # The bytes are drawn as numbers, because a call for bytes returns at most 64 KiB.
    numbers = b"".join(_host.current.random_u32().to_bytes(4, "little") for _ in range((size + 3) // 4))
    return numbers[:size]


def _seed() -> int:
    return _host.current.random_u32() << 32 | _host.current.random_u32()


def system(replaced: Replaced) -> None:
    replaced.put(os.urandom, _urandom)
    if hasattr(os, "getrandom"):
        replaced.put(os.getrandom, lambda size, flags=0: _urandom(size))


def random_module(random: Any, replaced: Replaced) -> None:
    seed = random.Random.seed

    def seeded(self: Any, a: Any = None, version: int = 2) -> None:
        seed(self, _seed() if a is None else a, version)

    random.Random.seed = seeded
    generator = random._inst
    at_begin.append(lambda: seed(generator, _seed()))


def uuid_module(uuid: Any, replaced: Replaced) -> None:
    """Removes state of `uuid`, which would make results depend on earlier calls of the instance."""
    uuid.getnode = lambda: int.from_bytes(_urandom(6), "big") | 1 << 40
    initial = {name: value for name, value in vars(uuid).items() if name.startswith("_last_")}
    at_begin.append(lambda: vars(uuid).update(initial))
