"""The test matrix of attention: programs and the edge cases that they are called with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch

from tests.passes.rewrite.test_recurrence_rules import Step
from tests.passes.test_scanned_attention import STEPS, Scanned, rows

from .programs import Attended, Divided, OfOnnx, Rotary, RotaryOfOnnx, Shape, Turned

Tensors = tuple[torch.Tensor | None, ...]
INF = float("inf")
LENGTHS = ((1, 1), (1, 4), (4, 1), (3, 5), (5, 3), (4, 4))
MASKS = ("", "causal", "bool", "bool hidden", "float", "float hidden", "float lowest")
SIZES = (Shape(heads=2, groups=2), Shape(batch=1), Shape(heads=4, groups=2))
SCALES = (None, 0.3)
MASK_SHAPES = ("BHqk", "qk", "B11k", "11qk", "1Hqk", "11q1")


@dataclass(frozen=True)
class Cell:
    """A program and its ``calls``, of which the first is the example of the export.

    ``refused``: a pattern of the error from opset 23 on (below, torch's own body is converted).
    ``empty``: rows of NaN in torch are 0 by ONNX's definition, and in the model.
    ``reference``: whether ``onnx.reference`` implements what ONNX specifies.
    """

    name: str
    module: torch.nn.Module
    calls: tuple[Tensors, ...]
    dynamic: Any = None
    tolerance: float = 2e-5
    refused: str = ""
    empty: bool = False
    reference: bool = True

    def __repr__(self) -> str:
        return self.name


@cache
def cells() -> tuple[Cell, ...]:
    """Return all cells."""
    result = (*_of_torch(), *_dynamic(), *_rotary(), *_with_states(), *_of_onnx(), *_onnx_rotary())
    names = [cell.name for cell in result]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    return result


def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal values that depend on the sizes alone."""
    generator = torch.Generator().manual_seed(sum(n * 7**i for i, n in enumerate(sizes)))
    return torch.randn(sizes, generator=generator).to(dtype)


def qkv(shape: Shape, rows: bool = True, dtype: torch.dtype = torch.float32) -> Tensors:
    """Return queries, keys and values as rows or as heads."""
    sizes = (
        (shape.queries, shape.heads, shape.width),
        (shape.keys, shape.groups, shape.width),
        (shape.keys, shape.groups, shape.value_width),
    )
    if rows:
        return tuple(normal(shape.batch, n, h * d, dtype=dtype) for n, h, d in sizes)
    return tuple(normal(shape.batch, h, n, d, dtype=dtype) for n, h, d in sizes)


def mask_of(kind: str, shape: Shape, sizes: str, dtype: torch.dtype = torch.float32) -> Any:
    """Return a mask; "hidden" has a row of False or -inf, "lowest" of the dtype's lowest number."""
    lengths = {"B": shape.batch, "H": shape.heads, "q": shape.queries, "k": shape.keys, "1": 1}
    visible = normal(*(lengths[letter] for letter in sizes)) > -0.4
    visible[..., 0] = True
    dtype_kind, _, hidden_row = kind.partition(" ")
    if hidden_row:
        visible[..., -1:, :] = False
    if dtype_kind == "bool":
        return visible
    fill = torch.finfo(dtype).min if hidden_row == "lowest" else -INF
    return torch.where(visible, normal(*visible.shape), fill).to(dtype)


# -- torch's operator, and attention written out by models


def _of_torch() -> Iterator[Cell]:
    """Yield programs x masks x lengths, which cycle through the other sizes."""
    counter = itertools.count()
    programs = (("sdpa", True), ("mul", True), ("div", True), ("sdpa", False), ("mul", False))
    for (style, flat), mask, lengths in itertools.product(programs, MASKS, LENGTHS):
        index = next(counter)
        shape = replace(SIZES[index % 3], queries=lengths[0], keys=lengths[1])
        if mask != "causal":
            shape = replace(shape, value_width=(8, 6)[index // 3 % 2])
        yield _torch_cell(shape, style, flat, mask, index)
    for scale, (queries, keys) in itertools.product((-0.3, 0.0), LENGTHS[3:]):
        for mask in ("", "causal", "float"):
            shape = Shape(queries=queries, keys=keys)
            yield _torch_cell(shape, "mul", True, mask, 0, scale)
    for length, scale, batch in itertools.product((1, 2, 5), (None, -0.3), (1, 2)):
        shape = Shape(batch, length, length, value_width=8)
        name = f"causal {length} B{batch} scale {scale}"
        if scale is None:
            yield Cell(f"sdpa {name}", Attended(shape, "sdpa", "causal", 0.3), (qkv(shape),))
        yield Cell(f"divided {name}", Divided(shape, "div", "causal", scale), (qkv(shape),))


def _torch_cell(
    shape: Shape, style: str, flat: bool, mask: str, index: int, scale: float | None = INF
) -> Cell:
    scale = SCALES[index // 2 % 2] if scale == INF else scale
    is_half = style == "sdpa" and index % 5 == 4
    dtype = torch.float16 if is_half else torch.float32
    use = "" if style == "sdpa" else {"bool": "where", "float": "add"}.get(mask.split(" ")[0], "")
    use = "causal" if mask == "causal" else use
    args, sizes = qkv(shape, flat, dtype), MASK_SHAPES[index % len(MASK_SHAPES)]
    if mask not in ("", "causal"):
        args += (mask_of(mask, shape, sizes, dtype),)
    name = (
        f"{style} {'rows' if flat else 'heads'} {mask or 'plain'} {shape.queries}x{shape.keys} "
        f"B{shape.batch} H{shape.heads}/{shape.groups} V{shape.value_width} scale {scale} "
        f"{sizes if len(args) > 3 else ''}{' half' if is_half else ''}"
    )
    module = Attended(shape, style, use, scale, flat)
    return Cell(name.strip(), module, (args,), tolerance=3e-3 if is_half else 2e-5)


def _dynamic() -> Iterator[Cell]:
    """Yield models with dynamic lengths and batches, among them one query and fewer keys."""
    dynamic, length = torch.export.Dim.DYNAMIC, torch.export.Dim("length")
    for style, mask in itertools.product(("sdpa", "mul"), MASKS):
        is_causal = mask == "causal"
        lengths = ((4, 4), (1, 1), (6, 6)) if is_causal else ((3, 5), (1, 5), (5, 2), (1, 1))
        calls = []
        for batch, (queries, keys) in zip((2, 3, 1, 2), lengths, strict=False):
            shape = Shape(batch=batch, queries=queries, keys=keys)
            args = qkv(shape)
            calls.append(args if mask in ("", "causal") else (*args, mask_of(mask, shape, "B1qk")))
        sizes: list[Any] = [{0: dynamic, 1: length if is_causal else dynamic}] * 3
        if len(calls[0]) > 3:
            sizes.append({0: dynamic, 2: dynamic, 3: dynamic})
        use = {"bool": "where", "float": "add", "causal": "causal"}.get(mask.split(" ")[0], "")
        module = Attended(Shape(), style, use if style == "mul" or is_causal else "", None)
        yield Cell(f"{style} dynamic {mask or 'plain'}", module, tuple(calls), tuple(sizes))


# -- rotary embeddings and recurrent states


def _rotary() -> Iterator[Cell]:
    for length, (heads, groups), batch in itertools.product(
        (1, 2, 5), ((2, 2), (4, 2), (4, 1)), (1, 2)
    ):
        shape = Shape(batch, length, length, heads, groups, 16, 16)
        name = f"turned {length} B{batch} H{heads}/{groups}"
        yield Cell(name, Turned(shape, False), (qkv(shape),))
        for samples in {1, batch}:
            inputs = (*qkv(shape), 2 * normal(samples, length, 8))
            yield Cell(f"{name} angles of {samples}", Turned(shape, True), (inputs,))
    for length, width in itertools.product((1, 3), (4, 16)):
        args = normal(2, 2, length, width), normal(2, length, width // 2)
        yield Cell(f"rotary {length} {width}", Rotary(), (args,))


def _with_states() -> Iterator[Cell]:
    for step, batch, length in itertools.product(STEPS, (1, 3), (1, 2, 5)):
        args, name = rows(batch, length), f"{step.__name__} B{batch}"
        yield Cell(f"scan {name} L{length}", Scanned(step), (args,))
        if length == 2:
            yield Cell(f"step {name}", Step(step), (args,))


# -- ONNX's own operators


_CELL_OPTIONS = ("refused", "empty", "tolerance", "reference")


def _cell(name: str, args: Tensors, read: tuple[int, ...] = (0,), **options: Any) -> Cell:
    cell_options = {key: options.pop(key) for key in _CELL_OPTIONS if key in options}
    return Cell(f"onnx {name}", OfOnnx(read, **options), (args,), **cell_options)


def _of_onnx() -> Iterator[Cell]:
    heads = replace(Shape(), heads=4, groups=4)
    # torch's fake kernel gives the result the width of the query.
    narrow = qkv(replace(heads, value_width=6), False)
    yield _cell("values of another width", narrow, refused="shape")
    for queries, keys in LENGTHS:
        shape = replace(heads, queries=queries, keys=keys)
        args = qkv(shape, False)
        for causal in (False, True):
            name = f"{queries}x{keys}{' causal' if causal else ''}"
            yield _cell(name, args, (0, 1, 2, 3), is_causal=causal)
            grouped = qkv(replace(shape, groups=2), False)
            yield _cell(f"{name} grouped", grouped, (0, 3), is_causal=causal)
        for mask, sizes in itertools.product(MASKS[2:], ("qk", "B11k", "1Hqk", "11q1")):
            inputs = (*args, mask_of(mask, shape, sizes))
            empty = mask == "float hidden"
            yield _cell(f"{queries}x{keys} {mask} {sizes}", inputs, empty=empty)
    yield from _with_attributes(heads)
    yield from _with_past(heads)


def _with_attributes(heads: Shape) -> Iterator[Cell]:
    args, square = qkv(heads, False), qkv(replace(heads, queries=4, keys=4), False)
    grouped, head_counts = replace(heads, groups=2), {"q_num_heads": 4, "kv_num_heads": 2}
    masks = {mask: (*args, mask_of(mask, heads, "qk")) for mask in ("bool", "float")}
    for scale in (0.3, 2.0, 0.0):
        refused = "" if scale > 0 else "scale"
        yield _cell(f"scale {scale}", args, (0, 3), scale=scale, refused=refused)
    yield _cell("rows", qkv(grouped), (0, 1, 2), **head_counts)
    yield _cell("rows causal", qkv(grouped), is_causal=True, **head_counts)
    yield _cell("heads said twice", qkv(grouped, False), **head_counts)
    yield _cell("rows bool", (*qkv(grouped), mask_of("bool", heads, "B1qk")), **head_counts)
    # onnx.reference caps the scores of mode 0 as well.
    yield _cell("softcap", args, (0, 3), softcap=0.7, reference=False)
    yield _cell("softcap causal", square, softcap=0.7, is_causal=True, refused="softcap")
    for mask, inputs in masks.items():
        yield _cell(f"softcap {mask}", inputs, softcap=0.7, refused="softcap")
    for mode in (1, 2, 3):
        options = {"read": (0, 3), "qk_matmul_output_mode": mode}
        refusal = "qk_matmul_output_mode" if mode < 3 else ""
        yield _cell(f"mode {mode}", args, **options)
        yield _cell(f"mode {mode} softcap", args, softcap=0.7, reference=mode != 1, **options)
        yield _cell(f"mode {mode} float", masks["float"], **options)
        yield _cell(f"mode {mode} bool", masks["bool"], refused=refusal, **options)
        yield _cell(f"mode {mode} causal", square, is_causal=True, refused=refusal, **options)
        yield _cell(f"mode {mode} unread", masks["bool"], qk_matmul_output_mode=mode)
    for code, tolerance in ((1, 2e-5), (11, 2e-5), (10, 2e-3), (16, 2e-2)):
        refused = "softmax_precision" if code in (10, 16) else ""
        checks = {"tolerance": tolerance, "refused": refused}
        yield _cell(f"precision {code}", args, softmax_precision=code, **checks)
    for dtype, tolerance in ((torch.float16, 3e-3), (torch.float64, 2e-5)):
        kind = str(dtype).removeprefix("torch.")
        inputs = qkv(heads, False, dtype)
        hidden = (*inputs, mask_of("bool hidden", heads, "qk"))
        refused = "float64" if dtype == torch.float64 else ""
        yield _cell(kind, inputs, tolerance=tolerance)
        yield _cell(f"{kind} causal", inputs, is_causal=True, tolerance=tolerance)
        yield _cell(f"{kind} hidden", hidden, tolerance=tolerance, refused=refused)


def _with_past(heads: Shape) -> Iterator[Cell]:
    for queries, groups in itertools.product((1, 3), (4, 2)):
        shape = replace(heads, queries=queries, keys=queries, groups=groups)
        past = normal(2, groups, 2, 8), normal(2, groups, 2, 8) + 1
        inputs, full_shape = qkv(shape, False), replace(shape, keys=queries + 2)
        name = f"past {queries} of {groups}"
        yield _cell(name, (*inputs, None, *past), (0, 1, 2))
        yield _cell(f"{name} causal", (*inputs, None, *past), is_causal=True, refused="past_key")
        for mask in ("bool hidden", "float"):
            yield _cell(f"{name} {mask}", (*inputs, mask_of(mask, full_shape, "qk"), *past))
        head_counts = {"q_num_heads": 4, "kv_num_heads": groups}
        yield _cell(f"{name} rows", (*qkv(shape), None, *past), (0, 1, 2), **head_counts)


def _onnx_rotary() -> Iterator[Cell]:
    """Yield ONNX's RotaryEmbedding of heads and rows, of whole and partial heads."""
    positions = torch.tensor([[2, 0, 1], [4, 4, 3]])
    for interleaved, dim, flat in itertools.product((False, True), (0, 4), (False, True)):
        width = (dim or 8) // 2
        x = normal(2, 3, 32) if flat else normal(2, 4, 3, 8)
        options = {"interleaved": interleaved, "rotary_embedding_dim": dim}
        options["num_heads"] = 4 if flat else 0
        label = f"{'rows' if flat else 'heads'}{' interleaved' * interleaved}{' part' * bool(dim)}"
        for name, tables in (
            ("places", (normal(5, width), normal(5, width) + 1, positions)),
            ("samples", (normal(2, 3, width), normal(2, 3, width) + 1)),
        ):
            yield Cell(f"onnx rotary {label} {name}", RotaryOfOnnx(**options), ((x, *tables),))
