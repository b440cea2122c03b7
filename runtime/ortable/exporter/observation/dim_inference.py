"""Infer dimensions from observed calls: which vary, which are equal, and which are derived.

`observe.py` calls this module.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ortable.errors import ExportError
from ortable.exporter.observation.calls import ObservedCall, ObservedValue
from ortable.exporter.signature.dynamic_shapes import parse_dim_expression

# The sizes of one dimension, in the order of the calls. Axes and integers with equal SizeTuples
# form a size class: they share one dimension.
SizeTuple = tuple[int, ...]

_MIN_DISTINCT_SIZES = 3  # fewer are no evidence of `past + 1` or `2 * frames`
_MAX_SUM_TERMS = 24  # dimensions that are searched as terms of sums


@dataclass(frozen=True)
class Dimension:
    """A dimension that varied.

    Attributes:
        name: an identifier, or an expression of other names (``past + sequence``).
        sizes: its size in each call.
        places: (path of the argument, axis) of each axis with these sizes; None as the axis of an
            integer.
        fitting: expressions of other dimensions that equal its sizes, if there are several and
            none was chosen.
    """

    name: str
    sizes: SizeTuple
    places: tuple[tuple[str, int | None], ...]
    fitting: tuple[str, ...] = ()

    @property
    def is_derived(self) -> bool:
        """Whether the dimension is an expression of other dimensions."""
        return not self.name.isidentifier()


@dataclass(frozen=True)
class DimInference:
    """Dimensions inferred from calls.

    ``leaves`` are the leaves of the first call, and ``name_by_site`` has the name of each varying
    axis or integer.
    """

    leaves: Mapping[str, ObservedValue]
    dimensions: tuple[Dimension, ...]
    name_by_site: Mapping[tuple[str, int | None], str] = field(default_factory=dict)

    def shape(self, path: str) -> list[str | int]:
        """Return the sizes of a tensor: names of varying dimensions, numbers for the others."""
        sizes = enumerate(self.leaves[path].shape)
        return [self.name_by_site.get((path, axis), size) for axis, size in sizes]

    def independent_dims(self) -> list[Dimension]:
        """Return the dimensions that are not derived from others."""
        return [dimension for dimension in self.dimensions if not dimension.is_derived]


@dataclass(frozen=True)
class _Relation:
    """An expression such as ``{0} + {1}`` that computes sizes from the sizes ``bases``."""

    form: str
    bases: tuple[SizeTuple, ...]

    def text(self, names: Mapping[SizeTuple, str]) -> str:
        text = self.form.format(*(names[base] for base in self.bases))
        expression = parse_dim_expression(text)
        return text if expression is None else str(expression)


def infer_dimensions(calls: Sequence[ObservedCall]) -> DimInference:
    """Compare the calls and infer their dimensions.

    Raises ExportError, with the argument, for calls that need different graphs: their structures,
    dtypes, ranks, devices, or values that are neither tensors nor integers differ.
    """
    check_alike(calls)
    first_leaves = calls[0].leaves
    classes: dict[SizeTuple, list[DimSite]] = {}
    for path, value in first_leaves.items():
        for axis in [None] if value.is_integer else range(len(value.shape)):
            sizes = tuple(_axis_size(call.leaves[path], axis) for call in calls)
            if len(set(sizes)) > 1:
                classes.setdefault(sizes, []).append(DimSite(path, axis, value))
    relations = _find_relations(classes)
    derived = {sizes: matches[0] for sizes, matches in relations.items() if len(matches) == 1}
    names = name_size_classes({s: sites for s, sites in classes.items() if s not in derived})
    names |= {sizes: relation.text(names) for sizes, relation in derived.items()}
    dimensions = tuple(
        Dimension(
            names[sizes],
            sizes,
            tuple((site.path, site.axis) for site in sites),
            () if sizes in derived else tuple(item.text(names) for item in relations[sizes]),
        )
        for sizes, sites in classes.items()
    )
    name_by_site = {site: item.name for item in dimensions for site in item.places}
    return DimInference(first_leaves, dimensions, name_by_site)


def check_alike(calls: Sequence[ObservedCall]) -> None:
    """Raise ExportError, which names the argument, if calls need different graphs."""
    first_leaves = calls[0].leaves
    for number, call in enumerate(calls[1:], 2):
        for path in [*first_leaves, *(path for path in call.leaves if path not in first_leaves)]:
            first_value, value = first_leaves.get(path), call.leaves.get(path)
            problem = _difference_text(first_value, value)
            if problem:
                raise ExportError(
                    f"'{path}' is {_value_text(first_value)} in call 1 and "
                    f"{_value_text(value)} in call {number}: {problem}"
                ).with_advice(
                    "seen.apart() separates such calls: it has an observation for each kind."
                )


def _difference_text(left: ObservedValue | None, right: ObservedValue | None) -> str:
    """Return why two leaves need two graphs; empty if one graph supports both."""
    if left is None or right is None or left.is_tensor != right.is_tensor:
        return "calls of different structure need different graphs"
    if left.is_tensor:
        if left.dtype != right.dtype:
            return "a graph has one dtype for each input"
        if len(left.shape) != len(right.shape):
            return "a graph has one rank for each input"
        return "" if left.device == right.device else "a graph has one device for each input"
    if (left.is_integer and right.is_integer) or repr(left.value) == repr(right.value):
        return ""
    if isinstance(left.value, float) and isinstance(right.value, int | float):
        return "a float is a constant of the graph; pass it as a 0-d tensor"
    return "it is a constant of the graph, and each value needs another graph"


def _value_text(value: ObservedValue | None) -> str:
    return "absent" if value is None else value.format_value()


def _axis_size(value: ObservedValue, axis: int | None) -> int:
    return int(value.value) if axis is None else value.shape[axis]


def _find_relations(
    classes: Mapping[SizeTuple, Sequence[DimSite]],
) -> dict[SizeTuple, list[_Relation]]:
    """Find for each size class all expressions of other size classes that equal its sizes.

    The expressions are sums of two dimensions. If no sum fits and enough different sizes were
    observed, they are multiples of one dimension, or one dimension plus an offset. Dimensions of a
    first axis, usually the batch, are never part of a relation.
    """
    relations: dict[SizeTuple, list[_Relation]] = {}
    bases: list[SizeTuple] = []  # in ascending order: a term is smaller than its sum
    for sizes in sorted(classes, key=sum):
        if any(site.is_first for site in classes[sizes]):
            relations[sizes] = []
            continue
        matches = list(_sum_relations(sizes, bases))
        if not matches and len(set(sizes)) >= _MIN_DISTINCT_SIZES:
            matches = [*_multiple_relations(sizes, bases), *_offset_relations(sizes, bases)]
        relations[sizes] = matches
        if len(matches) != 1 and len(bases) < _MAX_SUM_TERMS:
            bases.append(sizes)
    return relations


def _sum_relations(sizes: SizeTuple, bases: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for pair in itertools.combinations(bases, 2):
        if tuple(map(sum, zip(*pair, strict=True))) == sizes:
            yield _Relation("{0} + {1}", pair)


def _multiple_relations(sizes: SizeTuple, bases: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for base in bases:
        factor = sizes[0] // base[0] if base[0] else 0
        if factor > 1 and tuple(factor * size for size in base) == sizes:
            yield _Relation(f"{factor} * {{0}}", (base,))


def _offset_relations(sizes: SizeTuple, bases: Sequence[SizeTuple]) -> Iterator[_Relation]:
    for base in bases:
        offset = sizes[0] - base[0]
        if offset > 0 and tuple(size + offset for size in base) == sizes:
            yield _Relation(f"{{0}} + {offset}", (base,))


# Patterns in paths of tensors with keys and values of earlier tokens, and of an encoder's tokens.
_CACHE_PATH = re.compile(r"past|cache|key_values")
_ENCODER_PATH = re.compile(r"cross|encoder_hidden|encoder_out")
_IMAGE_AXES = {4: {2: "height", 3: "width"}, 5: {2: "depth", 3: "height", 4: "width"}}


@dataclass(frozen=True)
class DimSite:
    """An axis of a tensor of the calls, or an integer (its axis is None)."""

    path: str
    axis: int | None
    observed: ObservedValue

    @property
    def is_first(self) -> bool:
        """Whether the site is a first axis, which usually is the batch."""
        return self.axis == 0

    @property
    def tensor_rank(self) -> int:
        """The rank of the tensor."""
        return len(self.observed.shape)

    @property
    def in_cache(self) -> bool:
        """Whether the tensor's name and rank indicate cached keys or values."""
        return bool(_CACHE_PATH.search(self.path)) and self.tensor_rank in (3, 4)


