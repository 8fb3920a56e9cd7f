"""The requests and results of a plugin's calls."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._objects import Object, ObjectRef
from ._text import decode, milliseconds
from .events import Event


class Request:
    """The object that a call is about."""

    __slots__ = ("_object", "_text", "attempt", "controller", "deleting", "name", "namespace", "trace_id", "uid")

    def __init__(
        self,
        controller: str,
        name: str,
        namespace: str | None = None,
        uid: str | None = None,
        object: str | None = None,
        deleting: bool = False,
        attempt: int = 0,
        trace_id: str = "",
    ) -> None:
        #: The controller's name in the manifest.
        self.controller = controller
        #: The primary's name.
        self.name = name
        #: None for a cluster-scoped primary.
        self.namespace = namespace
        #: The last known UID, even if the primary is deleted. None: the host has never seen the primary.
        self.uid = uid
        #: Whether the primary is being deleted and waits for its finalizers.
        self.deleting = deleting
        #: The number of counted retries of this key since its last success, initially 0.
        self.attempt = attempt
        #: The id of the trace that has this call's logs, spans and API requests.
        self.trace_id = trace_id
        self._text = object
        self._object: Object | None = None

    @property
    def object(self) -> Object | None:
        """The primary as cached when the call began. None: it is not in the watch's scope, usually because it was
        deleted. If its watch has `call_fields`, only these fields of it."""
        if self._object is None and self._text is not None:
            self._object = decode(self._text)
        return self._object

    def beside(self, api_version: str, kind: str, name: str | None = None) -> ObjectRef:
        """Returns a reference to an object in the primary's namespace. The default for `name` is the primary's name."""
        return ObjectRef(api_version, kind, self.name if name is None else name, self.namespace)


class Done:
    """Nothing is left to do until something changes. Returning None means the same."""

    def __repr__(self) -> str:
        return "windlass.DONE"


#: Nothing is left to do until something changes.
DONE = Done()


@dataclass(frozen=True)
class RequeueAfter:
    """Run again after a time. This does not count as a failure. Created by `requeue_after`."""

    #: In milliseconds.
    ms: int


@dataclass(frozen=True)
class RequeueBackoff:
    """Run again after the key's backoff. This does not count as a failure. Created by `requeue_with_backoff`."""


#: What a reconcile may return. None is `DONE`.
Outcome = Done | RequeueAfter | RequeueBackoff | None


def requeue_after(delay: float | datetime.timedelta) -> RequeueAfter:
    """Asks for another call after this many seconds, at most 24 days. This does not count as a failure."""
    return RequeueAfter(milliseconds(delay))


def requeue_with_backoff() -> RequeueBackoff:
    """Asks for another call after the key's backoff, which grows with each such outcome in a row. Use it to wait for an
    unknown time, such as for another system. This does not count as a failure: no attempt is counted, and the host never
    gives the key up."""
    return RequeueBackoff()


class CompositionRequest:
    """A composer's request: an object and its surroundings. A composition must not depend on anything else."""

    __slots__ = ("_children", "_config", "_parent", "_related", "_texts", "request")

    def __init__(self, request: Request, parent: str, children: Sequence[str], related: Sequence[str], config: str) -> None:
        #: The object that the call is about. Its own `object` is None: use `parent`.
        self.request = request
        self._texts = (parent, children, related, config)
        self._parent: Object | None = None
        self._children: list[Object] | None = None
        self._related: list[Object] | None = None
        self._config: Object | None = None

    @property
    def parent(self) -> Object:
        """The parent as cached when the call began. If its watch has `call_fields`, only these fields of it."""
        if self._parent is None:
            self._parent = decode(self._texts[0])
        return self._parent

    @property
    def children(self) -> list[Object]:
        """The objects of the owned kinds whose controller is the parent."""
        if self._children is None:
            self._children = [decode(text) for text in self._texts[1]]
        return self._children

    @property
    def related(self) -> list[Object]:
        """The objects of the other watches that map to the parent."""
        if self._related is None:
            self._related = [decode(text) for text in self._texts[2]]
        return self._related

    @property
    def config(self) -> Object:
        """The operator's configuration of the plugin, which is valid by the manifest's schema."""
        if self._config is None:
            self._config = decode(self._texts[3])
        return self._config

    def child(self, api_version: str, kind: str, name: str | None = None) -> Object | None:
        """The child of this kind and name (default: the parent's name). None: it does not exist, or the parent does not
        control it."""
        return self._named(self.children, api_version, kind, name)

    def related_object(self, api_version: str, kind: str, name: str | None = None, namespace: str | None = None) -> Object | None:
        """The related object of this kind, name (default: the parent's name) and namespace (default: the parent's).
        None: it does not exist, or does not map to the parent."""
        return self._named(self.related, api_version, kind, name, namespace)

    def _named(
        self, objects: Iterable[Object], api_version: str, kind: str, name: str | None, namespace: str | None = None
    ) -> Object | None:
        metadata = self.parent["metadata"]
        wanted = (api_version, kind, metadata["name"] if name is None else name)
        namespace = metadata.get("namespace") if namespace is None else namespace
        for candidate in objects:
            known = candidate["metadata"]
            if (candidate["apiVersion"], candidate["kind"], known["name"]) == wanted:
                if namespace is None or known.get("namespace") in (None, namespace):
                    return candidate
        return None


@dataclass
class Composition:
    """A composer's response: the children that should exist, and the parent's status and events."""

    #: Every child that should exist, as a set of fields to apply. Each has an owned kind and a name. A child that is
    #: left out is pruned.
    children: Sequence[Mapping[str, Any]] = ()
    #: The parent's new status. None leaves it as it is.
    status: Mapping[str, Any] | None = None
    #: Events to send. They are sent each time they are returned, so only return events about something new.
    events: Sequence[Event] = field(default_factory=list)
    #: Call again after this many seconds, even if nothing changes.
    requeue_after: float | datetime.timedelta | None = None
    #: Declares that having no children is intended, so that existing children may be pruned. Without it, the host
    #: prunes no children if there are none here.
    allow_empty: bool = False
    #: Releases a parent that is being deleted. Only with the option `finalizer`.
    finalized: bool = False
    #: True: call again after the parent's backoff, which grows with each such response in a row. Not together with
    #: `requeue_after`.
    requeue_backoff: bool = False

    def requeue(self) -> RequeueAfter | RequeueBackoff | None:
        """When to call again even if nothing changes."""
        if self.requeue_backoff and self.requeue_after is not None:
            raise TypeError("requeue_after and requeue_backoff of a Composition exclude each other")
        if self.requeue_backoff:
            return RequeueBackoff()
        return None if self.requeue_after is None else requeue_after(self.requeue_after)
