"""The time zones of schedules. Pure: nothing here calls the host.

A call has no files, so the database is read when the plugin is built, and is a part of the component.

"""

from __future__ import annotations

import datetime
import functools
import io
import zoneinfo
from pathlib import Path

import tzdata

_UTC = datetime.timezone.utc


def _database() -> dict[str, bytes]:
    """The contents of the package `tzdata`, by the names of the zones."""
    root = Path(tzdata.__file__).with_name("zoneinfo")
    # Two of the files in it are lists of zones.
    names = (root.parent / "zones").read_text().split()
    return {name: (root / name).read_bytes() for name in names}


_ZONES = _database()


@functools.lru_cache(maxsize=1_000)
def zone(name: str) -> datetime.tzinfo:
    """The time zone of this name. Raises `ValueError` for a text that is not one."""
    data = _ZONES.get(name)
    if data is None:
        raise ValueError(f"{name!r} is not a time zone: write a name of the IANA database, such as Europe/Berlin")
    return zoneinfo.ZoneInfo.from_file(io.BytesIO(data), key=name)


def offset(instant: int, of: datetime.tzinfo) -> datetime.timedelta:
    """How far a zone's time is ahead of UTC at an instant, in seconds since 1970."""
    ahead = datetime.datetime.fromtimestamp(instant, of).utcoffset()
    return ahead or datetime.timedelta()


def transition(of: datetime.tzinfo, after: int, until: int) -> int | None:
    """The first instant after `after` at which a zone's offset from UTC is another one, up to `until`. None: the offset
    is the same at both. The span must be so short that it has at most one transition."""
    before = offset(after, of)
    if offset(until, of) == before:
        return None
    while until - after > 1:
        middle = (after + until) // 2
        if offset(middle, of) == before:
            after = middle
        else:
            until = middle
    return until
