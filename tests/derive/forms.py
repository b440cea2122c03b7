"""The forms of a sample: the same call with other dtypes, sizes, ranks, layouts, or with dynamic
dimensions. One graph is converted for each form.

In: the parsed values of a sample. Out: forms; whether eager accepts one is not known here. Every
mutation is one pure function of the parsed values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ortablegen.language.samples import Expression, TensorSample

Values = dict[str, Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8")
DTYPES = (*FLOATS, *INTS, "bool", "complex64")

LAYOUTS = ("transposed", "strided", "expanded")


@dataclass(frozen=True)
class Form:
    """A call to convert: its values, and how its tensors lie in memory."""

    name: str
    values: Values = field(hash=False)
    layout: str | None = None
    # the dtypes of the written sample that were replaced, and by which
    dtypes: tuple[str, str] | None = None

    @property
    def dynamic(self) -> bool:
        """True when a dimension has a name."""
        return any(name for leaf in leaves(self.values) for _, name in leaf.dims)


def leaves(value: Any) -> list[TensorSample]:
    """The tensors of parsed values, in order."""
    if isinstance(value, TensorSample):
        return [value]
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    return [leaf for each in value for leaf in leaves(each)] if isinstance(value, list) else []


def map_tensors(value: Any, change: Callable[[TensorSample], TensorSample]) -> Any:
    if isinstance(value, TensorSample):
        return change(value)
    if isinstance(value, dict):
        return {name: map_tensors(each, change) for name, each in value.items()}
    return [map_tensors(each, change) for each in value] if isinstance(value, list) else value


def static(values: Values) -> Values:
    """The values without names of dimensions, but where an argument mentions one."""
    if _mentions_dims(values):
        return values
    return map_tensors(
        values, lambda leaf: replace(leaf, dims=tuple((size, None) for size in leaf.shape))
    )


def _mentions_dims(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_mentions_dims, value.values()))
    return isinstance(value, Expression) or (
        isinstance(value, list) and any(map(_mentions_dims, value))
    )


def forms(values: Values, tied: bool = False, broadcasts: bool = True) -> Iterator[Form]:
    """Every form of a call: as written first. ``tied``: the sizes of the tensors follow from each
    other and from numbers of the call, as autograd has it, although eager does not look.
    ``broadcasts``: a tensor may have a shape that the others do not have."""
    yield Form("as written", values)
    plain = static(values)
    yield from dtypes(plain)
    if not tied:
        yield from sizes(plain, broadcasts)
        yield from scalars(plain, broadcasts)
    if not tied:
        yield from layouts(plain)
    yield from dynamic(values)


def dtypes(values: Values, among: Sequence[str] = DTYPES) -> Iterator[Form]:
    """Each dtype of the call replaced by every other one of ``among``."""
    found = dict.fromkeys(leaf.dtype for leaf in leaves(values))
    for old in found:
        for new in among:
            if new in found and (len(found) > 1 or new == old):
                continue
            changed = map_tensors(values, lambda leaf, old=old, new=new: _as_dtype(leaf, old, new))
            if changed.get("input_dtype") == old:  # what autograd knows of the forward's argument
                changed["input_dtype"] = new
            name = new if len(found) == 1 else f"{old}={new}"
            yield Form(name, changed, dtypes=(old, new))


def _as_dtype(leaf: TensorSample, old: str, new: str) -> TensorSample:
    if leaf.dtype != old:
        return leaf
    low, high = leaf.low, leaf.high
    if low is not None and high is not None and new not in FLOATS and int(low) >= int(high):
        high = int(low) + 1
    return replace(leaf, dtype=new, low=low, high=high)


def sizes(values: Values, each: bool = True) -> Iterator[Form]:
    """Each size that occurs, set to 0 and to 1 wherever it occurs; then ``each`` dimension to 1."""
    tensors = leaves(values)
    found = sorted({size for leaf in tensors for size in leaf.shape} - {0, 1})
    for size in found:
        for new in (0, 1):
            changed = map_tensors(values, lambda leaf, old=size, new=new: _sized(leaf, old, new))
            yield Form(f"size {size}={new}", changed)
    places = [
        (number, axis)
        for number, leaf in enumerate(tensors)
        for axis, size in enumerate(leaf.shape)
        if size > 1
    ]
    for number, axis in places[:6] if each and len(tensors) > 1 else ():
        yield Form(f"x{number} axis {axis}=1", _with(values, number, lambda x, a=axis: _cut(x, a)))


def _sized(leaf: TensorSample, old: int, new: int) -> TensorSample:
    dims = tuple((new if size == old else size, name) for size, name in leaf.dims)
    if leaf.high == old and not leaf.dtype.startswith(("float", "bfloat", "complex")):
        leaf = replace(leaf, high=max(new, int(leaf.low or 0) + 1))  # indices into that dimension
    return _reshaped(leaf, dims)


def _cut(leaf: TensorSample, axis: int) -> TensorSample:
    dims = tuple((1 if i == axis else size, name) for i, (size, name) in enumerate(leaf.dims))
    return _reshaped(leaf, dims)


def _reshaped(leaf: TensorSample, dims: tuple[tuple[int, str | None], ...]) -> TensorSample:
    if leaf.values is None or dims == leaf.dims:
        return replace(leaf, dims=dims)
    wanted = 1
    for size, _ in dims:
        wanted *= size
    return replace(leaf, dims=dims, values=_flat(leaf.values)[:wanted])


def _flat(values: Any) -> list[Any]:
    return [x for each in values for x in _flat(each)] if isinstance(values, list) else [values]


def _with(values: Values, number: int, change: Callable[[TensorSample], TensorSample]) -> Values:
    """The values with one tensor changed, counted from 0."""
    counter = iter(range(len(leaves(values))))
    return map_tensors(values, lambda leaf: change(leaf) if next(counter) == number else leaf)


def scalars(values: Values, each: bool = True) -> Iterator[Form]:
    """Every tensor 0-d; then ``each`` alone."""
    tensors = leaves(values)
    if all(not leaf.dims for leaf in tensors):
        return
    yield Form("0-d", map_tensors(values, lambda leaf: _reshaped(leaf, ())))
    for number, leaf in enumerate(tensors[:4] if each and len(tensors) > 1 else ()):
        if leaf.dims:
            yield Form(f"x{number} 0-d", _with(values, number, lambda x: _reshaped(x, ())))


def layouts(values: Values) -> Iterator[Form]:
    """The same call on tensors that are not contiguous."""
    most = max((len(leaf.dims) for leaf in leaves(values)), default=0)
    for layout in LAYOUTS:
        if most >= (2 if layout == "transposed" else 1):
            yield Form(layout, values, layout)


def laid_out(tensor: torch.Tensor, layout: str | None) -> torch.Tensor:
    """The tensor in another layout; an expanded one repeats its first row."""
    if layout is None or tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    if layout == "transposed":
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "expanded":
        return tensor[:1].expand_as(tensor)
    wide = tensor.new_zeros((*tensor.shape[:-1], tensor.shape[-1] * 2))
    wide[..., ::2] = tensor
    return wide[..., ::2]


def dynamic(values: Values) -> Iterator[Form]:
    """Every dimension over 1 dynamic; equal sizes are one dimension. Tensors whose numbers are
    given keep their sizes."""
    if _mentions_dims(values):
        return

    def named(leaf: TensorSample) -> TensorSample:
        if leaf.values is not None:
            return replace(leaf, dims=tuple((size, None) for size in leaf.shape))
        return replace(leaf, dims=tuple((s, f"s{s}" if s > 1 else None) for s in leaf.shape))

    form = Form("dynamic", map_tensors(values, named))
    if form.dynamic:
        yield form


def growths(form: Form) -> Iterator[tuple[str, dict[str, int]]]:
    """Further sizes of a dynamic form, as what is added to each dimension."""
    named = {name: size for leaf in leaves(form.values) for size, name in leaf.dims if name}
    if not named:
        return
    yield "larger", dict.fromkeys(named, 3)
    if len(named) > 1:
        yield "uneven", {name: 2 + 3 * i for i, name in enumerate(sorted(named))}
    if all(leaf.high is None for leaf in leaves(form.values)):  # indices stay inside
        yield "smallest", {name: min(0, 2 - size) for name, size in named.items()}
