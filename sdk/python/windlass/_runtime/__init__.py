"""Adapts the interpreter of a component. Time and randomness come from the host, and output and logging go to its log.
Facilities that a plugin does not have (files, sockets, threads, sleep, late imports) raise an error that says so.

componentize-py runs the interpreter up to the end of the application's imports, and stores its memory. Its clock, its
seeds and its open files would be those of the build, and a later system call would end the instance. So `seal` replaces
everything that makes system calls, as the last step of the build. Outside a component nothing is replaced. Only
`_entry` uses this package.

"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any

from . import _absent, _chance, _output, _time
from ._replacing import Replaced, replace
from ._warmth import warm_up

_sealed = False

#: Replacements in modules that only some plugins import.
_MODULES: dict[str, Callable[[Any, Replaced], None]] = {
    "random": _chance.random_module,
    "uuid": _chance.uuid_module,
    "socket": _absent.socket_module,
    "select": _absent.select_module,
    "subprocess": _absent.subprocess_module,
    "asyncio": _absent.asyncio_module,
    "logging": _output.logging_module,
}


def begin() -> None:
    """Starts a call."""
    for act in _chance.at_begin:
        act()


def end() -> None:
    """Ends a call: an unfinished line of output becomes a line of the log."""
    _output.stdout.finish()
    _output.stderr.finish()


def seal() -> None:
    """Ends the build. componentize-py calls it more than once."""
    global _sealed
    if _sealed:
        return
    _sealed = True
    warm_up()
    if "random" not in sys.modules:
        # componentize-py imports `random` at the very end of the build. Other code must not use it before, because it
        # would not have the host's seed.
        import random  # noqa: F401

        _chance.at_begin.append(_forget_random)
        del _MODULES["random"]
    replaced = Replaced()
    for prepare in (_time.clocks, _time.calendar, _chance.system, _absent.files, _absent.others, _output.streams):
        prepare(replaced)
    for module, prepare_module in _MODULES.items():
        if module in sys.modules:
            prepare_module(sys.modules[module], replaced)
    replace(replaced)
    os.environ.clear()
    sys.path_importer_cache.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") in ("BuiltinImporter", "FrozenImporter")]
    sys.meta_path.append(_absent.NoLateImports())
    # The objects that exist now are never freed. Without this, each garbage collection would copy their memory into the
    # instance.
    gc.collect()
    gc.freeze()


def _forget_random() -> None:
    sys.modules.pop("random", None)
