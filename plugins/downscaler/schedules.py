"""Schedules, as in `Mon-Fri 07:30-20:30 Europe/Berlin`. Pure: nothing here calls the host."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import zones

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
ALWAYS = "always"
NEVER = "never"

_DAY_MINUTES = 24 * 60
#: The most parts of a schedule. Tenants write schedules, and all share the time and the memory of one instance.
_PARTS_MAX = 100
#: How far ahead a schedule knows its changes, in seconds.
_SIGHT = 2 * 86_400
_RECURRING = re.compile(
    r"(?:(?P<first>[A-Za-z]{3})-(?P<last>[A-Za-z]{3})\s+)?"
    r"(?P<start>[0-9]{1,2}:[0-9]{2})-(?P<end>[0-9]{1,2}:[0-9]{2})(?:\s+(?P<zone>\S+))?"
)
_INSTANT = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[+-][0-9]{2}:[0-9]{2}"
_ABSOLUTE = re.compile(rf"({_INSTANT})\s*-\s*({_INSTANT})")
_FORMS = "Mon-Fri 07:30-20:30 Europe/Berlin, or 2026-12-24T00:00:00+01:00-2026-12-27T00:00:00+01:00"


@dataclass(frozen=True)
class Recurring:
    """The same hours on some days of each week."""

    days: frozenset[int]
    #: Minutes of the local day, from `start` until before `end`.
    start: int
    end: int
    zone: datetime.tzinfo

    def covers(self, now: int) -> bool:
        """Whether an instant, in seconds since 1970, is within it."""
        local = datetime.datetime.fromtimestamp(now, self.zone)
        return local.weekday() in self.days and self.start <= local.hour * 60 + local.minute < self.end

    def changes(self, now: int) -> Iterator[int]:
        """The instants of the next two days at which it may begin or end."""
        today = datetime.datetime.fromtimestamp(now, self.zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        for day in range(3):
            for minute in (self.start, self.end):
                local = today + datetime.timedelta(days=day, minutes=minute)
                # A local time that exists twice begins or ends something twice.
                for fold in (0, 1):
                    yield int(local.replace(tzinfo=self.zone, fold=fold).timestamp())
        # At a transition the local time leaps, and may leap over a beginning or an end.
        leap = zones.transition(self.zone, now, now + _SIGHT)
        if leap is not None:
            yield leap


@dataclass(frozen=True)
class Absolute:
    """One span of time, in seconds since 1970, from `start` until before `end`."""

    start: int
    end: int

    def covers(self, now: int) -> bool:
        """Whether an instant is within it."""
        return self.start <= now < self.end

    def changes(self, now: int) -> Iterator[int]:
        """The instants at which it begins and ends."""
        yield from (self.start, self.end)


@dataclass(frozen=True)
class Constant:
    """All of the time, or nothing of it."""

    holds: bool

    def covers(self, now: int) -> bool:
        """Whether it holds."""
        return self.holds

    def changes(self, now: int) -> Iterator[int]:
        """Nothing changes."""
        yield from ()


@dataclass(frozen=True)
class Schedule:
    """Times at which something holds."""

    text: str
    parts: tuple[Recurring | Absolute | Constant, ...]

    @property
    def is_never(self) -> bool:
        """Whether nobody has asked for it."""
        return self.text.lower() == NEVER

    def covers(self, now: int) -> bool:
        """Whether an instant, in seconds since 1970, is within one of the parts."""
        return any(part.covers(now) for part in self.parts)

    def next_change(self, now: int) -> int | None:
        """The first instant at which it may be different from now. None: it stays as it is."""
        return min((at for part in self.parts for at in part.changes(now) if at > now), default=None)


@dataclass(frozen=True)
class Defaults:
    """What recurring parts mean that name no days or no zone."""

    weekframe: str | None = None
    timezone: str | None = None


@functools.lru_cache(maxsize=250)
def schedule(text: str, defaults: Defaults = Defaults()) -> Schedule:
    """Reads a list of parts with commas between them, `always` or `never`. Raises `ValueError` for any other text."""
    parts = text.split(",")
    if len(parts) > _PARTS_MAX:
        raise ValueError(f"this schedule has {len(parts)} parts, and at most {_PARTS_MAX} are read: merge or remove some")
    return Schedule(text, tuple(_part(part.strip(), defaults) for part in parts))


def _part(text: str, defaults: Defaults) -> Recurring | Absolute | Constant:
    if text.lower() in (ALWAYS, NEVER):
        return Constant(text.lower() == ALWAYS)
    absolute = _ABSOLUTE.fullmatch(text)
    if absolute is not None:
        return _absolute(text, *absolute.groups())
    recurring = _RECURRING.fullmatch(text)
    if recurring is None:
        raise ValueError(f"{text!r} is not a schedule: write {_FORMS}, with commas between several of them")
    return _recurring(text, recurring, defaults)


def _absolute(text: str, start: str, end: str) -> Absolute:
    try:
        begins, ends = (int(datetime.datetime.fromisoformat(it).timestamp()) for it in (start, end))
    except ValueError:
        raise ValueError(f"{text!r} has a date or a time that does not exist") from None
    if begins >= ends:
        raise ValueError(f"{text!r} ends before it begins")
    return Absolute(begins, ends)


def _recurring(text: str, found: re.Match[str], defaults: Defaults) -> Recurring:
    weekframe = defaults.weekframe if found["first"] is None else f"{found['first']}-{found['last']}"
    if weekframe is None:
        raise ValueError(f"{text!r} names no days: write Mon-Fri before it, or configure defaultWeekframe")
    name = found["zone"] or defaults.timezone
    if name is None:
        raise ValueError(f"{text!r} names no time zone: write Europe/Berlin after it, or configure defaultTimezone")
    start, end = _minute(found["start"]), _minute(found["end"])
    if start >= end:
        raise ValueError(f"{text!r} ends before it begins: write two schedules, one until 24:00 and one from 00:00")
    return Recurring(weekdays(weekframe), start, end, zones.zone(name))


def _minute(text: str) -> int:
    hour, minute = (int(part) for part in text.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ValueError(f"{text!r} is not a time of day")
    return hour * 60 + minute


def weekdays(text: str) -> frozenset[int]:
    """Reads a range of days such as `Mon-Fri`. It may go over the end of a week, as in `Sat-Mon`. Raises `ValueError`
    for any other text."""
    ends = text.title().split("-")
    if len(ends) != 2 or any(day not in WEEKDAYS for day in ends):
        raise ValueError(f"{text!r} is not a range of days: write Mon-Fri")
    first, last = (WEEKDAYS.index(day) for day in ends)
    return frozenset((first + day) % 7 for day in range((last - first) % 7 + 1))
