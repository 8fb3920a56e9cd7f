"""The errors of calls, and how they are reported to the host."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from types import TracebackType
from typing import Literal

from ._objects import ObjectRef
from ._text import milliseconds


class Reason(str, Enum):
    """The class of an `ApiError`, by which the host decides how to retry."""

    NOT_FOUND = "not-found"
    """The object, its kind or its namespace does not exist (404)."""
    ALREADY_EXISTS = "already-exists"
    """The name of the object to create is taken (409)."""
    CONFLICT = "conflict"
    """The object does not have the version or the UID that the request names, or another manager owns an applied field."""
    INVALID = "invalid"
    """The server's validation refused the object (422)."""
    FORBIDDEN = "forbidden"
    """The server's authorization or admission refused the request (403)."""
    NOT_GRANTED = "not-granted"
    """The plugin's grants do not cover the request. It was not sent."""
    NOT_WATCHED = "not-watched"
    """No declared watch covers the read."""
    NAMESPACE_TERMINATING = "namespace-terminating"
    """The namespace is being deleted, so that nothing can be created in it."""
    TOO_MANY_REQUESTS = "too-many-requests"
    """The server's limit (429) or the plugin's own budget is used up."""
    EXPIRED = "expired"
    """The page token or the version is too old (410)."""
    TIMEOUT = "timeout"
    """The request took too long. If it was a write that may have been carried out, the reason is `UNKNOWN_OUTCOME`
    instead."""
    UNKNOWN_OUTCOME = "unknown-outcome"
    """The write was sent and its result is unknown. The host finds it out before the key runs again."""
    LEASE_LOST = "lease-lost"
    """This replica may no longer act for the plugin. The request was not sent."""
    READ_ONLY = "read-only"
    """The host runs in read-only mode. The request was not sent."""
    SERVER_ERROR = "server-error"
    """The server could not be reached or failed (5xx)."""
    TOO_LARGE = "too-large"
    """The request or the response exceeds a limit of the server (413) or of the host."""
    OTHER = "other"
    """A reason that is newer than this SDK: see `ApiError.status_reason`."""

    def __str__(self) -> str:
        return str(self.value)


_CODES = {
    Reason.NOT_FOUND: 404,
    Reason.ALREADY_EXISTS: 409,
    Reason.CONFLICT: 409,
    Reason.INVALID: 422,
    Reason.FORBIDDEN: 403,
    Reason.NOT_GRANTED: 403,
    Reason.NOT_WATCHED: 403,
    Reason.NAMESPACE_TERMINATING: 403,
    Reason.TOO_MANY_REQUESTS: 429,
    Reason.EXPIRED: 410,
    Reason.TIMEOUT: 504,
    Reason.UNKNOWN_OUTCOME: 504,
    Reason.TOO_LARGE: 413,
}


class ApiError(Exception):
    """A failed request to the API, or to the host's cache of it.

    If a reconcile raises it, the host decides by its `reason` how to retry. This also works if the error is the cause
    of another exception (`raise … from error`) or a member of an `ExceptionGroup`. So catch it only if you know better:

        try:
            writes.create(pod)
        except windlass.ApiError as error:
            if error.reason is not windlass.Reason.ALREADY_EXISTS:
                raise

    """

    def __init__(
        self,
        reason: Reason,
        message: str = "",
        *,
        code: int | None = None,
        status_reason: str | None = None,
        retry_after_ms: int | None = None,
        verb: str = "",
        resource: str = "",
        object: ObjectRef | None = None,
    ) -> None:
        super().__init__(message)
        #: The class of the failure.
        self.reason = reason
        #: The text for people.
        self.message = message
        #: The HTTP status, or the closest one if the request never reached the server.
        self.code = _CODES.get(reason, 500) if code is None else code
        #: The reason as in Kubernetes' `Status.reason`. If `reason` is `OTHER`, this has the actual reason.
        self.status_reason = "".join(map(str.capitalize, reason.split("-"))) if status_reason is None else status_reason
        #: The milliseconds to wait before a retry, if the server has set them.
        self.retry_after_ms = retry_after_ms
        #: The API verb, such as `get` or `patch`.
        self.verb = verb
        #: Resource, group and subresource, such as `deployments.apps/scale`.
        self.resource = resource
        #: The object, if the request was about a single object. An error of `NOT_FOUND` names it only if the object
        #: itself does not exist, not if its kind, its namespace or a subresource is missing.
        self.object = object

    def __str__(self) -> str:
        asked = f"{self.verb} {self.resource}".strip()
        what = f"{asked} {self.object}".strip() if self.object is not None else asked
        return f"{what}: {self.status_reason}: {self.message}" if what else f"{self.status_reason}: {self.message}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Transient(Exception):
    """A failure that is retried after a backoff. Any other exception is retried too, but it is logged with its stack,
    as a bug in the plugin.

    With `retry_after`, in seconds or as a `timedelta`, it is not retried before this time, which is limited to ten
    minutes. The backoff may be longer:

        raise windlass.Transient("a backup runs", retry_after=30)

    """

    #: The minimum delay of the retry in milliseconds. None: the backoff alone decides.
    retry_after_ms: int | None = None  # of the class, as a subclass need not call `__init__`
    #: An error to report instead of this one, such as a denial by the host.
    _api: ApiError | None = None

    def __init__(self, *args: object, retry_after: float | datetime.timedelta | None = None) -> None:
        super().__init__(*args)
        if retry_after is not None:
            self.retry_after_ms = milliseconds(retry_after)


