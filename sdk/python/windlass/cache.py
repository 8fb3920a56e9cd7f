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

    With `fields`, it reads only the object's identity and the values at these JSON pointers, which keep their places.

    """
    text = _host.current.cache_get(target, fields)
    return None if text is None else decode(text)


def get_many(targets: Iterable[ObjectRef], *, fields: Sequence[str] | None = None) -> builtins.list[Object | ApiError | None]:
    """Reads several objects in one call to the host, in the order of the argument. The result of a failed read is an
    `ApiError`: pass the list to `windlass.Failures` to raise the errors."""
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
    """Yields the objects of a kind for which all conditions hold. The pages are read while the iteration continues.

    `index` is the name of an index that the manifest declares, and a value that it must contain. With `owned`, it lists
    only objects whose controller is the primary. With `fields`, it reads only the values at these JSON pointers.
    `limit` and `max_bytes` bound a page. With `page_token`, the list continues after the page that had this token.

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
    """Reads one page of the objects that `list` yields: the first page, or the page after the one with this token."""
    query = Query(api_version, kind, namespace, label_selector, None, index, owned, fields, limit, max_bytes, page_token)
    return _page(_host.current.cache_list, query)
