"""Which dimensions vary, which are equal, and which follow from others: sizes of several calls,
side by side. In come `SeenCall`s of one structure, out goes a `Seeing`: a name or a fixed size for
every axis. Called by `observe.py`; names.py chooses the names."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ortable.errors import ExportError
from ortable.exporter.observation.calls import Seen, SeenCall
from ortable.exporter.signature.dynamic_shapes import expression_of

# The sizes of one dimension in the calls, in their order.
Sizes = tuple[int, ...]

_FEWEST_TO_TELL = 3  # different sizes, before `past + 1` and `2 * frames` are believed
_MOST_TERMS = 24  # dimensions of which sums are looked for


@dataclass(frozen=True)
class Dimension:
    """A dimension that varied.

    Attributes:
        name: an identifier, or an expression of other names (``past + sequence``).
        sizes: its size in each call.
        places: the arguments and axes that have it; the axis of an integer is None.
        fitting: expressions that its sizes fit, where it is more than one and none was taken.
    """

    name: str
    sizes: Sizes
    places: tuple[tuple[str, int | None], ...]
    fitting: tuple[str, ...] = ()

    @property
    def derived(self) -> bool:
        """Whether it follows from other dimensions."""
        return not self.name.isidentifier()


@dataclass(frozen=True)
class Seeing:
    """What the calls say. ``leaves`` are those of the first call; ``by_place`` has the name of each
    place that varied."""

    leaves: Mapping[str, Seen]
    dimensions: tuple[Dimension, ...]
    by_place: Mapping[tuple[str, int | None], str] = field(default_factory=dict)

    def shape(self, path: str) -> list[str | int]:
        """Sizes of a tensor: names where they varied, numbers where they did not."""
        sizes = enumerate(self.leaves[path].shape)
        return [self.by_place.get((path, axis), size) for axis, size in sizes]

    def free(self) -> list[Dimension]:
        """The dimensions that follow from no other."""
        return [each for each in self.dimensions if not each.derived]


@dataclass(frozen=True)
class _Relation:
    """A way to compute the sizes of one dimension from those of others: ``{0} + {1}``."""

    form: str
    bases: tuple[Sizes, ...]

    def text(self, names: Mapping[Sizes, str]) -> str:
        text = self.form.format(*(names[each] for each in self.bases))
        found = expression_of(text)
        return text if found is None else str(found)


def seeing(calls: Sequence[SeenCall]) -> Seeing:
    """Compare the calls.

    Raises ExportError for calls that need different graphs: another structure, dtype, rank, or
    another value of something that is no tensor and no integer. The message names the argument.
    """
    check_alike(calls)
    first = calls[0].leaves
    classes: dict[Sizes, list[Place]] = {}
    for path, seen in first.items():
        for axis in [None] if seen.is_integer else range(len(seen.shape)):
            sizes = tuple(_size(call.leaves[path], axis) for call in calls)
            if len(set(sizes)) > 1:
                classes.setdefault(sizes, []).append(Place(path, axis, seen))
    relations = _relations(classes)
    follows = {sizes: found[0] for sizes, found in relations.items() if len(found) == 1}
    names = named_classes({s: places for s, places in classes.items() if s not in follows})
    names |= {sizes: found.text(names) for sizes, found in follows.items()}
    dimensions = tuple(
        Dimension(
            names[sizes],
            sizes,
            tuple((place.path, place.axis) for place in places),
            () if sizes in follows else tuple(each.text(names) for each in relations[sizes]),
        )
        for sizes, places in classes.items()
    )
    by_place = {place: each.name for each in dimensions for place in each.places}
    return Seeing(first, dimensions, by_place)


def check_alike(calls: Sequence[SeenCall]) -> None:
    """Raises ExportError, with the argument, for calls that one graph cannot serve."""
    first = calls[0].leaves
    for number, call in enumerate(calls[1:], 2):
        for path in [*first, *(path for path in call.leaves if path not in first)]:
            one, other = first.get(path), call.leaves.get(path)
            problem = _unlike(one, other)
            if problem:
                raise ExportError(
                    f"'{path}' is {_words(one)} in call 1 and {_words(other)} in call {number}: "
                    f"{problem}"
                ).advised(
                    "Observe such calls apart: seen.apart() has an observation for each kind."
                )


def _unlike(one: Seen | None, other: Seen | None) -> str:
    """Why two leaves need two graphs; empty for those that one graph serves."""
    if one is None or other is None or one.is_tensor != other.is_tensor:
        return "calls of another structure are other graphs"
    if one.is_tensor:
        if one.dtype != other.dtype:
            return "a graph has one dtype for each input"
        if len(one.shape) != len(other.shape):
            return "a graph has one rank for each input"
        return "" if one.device == other.device else "a graph has one device for each input"
    if (one.is_integer and other.is_integer) or repr(one.value) == repr(other.value):
        return ""
    if isinstance(one.value, float) and isinstance(other.value, int | float):
        return "a float is a constant of the graph; pass it as a 0-d tensor"
    return "it is a constant of the graph, and each value has a graph of its own"


def _words(seen: Seen | None) -> str:
    return "absent" if seen is None else seen.words()


def _size(seen: Seen, axis: int | None) -> int:
    return int(seen.value) if axis is None else seen.shape[axis]


def _relations(classes: Mapping[Sizes, Sequence[Place]]) -> dict[Sizes, list[_Relation]]:
    """For each group of places what its sizes follow from, by every way that fits: a sum of two
    dimensions; a multiple of one, or one with an offset, where enough sizes were seen to tell. Rows
    of a batch follow from nothing, and nothing from them."""
    found: dict[Sizes, list[_Relation]] = {}
    free: list[Sizes] = []  # smaller ones first: nothing follows from what is larger
    for sizes in sorted(classes, key=sum):
        if any(place.is_first for place in classes[sizes]):
            found[sizes] = []
            continue
        fitting = list(_sums(sizes, free))
        if not fitting and len(set(sizes)) >= _FEWEST_TO_TELL:
            fitting = [*_multiples(sizes, free), *_offsets(sizes, free)]
        found[sizes] = fitting
        if len(fitting) != 1 and len(free) < _MOST_TERMS:
            free.append(sizes)
    return found


def _sums(sizes: Sizes, others: Sequence[Sizes]) -> Iterator[_Relation]:
    for pair in itertools.combinations(others, 2):
        if tuple(map(sum, zip(*pair, strict=True))) == sizes:
            yield _Relation("{0} + {1}", pair)


def _multiples(sizes: Sizes, others: Sequence[Sizes]) -> Iterator[_Relation]:
    for other in others:
        factor = sizes[0] // other[0] if other[0] else 0
        if factor > 1 and tuple(factor * size for size in other) == sizes:
            yield _Relation(f"{factor} * {{0}}", (other,))


def _offsets(sizes: Sizes, others: Sequence[Sizes]) -> Iterator[_Relation]:
    for other in others:
        offset = sizes[0] - other[0]
        if offset > 0 and tuple(size + offset for size in other) == sizes:
            yield _Relation(f"{{0}} + {offset}", (other,))


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