class Terminal(Exception):
    """A failure that is not retried until something changes, such as an invalid spec."""


class NotAvailable(OSError, RuntimeError):
    """A facility that plugins do not have: files, sockets, threads, sleep. The message names an alternative."""


@dataclass(frozen=True)
class Failure:
    """One failure in a call, as the host receives it."""

    #: `api`: passed on unchanged. `transient`: retried. `terminal`: not retried until something changes.
    kind: Literal["api", "transient", "terminal"]
    #: The text for people.
    message: str
    #: The error, if the kind is `api`. It is reported with `message` instead of its own message.
    error: ApiError | None = None
    #: The exception, if it is a bug in the plugin rather than one of this package's errors.
    uncaught: BaseException | None = None
    #: The minimum delay of a retry in milliseconds, if the kind is `transient` and the plugin has set it.
    retry_after_ms: int | None = None


def failures_of(error: BaseException) -> list[Failure]:
    """The failures that the host receives for an exception: its parts, each with its class and the texts of the
    exceptions that wrap it.

    The members of an `ExceptionGroup` are reported one by one, each with the text of the group and of its causes. An
    `ApiError`, `Transient` or `Terminal` also counts as the cause of another exception, but not if it was only being
    handled when the other one was raised.

    """
    return _failures_in(error, [])


def _failures_in(error: BaseException, above: list[BaseException]) -> list[Failure]:
    """The failures of an exception. It skips the exceptions in `above`, because a member may be raised from its own
    group."""
    chain = _with_causes(error, above, (ApiError, Terminal, Transient, BaseExceptionGroup))
    link = chain[-1]
    if isinstance(link, BaseExceptionGroup) and not _is_among(link, above):
        outer = "" if isinstance(link, Collected) else text_of(link.message)
        outer, above = _whole_text(link, _noted(outer, link), above), [*above, *chain]
        failures = [_within(outer, member, failure) for member in link.exceptions for failure in _failures_of_member(member, above)]
    elif isinstance(link, ApiError):
        # The message is enough: the host itself adds the request and the object.
        failures = [Failure("api", _noted(text_of(link.message), link), link)]
    elif isinstance(link, Terminal):  # even if it is a Transient as well, as `http.InvalidRequest` is
        failures = [Failure("terminal", _whole_text(link, _text_with_notes(link), above))]
    elif isinstance(link, Transient) and link._api is not None:
        failures = [Failure("api", _noted(text_of(link._api.message), link), link._api)]
    elif isinstance(link, Transient):
        failures = [Failure("transient", _whole_text(link, _text_with_notes(link), above), retry_after_ms=link.retry_after_ms)]
    else:
        return [Failure("transient", _whole_text(error, summary(error), above), uncaught=error)]
    for outer_link, inner in reversed(list(pairwise(chain))):
        failures = [_within(_text_with_notes(outer_link), inner, failure) for failure in failures]
    return failures


def _failures_of_member(error: BaseException, above: list[BaseException]) -> list[Failure]:
    """Like `_failures_in`, for a member of a group. If it raises, the other members keep their class and text."""
    try:
        return _failures_in(error, above)
    except BaseException as failed:
        return [unreported(summary(error), failed)]


def unreported(text: str, why: BaseException) -> Failure:
    """The failure that replaces a failure that cannot be reported."""
    return Failure("transient", f"{text} (the rest cannot be reported: {summary(why)})", uncaught=why)


