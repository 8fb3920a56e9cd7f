"""Reads from the caches of the declared watches. They send no request, and include the writes of this call."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence

from . import _host
from ._errors import ApiError
from ._host import Query
from ._objects import Object, ObjectRef
from ._pages import Page, checked
from ._pages import page as _page
from ._pages import pages as _pages
from ._text import decode

__all__ = ["Page", "get", "get_many", "list", "page"]


def get(target: ObjectRef, *, fields: Sequence[str] | None = None) -> Object | None:
    """Reads one object. None: it is not in the cache.

    With `fields`, only the values at these JSON pointers are read, in their places, beside what identifies the object.
    """
    text = _host.current.cache_get(target, fields)
    return None if text is None else decode(text)


def get_many(targets: Iterable[ObjectRef], *, fields: Sequence[str] | None = None) -> builtins.list[Object | ApiError | None]:
    """Reads several objects in one call to the host, in the order of the argument. A read that failed is an `ApiError` in its place: give
    the list to `windlass.Failures` to raise them."""
    answers = _host.current.cache_get_many(builtins.list(targets), fields)
    return [decode(answer) if isinstance(answer, str) else answer for answer in answers]


def list(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    index: tuple[str, str] | None = None,
    owned: bool = False,
    fields: Sequence[str] | None = None,
    limit: int = 500,
    max_bytes: int | None = None,
    page_token: str | None = None,
) -> Iterator[Object]:
    """The objects of a kind for which all conditions hold, fetched a page at a time while the iteration goes on.

    `index` is the name of an index that the manifest declares, and the value that it must hold. `owned`: only those whose
    controller is the primary. `fields`: only the values at these JSON pointers. `limit` and `max_bytes` bound a page.
    `page_token` begins behind the page that it came with.
    """
    query = Query(api_version, kind, namespace, label_selector, None, index, owned, fields, limit, max_bytes, page_token)
    return _pages(_host.current.cache_list, checked(query))


def page(
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    label_selector: str | None = None,
    index: tuple[str, str] | None = None,
    owned: bool = False,
    fields: Sequence[str] | None = None,
    limit: int = 500,
    max_bytes: int | None = None,
    page_token: str | None = None,
) -> Page:
    """One page of the objects that `list` returns: the first, or the one for the token of the previous page."""
    query = Query(api_version, kind, namespace, label_selector, None, index, owned, fields, limit, max_bytes, page_token)
    return _page(_host.current.cache_list, query)
