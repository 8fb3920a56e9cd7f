"""The host's requests to a plugin, created from objects."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from .._calls import CompositionRequest, Request
from .._mapping import Change
from .._text import encode


def request(obj: Mapping[str, Any] | None, *, controller: str = "test", deleting: bool | None = None, attempt: int = 0) -> Request:
    """A request for an object. It is for a deletion if the object has a `deletionTimestamp`, unless set otherwise."""
    metadata: Mapping[str, Any] = {} if obj is None else obj["metadata"]
    return Request(
        controller,
        metadata.get("name", "gone"),
        metadata.get("namespace", "default" if obj is None else None),
        metadata.get("uid"),
        None if obj is None else encode(obj),
        bool(metadata.get("deletionTimestamp")) if deleting is None else deleting,
        attempt,
        "0123456789abcdef0123456789abcdef",
    )


def change(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Change:
    """A change, with copies of the states."""
    old, new = (None if state is None else copy.deepcopy(dict(state)) for state in (old, new))
    return Change(old, new)


def composition_request(
    parent: Mapping[str, Any],
    *,
    children: Iterable[Mapping[str, Any]] = (),
    related: Iterable[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    deleting: bool | None = None,
    controller: str = "test",
) -> CompositionRequest:
    """A composition request for a parent."""
    asked = request(parent, controller=controller, deleting=deleting)
    about = Request(asked.controller, asked.name, asked.namespace, asked.uid, None, asked.deleting, 0, asked.trace_id)
    return CompositionRequest(about, encode(parent), [*map(encode, children)], [*map(encode, related)], encode(config or {}))
