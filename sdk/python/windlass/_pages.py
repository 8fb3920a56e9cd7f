"""Lists from the cache or the API server, which are read page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ._host import Query
from ._objects import Object
from ._text import decode, number

Fetch = Callable[[Query], tuple[list[str], "str | None"]]


@dataclass(frozen=True)
class Page:
    """A part of a list."""

    #: The objects.
    items: list[Object]
    #: The token of the next page. None: this is the last page.
    next_token: str | None


def checked(query: Query) -> Query:
    """Checks a query and returns it."""
    number(query.limit, "the limit of a list")
    if query.max_bytes is not None:
        number(query.max_bytes, "max_bytes of a list")
    if isinstance(query.fields, str):
        raise TypeError("fields of a list must be a list of JSON pointers, and is a text")
    return query


def page(fetch: Fetch, query: Query) -> Page:
    """One page."""
    items, token = fetch(checked(query))
    return Page([decode(item) for item in items], token)


def pages(fetch: Fetch, query: Query) -> Iterator[Object]:
    """The objects of all pages, fetched as the iteration continues."""
    while True:
        items, token = fetch(query)
        for item in items:
            yield decode(item)
        if token is None:
            return
        query = replace(query, page_token=token)
