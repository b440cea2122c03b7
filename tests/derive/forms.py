"""Forms of a sample: the call with other dtypes, sizes, ranks, layouts, or dynamic dimensions."""

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
    """A call to convert: its values, and the layout of its tensors."""

    name: str
    values: Values = field(hash=False)
    layout: str | None = None
    # (old, new) dtype, where a dtype of the sample is replaced
    dtypes: tuple[str, str] | None = None

    @property
    def dynamic(self) -> bool:
        """Return whether a dimension has a name."""
        return any(name for leaf in leaves(self.values) for _, name in leaf.dims)


def leaves(value: Any) -> list[TensorSample]:
    """Return the tensors of parsed values, in order."""
    if isinstance(value, TensorSample):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else []


def map_tensors(value: Any, change: Callable[[TensorSample], TensorSample]) -> Any:
    if isinstance(value, TensorSample):
        return change(value)
    if isinstance(value, dict):
        return {name: map_tensors(item, change) for name, item in value.items()}
    return [map_tensors(item, change) for item in value] if isinstance(value, list) else value


def static(values: Values) -> Values:
    """Return the values without names of dimensions, unless an argument refers to one."""
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
    """Yield every form of a call, the original first.

    ``tied``: the call requires sizes that eager does not check, as autograd's calls do.
    ``broadcasts``: the tensors may have different shapes.
    """
    yield Form("as written", values)
    static_values = static(values)
    yield from dtypes(static_values)
    if not tied:
        yield from sizes(static_values, broadcasts)
        yield from scalars(static_values, broadcasts)
    if not tied:
        yield from layouts(static_values)
    yield from dynamic(values)


def dtypes(values: Values, among: Sequence[str] = DTYPES) -> Iterator[Form]:
    """Yield forms in which each dtype of the call is replaced by every other one of ``among``."""
    present = dict.fromkeys(leaf.dtype for leaf in leaves(values))
    for old in present:
        for new in among:
            if new in present and (len(present) > 1 or new == old):
                continue
            changed = map_tensors(values, lambda leaf, old=old, new=new: _as_dtype(leaf, old, new))
            if changed.get("input_dtype") == old:  # the dtype of the forward's argument
                changed["input_dtype"] = new
            name = new if len(present) == 1 else f"{old}={new}"
            yield Form(name, changed, dtypes=(old, new))


def _as_dtype(leaf: TensorSample, old: str, new: str) -> TensorSample:
    if leaf.dtype != old:
        return leaf
    low, high = leaf.low, leaf.high
    if low is not None and high is not None and new not in FLOATS and int(low) >= int(high):
        high = int(low) + 1
    return replace(leaf, dtype=new, low=low, high=high)


def sizes(values: Values, one_by_one: bool = True) -> Iterator[Form]:
    """Yield forms with each size replaced by 0 and by 1; then single dimensions by 1."""
    tensors = leaves(values)
    present = sorted({size for leaf in tensors for size in leaf.shape} - {0, 1})
    for size in present:
        for new in (0, 1):
            changed = map_tensors(values, lambda leaf, old=size, new=new: _resize(leaf, old, new))
            yield Form(f"size {size}={new}", changed)
    dimensions = [
        (number, axis)
        for number, leaf in enumerate(tensors)
        for axis, size in enumerate(leaf.shape)
        if size > 1
    ]
    for number, axis in dimensions[:6] if one_by_one and len(tensors) > 1 else ():
        yield Form(
            f"x{number} axis {axis}=1",
            _change_tensor(values, number, lambda x, a=axis: _shrink_axis(x, a)),
        )


def _resize(leaf: TensorSample, old: int, new: int) -> TensorSample:
    dims = tuple((new if size == old else size, name) for size, name in leaf.dims)
    if leaf.high == old and not leaf.dtype.startswith(("float", "bfloat", "complex")):
        leaf = replace(leaf, high=max(new, int(leaf.low or 0) + 1))  # indices into that dimension
    return _reshape(leaf, dims)


def _shrink_axis(leaf: TensorSample, axis: int) -> TensorSample:
    dims = tuple((1 if i == axis else size, name) for i, (size, name) in enumerate(leaf.dims))
    return _reshape(leaf, dims)


def _reshape(leaf: TensorSample, dims: tuple[tuple[int, str | None], ...]) -> TensorSample:
    if leaf.values is None or dims == leaf.dims:
        return replace(leaf, dims=dims)
    count = 1
    for size, _ in dims:
        count *= size
    return replace(leaf, dims=dims, values=_flatten(leaf.values)[:count])


def _flatten(values: Any) -> list[Any]:
    return [x for item in values for x in _flatten(item)] if isinstance(values, list) else [values]


def _change_tensor(
    values: Values, number: int, change: Callable[[TensorSample], TensorSample]
) -> Values:
    """Return the values with tensor ``number`` changed, counted from 0."""
    counter = iter(range(len(leaves(values))))
    return map_tensors(values, lambda leaf: change(leaf) if next(counter) == number else leaf)


def scalars(values: Values, one_by_one: bool = True) -> Iterator[Form]:
    """Yield the form with all tensors 0-d; then with single tensors 0-d."""
    tensors = leaves(values)
    if all(not leaf.dims for leaf in tensors):
        return
    yield Form("0-d", map_tensors(values, lambda leaf: _reshape(leaf, ())))
    for number, leaf in enumerate(tensors[:4] if one_by_one and len(tensors) > 1 else ()):
        if leaf.dims:
            yield Form(f"x{number} 0-d", _change_tensor(values, number, lambda x: _reshape(x, ())))


def layouts(values: Values) -> Iterator[Form]:
    """Yield the call on tensors that are not contiguous."""
    max_rank = max((len(leaf.dims) for leaf in leaves(values)), default=0)
    for layout in LAYOUTS:
        if max_rank >= (2 if layout == "transposed" else 1):
            yield Form(layout, values, layout)


def laid_out(tensor: torch.Tensor, layout: str | None) -> torch.Tensor:
    """Return the tensor in another layout; an expanded tensor repeats its first row."""
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
    """Yield the form with dimensions over 1 dynamic, without those of tensors with fixed values."""
    if _mentions_dims(values):
        return

    def name_dims(leaf: TensorSample) -> TensorSample:
        if leaf.values is not None:
            return replace(leaf, dims=tuple((size, None) for size in leaf.shape))
        return replace(leaf, dims=tuple((s, f"s{s}" if s > 1 else None) for s in leaf.shape))

    form = Form("dynamic", map_tensors(values, name_dims))
    if form.dynamic:
        yield form


def growths(form: Form) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield other sizes of a dynamic form, as increments of each dimension."""
    sizes_by_name = {name: size for leaf in leaves(form.values) for size, name in leaf.dims if name}
    if not sizes_by_name:
        return
    yield "larger", dict.fromkeys(sizes_by_name, 3)
    if len(sizes_by_name) > 1:
        yield "uneven", {name: 2 + 3 * i for i, name in enumerate(sorted(sizes_by_name))}
    if all(leaf.high is None for leaf in leaves(form.values)):  # indices stay in range
        yield "smallest", {name: min(0, 2 - size) for name, size in sizes_by_name.items()}
