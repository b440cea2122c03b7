"""Ranges of torch's versions as specs write them: ``"<2.15"``, ``">=2.14, !=2.16"``. A version is
its major and minor number: schemas do not change within one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Version = tuple[int, int]

_BOUND = re.compile(r"(<=|>=|==|!=|<|>)\s*([0-9]{1,4})\.([0-9]{1,4})")
_HOLDS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_WORDS = {"<": "before", "<=": "to", ">": "after", ">=": "from", "==": "at", "!=": "not"}


@dataclass(frozen=True)
class VersionRange:
    """The versions that meet every bound; without bounds these are all of them."""

    bounds: tuple[tuple[str, Version], ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{sign}{dotted(version)}" for sign, version in self.bounds)

    def holds(self, version: Version) -> bool:
        """Whether ``version`` is in the range."""
        return all(_HOLDS[sign](version, bound) for sign, bound in self.bounds)

    def condition(self, name: str) -> str:
        """The range as a Python condition: ``TORCH < (2, 15)``; "" where it always holds."""
        return " and ".join(f"{name} {sign} {bound}" for sign, bound in self.bounds)

    def suffix(self) -> str:
        """Return what distinguishes the functions of several entries: "_torch_before_2_15"."""
        words = [f"{_WORDS[sign]}_{major}_{minor}" for sign, (major, minor) in self.bounds]
        return "_".join(["_torch", *words]) if words else ""


ALWAYS = VersionRange()


def dotted(version: Version) -> str:
    """``(2, 15)`` as ``2.15``."""
    return f"{version[0]}.{version[1]}"


def listed(versions: Iterable[Version]) -> str:
    """Versions for a message: ``2.13, 2.14``."""
    return ", ".join(dotted(version) for version in sorted(versions))


def parse_version(text: str) -> Version:
    """Major and minor number of ``2.15.0+cpu``."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def parse_range(text: str) -> VersionRange | None:
    """The range that ``text`` writes; None when it writes none."""
    matches = [_BOUND.fullmatch(bound.strip()) for bound in text.split(",")]
    if None in matches:
        return None
    return VersionRange(tuple((m[1], (int(m[2]), int(m[3]))) for m in matches if m is not None))


def meet(ranges: Iterable[VersionRange]) -> Version | None:
    """Find a version in all of the ranges; None when there is none."""
    every = list(ranges)
    bounds = [bound for version_range in every for _, bound in version_range.bounds]
    # what holds between two bounds holds beside one of them, or at it
    beside = [(major, minor + step) for major, minor in bounds for step in (-1, 0, 1)]
    beyond = (max(bounds, default=(2, 0))[0] + 1, 0)
    tried = sorted({*(v for v in beside if v[1] >= 0), (0, 0), beyond})
    return next((v for v in tried if all(version_range.holds(v) for version_range in every)), None)


def covers(outer: VersionRange, inner: VersionRange) -> bool:
    """Return whether ``outer`` contains every version of ``inner``."""
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    outside = [VersionRange(((opposite[sign], bound),)) for sign, bound in outer.bounds]
    return all(meet([inner, version_range]) is None for version_range in outside)


def range_of(inside: Iterable[Version], every: Iterable[Version]) -> str | None:
    """Format the range of ``inside`` among ``every``; None where one bound is not enough."""
    members, others = sorted(inside), sorted(set(every) - set(inside))
    if not members or not others:
        return None
    if members[-1] < others[0]:
        return f"<{dotted(others[0])}"
    return f">={dotted(members[0])}" if others[-1] < members[0] else None
