"""Version ranges of torch as specs write them: ``"<2.15"``, ``">=2.14, !=2.16"``.

A version is the major and minor number, since patch releases do not change schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Version = tuple[int, int]

_BOUND = re.compile(r"(<=|>=|==|!=|<|>)\s*([0-9]{1,4})\.([0-9]{1,4})")
_COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
_SUFFIX_WORDS = {"<": "before", "<=": "to", ">": "after", ">=": "from", "==": "at", "!=": "not"}


@dataclass(frozen=True)
class VersionRange:
    """The versions that satisfy every bound; all versions if there is no bound."""

    bounds: tuple[tuple[str, Version], ...] = ()

    def __str__(self) -> str:
        return ", ".join(f"{sign}{format_version(version)}" for sign, version in self.bounds)

    def contains(self, version: Version) -> bool:
        """Whether ``version`` is in the range."""
        return all(_COMPARE[sign](version, bound) for sign, bound in self.bounds)

    def condition(self, name: str) -> str:
        """Format the range as a Python condition: ``TORCH < (2, 15)``; "" if unbounded."""
        return " and ".join(f"{name} {sign} {bound}" for sign, bound in self.bounds)

    def suffix(self) -> str:
        """Return a suffix for generated function names: "_torch_before_2_15"; "" if unbounded."""
        parts = [f"{_SUFFIX_WORDS[sign]}_{major}_{minor}" for sign, (major, minor) in self.bounds]
        return "_".join(["_torch", *parts]) if parts else ""


ALWAYS = VersionRange()


def format_version(version: Version) -> str:
    """Format ``(2, 15)`` as ``2.15``."""
    return f"{version[0]}.{version[1]}"


def listed(versions: Iterable[Version]) -> str:
    """Format versions for a message: ``2.13, 2.14``."""
    return ", ".join(format_version(version) for version in sorted(versions))


def parse_version(text: str) -> Version:
    """Return the major and minor number of ``2.15.0+cpu``."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def parse_range(text: str) -> VersionRange | None:
    """Parse a version range; return None if ``text`` is not a range."""
    matches = [_BOUND.fullmatch(bound.strip()) for bound in text.split(",")]
    if None in matches:
        return None
    return VersionRange(tuple((m[1], (int(m[2]), int(m[3]))) for m in matches if m is not None))


def meet(ranges: Iterable[VersionRange]) -> Version | None:
    """Return a version in all of the ranges, or None."""
    all_ranges = list(ranges)
    bounds = [bound for version_range in all_ranges for _, bound in version_range.bounds]
    # the ranges contain a common version only if they contain one of these: a bound, a version next
    # to a bound, or a version before or after all bounds
    near_bounds = [(major, minor + step) for major, minor in bounds for step in (-1, 0, 1)]
    after_all = (max(bounds, default=(2, 0))[0] + 1, 0)
    candidates = sorted({*(v for v in near_bounds if v[1] >= 0), (0, 0), after_all})
    return next(
        (v for v in candidates if all(version_range.contains(v) for version_range in all_ranges)),
        None,
    )


def covers(outer: VersionRange, inner: VersionRange) -> bool:
    """Whether ``outer`` contains every version of ``inner``."""
    opposite = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
    complements = [VersionRange(((opposite[sign], bound),)) for sign, bound in outer.bounds]
    return all(meet([inner, complement]) is None for complement in complements)


def format_range(inside: Iterable[Version], all_versions: Iterable[Version]) -> str | None:
    """Format the bound that separates ``inside`` from all others; None if no single bound does."""
    members, other_versions = sorted(inside), sorted(set(all_versions) - set(inside))
    if not members or not other_versions:
        return None
    if members[-1] < other_versions[0]:
        return f"<{format_version(other_versions[0])}"
    return f">={format_version(members[0])}" if other_versions[-1] < members[0] else None
