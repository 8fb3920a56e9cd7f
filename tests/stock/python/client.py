"""A small HTTP client on the bindings that componentize-py generates from `wasi:http`."""

from urllib.parse import urlsplit

from componentize_py_types import Err
from wit_world.imports import outgoing_handler
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.wasi_http_types import (
    Fields,
    Method_Other,
    OutgoingBody,
    OutgoingRequest,
    RequestOptions,
    Scheme_Http,
    Scheme_Https,
)

# The limit of `blocking_write_and_flush`.
WRITE_BYTES_MAX = 4096
READ_BYTES_MAX = 65536


def send(method, url, headers, body=b"", timeout=None):
    """Sends a request; `answer` waits for the response. `timeout` is in seconds. Raises `Err` with an `ErrorCode`."""
    parts = urlsplit(url)
    request = OutgoingRequest(Fields.from_list([(name, value.encode()) for name, value in headers.items()]))
    request.set_method(Method_Other(method))
    request.set_scheme(Scheme_Https() if parts.scheme == "https" else Scheme_Http())
    request.set_authority(parts.netloc)
    request.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
    options = RequestOptions()
    if timeout is not None:
        options.set_first_byte_timeout(int(timeout * 1e9))
    outgoing = request.body()
    future = outgoing_handler.handle(request, options)
    with outgoing.write() as stream:
        for start in range(0, len(body), WRITE_BYTES_MAX):
            stream.blocking_write_and_flush(body[start : start + WRITE_BYTES_MAX])
    OutgoingBody.finish(outgoing, None)
    return future


def answer(future):
    """The status, the headers and the body of the response. Raises `Err` with an `ErrorCode`."""
    with future:
        with future.subscribe() as pollable:
            pollable.block()
        answered = future.get().value
    if isinstance(answered, Err):
        raise answered
    with answered.value as response:
        with response.headers() as fields:
            headers = {name: value.decode() for name, value in fields.entries()}
        return response.status(), headers, read(response)


def read(response):
    chunks = []
    with response.consume() as body, body.stream() as stream:
        while True:
            try:
                chunks.append(stream.blocking_read(READ_BYTES_MAX))
            except Err as error:
                if isinstance(error.value, StreamError_Closed):
                    return b"".join(chunks)
                raise
