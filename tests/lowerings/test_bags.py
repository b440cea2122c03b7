"""embedding_bag in an exported model runs in ONNX Runtime; under torch.compile it runs in torch."""

from __future__ import annotations

import pytest
import torch

import ortable
from tests.onnx_runs import run

SIZES = {
    "even": [3, 3, 3, 3],
    "uneven": [1, 4, 0, 2],
    "skewed": [0, 5000, 0, 1, 0, 0],  # a table of six times 5,000 rows is too large
    "empty": [0, 0],
}
WEIGHT = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
WEIGHT[0], WEIGHT[1] = float("nan"), float("inf")


class _Bag(torch.nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.mode = mode

    def forward(
        self, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor | None = None
    ) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode=self.mode)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("name", SIZES)
def test_offsets_of_any_sizes(mode: str, name: str) -> None:
    """NaN and infinity in one bag do not affect other bags."""
    sizes = SIZES[name]
    indices = torch.randint(2, 6, (sum(sizes),), generator=torch.Generator().manual_seed(1))
    if len(indices):
        indices[-1], indices[0] = 0, 1
    offsets = torch.tensor([0, *sizes[:-1]]).cumsum(0)
    args = (WEIGHT, indices, offsets)
    model = ortable.to_onnx(_Bag(mode), args)
    expected = _Bag(mode)(*args)
    torch.testing.assert_close(run(model, *args)[0], expected, atol=1e-3, rtol=1e-4, equal_nan=True)
    operators = [node.op_type for node in model.graph.node]
    assert "Loop" not in operators
    # seven rows are not the rows of four bags of one size
    assert ("If" in operators) == (mode != "max" and name != "uneven")


@pytest.mark.parametrize("batch", [None, torch.export.Dim.DYNAMIC])
def test_two_axes_need_no_branch(batch: object) -> None:
    indices = torch.randint(0, 6, (5, 3))
    shapes = None if batch is None else (None, {0: batch}, None)
    model = ortable.to_onnx(_Bag("sum"), (WEIGHT, indices), dynamic_shapes=shapes and shapes[:2])
    assert [node.op_type for node in model.graph.node] == [
        "Reshape", "Gather", "Reshape", "ReduceSum",
    ]  # fmt: skip
    new_indices = indices if batch is None else torch.randint(0, 6, (9, 3))
    expected = _Bag("sum")(WEIGHT, new_indices)
    torch.testing.assert_close(run(model, WEIGHT, new_indices)[0], expected, equal_nan=True)


@pytest.mark.parametrize("offsets", [[0, 2], [0, 3, 5], [0, 0, 4], [0, 7]])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_offsets_may_be_constants(mode: str, offsets: list[int]) -> None:
    class Model(torch.nn.Module):
        def forward(self, weight: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            starts = torch.tensor(offsets)
            return torch.nn.functional.embedding_bag(indices, weight, starts, mode=mode)

    args = torch.randn(6, 4), torch.tensor([1, 5, 2, 2, 0, 3, 4])
    torch.testing.assert_close(run(ortable.to_onnx(Model(), args), *args)[0], Model()(*args))
