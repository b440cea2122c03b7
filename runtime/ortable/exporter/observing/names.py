"""Names of dimensions, as people call them: batch, sequence, past, height, width. In come places
that share their sizes in every call, out goes a name for each group. Called by dims.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .calls import Seen

# Words in the way to a tensor of keys and values of earlier tokens, and to one of an encoder's.
_OF_A_CACHE = re.compile(r"past|cache|key_values")
_OF_AN_ENCODER = re.compile(r"cross|encoder_hidden|encoder_out")
_AXES_OF_PICTURES = {4: {2: "height", 3: "width"}, 5: {2: "depth", 3: "height", 4: "width"}}


@dataclass(frozen=True)
class Place:
    """An axis of a tensor of the calls, or an integer (axis None)."""

    path: str
    axis: int | None
    seen: Seen

    @property
    def is_first(self) -> bool:
        """Whether it is the first axis, where batches are."""
        return self.axis == 0

    @property
    def rank(self) -> int:
        """Of the tensor."""
        return len(self.seen.shape)

    @property
    def in_cache(self) -> bool:
        """Whether the tensor holds keys or values, as far as its name tells."""
        return bool(_OF_A_CACHE.search(self.path)) and self.rank in (3, 4)


def named_classes(
    classes: Mapping[tuple[int, ...], Sequence[Place]],
) -> dict[tuple[int, ...], str]:
    """A name for each group of places, all different."""
    batch = max(
        classes, key=lambda sizes: sum(place.is_first for place in classes[sizes]), default=None
    )
    found: dict[tuple[int, ...], str] = {}
    taken: set[str] = set()
    number = 0
    for sizes, places in classes.items():
        first = any(place.is_first for place in places)
        name = "batch" if sizes == batch and first else _usual(places)
        if name in taken and name:
            name = f"{_identifier(places[0].path)}_{name}"
        while not name or name in taken:
            name, number = f"dim_{number}", number + 1
        taken.add(name)
        found[sizes] = name
    return found


def _usual(places: Sequence[Place]) -> str:
    """What such a dimension is called; empty where nothing tells."""
    place = min(places, key=lambda each: each.in_cache)  # an input tells more than a cache
    if place.axis is None:
        return _identifier(place.path)
    if place.in_cache:
        if place.axis != place.rank - 2:
            return ""
        return "encoder_sequence" if _OF_AN_ENCODER.search(place.path) else "past"
    pictured = _AXES_OF_PICTURES.get(place.rank, {}).get(place.axis)
    if pictured and place.seen.dtype is not None and place.seen.dtype.is_floating_point:
        return pictured
    if place.axis == 1 and place.rank in (2, 3):
        decoder = place.path.startswith("decoder")
        return "decoder_sequence" if decoder else "sequence"
    return ""


def _identifier(path: str) -> str:
    """``past_0`` for ``past[0]``."""
    return re.sub(r"\W+", "_", path).strip("_") or "value"
