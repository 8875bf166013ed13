"""Kubernetes quantities, exactly: `500m` is Fraction(1, 2), never a float."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_SUFFIXES = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000 ** (power + 1)) for power, suffix in enumerate("kMGTPE")},
    **{suffix + "i": Fraction(1024 ** (power + 1)) for power, suffix in enumerate("KMGTPE")},
}
_PATTERN = r"^([0-9]{1,15}(\.[0-9]{1,9})?)(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"


def parse_quantity(value: int | str) -> Fraction:
    """The exact number a Kubernetes quantity stands for; ValueError names a value that is none.

    Negative numbers, exponents and nano units, which no resource of a job needs, are refused.
    """
    written = isinstance(value, int | str) and not isinstance(value, bool)
    match = re.fullmatch(_PATTERN, str(value)) if written else None
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 2, '500m' or '10Gi'")
    number, _, suffix = match.groups()
    return Fraction(number) * _SUFFIXES[suffix or ""]


def format_quantity(value: Fraction) -> str:
    """The shortest quantity for `value`: whole numbers plain, parts in thousandths (`500m`).

    ValueError when `value` is finer than a thousandth, which the API does not admit for GPUs.
    """
    if value.denominator == 1:
        return str(value.numerator)
    milli = value * 1000
    if milli.denominator != 1:
        raise ValueError(f"{value} is finer than a thousandth")
    return f"{milli.numerator}m"


_INT_OR_STRING = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
_GPUS_PATTERN = r"^([0-9]{1,6}(\.[0-9]{1,3})?|[0-9]{1,9}m)$"


def _parse_gpus(value: int | str | Fraction) -> Fraction:
    if isinstance(value, Fraction):
        return value
    if not re.fullmatch(_GPUS_PATTERN, str(value)):
        raise ValueError(f"{value!r} is not a number of GPUs such as 2 or '500m'")
    return parse_quantity(value)


Gpus = Annotated[
    Fraction,
    BeforeValidator(_parse_gpus),
    PlainSerializer(format_quantity, return_type=str),
    WithJsonSchema({**_INT_OR_STRING, "maxLength": 16, "minimum": 0, "maximum": 999_999, "pattern": _GPUS_PATTERN}),
]
"""A number of GPUs in whole thousandths, written as `2`, `"1"` or `500m`."""


def _check_quantity(value: int | str) -> int | str:
    parse_quantity(value)
    return value


Quantity = Annotated[
    int | str,
    BeforeValidator(_check_quantity),
    WithJsonSchema({**_INT_OR_STRING, "maxLength": 32, "minimum": 0, "pattern": _PATTERN}),
]
"""Any Kubernetes quantity, kept as it was written: it goes into manifests unchanged."""
