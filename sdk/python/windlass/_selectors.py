"""Label selectors as objects contain them, and their text form for lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPERATORS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}", "DoesNotExist": "!{key}"}


def selector_text(selector: Mapping[str, Any]) -> str:
    """The text of a LabelSelector, such as `app=web,tier in (a,b)`, for `cache.list`, `live.list` and `owners.claim`.

    An empty selector selects everything. If an object has no selector, it selects nothing, so do not list.

    """
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for requirement in selector.get("matchExpressions") or ():
        operator, values = requirement["operator"], sorted(set(requirement.get("values") or ()))
        if operator not in _OPERATORS:
            raise ValueError(f"the operator of a label selector is one of {', '.join(_OPERATORS)}, and not {operator!r}")
        if not values and operator in ("In", "NotIn"):
            raise ValueError(f"the operator {operator} of a label selector needs values, and {requirement['key']!r} has none")
        parts.append(_OPERATORS[operator].format(key=requirement["key"], values=",".join(values)))
    return ",".join(parts)
