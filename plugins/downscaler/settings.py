"""The operator's configuration, and its schema. Pure: nothing here calls the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kinds import KINDS, is_of_stack, is_owned, was_scaled
from schedules import ALWAYS, NEVER, Defaults, Schedule, schedule, weekdays
from zones import zone

T = TypeVar("T")

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT}
#: The schema that the host checks a configuration against.
SCHEMA = {
    "type": "object",
    "properties": {
        "includeResources": {"type": "array", "items": {"enum": list(KINDS)}, "description": "Plurals; by default deployments"},
        "namespaces": {**_TEXTS, "description": "Only in these namespaces; by default in all. It overrides excludeNamespaces"},
        "excludeNamespaces": {**_TEXTS, "description": "Regular expressions for whole names; by default kube-system"},
        "excludeDeployments": {**_TEXTS, "description": "Names of objects of any kind, which are left as they are"},
        "matchingLabels": {**_TEXTS, "description": "Regular expressions for labels, as NAME=VALUE; one that matches is enough"},
        "defaultUptime": {**_TEXT, "description": "By default always"},
        "defaultDowntime": {**_TEXT, "description": "By default never"},
        "upscalePeriod": {**_TEXT, "description": "By default never"},
        "downscalePeriod": {**_TEXT, "description": "By default never"},
        "defaultTimezone": {**_TEXT, "description": "For schedules that name no time zone"},
        "defaultWeekframe": {**_TEXT, "description": "For schedules that name no days, such as Mon-Fri"},
        "gracePeriodSeconds": {"type": "integer", "minimum": 0, "maximum": 31_536_000, "description": "By default 900"},
        "downtimeReplicas": {"type": "integer", "minimum": 0, "maximum": 1_000_000, "description": "By default 0"},
        "deploymentTimeAnnotation": _TEXT,
        "upscaleTargetOnly": {"type": "boolean"},
        "dryRun": {"type": "boolean"},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Settings:
    """The configuration, with its defaults."""

    include_resources: frozenset[str]
    namespaces: frozenset[str]
    exclude_namespaces: tuple[re.Pattern[str], ...]
    exclude_names: frozenset[str]
    #: Empty: all objects.
    matching_labels: tuple[re.Pattern[str], ...]
    uptime: Schedule
    downtime: Schedule
    upscale_period: Schedule
    downscale_period: Schedule
    defaults: Defaults
    grace: int
    replicas: int
    #: The annotation whose time takes the place of the creation's.
    time_annotation: str | None
    upscale_target_only: bool
    dry_run: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Settings:
        """Reads a configuration that is valid by the schema. Raises `ValueError` for a part that cannot be read."""
        defaults = Defaults(document.get("defaultWeekframe"), document.get("defaultTimezone"))
        if defaults.weekframe is not None:
            _read("defaultWeekframe", weekdays, defaults.weekframe)
        if defaults.timezone is not None:
            _read("defaultTimezone", zone, defaults.timezone)

        def times(key: str, default: str) -> Schedule:
            return _read(key, lambda text: schedule(text, defaults), document.get(key, default))

        return cls(
            frozenset(document.get("includeResources", ("deployments",))),
            frozenset(document.get("namespaces", ())),
            _patterns("excludeNamespaces", document.get("excludeNamespaces", ("kube-system",))),
            frozenset(document.get("excludeDeployments", ("py-kube-downscaler", "kube-downscaler", "downscaler"))),
            _patterns("matchingLabels", document.get("matchingLabels", ())),
            times("defaultUptime", ALWAYS),
            times("defaultDowntime", NEVER),
            times("upscalePeriod", NEVER),
            times("downscalePeriod", NEVER),
            defaults,
            document.get("gracePeriodSeconds", 900),
            document.get("downtimeReplicas", 0),
            document.get("deploymentTimeAnnotation"),
            document.get("upscaleTargetOnly", False),
            document.get("dryRun", False),
        )

    def includes(self, resource: str, obj: Mapping[str, Any]) -> bool:
        """Whether an object is changed at all, up or down. A Job with an owner, such as a CronJob, only comes up again if
        the original has suspended it. A Deployment of a Stack follows the Stack, whose controller would undo any
        change."""
        metadata = obj["metadata"]
        if resource not in self.include_resources or metadata["name"] in self.exclude_names:
            return False
        if is_of_stack(obj) or (resource == "jobs" and is_owned(obj) and not was_scaled(obj)):
            return False
        if self.namespaces:
            return metadata["namespace"] in self.namespaces
        return not any(pattern.fullmatch(metadata["namespace"]) for pattern in self.exclude_namespaces)

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Whether an object may be scaled down, by its labels."""
        labels = [f"{name}={value}" for name, value in (obj["metadata"].get("labels") or {}).items()]
        return not self.matching_labels or any(pattern.fullmatch(it) for pattern in self.matching_labels for it in labels)


def _read(key: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None


def _patterns(key: str, texts: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    try:
        return tuple(re.compile(text) for text in texts)
    except re.error as error:
        raise ValueError(f"{key}: {error.pattern!r} is not a regular expression: {error.msg}") from None
