"""Whether a workload should be up or down, and what changes for that. Pure: nothing here calls the host."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from kinds import ORIGINAL_REPLICAS, Kind, is_owned
from schedules import ALWAYS, NEVER, Schedule, schedule
from settings import Settings

T = TypeVar("T")

PREFIX = "downscaler/"
UPTIME, DOWNTIME = PREFIX + "uptime", PREFIX + "downtime"
UPSCALE_PERIOD, DOWNSCALE_PERIOD = PREFIX + "upscale-period", PREFIX + "downscale-period"
FORCE_UPTIME, FORCE_DOWNTIME = PREFIX + "force-uptime", PREFIX + "force-downtime"
EXCLUDE, EXCLUDE_UNTIL = PREFIX + "exclude", PREFIX + "exclude-until"
DOWNTIME_REPLICAS = PREFIX + "downtime-replicas"
GRACE_PERIOD = PREFIX + "grace-period"
#: Written by the downscaler beside the size before: the size that it has set.
DOWN_REPLICAS = "downscaler.windlass.dev/replicas"

#: What follows the name of an annotation that is not the object's own.
OF_NAMESPACE = " of the namespace"

#: `up` concerns only workloads that the downscaler has scaled down.
Wanted = Literal["up", "down", "as it is"]

_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})Z?)?)?")
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Verdict:
    """What a workload should be now."""

    wanted: Wanted
    #: The cause for people, such as `uptime: Mon-Fri 07:30-20:30 CET`.
    cause: str
    #: The first instant at which it may be something else, in seconds since 1970. None: after a change only.
    until: int | None


@dataclass(frozen=True)
class Change:
    """What to write to a workload."""

    #: None: only annotations change.
    size: int | None
    #: The new values of annotations. None: it is removed.
    annotations: Mapping[str, str | None]


@dataclass
class Workload:
    """An object with its namespace, as people have annotated them. Collects the instants at which something may
    change, and the problems of annotations that it ignores."""

    obj: Mapping[str, Any]
    namespace: Mapping[str, Any]
    settings: Settings
    now: int
    instants: list[int] = field(default_factory=list)
    #: For people.
    ignored: list[str] = field(default_factory=list)
    #: The problem of an annotation that may exclude the object: it is not scaled down meanwhile.
    doubt: str | None = None

    @property
    def until(self) -> int | None:
        """The first instant at which something may change. None: after a change only."""
        return min(self.instants, default=None)

    @property
    def is_of_owner(self) -> bool:
        """Whether the object is a Job that belongs to another object, such as a CronJob."""
        return self.obj["kind"] == "Job" and is_owned(self.obj)

    def own(self, key: str) -> str | None:
        """An annotation of the object."""
        return annotations_of(self.obj).get(key)

    def nearest(self, key: str) -> tuple[str, str] | None:
        """An annotation of the object or else of its namespace, with its name for people."""
        if self.own(key) is not None:
            return key, annotations_of(self.obj)[key]
        found = annotations_of(self.namespace).get(key)
        return None if found is None else (key + OF_NAMESPACE, found)

    def times(self, key: str, default: Schedule) -> Schedule:
        """A schedule from the nearest annotation, or else from the configuration."""
        found = self.nearest(key)
        return self._watched(default if found is None else _schedule(*found, self.settings))

    def forced(self, key: str) -> bool:
        """Whether the namespace forces something now: by `true` or by a schedule."""
        text = annotations_of(self.namespace).get(key, "false")
        text = {"true": ALWAYS, "false": NEVER}.get(text.lower(), text)
        return self._watched(_schedule(key + OF_NAMESPACE, text, self.settings)).covers(self.now)

    def excluded(self) -> str | None:
        """The annotation of the object or of its namespace that excludes the object now. Any value but `false` does. Sets
        `doubt` for a time that cannot be read."""
        for place, annotations in (("", annotations_of(self.obj)), (OF_NAMESPACE, annotations_of(self.namespace))):
            if annotations.get(EXCLUDE, "false").lower() != "false":
                return EXCLUDE + place
            if EXCLUDE_UNTIL in annotations:
                try:
                    until = _checked(EXCLUDE_UNTIL + place, instant, annotations[EXCLUDE_UNTIL])
                except ValueError as error:
                    self.doubt = str(error)
                    continue
                self._reaches(until)
                if self.now < until:
                    return EXCLUDE_UNTIL + place
        return None

    def replicas(self, wanted: Wanted) -> int:
        """How many replicas are left in a downtime. A number that cannot be read counts as 0, unless the object is to go
        down: then it raises `ValueError`."""
        found = self.nearest(DOWNTIME_REPLICAS)
        if found is None:
            return self.settings.replicas
        if wanted == "down":
            return _checked(found[0], number, found[1])
        return self._read(*found, number) or 0

    def in_grace(self) -> bool:
        """Whether the object is so new, or was deployed so recently, that it is not scaled down yet. A value that cannot
        be read is ignored: the configured grace period, or the creation, counts."""
        grace = self.settings.grace
        own = self._readable(GRACE_PERIOD, number)
        if own:  # 0 is no grace period, as in the original.
            grace = min(grace, own)
        birth = instant(self.obj["metadata"]["creationTimestamp"])
        deployed = self._readable(self.settings.time_annotation, instant)
        if deployed is not None:
            birth = max(birth, deployed)
        self._reaches(birth + grace)
        return self.now < birth + grace

    def number(self, key: str) -> int | None:
        """A number in an annotation of the object, unless it cannot be read."""
        return self._readable(key, number)

    def _readable(self, key: str | None, read: Callable[[str], T]) -> T | None:
        """An annotation of the object, unless it cannot be read."""
        text = None if key is None else self.own(key)
        return None if key is None or text is None else self._read(key, text, read)

    def _read(self, name: str, text: str, read: Callable[[str], T]) -> T | None:
        try:
            return _checked(name, read, text)
        except ValueError as error:
            self.ignored.append(str(error))
            return None

    def _watched(self, times: Schedule) -> Schedule:
        self._reaches(times.next_change(self.now))
        return times

    def _reaches(self, at: int | None) -> None:
        if at is not None and at > self.now:
            self.instants.append(at)


def annotations_of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of an object."""
    return obj["metadata"].get("annotations") or {}