def name_size_classes(
    classes: Mapping[tuple[int, ...], Sequence[DimSite]],
) -> dict[tuple[int, ...], str]:
    """Choose a unique name for each size class."""
    batch = max(
        classes, key=lambda sizes: sum(site.is_first for site in classes[sizes]), default=None
    )
    names: dict[tuple[int, ...], str] = {}
    used: set[str] = set()
    number = 0
    for sizes, sites in classes.items():
        has_first_axis = any(site.is_first for site in sites)
        name = "batch" if sizes == batch and has_first_axis else _conventional_name(sites)
        if name in used and name:
            name = f"{_path_identifier(sites[0].path)}_{name}"
        while not name or name in used:
            name, number = f"dim_{number}", number + 1
        used.add(name)
        names[sizes] = name
    return names


def _conventional_name(sites: Sequence[DimSite]) -> str:
    """Return the conventional name of a dimension at these sites; empty if there is none."""
    site = min(sites, key=lambda candidate: candidate.in_cache)  # prefer sites outside of caches
    if site.axis is None:
        return _path_identifier(site.path)
    if site.in_cache:
        if site.axis != site.tensor_rank - 2:
            return ""
        return "encoder_sequence" if _ENCODER_PATH.search(site.path) else "past"
    image_axis = _IMAGE_AXES.get(site.tensor_rank, {}).get(site.axis)
    if image_axis and site.observed.dtype is not None and site.observed.dtype.is_floating_point:
        return image_axis
    if site.axis == 1 and site.tensor_rank in (2, 3):
        is_decoder = site.path.startswith("decoder")
        return "decoder_sequence" if is_decoder else "sequence"
    return ""


def _path_identifier(path: str) -> str:
    """Return ``past_0`` for ``past[0]``."""
    return re.sub(r"\W+", "_", path).strip("_") or "value"
