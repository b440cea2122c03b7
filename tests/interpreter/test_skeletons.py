"""The draft entry that an error prints for an unsupported operator passes the check unchanged."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from ortable.interpreter.diagnostics.unsupported import draft_entry, group_missing, not_found_error
from ortable.interpreter.tables import generated_tables
from ortable.interpreter.user_specs import check_spec_file

LIBRARY = torch.library.Library("ortable_test_skeletons", "DEF")
X, Y, N = torch.ones(2, 3), torch.ones(2, 3), torch.arange(3)

CALLS: dict[str, tuple[str, Any, tuple[Any, ...]]] = {
    "one": ("(Tensor x) -> Tensor", lambda x: x + 0, (X,)),
    "two": ("(Tensor x, Tensor y) -> Tensor", lambda x, y: x + y, (X, Y)),
    "scalars": (
        "(Tensor x, int dim, float scale, bool keep=False, str mode='sum') -> Tensor",
        lambda x, dim, scale, keep=False, mode="sum": x * scale,
        (X, 1, 2.5, True, "mean"),
    ),
    "long": (
        "(Tensor first_operand, Tensor second_operand, int[] dims, float? scale=None,"
        " str reduction_mode='mean', bool keep_dimensions=False, float[] factors=[]) -> Tensor",
        lambda a, b, dims, scale=None, reduction_mode="", keep_dimensions=False, factors=(): a + 0,
        (X, Y, [0, 1], 0.5, "mean", True, [1.5, 2.5, 3.5]),
    ),
    "lists": (
        "(Tensor x, int[] dims, float[] weights, SymInt[] sizes, Scalar value) -> Tensor",
        lambda x, dims, weights, sizes, value: x + 0,
        (X, [0, 1], [0.5], [2, 3], 3),
    ),
    "dtype": (
        "(Tensor x, ScalarType dtype, Device? device=None) -> Tensor",
        lambda x, dtype, device=None: x.to(dtype),
        (X, torch.float64),
    ),
    "absent": (
        "(Tensor x, Tensor? weight=None, int? dim=None, *, float eps=1e-5) -> Tensor",
        lambda x, weight=None, dim=None, *, eps=1e-5: x + eps,
        (X, None, None),
    ),
    "given": (
        "(Tensor x, Tensor? weight=None) -> Tensor",
        lambda x, weight=None: x + weight,
        (X, Y),
    ),
    "several": (
        "(Tensor x, Tensor indices) -> (Tensor, Tensor)",
        lambda x, indices: (x + 0, indices + 1),
        (X, N),
    ),
    "shapes": ("(Tensor x) -> Tensor", lambda x: x.sum(1), (X,)),
    "tensors": ("(Tensor[] xs) -> Tensor", lambda xs: xs[0] + xs[1], ([X, Y],)),
    "parts": ("(Tensor x) -> Tensor[]", lambda x: [x + 0, x + 1], (X,)),
    "draws": ("(Tensor x, int n) -> Tensor", lambda x, n: x.new_ones(n), (X, 4)),
    "codes": ("(Tensor x) -> Tensor", lambda x: x + 0, (X.to(torch.int32),)),
    "halves": ("(Tensor x) -> Tensor", lambda x: x + 0, (X.half(),)),
    "conditions": ("(Tensor x) -> Tensor", lambda x: ~x, (X > 0,)),
    "complexes": ("(Tensor x) -> Tensor", lambda x: x + 0, (X.to(torch.complex64),)),
}
for name, (schema, function, _) in CALLS.items():
    LIBRARY.define(name + schema)
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")


@pytest.mark.parametrize("name", CALLS)
def test_an_entry_to_start_from_passes_the_check(name: str, tmp_path: Path) -> None:
    arguments = CALLS[name][2]
    operator = getattr(torch.ops.ortable_test_skeletons, name).default

    class Call(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            feed = iter(tensors)
            return operator(*[_fill_tensors(value, feed) for value in arguments])

    program = torch.export.export(Call(), tuple(_tensors(arguments)))
    (node,) = [node for node in program.graph.nodes if node.target is operator]
    path = tmp_path / "entry.yaml"
    path.write_text("\n".join(draft_entry(node)) + "\n")
    assert check_spec_file(path) == (f"ortable_test_skeletons::{name}",), path.read_text()
    # the message shows the same draft without truncation
    message = str(not_found_error(group_missing([node]), generated_tables(), ""))
    draft = message.partition("start from:\n")[2].partition("\nWhat to do")[0]
    assert all(len(line) <= 120 for line in draft.splitlines())
    path.write_text(textwrap.dedent(draft) + "\n")
    assert check_spec_file(path) == (f"ortable_test_skeletons::{name}",), draft


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, tuple | list) else []


def _fill_tensors(value: Any, feed: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return next(feed)
    return [_fill_tensors(item, feed) for item in value] if isinstance(value, list) else value
