"""Converts texts for the host: JSON, and texts that WebAssembly cannot represent.

The modules of this package use it. Objects are passed as JSON text. All other texts are Unicode without lone
surrogates, which a Python `str` may contain.

"""

from __future__ import annotations

import datetime
import json
import re
from math import isfinite
from types import NoneType
from typing import Any

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined]
if _make is not None:
    # `encode` would create this for each call. It does not mark visited values, so a cycle ends as a RecursionError.
    _chunks = _make(
        None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
    )

    def _as_text(value: object) -> str:
        return "".join(_chunks(value, 0))

else:

    def _as_text(value: object) -> str:
        return _encoder.encode(value)


_as_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode

_decode = json.JSONDecoder().decode

#: The largest number that the interface allows: 2^32 - 1.
LARGEST = (1 << 32) - 1

#: The longest duration that the interface allows, in milliseconds: about 24 days.
LONGEST_MS = (1 << 31) - 1


def decode(text: str) -> Any:
    """Reads JSON. Whole numbers keep all their digits."""
    return _decode(text)


def encode(value: object) -> str:
    """Writes JSON. Other values raise `TypeError` or `ValueError`, which name the place."""
    try:
        text = _as_text(value)
    except (TypeError, ValueError):
        _refuse(value, "")
        raise
    if _another_key(text) and _has_another_key(value):
        _refuse(value, "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # A lone surrogate can only be passed as a JSON escape.
        return _as_ascii(value)
    return text


#: Finds keys that may have been a number, a truth value or None. JSON turns such a key into a text, which does not
#: equal the key when it is read back, so the object would be written again at each call. The expression looks only at
#: the last letter of each key.
_another_key = re.compile(r'":(?<=[0-9el]":)(?:(?<=[0-9]":)|(?<="true":)|(?<="false":)|(?<="null":))').search


#: The types that contain other values in JSON.
_HOLDERS = (dict, list, tuple)


def _has_another_key(value: object) -> bool:
    """Whether a value has a key that is not a text. Most values that match the expression have only keys such as
    "port-1"; this check avoids the slow `_refuse` for them. Most values are texts, and comparing the class is the
    fastest way to see that."""
    within: list[Any] = [value]
    for outer in within:
        if isinstance(outer, dict):
            for key, inner in outer.items():
                if key.__class__ is not str and not isinstance(key, str):
                    return True
                if inner.__class__ is not str and isinstance(inner, _HOLDERS):
                    within.append(inner)
        else:
            within += [inner for inner in outer if inner.__class__ is not str and isinstance(inner, _HOLDERS)]
    return False


def _refuse(value: object, path: str) -> None:
    """Raises an error that names a value that JSON cannot represent, and its path. It returns if there is none. It is
    called only if writing failed or may fail, because checking each value takes longer than writing it."""
    where = path or "the value"
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} has the key {key!r} of type {type(key).__name__}, and keys of JSON are texts")
            name = key.replace("~", "~0").replace("/", "~1")
            _refuse(inner, f"{path}/{name}")
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            _refuse(inner, f"{path}/{place}")
    elif isinstance(value, (set, frozenset)):
        raise TypeError(f"{where} is a set, whose order changes with each build: make it a list, such as with sorted()")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{where} is {value}, which JSON cannot represent")
    elif not isinstance(value, (str, int, float, NoneType)):
        raise TypeError(f"{where} is of type {type(value).__name__}, which JSON cannot represent")


def plain(value: object) -> str:
    """Converts a value to a text for the host. Lone surrogates are written as escapes."""
    text = value if type(value) is str else str(value)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def text(value: object, what: str) -> str:
    """Checks a text argument, and replaces lone surrogates with U+FFFD. Raises `TypeError` if it is not a text."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text, and is of type {type(value).__name__}")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join(["\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value])
    return value


def text_or_none(value: object, what: str) -> str | None:
    """Like `text`, for an optional argument."""
    return None if value is None else text(value, what)


def number(value: int, what: str, largest: int = LARGEST) -> int:
    """Checks a whole number of the interface. Raises `TypeError` or `ValueError`, which calls it `what`."""
    if not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number, and is {value!r}")
    if not 0 <= value <= largest:
        raise ValueError(f"{what} must be a number from 0 to {largest}, and is {value}")
    return value


def number_or_none(value: int | None, what: str) -> int | None:
    """Like `number`, for an optional argument."""
    return None if value is None else number(value, what)


def milliseconds(delay: float | datetime.timedelta) -> int:
    """Converts a duration, in seconds or as a `timedelta`, to milliseconds. It is limited to the longest duration of
    the interface."""
    seconds = delay.total_seconds() if isinstance(delay, datetime.timedelta) else delay
    return min(max(round(seconds * 1000), 0), LONGEST_MS) if seconds < LONGEST_MS else LONGEST_MS


def camel(name: str) -> str:
    """Converts `api_version` to Kubernetes' form, `apiVersion`."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def as_document(value: Any) -> Any:
    """Deep copies of lists and dicts, as JSON would return them."""
    return decode(encode(value))
