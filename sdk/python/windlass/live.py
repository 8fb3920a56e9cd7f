"""Reads from the API server itself. Each costs a request and counts against the plugin's budget: read from `windlass.cache` what
a watch shows, and from here what no watch is worth declaring for.

A live read needs a permission in the manifest, to `get` or `list` the resource.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import _host
from ._host import Query
from ._objects import Object, ObjectRef
from ._pages import Page, checked
from ._pages import page as _page
from ._pages import pages as _pages
from ._text import decode

__all__ = ["Page", "get", "list", "page"]


def get(target: ObjectRef) -> Object | None:
    """Reads one object. None: it does not exist. Without a namespace it is meant beside the primary."""
    text = _host.current.live_get(target)
    return None if text is None else decode(text)


def list(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    limit: int = 500,
    page_token: str | None = None,
) -> Iterator[Object]:
    """The objects of a kind for which all conditions hold, fetched a page at a time while the iteration goes on.

    `page_token` begins behind the page that it came with.
    """
    query = Query(api_version, kind, namespace, label_selector, field_selector, limit=limit, page_token=page_token)
    return _pages(_host.current.live_list, checked(query))


def page(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
    limit: int = 500,
    page_token: str | None = None,
) -> Page:
    """One page of what `list` returns: the first, or the one whose token the page before has."""
    query = Query(api_version, kind, namespace, label_selector, field_selector, limit=limit, page_token=page_token)
    return _page(_host.current.live_list, query)
