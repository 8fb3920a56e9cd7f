"""Reads from the API server itself. Each read sends a request and counts against the plugin's budget. Read from
`windlass.cache` if a watch covers the object. Use this module if a watch would not be worth its cost.

A live read needs a permission in the manifest, to `get` or `list` the resource. A subresource needs its own, such as
for `deployments/scale` or `pods/log`. Some functions have these options:

- `fields` reads only the object's identity and the values at these JSON pointers, which keep their places;
- `metadata_only` reads only its `apiVersion`, `kind` and `metadata`: the server sends no more.

"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import _host
from ._host import ListedKind, LogQuery, Query, ServedKind
from ._objects import Object, ObjectRef
from ._pages import Page, checked
from ._pages import page as _page
from ._pages import pages as _pages
from ._text import decode, number_or_none

__all__ = ["ListedKind", "Page", "ServedKind", "get", "kinds", "list", "log", "page", "served"]


def get(
    target: ObjectRef,
    *,
    subresource: str | None = None,
    fields: Sequence[str] | None = None,
    metadata_only: bool = False,
) -> Object | None:
    """Reads one object, or a subresource of it, such as `scale` or `status`. None: it does not exist. Without a
    namespace, it reads in the primary's namespace."""
    text = _host.current.live_get(target, subresource, fields, metadata_only)
    return None if text is None else decode(text)


def log(
    pod: ObjectRef,
    *,
    container: str | None = None,
    previous: bool = False,
    tail_lines: int | None = None,
    since_ms: int | None = None,
    limit_bytes: int | None = None,
) -> str:
    """Reads the log of a Pod's container. If the Pod has only one, `container` is not needed.

    With `previous`, it reads the log of the container's previous, terminated run. `tail_lines` selects only this many
    of the last lines. `since_ms` selects only lines up to this age, rounded up to whole seconds. `limit_bytes` is the
    number of bytes to read; without it, as many as the host returns. Bytes that are not UTF-8 become U+FFFD.

    """
    for name, value in (("tail_lines", tail_lines), ("since_ms", since_ms), ("limit_bytes", limit_bytes)):
        number_or_none(value, name)
    query = LogQuery(replace(pod, uid=None), container, previous, tail_lines, since_ms, limit_bytes)
    return _host.current.live_log(query)


def served(api_version: str, kind: str) -> ServedKind | None:
    """Returns how the API server serves a kind, for plugins that adapt to the cluster. None: the server does not serve
    the kind. It needs no right, and counts as a read."""
    return _host.current.live_served(api_version, kind)


def kinds() -> Sequence[ListedKind]:
    """Returns all kinds that the API server serves, each once, ordered by group and kind. It needs no right, and counts as
    a read. A kind that was just installed may be missing for some seconds, and so are the kinds of an aggregated server
    that does not answer."""
    return _host.current.live_kinds()


def list(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    fields: Sequence[str] | None = None,
    metadata_only: bool = False,
    limit: int = 500,
    page_token: str | None = None,
) -> Iterator[Object]:
    """Yields the objects of a kind for which all conditions hold. The pages are read while the iteration continues.

    With `page_token`, the list continues after the page that had this token.

    """
    query = Query(api_version, kind, namespace, label_selector, field_selector, None, False, fields, limit, None, page_token, metadata_only)
    return _pages(_host.current.live_list, checked(query))


def page(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    fields: Sequence[str] | None = None,
    metadata_only: bool = False,
    limit: int = 500,
    page_token: str | None = None,
) -> Page:
    """Reads one page of the objects that `list` yields: the first page, or the page after the one with this token."""
    query = Query(api_version, kind, namespace, label_selector, field_selector, None, False, fields, limit, None, page_token, metadata_only)
    return _page(_host.current.live_list, query)
