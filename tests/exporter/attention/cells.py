"""The matrix: programs with tensors of every corner. A cell is one program with one set of sizes
and masks, and all sets of numbers that it is called with; where ortable refuses it, the reason.

Called by the tests beside it."""

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
    """A program and what it is called with; the first of ``draws`` is what it is exported with.

    ``refused``: what the error says from opset 23 on (below, torch's own body is converted).
    ``empty``: rows of NaN in torch are 0 by ONNX's definition, and in the model.
    ``reference``: whether ``onnx.reference`` computes what ONNX says.
    """

    name: str
    module: torch.nn.Module
    draws: tuple[Tensors, ...]
    dynamic: Any = None
    tolerance: float = 2e-5
    refused: str = ""
    empty: bool = False
    reference: bool = True

    def __repr__(self) -> str:
        return self.name


@cache
def cells() -> tuple[Cell, ...]:
    """All of them."""
    found = (*_of_torch(), *_dynamic(), *_with_angles(), *_with_states(), *_of_onnx(), *_turned())
    names = [cell.name for cell in found]
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    return found


def normal(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that follow from the sizes alone."""
    generator = torch.Generator().manual_seed(sum(n * 7**i for i, n in enumerate(sizes)))
    return torch.randn(sizes, generator=generator).to(dtype)


def qkv(shape: Shape, rows: bool = True, dtype: torch.dtype = torch.float32) -> Tensors:
    """Queries, keys and values."""
    sizes = (
        (shape.queries, shape.heads, shape.width),
        (shape.keys, shape.groups, shape.width),
        (shape.keys, shape.groups, shape.value_width),
    )
    if rows:
        return tuple(normal(shape.batch, n, h * d, dtype=dtype) for n, h, d in sizes)
    return tuple(normal(shape.batch, h, n, d, dtype=dtype) for n, h, d in sizes)


def mask_of(kind: str, shape: Shape, sizes: str, dtype: torch.dtype = torch.float32) -> Any:
    """A mask; "hidden" and "lowest": a row of it hides every key, by False or -inf, or by the
    lowest number of the dtype."""
    known = {"B": shape.batch, "H": shape.heads, "q": shape.queries, "k": shape.keys, "1": 1}
    seen = normal(*(known[each] for each in sizes)) > -0.4
    seen[..., 0] = True
    what, _, rows = kind.partition(" ")
    if rows:
        seen[..., -1:, :] = False
    if what == "bool":
        return seen
    hidden = torch.finfo(dtype).min if rows == "lowest" else -INF
    return torch.where(seen, normal(*seen.shape), hidden).to(dtype)


# -- torch's operator, and what models write out


def _of_torch() -> Iterator[Cell]:
    """Programs x masks x lengths; the other sizes take turns."""
    turns = itertools.count()
    programs = (("sdpa", True), ("mul", True), ("div", True), ("sdpa", False), ("mul", False))
    for (style, flat), mask, lengths in itertools.product(programs, MASKS, LENGTHS):
        turn = next(turns)
        shape = replace(SIZES[turn % 3], queries=lengths[0], keys=lengths[1])
        if mask != "causal":
            shape = replace(shape, value_width=(8, 6)[turn // 3 % 2])
        yield _attended(shape, style, flat, mask, turn)
    for scale, (queries, keys) in itertools.product((-0.3, 0.0), LENGTHS[3:]):
        for mask in ("", "causal", "float"):
            shape = Shape(queries=queries, keys=keys)
            yield _attended(shape, "mul", True, mask, 0, scale)
    for length, scale, batch in itertools.product((1, 2, 5), (None, -0.3), (1, 2)):
        shape = Shape(batch, length, length, value_width=8)
        name = f"causal {length} B{batch} scale {scale}"
        if scale is None:
            yield Cell(f"sdpa {name}", Attended(shape, "sdpa", "causal", 0.3), (qkv(shape),))
        yield Cell(f"divided {name}", Divided(shape, "div", "causal", scale), (qkv(shape),))


def _attended(
    shape: Shape, style: str, flat: bool, mask: str, turn: int, scale: float | None = INF
) -> Cell:
    scale = SCALES[turn // 2 % 2] if scale == INF else scale
    half = style == "sdpa" and turn % 5 == 4
    dtype = torch.float16 if half else torch.float32
    used = "" if style == "sdpa" else {"bool": "where", "float": "add"}.get(mask.split(" ")[0], "")
    used = "causal" if mask == "causal" else used
    args, sizes = qkv(shape, flat, dtype), MASK_SHAPES[turn % len(MASK_SHAPES)]
    if mask not in ("", "causal"):
        args += (mask_of(mask, shape, sizes, dtype),)
    name = (
        f"{style} {'rows' if flat else 'heads'} {mask or 'plain'} {shape.queries}x{shape.keys} "
        f"B{shape.batch} H{shape.heads}/{shape.groups} V{shape.value_width} scale {scale} "
        f"{sizes if len(args) > 3 else ''}{' half' if half else ''}"
    )
    module = Attended(shape, style, used, scale, flat)
    return Cell(name.strip(), module, (args,), tolerance=3e-3 if half else 2e-5)


def _dynamic() -> Iterator[Cell]:
    """One model for other lengths and batches: a single query among them, and shorter keys."""
    free, length = torch.export.Dim.DYNAMIC, torch.export.Dim("length")
    for style, mask in itertools.product(("sdpa", "mul"), MASKS):
        square = mask == "causal"
        lengths = ((4, 4), (1, 1), (6, 6)) if square else ((3, 5), (1, 5), (5, 2), (1, 1))
        draws = []
        for batch, (queries, keys) in zip((2, 3, 1, 2), lengths, strict=False):
            shape = Shape(batch=batch, queries=queries, keys=keys)
            args = qkv(shape)
            draws.append(args if mask in ("", "causal") else (*args, mask_of(mask, shape, "B1qk")))
        sizes: list[Any] = [{0: free, 1: length if square else free}] * 3
        if len(draws[0]) > 3:
            sizes.append({0: free, 2: free, 3: free})
        used = {"bool": "where", "float": "add", "causal": "causal"}.get(mask.split(" ")[0], "")
        module = Attended(Shape(), style, used if style == "mul" or square else "", None)
        yield Cell(f"{style} dynamic {mask or 'plain'}", module, tuple(draws), tuple(sizes))


# -- rotary embeddings, and states


def _with_angles() -> Iterator[Cell]:
    for length, (heads, groups), batch in itertools.product(
        (1, 2, 5), ((2, 2), (4, 2), (4, 1)), (1, 2)
    ):
        shape = Shape(batch, length, length, heads, groups, 16, 16)
        name = f"turned {length} B{batch} H{heads}/{groups}"
        yield Cell(name, Turned(shape, False), (qkv(shape),))
        for samples in {1, batch}:
            given = (*qkv(shape), 2 * normal(samples, length, 8))
            yield Cell(f"{name} angles of {samples}", Turned(shape, True), (given,))
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


_TOLD = ("refused", "empty", "tolerance", "reference")


def _onnx(name: str, args: Tensors, read: tuple[int, ...] = (0,), **options: Any) -> Cell:
    told = {key: options.pop(key) for key in _TOLD if key in options}
    return Cell(f"onnx {name}", OfOnnx(read, **options), (args,), **told)


def _of_onnx() -> Iterator[Cell]:
    heads = replace(Shape(), heads=4, groups=4)
    # torch says of the result that it is as wide as the query
    other = qkv(replace(heads, value_width=6), False)
    yield _onnx("values of another width", other, refused="shape")
    for queries, keys in LENGTHS:
        shape = replace(heads, queries=queries, keys=keys)
        args = qkv(shape, False)
        for causal in (False, True):
            name = f"{queries}x{keys}{' causal' if causal else ''}"
            yield _onnx(name, args, (0, 1, 2, 3), is_causal=causal)
            grouped = qkv(replace(shape, groups=2), False)
            yield _onnx(f"{name} grouped", grouped, (0, 3), is_causal=causal)
        for mask, sizes in itertools.product(MASKS[2:], ("qk", "B11k", "1Hqk", "11q1")):
            given = (*args, mask_of(mask, shape, sizes))
            empty = mask == "float hidden"
            yield _onnx(f"{queries}x{keys} {mask} {sizes}", given, empty=empty)
    yield from _attributes(heads)
    yield from _past(heads)


def _attributes(heads: Shape) -> Iterator[Cell]:
    args, square = qkv(heads, False), qkv(replace(heads, queries=4, keys=4), False)
    grouped, flat = replace(heads, groups=2), {"q_num_heads": 4, "kv_num_heads": 2}
    masks = {mask: (*args, mask_of(mask, heads, "qk")) for mask in ("bool", "float")}
    for scale in (0.3, 2.0, 0.0):
        refused = "" if scale > 0 else "scale"
        yield _onnx(f"scale {scale}", args, (0, 3), scale=scale, refused=refused)
    yield _onnx("rows", qkv(grouped), (0, 1, 2), **flat)
    yield _onnx("rows causal", qkv(grouped), is_causal=True, **flat)
    yield _onnx("heads said twice", qkv(grouped, False), **flat)
    yield _onnx("rows bool", (*qkv(grouped), mask_of("bool", heads, "B1qk")), **flat)
    # onnx.reference caps the scores of mode 0, too
    yield _onnx("softcap", args, (0, 3), softcap=0.7, reference=False)
    yield _onnx("softcap causal", square, softcap=0.7, is_causal=True, refused="softcap")
    for mask, given in masks.items():
        yield _onnx(f"softcap {mask}", given, softcap=0.7, refused="softcap")
    for mode in (1, 2, 3):
        of_mode = {"read": (0, 3), "qk_matmul_output_mode": mode}
        unequal = "qk_matmul_output_mode" if mode < 3 else ""
        yield _onnx(f"mode {mode}", args, **of_mode)
        yield _onnx(f"mode {mode} softcap", args, softcap=0.7, reference=mode != 1, **of_mode)
        yield _onnx(f"mode {mode} float", masks["float"], **of_mode)
        yield _onnx(f"mode {mode} bool", masks["bool"], refused=unequal, **of_mode)
        yield _onnx(f"mode {mode} causal", square, is_causal=True, refused=unequal, **of_mode)
        yield _onnx(f"mode {mode} unread", masks["bool"], qk_matmul_output_mode=mode)
    for kind, tolerance in ((1, 2e-5), (11, 2e-5), (10, 2e-3), (16, 2e-2)):
        refused = "softmax_precision" if kind in (10, 16) else ""
        told = {"tolerance": tolerance, "refused": refused}
        yield _onnx(f"precision {kind}", args, softmax_precision=kind, **told)
    for dtype, tolerance in ((torch.float16, 3e-3), (torch.float64, 2e-5)):
        kind = str(dtype).removeprefix("torch.")
        given = qkv(heads, False, dtype)
        hidden = (*given, mask_of("bool hidden", heads, "qk"))
        refused = "float64" if dtype == torch.float64 else ""
        yield _onnx(kind, given, tolerance=tolerance)
        yield _onnx(f"{kind} causal", given, is_causal=True, tolerance=tolerance)
        yield _onnx(f"{kind} hidden", hidden, tolerance=tolerance, refused=refused)


def _past(heads: Shape) -> Iterator[Cell]:
    for queries, grouped in itertools.product((1, 3), (4, 2)):
        shape = replace(heads, queries=queries, keys=queries, groups=grouped)
        past = normal(2, grouped, 2, 8), normal(2, grouped, 2, 8) + 1
        every, wide = qkv(shape, False), replace(shape, keys=queries + 2)
        name = f"past {queries} of {grouped}"
        yield _onnx(name, (*every, None, *past), (0, 1, 2))
        yield _onnx(f"{name} causal", (*every, None, *past), is_causal=True, refused="past_key")
        for mask in ("bool hidden", "float"):
            yield _onnx(f"{name} {mask}", (*every, mask_of(mask, wide, "qk"), *past))
        rows = {"q_num_heads": 4, "kv_num_heads": grouped}
        yield _onnx(f"{name} rows", (*qkv(shape), None, *past), (0, 1, 2), **rows)


def _turned() -> Iterator[Cell]:
    """ONNX's RotaryEmbedding of heads and rows, of a part of each head, with places."""
    places = torch.tensor([[2, 0, 1], [4, 4, 3]])
    for interleaved, part, flat in itertools.product((False, True), (0, 4), (False, True)):
        width = (part or 8) // 2
        x = normal(2, 3, 32) if flat else normal(2, 4, 3, 8)
        options = {"interleaved": interleaved, "rotary_embedding_dim": part}
        options["num_heads"] = 4 if flat else 0
        told = f"{'rows' if flat else 'heads'}{' interleaved' * interleaved}{' part' * bool(part)}"
        for name, tables in (
            ("places", (normal(5, width), normal(5, width) + 1, places)),
            ("samples", (normal(2, 3, width), normal(2, 3, width) + 1)),
        ):
            yield Cell(f"onnx rotary {told} {name}", RotaryOfOnnx(**options), ((x, *tables),))
