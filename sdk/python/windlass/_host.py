"""The host's interface in this package, and the current host: the real one in a component, a double in a test, and
otherwise none.

The modules of this package use it, and plugins use those modules. Objects are passed as JSON texts. A failed request
raises `ApiError`.

"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ._errors import ApiError
from ._objects import ObjectRef

Pairs = list[tuple[str, str]]

#: The levels of the host's log, by number.
TRACE, DEBUG, INFO, WARN, ERROR = range(5)


@dataclass(frozen=True)
class Query:
    """The conditions of a list. `field_selector` is only for `live` lists; `index` and `owned` are only for cache
    lists."""

    api_version: str
    kind: str
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    index: tuple[str, str] | None = None
    owned: bool = False
    fields: Sequence[str] | None = None
    limit: int = 500
    max_bytes: int | None = None
    page_token: str | None = None
    metadata_only: bool = False


@dataclass(frozen=True)
class LogQuery:
    """Selects a part of a log."""

    pod: ObjectRef
    container: str | None = None
    previous: bool = False
    tail_lines: int | None = None
    since_ms: int | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True)
class ServedKind:
    """How the API server serves a kind."""

    #: The plural name of the kind in paths and rules, such as `deployments`.
    resource: str
    #: Whether its objects are namespaced.
    namespaced: bool
    #: The verbs, such as `get` and `watch`.
    verbs: list[str]
    #: The subresources, such as `status` and `scale`.
    subresources: list[str]


@dataclass(frozen=True)
class ListedKind:
    """A kind that the API server serves, at the version that the server prefers."""

    #: Group and version, such as `apps/v1`.
    api_version: str
    #: The kind, such as `Deployment`.
    kind: str
    #: How it is served.
    served: ServedKind


@dataclass(frozen=True)
class Collection:
    """Selects objects of a kind."""

    api_version: str
    kind: str
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None
    all: bool = False


@dataclass(slots=True)
class WriteOptions:
    """The options of a write."""

    subresource: str | None = None
    parent: ObjectRef | None = None
    resource_version: str | None = None
    owned: bool = False
    force: bool = False
    dry_run: bool = False
    field_validation: str = "strict"
    manager_suffix: str | None = None
    fields: Sequence[str] | None = None


@dataclass(slots=True)
class DeleteOptions:
    """The options of a deletion."""

    resource_version: str | None = None
    propagation: str = "background"
    grace_period_ms: int | None = None
    dry_run: bool = False


@dataclass(slots=True)
class Operation:
    """A write. `body` is the object or the patch. A deletion has `deletion`, and all other writes have `options`."""

    verb: str
    body: str = ""
    target: ObjectRef | None = None
    patch_type: str = "merge"
    options: WriteOptions | None = None
    deletion: DeleteOptions | None = None


class Host(Protocol):
    """The functions of the interface."""

    def cache_get(self, target: ObjectRef, fields: Sequence[str] | None) -> str | None: ...
    def cache_get_many(self, targets: list[ObjectRef], fields: Sequence[str] | None) -> list[str | ApiError | None]: ...
    def cache_list(self, query: Query) -> tuple[list[str], str | None]: ...
    def live_get(self, target: ObjectRef, subresource: str | None, fields: Sequence[str] | None, metadata_only: bool) -> str | None: ...
    def live_list(self, query: Query) -> tuple[list[str], str | None]: ...
    def live_log(self, query: LogQuery) -> str: ...
    def live_served(self, api_version: str, kind: str) -> ServedKind | None: ...
    def live_kinds(self) -> list[ListedKind]: ...
    def write(self, operation: Operation) -> str | None: ...
    def delete_collection(self, collection: Collection, deletion: DeleteOptions) -> list[ObjectRef] | None: ...
    def batch(self, operations: list[Operation]) -> list[str | ApiError | None]: ...
    def claim(self, api_version: str, kind: str, selector: str) -> tuple[list[ObjectRef], list[ObjectRef]]: ...
    def emit(self, event: Any) -> None: ...
    def log(self, level: int, message: str, fields: Pairs) -> None: ...
    def metric(self, verb: str, name: str, value: float, labels: Pairs) -> None: ...
    def config(self) -> str: ...
    def now(self) -> tuple[int, int]: ...
    def random_u32(self) -> int: ...
    def random_bytes(self, length: int) -> bytes: ...
    def triggers_list(self) -> list[tuple[str, str | None, ObjectRef | None]]: ...
    def fetch(self, request: Any) -> tuple[int, Pairs, str | bytes]: ...


class NoHost:
    """Outside of the host, lines go to stderr, time and randomness are the system's, metrics are dropped, and all other
    functions raise an error about the missing host."""

    def _lacks(self, what: str) -> NoReturn:
        raise RuntimeError(f"{what} needs the Windlass host; in a test, use windlass.testing.Host")

    def cache_get(self, target: ObjectRef, fields: Sequence[str] | None) -> str | None:
        self._lacks("windlass.cache.get")

    def cache_get_many(self, targets: list[ObjectRef], fields: Sequence[str] | None) -> list[str | ApiError | None]:
        self._lacks("windlass.cache.get_many")

    def cache_list(self, query: Query) -> tuple[list[str], str | None]:
        self._lacks("windlass.cache.list")

    def live_get(self, target: ObjectRef, subresource: str | None, fields: Sequence[str] | None, metadata_only: bool) -> str | None:
        self._lacks("windlass.live.get")

    def live_list(self, query: Query) -> tuple[list[str], str | None]:
        self._lacks("windlass.live.list")

    def live_log(self, query: LogQuery) -> str:
        self._lacks("windlass.live.log")

    def live_served(self, api_version: str, kind: str) -> ServedKind | None:
        self._lacks("windlass.live.served")

    def live_kinds(self) -> list[ListedKind]:
        self._lacks("windlass.live.kinds")

    def write(self, operation: Operation) -> str | None:
        self._lacks(f"windlass.writes.{operation.verb}")

    def delete_collection(self, collection: Collection, deletion: DeleteOptions) -> list[ObjectRef] | None:
        self._lacks("windlass.writes.delete_collection")

    def batch(self, operations: list[Operation]) -> list[str | ApiError | None]:
        self._lacks("windlass.writes.batch")

    def claim(self, api_version: str, kind: str, selector: str) -> tuple[list[ObjectRef], list[ObjectRef]]:
        self._lacks("windlass.owners.claim")

    def emit(self, event: Any) -> None:
        self._lacks("windlass.events")

    def fetch(self, request: Any) -> tuple[int, Pairs, str | bytes]:
        self._lacks("windlass.http")

    def triggers_list(self) -> list[tuple[str, str | None, ObjectRef | None]]:
        self._lacks("windlass.triggers.list")

    def log(self, level: int, message: str, fields: Pairs) -> None:
        name = ("trace", "debug", "info", "warn", "error")[level]
        print(name, message, *(f"{key}={value}" for key, value in fields), file=sys.stderr)

    def metric(self, verb: str, name: str, value: float, labels: Pairs) -> None:
        pass

    def config(self) -> str:
        return "{}"

    def now(self) -> tuple[int, int]:
        return divmod(time.time_ns(), 1_000_000_000)

    def random_u32(self) -> int:
        return int.from_bytes(os.urandom(4), "little")

    def random_bytes(self, length: int) -> bytes:
        return os.urandom(length)


#: The current host.
current: Host = NoHost()
