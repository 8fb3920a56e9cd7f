"""HTTP requests to granted hosts. The manifest names the hosts (`windlass.manifest.HttpAccess`), and the operator
grants them.

    response = http.post("https://api.example.com/v1/volumes", json={"size": 10}, headers={"authorization": f"Bearer {token}"})
    volume = response.raise_for_status().json()

Redirects are not followed, and bodies are not decompressed. A call may run again at any time, so a repeated request
must do no harm. Use an idempotency key (such as the primary's UID), or first ask for the current state.

"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from . import _host
from ._errors import ApiError, Reason, Terminal, Transient
from ._text import LONGEST_MS, decode, encode

__all__ = ["HttpError", "HttpReason", "InvalidRequest", "Request", "Response", "delete", "get", "patch", "post", "put", "request"]

Headers = Mapping[str, str] | Iterable[tuple[str, str]]


class HttpReason(str, Enum):
    """The reason why a request got no response."""

    NOT_GRANTED = "not-granted"
    """The plugin's grants do not cover the request. It was not sent."""
    INVALID_REQUEST = "invalid-request"
    """The request is malformed. It was not sent."""
    DNS = "dns"
    """The name could not be resolved."""
    CONNECT = "connect"
    """No connection could be made."""
    TLS = "tls"
    """The peer's certificate or the handshake failed."""
    TIMEOUT = "timeout"
    """The exchange took longer than the request or the host allows."""
    TOO_LARGE = "too-large"
    """The response is larger than the host's limit."""
    PROTOCOL = "protocol"
    """The peer broke the protocol or the connection."""
    OTHER = "other"
    """A reason that is newer than this SDK: see the message."""

    def __str__(self) -> str:
        return str(self.value)


class HttpError(Transient):
    """A request that got no response, or a status other than 200 to 299. It is retried, because the network or the
    server may recover. A request that is not granted fails the call like an `ApiError` of `NOT_GRANTED`: the key runs
    again when the policy changes."""

    def __init__(self, target: str, message: str, reason: HttpReason | None = None, status: int | None = None) -> None:
        super().__init__(f"{target}: {reason}: {message}" if reason is not None else f"{target}: {message}")
        #: Method and URL, without the query.
        self.target = target
        #: The text for people.
        self.message = message
        #: The class of the failure. None: there was a response with a status other than 200 to 299.
        self.reason = reason
        #: The status of the response, if there was one.
        self.status = status
        if reason is HttpReason.NOT_GRANTED:
            self._api = ApiError(Reason.NOT_GRANTED, message, verb="fetch", resource="http")


class InvalidRequest(HttpError, Terminal):
    """A malformed request. It is not retried, because it would stay malformed."""


@dataclass(frozen=True)
class Request:
    """The request that was sent."""

    method: str
    url: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str | bytes | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True)
class Response:
    """The whole response."""

    #: The status, such as 200.
    status: int
    #: Names in lower case. A name may occur more than once.
    headers: list[tuple[str, str]] = field(default_factory=list)
    #: A text if it is UTF-8, otherwise bytes.
    body: str | bytes = ""
    #: Method and URL of the request, without the query.
    target: str = "a test"

    @property
    def is_success(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The body as text. Raises `UnicodeDecodeError` if it is not UTF-8."""
        return self.body if isinstance(self.body, str) else self.body.decode()

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        return self.body.encode() if isinstance(self.body, str) else self.body

    def header(self, name: str) -> str | None:
        """Returns the first value of a header. The case of the name does not matter."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def json(self) -> Any:
        """Parses the JSON body. Raises `HttpError` if it is not JSON."""
        try:
            return decode(self.text)
        except ValueError as error:
            raise HttpError(self.target, f"the body of the response is no JSON: {error}", status=self.status) from None

    def raise_for_status(self) -> Response:
        """Raises `HttpError` if the status is not one of 200 to 299."""
        if self.is_success:
            return self
        raise HttpError(self.target, f"answered with status {self.status}", status=self.status)


def request(
    method: str,
    url: str,
    *,
    headers: Headers = (),
    body: str | bytes | None = None,
    json: Any = None,
    timeout: float | None = None,
) -> Response:
    """Sends a request and reads the whole response. Any status is a response, not an error: see
    `Response.raise_for_status`.

    `json` is sent as the body, with the content type of JSON. `timeout` limits the whole exchange, in seconds; None:
    the host's limit.

    """
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    if json is not None:
        if body is not None:
            raise TypeError("a request has a body or a json, and not both")
        body = encode(json)
        pairs.append(("content-type", "application/json"))
    timeout_ms = None if timeout is None else min(max(round(timeout * 1000), 0), LONGEST_MS)
    target = f"{method} {url.partition('?')[0].partition('#')[0]}"
    answer = _host.current.fetch(Request(method, url, pairs, body, timeout_ms))
    return Response(*answer, target=target)


def get(url: str, *, headers: Headers = (), timeout: float | None = None) -> Response:
    """Sends a `GET` request."""
    return request("GET", url, headers=headers, timeout=timeout)


def post(
    url: str, *, headers: Headers = (), body: str | bytes | None = None, json: Any = None, timeout: float | None = None
) -> Response:
    """Sends a `POST` request."""
    return request("POST", url, headers=headers, body=body, json=json, timeout=timeout)


def put(
    url: str, *, headers: Headers = (), body: str | bytes | None = None, json: Any = None, timeout: float | None = None
) -> Response:
    """Sends a `PUT` request."""
    return request("PUT", url, headers=headers, body=body, json=json, timeout=timeout)


def patch(
    url: str, *, headers: Headers = (), body: str | bytes | None = None, json: Any = None, timeout: float | None = None
) -> Response:
    """Sends a `PATCH` request."""
    return request("PATCH", url, headers=headers, body=body, json=json, timeout=timeout)


def delete(url: str, *, headers: Headers = (), timeout: float | None = None) -> Response:
    """Sends a `DELETE` request."""
    return request("DELETE", url, headers=headers, timeout=timeout)


def failed(request: Request, reason: HttpReason, message: str) -> HttpError:
    """Creates the error of a request that got no response."""
    target = f"{request.method} {request.url.partition('?')[0].partition('#')[0]}"
    return (InvalidRequest if reason is HttpReason.INVALID_REQUEST else HttpError)(target, message, reason)
