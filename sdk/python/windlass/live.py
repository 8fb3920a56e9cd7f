"""Reads from the API server itself. Each costs a request and counts against the plugin's budget: read from `windlass.cache` what
a watch shows, and from here what no watch is worth declaring for.

A live read needs a permission in the manifest, to `get` or `list` the resource; a subresource needs its own, such as
`deployments/scale` or `pods/log`. Options, where a function has them:

- `fields` reads only the values at these JSON pointers, in their places, beside what identifies an object;
- `metadata_only` reads only its `apiVersion`, `kind` and `metadata`: the server sends no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import _host
from ._host import LogQuery, Query, ServedKind
from ._objects import Object, ObjectRef
from ._pages import Page, checked
from ._pages import page as _page
from ._pages import pages as _pages
from ._text import decode, number_or_none

__all__ = ["Page", "ServedKind", "get", "list", "log", "page", "served"]


def get(
    target: ObjectRef,
    *,
    subresource: str | None = None,
    fields: Sequence[str] | None = None,
    metadata_only: bool = False,
) -> Object | None:
    """Reads one object, or a subresource of it, such as `scale` or `status`. None: it does not exist. Without a namespace, the primary's is
    used."""
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
    """Reads the log of a Pod's container, by default the only one, from the first line that is meant.

    `previous` is that of the container before, which has ended. `tail_lines`: only so many of the last lines. `since_ms`: only what is
    no older, rounded up to whole seconds. `limit_bytes`: no more, instead of as much as the host returns. What is not UTF-8 is U+FFFD.
    """
    for name, value in (("tail_lines", tail_lines), ("since_ms", since_ms), ("limit_bytes", limit_bytes)):
        number_or_none(value, name)
    query = LogQuery(replace(pod, uid=None), container, previous, tail_lines, since_ms, limit_bytes)
    return _host.current.live_log(query)


def served(api_version: str, kind: str) -> ServedKind | None:
    """How the API server serves a kind, for plugins that adapt to the cluster. None: it does not serve it. It needs no right, and counts as
    a read."""
    return _host.current.live_served(api_version, kind)


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
    """The objects of a kind for which all conditions hold, fetched a page at a time while the iteration goes on.

    `page_token` begins behind the page that it came with.
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
    """One page of the objects that `list` returns: the first, or the one for the token of the previous page."""
    query = Query(api_version, kind, namespace, label_selector, field_selector, None, False, fields, limit, None, page_token, metadata_only)
    return _page(_host.current.live_list, query)
