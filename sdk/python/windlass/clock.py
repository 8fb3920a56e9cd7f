"""The host's clock, so that a call can be replayed. `time` and `datetime` show the same time within a call."""

from __future__ import annotations

import datetime
import time
from typing import NamedTuple

from . import _host

__all__ = ["Timestamp", "now"]

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class Timestamp(NamedTuple):
    """A point in time. As text it has Kubernetes' form: `2026-11-21T10:48:45Z`."""

    #: Seconds since 1970-01-01T00:00:00Z.
    seconds: int
    #: Nanoseconds within the second.
    nanoseconds: int

    def datetime(self) -> datetime.datetime:
        """The point in time as an aware datetime, to the microsecond."""
        return _EPOCH + datetime.timedelta(seconds=self.seconds, microseconds=self.nanoseconds // 1000)

    def __str__(self) -> str:
        return "%04d-%02d-%02dT%02d:%02d:%02dZ" % time.gmtime(self.seconds)[:6]


def now() -> Timestamp:
    """The current time. It never goes back within a call."""
    seconds, nanoseconds = _host.current.now()
    return Timestamp(seconds, nanoseconds)