def decide(workload: Workload, is_forced: bool) -> Verdict:
    """Decides what a workload should be now. `is_forced`: a Pod forces up all namespaces that do not say otherwise.
    Raises `ValueError` for an annotation that cannot be read, unless it makes no difference now."""
    excluded = workload.excluded()
    if excluded is None and not workload.settings.selects(workload.obj):
        excluded = "matchingLabels of the configuration"
    wanted: Wanted
    if excluded is not None:
        wanted, cause = "as it is" if workload.settings.upscale_target_only else "up", f"excluded by {excluded}"
    else:
        wanted, cause = _scheduled(workload, is_forced)
        if workload.doubt is not None and (wanted == "down" or workload.settings.upscale_target_only):
            wanted, cause = "as it is", "an exclusion that cannot be read"
        elif wanted == "down" and workload.is_of_owner:
            wanted, cause = "as it is", "its owner decides about it"
        elif wanted == "down" and workload.in_grace():
            wanted, cause = "as it is", "grace period"
    return Verdict(wanted, cause, workload.until)


def _scheduled(workload: Workload, is_forced: bool) -> tuple[Wanted, str]:
    settings, now = workload.settings, workload.now
    if workload.forced(FORCE_UPTIME):
        return "up", FORCE_UPTIME + OF_NAMESPACE
    if is_forced and FORCE_UPTIME not in annotations_of(workload.namespace):
        return "up", f"a Pod has {FORCE_UPTIME}"
    if workload.forced(FORCE_DOWNTIME):
        return "down", FORCE_DOWNTIME + OF_NAMESPACE
    up = workload.times(UPSCALE_PERIOD, settings.upscale_period)
    down = workload.times(DOWNSCALE_PERIOD, settings.downscale_period)
    if not (up.is_never and down.is_never):
        if up.covers(now) == down.covers(now):
            return "as it is", "no period, or two"
        return ("up", f"upscale period: {up.text}") if up.covers(now) else ("down", f"downscale period: {down.text}")
    up, down = workload.times(UPTIME, settings.uptime), workload.times(DOWNTIME, settings.downtime)
    is_up = up.covers(now) and not down.covers(now)
    return "up" if is_up else "down", f"uptime: {up.text}, downtime: {down.text}"


def plan(kind: Kind, workload: Workload, wanted: Wanted) -> Change | None:
    """What to write, so that a workload is what it should be. None: nothing. Raises `ValueError` for an annotation that
    cannot be read."""
    size = kind.size(workload.obj)
    text = workload.own(ORIGINAL_REPLICAS)
    original = None if text is None else _checked(ORIGINAL_REPLICAS, number, text)
    left = workload.number(DOWN_REPLICAS)
    least = kind.smallest(workload.replicas(wanted))
    if wanted == "down" and size > least:
        # The size of a downtime that was changed meanwhile is not the original one.
        before = original if original is not None and size == left else size
        return Change(least, {ORIGINAL_REPLICAS: str(before), DOWN_REPLICAS: str(least)})
    if wanted != "up" or original is None:
        return None
    gone = {ORIGINAL_REPLICAS: None, DOWN_REPLICAS: None}
    # The original downscaler does not write what it has set.
    is_ours = size == left if left is not None else size <= least
    largest = kind.largest(workload.obj)
    if largest is not None:
        original = min(original, largest)
    return Change(original if is_ours and original > size else None, gone)


def _schedule(name: str, text: str, settings: Settings) -> Schedule:
    return _checked(name, lambda it: schedule(it, settings.defaults), text)


def _checked(name: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def number(text: str) -> int:
    """Reads a number. Raises `ValueError` for a text that is not one."""
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a number: write 0 or more, in digits")
    return int(text)


def instant(text: str) -> int:
    """Reads a time in UTC, in seconds since 1970. Raises `ValueError` for a text that is not one."""
    found = _TIME.fullmatch(text)
    try:
        if found is not None:
            parts = [int(part or 0) for part in found.groups()]
            return int(datetime.datetime(*parts, tzinfo=datetime.timezone.utc).timestamp())  # type: ignore[arg-type,misc]
    except ValueError:
        pass  # Such as the 31st of February.
    raise ValueError(f"{text!r} is not a time: write 2026-01-31T18:00:00Z, 2026-01-31T18:00 or 2026-01-31, in UTC")
