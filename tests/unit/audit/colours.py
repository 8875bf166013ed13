"""How far apart two colours are for people with common kinds of colour vision.

Matrices: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency",
2009, severity 1.0, applied to linear RGB. Distance: CIE76, the Euclidean one in CIELAB (D65).
"""

from __future__ import annotations

from math import dist

Triple = tuple[float, float, float]

BLINDNESS: dict[str, tuple[Triple, Triple, Triple]] = {
    "full colour vision": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def apart(one: str, other: str, blindness: str) -> float:
    """The distance of two colours like `#0072b2`; about 2 is just noticeable."""
    return dist(_lab(one, blindness), _lab(other, blindness))


def _lab(colour: str, blindness: str) -> Triple:
    linear = [_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5)]
    seen = [min(max(_dot(row, linear), 0.0), 1.0) for row in BLINDNESS[blindness]]
    x, y, z = (
        _dot(row, seen) / white
        for row, white in (
            ((0.4124, 0.3576, 0.1805), 0.95047),
            ((0.2126, 0.7152, 0.0722), 1.0),
            ((0.0193, 0.1192, 0.9505), 1.08883),
        )
    )
    return 116 * _root(y) - 16, 500 * (_root(x) - _root(y)), 200 * (_root(y) - _root(z))


def _dot(row: Triple, values: list[float]) -> float:
    return sum(weight * value for weight, value in zip(row, values, strict=True))


def _linear(channel: float) -> float:
    return float(channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4)


def _root(value: float) -> float:
    return float(value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116)
