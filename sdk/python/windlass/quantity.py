"""Quantities of resources, such as `500m` and `1.5Gi`. The functions have the names of Kubernetes' own Python client."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal

__all__ = ["format_quantity", "parse_quantity"]

_FORM = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(n|u|m|k|M|G|T|P|E|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?", re.ASCII)
_DECIMAL = {suffix: Decimal(1000) ** power for suffix, power in zip(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], range(-3, 7))}
_BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])}
# Longer texts are not quantities, and the precision is enough for every shorter one.
_LONGEST = 64
_EXACT = Context(prec=2 * _LONGEST)


def parse_quantity(quantity: str | int | float | Decimal) -> Decimal:
    """The amount of a quantity: 0.5 for `500m`, 1610612736 for `1.5Gi`. A number is its own amount."""
    if isinstance(quantity, Decimal):
        return quantity
    text = str(quantity)
    found = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(f"{text[:_LONGEST]!r} is not a quantity, which is like '500m', '2' or '1.5Gi'")
    number, suffix = found.group(1), found.group(2) or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix != "Ei":
        return _EXACT.create_decimal(number).scaleb(int(suffix[1:]))
    scale = _BINARY[suffix] if suffix.endswith("i") else _DECIMAL[suffix]
    return _EXACT.multiply(_EXACT.create_decimal(number), scale)


def format_quantity(amount: Decimal | int, suffix: str = "", quantize: Decimal | None = None) -> str:
    """Formats an amount with a suffix: `format_quantity(Decimal("0.5"), "m")` is `500m`.

    The number is rounded away from zero to the digits of `quantize`; without it, to a whole number, as the API server
    does.

    """
    scale = _BINARY.get(suffix) if suffix.endswith("i") else _DECIMAL.get(suffix)
    if scale is None:
        known = ", ".join([*filter(None, _DECIMAL), *filter(None, _BINARY)])
        raise ValueError(f"{suffix!r} is not the suffix of a quantity, which is one of {known}, or nothing")
    scaled = _EXACT.divide(Decimal(amount), scale).quantize(quantize or Decimal(1), rounding=ROUND_UP, context=_EXACT)
    return f"{scaled:f}{suffix}"
