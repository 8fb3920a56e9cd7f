"""The operator's configuration of the plugin."""

from __future__ import annotations

from . import _host
from ._objects import Object
from ._text import decode

__all__ = ["get"]


def get() -> Object:
    """The configuration, which is valid by the manifest's `config_schema`; `{}` if there is none. It may contain values
    of Secrets, so do not log it."""
    document: Object = decode(_host.current.config())
    return document
