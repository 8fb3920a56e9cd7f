"""The times at which objects expire, from their annotations. Pure: nothing here calls the host."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The annotation with the longest time that an object may live.
TTL = "janitor/ttl"
#: The annotation with the time at which an object expires.
EXPIRES = "janitor/expires"
#: The time to live of an object that stays.
FOREVER = "forever"

#: The pattern of a time to live, for the schema of the configuration as well.
TTL_PATTERN = r"^([0-9]{1,9}[smhdw]|forever)$"
TTL_FORMS = "a number and one of s, m, h, d, w, such as 24h, or `forever`"
TIME_FORMS = "2026-01-31T18:00:00Z, 2026-01-31T18:00 or 2026-01-31, in UTC"

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TTL = re.compile(TTL_PATTERN)
_TIME = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?:T([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})Z)?)?")
_UTC = datetime.timezone.utc


@dataclass(frozen=True)
class Deadline:
    """The time at which an object is to be deleted."""

    #: Seconds since 1970.
    due: int
    #: The reason of the Event about the deletion.
    reason: str
    #: The cause for people, such as `annotation janitor/ttl=24h`.
    cause: str


@dataclass(frozen=True)
class Verdict:
    """What the annotations of an object say."""

    #: The earliest deadline. None: the object stays.
    deadline: Deadline | None = None
    #: Invalid values, for people.
    problems: tuple[str, ...] = ()


def ttl_seconds(text: str) -> int | None:
    """Reads a time to live. None: the object stays, also for a time of 0. Raises `ValueError` for any other text."""
    if text.lower() == FOREVER:
        return None
    if _TTL.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a time to live: write {TTL_FORMS}")
    return int(text[:-1]) * _UNIT_SECONDS[text[-1]] or None


def instant(text: str) -> int:
    """Reads a time, in seconds since 1970. Raises `ValueError` for a text that is not one."""
    found = _TIME.fullmatch(text)
    try:
        if found is not None:
            return int(datetime.datetime(*(int(part or 0) for part in found.groups()), tzinfo=_UTC).timestamp())  # type: ignore[arg-type]
    except ValueError:
        pass  # Such as the 31st of February.
    raise ValueError(f"{text!r} is not a time: write {TIME_FORMS}")


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def birth(obj: Mapping[str, Any], time_annotation: str | None) -> int:
    """The time from which an object's age counts, in seconds since 1970: that of its latest deployment, if the operator
    has named an annotation for it and the object has that annotation. An object that was created with an older
    annotation is as new as its creation. Raises `ValueError` if the annotation has no time."""
    created = instant(obj["metadata"]["creationTimestamp"])
    deployed = annotations_of(obj).get(time_annotation or "")
    if deployed is None:
        return created
    try:
        return max(created, instant(deployed))
    except ValueError as error:
        raise ValueError(f"{time_annotation}: {error}") from None


def ttl_deadline(obj: Mapping[str, Any], ttl: str, cause: str, time_annotation: str | None) -> Deadline | None:
    """The deadline by a time to live. None: the object stays. Raises `ValueError` for invalid values."""
    seconds = ttl_seconds(ttl)
    if seconds is None:
        return None
    return Deadline(birth(obj, time_annotation) + seconds, "TimeToLiveExpired", cause)


def annotated(obj: Mapping[str, Any], time_annotation: str | None) -> Verdict:
    """Reads the annotations of an object. An invalid annotation has no deadline, and does not hide the other one."""
    annotations = annotations_of(obj)

    def by_ttl(text: str) -> Deadline | None:
        return ttl_deadline(obj, text, f"annotation {TTL}={text}", time_annotation)

    def by_time(text: str) -> Deadline:
        return Deadline(instant(text), "ExpiryTimeReached", f"annotation {EXPIRES}={text}")

    deadlines: list[Deadline] = []
    problems: list[str] = []
    for name, read in ((TTL, by_ttl), (EXPIRES, by_time)):
        if name not in annotations:
            continue
        try:
            deadline = read(annotations[name])
            deadlines += [] if deadline is None else [deadline]
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return Verdict(min(deadlines, key=lambda it: it.due, default=None), tuple(problems))
