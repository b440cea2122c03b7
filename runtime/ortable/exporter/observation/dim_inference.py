"""Infer dimensions from observed calls: which vary, which are equal, and which follow from others.
Called by `observe.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ortable.errors import ExportError
from ortable.exporter.observation.calls import ObservedCall, ObservedValue
from ortable.exporter.signature.dynamic_shapes import expression_of

# The sizes of one dimension in the calls, in their order.
SizeTuple = tuple[int, ...]

_MIN_DISTINCT_SIZES = 3  # different sizes, before `past + 1` and `2 * frames` are believed
_MAX_SUM_TERMS = 24  # dimensions of which sums are looked for


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
    sizes: SizeTuple
    places: tuple[tuple[str, int | None], ...]
    fitting: tuple[str, ...] = ()

    @property
    def is_derived(self) -> bool:
        """Whether it follows from other dimensions."""
        return not self.name.isidentifier()


@dataclass(frozen=True)
class DimInference:
    """Dimensions inferred from calls.

    ``leaves``: those of the first call; ``name_by_site``: the name of each varying axis or integer.
    """

    leaves: Mapping[str, ObservedValue]
    dimensions: tuple[Dimension, ...]
    name_by_site: Mapping[tuple[str, int | None], str] = field(default_factory=dict)

    def shape(self, path: str) -> list[str | int]:
        """Return the sizes of a tensor: names where they varied, numbers where they did not."""
        sizes = enumerate(self.leaves[path].shape)
        return [self.name_by_site.get((path, axis), size) for axis, size in sizes]

    def independent_dims(self) -> list[Dimension]:
        """Return the dimensions that follow from no other."""
        return [dimension for dimension in self.dimensions if not dimension.is_derived]


@dataclass(frozen=True)
class _Relation:
    """A way to compute the sizes of one dimension from those of others: ``{0} + {1}``."""

    form: str
    bases: tuple[SizeTuple, ...]

    def text(self, names: Mapping[SizeTuple, str]) -> str:
        text = self.form.format(*(names[base] for base in self.bases))
        expression = expression_of(text)
        return text if expression is None else str(expression)


def infer_dimensions(calls: Sequence[ObservedCall]) -> DimInference:
    """Compare the calls and infer their dimensions.

    Raises ExportError for calls that need different graphs: another structure, dtype, rank, or
    another value of something that is no tensor and no integer. The message names the argument.
    """
    check_alike(calls)
    first = calls[0].leaves
    classes: dict[SizeTuple, list[DimSite]] = {}
    for path, seen in first.items():
        for axis in [None] if seen.is_integer else range(len(seen.shape)):
            sizes = tuple(_axis_size(call.leaves[path], axis) for call in calls)
            if len(set(sizes)) > 1:
                classes.setdefault(sizes, []).append(DimSite(path, axis, seen))
    relations = _find_relations(classes)
    follows = {sizes: matches[0] for sizes, matches in relations.items() if len(matches) == 1}
    names = name_size_classes({s: places for s, places in classes.items() if s not in follows})
    names |= {sizes: matches.text(names) for sizes, matches in follows.items()}
    dimensions = tuple(
        Dimension(
            names[sizes],
            sizes,
            tuple((site.path, site.axis) for site in places),
            () if sizes in follows else tuple(item.text(names) for item in relations[sizes]),
        )
        for sizes, places in classes.items()
    )
    name_by_site = {site: item.name for item in dimensions for site in item.places}
    return DimInference(first, dimensions, name_by_site)


def check_alike(calls: Sequence[ObservedCall]) -> None:
    """Raise ExportError, with the argument, for calls that one graph cannot serve."""
    first = calls[0].leaves
    for number, call in enumerate(calls[1:], 2):
        for path in [*first, *(path for path in call.leaves if path not in first)]:
            one, other = first.get(path), call.leaves.get(path)
            problem = _difference_text(one, other)
            if problem:
                raise ExportError(
                    f"'{path}' is {_value_text(one)} in call 1 and "
                    f"{_value_text(other)} in call {number}: {problem}"
                ).with_advice(
                    "Observe such calls apart: seen.apart() has an observation for each kind."
                )


def _difference_text(one: ObservedValue | None, other: ObservedValue | None) -> str:
    """Return why two leaves need two graphs; empty if one graph serves both."""
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


def _value_text(seen: ObservedValue | None) -> str:
    return "absent" if seen is None else seen.format_value()


def _axis_size(seen: ObservedValue, axis: int | None) -> int:
    return int(seen.value) if axis is None else seen.shape[axis]


def _find_relations(
    classes: Mapping[SizeTuple, Sequence[DimSite]],
) -> dict[SizeTuple, list[_Relation]]:
    """Find all ways in which the sizes of each group follow from those of others.

    A sum of two dimensions; a multiple of one, or one with an offset, where enough sizes were
    seen. Batch dimensions follow from nothing, and nothing from them.
    """
    relations: dict[SizeTuple, list[_Relation]] = {}
    free: list[SizeTuple] = []  # smaller ones first: nothing follows from what is larger
    for sizes in sorted(classes, key=sum):
        if any(site.is_first for site in classes[sizes]):
            relations[sizes] = []
            continue
        fitting = list(_sum_relations(sizes, free))
        if not fitting and len(set(sizes)) >= _MIN_DISTINCT_SIZES:
            fitting = [*_multiple_relations(sizes, free), *_offset_relations(sizes, free)]
        relations[sizes] = fitting
        if len(fitting) != 1 and len(free) < _MAX_SUM_TERMS:
            free.append(sizes)
    return relations


def _sum_relations(sizes: SizeTuple, others: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for pair in itertools.combinations(others, 2):
        if tuple(map(sum, zip(*pair, strict=True))) == sizes:
            yield _Relation("{0} + {1}", pair)


def _multiple_relations(sizes: SizeTuple, others: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for other in others:
        factor = sizes[0] // other[0] if other[0] else 0
        if factor > 1 and tuple(factor * size for size in other) == sizes:
            yield _Relation(f"{factor} * {{0}}", (other,))


def _offset_relations(sizes: SizeTuple, others: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for other in others:
        offset = sizes[0] - other[0]
        if offset > 0 and tuple(size + offset for size in other) == sizes:
            yield _Relation(f"{{0}} + {offset}", (other,))


# Words in the way to a tensor of keys and values of earlier tokens, and to one of an encoder's.
_CACHE_PATH = re.compile(r"past|cache|key_values")
_ENCODER_PATH = re.compile(r"cross|encoder_hidden|encoder_out")
_IMAGE_AXES = {4: {2: "height", 3: "width"}, 5: {2: "depth", 3: "height", 4: "width"}}


@dataclass(frozen=True)
class DimSite:
    """An axis of a tensor of the calls, or an integer (axis None)."""

    path: str
    axis: int | None
    seen: ObservedValue

    @property
    def is_first(self) -> bool:
        """Whether it is the first axis, where batches are."""
        return self.axis == 0

    @property
    def tensor_rank(self) -> int:
        """Of the tensor."""
        return len(self.seen.shape)

    @property
    def in_cache(self) -> bool:
        """Whether the tensor holds keys or values, as far as its name tells."""
        return bool(_CACHE_PATH.search(self.path)) and self.tensor_rank in (3, 4)


def name_size_classes(
    classes: Mapping[tuple[int, ...], Sequence[DimSite]],
) -> dict[tuple[int, ...], str]:
    """Choose a unique name for each group of sites."""
    batch = max(
        classes, key=lambda sizes: sum(site.is_first for site in classes[sizes]), default=None
    )
    names: dict[tuple[int, ...], str] = {}
    used: set[str] = set()
    number = 0
    for sizes, places in classes.items():
        first = any(site.is_first for site in places)
        name = "batch" if sizes == batch and first else _conventional_name(places)
        if name in used and name:
            name = f"{_path_identifier(places[0].path)}_{name}"
        while not name or name in used:
            name, number = f"dim_{number}", number + 1
        used.add(name)
        names[sizes] = name
    return names


def _conventional_name(places: Sequence[DimSite]) -> str:
    """Return the conventional name of such a dimension; empty if there is none."""
    site = min(places, key=lambda each: each.in_cache)  # an input tells more than a cache
    if site.axis is None:
        return _path_identifier(site.path)
    if site.in_cache:
        if site.axis != site.tensor_rank - 2:
            return ""
        return "encoder_sequence" if _ENCODER_PATH.search(site.path) else "past"
    pictured = _IMAGE_AXES.get(site.tensor_rank, {}).get(site.axis)
    if pictured and site.seen.dtype is not None and site.seen.dtype.is_floating_point:
        return pictured
    if site.axis == 1 and site.tensor_rank in (2, 3):
        decoder = site.path.startswith("decoder")
        return "decoder_sequence" if decoder else "sequence"
    return ""


def _path_identifier(path: str) -> str:
    """``past_0`` for ``past[0]``."""
    return re.sub(r"\W+", "_", path).strip("_") or "value"