def _with_causes(
    error: BaseException, above: list[BaseException], last: tuple[type[BaseException], ...] = ()
) -> list[BaseException]:
    """An exception and its causes, down to the first one of the given types, without those above it."""
    chain = [error]
    while not isinstance(chain[-1], last):
        cause = chain[-1].__cause__
        if cause is None or _is_among(cause, chain) or _is_among(cause, above):
            break
        chain.append(cause)
    return chain


def _is_among(error: BaseException, some: list[BaseException]) -> bool:
    """Whether the list contains this very object, and not only an equal one."""
    return any(error is one for one in some)


def _whole_text(error: BaseException, text: str, above: list[BaseException]) -> str:
    """The text of an exception, which is `text`, with the texts of all its causes."""
    chain = _with_causes(error, above)
    texts = [text, *map(_text_with_notes, chain[1:])]
    message = texts.pop()
    for outer, inner in zip(reversed(texts), reversed(chain)):
        message = _around(outer, inner, message)
    return message


def _within(outer: str, inner: BaseException, failure: Failure) -> Failure:
    """Adds the text of the exception that wraps a failure's exception."""
    return replace(failure, message=_around(outer, inner, failure.message))


def _around(outer: str, inner: BaseException, message: str) -> str:
    """Combines the texts of an exception and its cause. Many exceptions include the text of their cause, which is not
    repeated."""
    for text in (text_of(inner), message):
        place = _place_of(text, outer)
        if place >= 0:
            return outer[:place] + message + outer[place + len(text) :]
    return f"{outer}: {message}" if outer and message else outer or message


def _place_of(text: str, outer: str) -> int:
    """Finds a text as a separate part of another: at its beginning or end, or set off from the words around it by
    punctuation (by spaces, if it has several words itself), and not inside a name such as "shop-1". Any other
    occurrence is taken for chance: the result is then -1. The last such place counts, because context mostly comes
    before an error."""
    touches = _NAME if " " in text else _WORD
    backwards, place = outer[::-1], outer.rfind(text) if text else -1
    while place >= 0 and (touches.match(backwards, len(outer) - place) or touches.match(outer, place + len(text))):
        place = outer.rfind(text, 0, place)
    return place


#: Characters that make the text next to them a part of a name, or that only separate words. Non-ASCII characters count
#: as letters.
_NAME = re.compile(r"[-_./]?[0-9A-Za-z\u0080-\U0010ffff]")
_WORD = re.compile(rf" +[0-9A-Za-z\u0080-\U0010ffff]|{_NAME.pattern}")


def text_of(value: object) -> str:
    """The text of an exception. It also works if an exception class of the plugin fails to return a text."""
    try:
        return str(value)
    except BaseException:
        return "(its text cannot be read)"


def _text_with_notes(error: BaseException) -> str:
    """The text of an exception with its notes."""
    return _noted(text_of(error), error)


def _noted(text: str, error: BaseException) -> str:
    """Adds the notes of an exception (`add_note`) to a text, in one line."""
    try:
        notes = "; ".join([" ".join(text_of(note).split()) for note in error.__notes__])
    except BaseException:  # there are none
        return text
    return f"{text} ({notes})" if text and notes else text or notes


def summary(error: BaseException) -> str:
    """An exception in one line, like the last line of a traceback."""
    name = type(error).__qualname__
    text = _text_with_notes(error)
    return f"{name}: {text}" if text else name


class Collected(ExceptionGroup[Exception]):
    """Raised by this package if several operations failed. Its own message only counts them, so it is not reported."""

    def derive(self, exceptions: Sequence[Exception]) -> Collected:  # type: ignore[override]
        return Collected(self.message, exceptions)


class Failures:
    """Collects exceptions, so that all operations are attempted even if some fail.

        failures = windlass.Failures()
        for child in children:
            with failures:
                writes.apply(child, owned=True)
        failures.raise_any()

    """

    def __init__(self, errors: Iterable[object] = ()) -> None:
        #: The collected exceptions, in order.
        self.errors: list[Exception] = [error for error in errors if isinstance(error, Exception)]

    def add(self, error: Exception) -> None:
        """Adds an exception."""
        self.errors.append(error)

    def __bool__(self) -> bool:
        return bool(self.errors)

    def __len__(self) -> int:
        return len(self.errors)

    def __enter__(self) -> Failures:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.errors.append(error)
        return True

    def raise_any(self) -> None:
        """Raises the collected exceptions: a single one unchanged, several as an `ExceptionGroup`. Without exceptions
        it does nothing."""
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise Collected(f"{len(self.errors)} operations failed", self.errors)
