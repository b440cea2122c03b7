"""Exported programs compute the same results with and without ONNX Runtime's optimizers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.optimizers import programs
from tests.optimizers.programs import Program, check_program, exported

QUICK = (
    *programs.ORDERS[:3],
    *programs.PADS[:3],
    programs.POOLS[3],
    *programs.NUMBERS[:4],
    programs.NUMBERS[-1],
    programs.PRODUCTS[0],
    programs.PRODUCTS[3],
)


@pytest.mark.parametrize("program", QUICK, ids=lambda item: item.name)
def test_exported_programs_equal_eager(program: Program):
    check_program(program)


def test_a_range_is_read_by_gather_only_where_it_goes_up():
    for program in programs.ORDERS[:4]:
        model = exported(program)
        producers = {name: node for node in model.graph.node for name in node.output}
        indices = [producers.get(n.input[1]) for n in model.graph.node if n.op_type == "Gather"]
        direct = [node for node in indices if node is not None and node.op_type == "Range"]
        assert bool(direct) == (program.name == "up")


class _Positions(nn.Module):
    """Embed the positions from the last to the first."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 3)

    def forward(self, x):
        n = x.shape[0]
        positions = torch.arange(n - 1, -1, -1)
        return self.embedding(positions) * x + x[torch.arange(-n, 0)]


def test_reversed_positions_train_at_any_length():
    torch.manual_seed(0)
    model = _Positions()
    compiled = torch.compile(model, backend="ortable", fullgraph=True, dynamic=True)
    for length in (5, 7, 3):
        x = torch.randn(length, 3)
        expected, actual = model(x), compiled(x)
        torch.testing.assert_close(actual, expected)
        weight = model.embedding.weight
        gradients = [torch.autograd.grad(y.pow(2).sum(), weight)[0] for y in (expected, actual)]
        torch.testing.assert_close(gradients[1], gradients[0])


def test_a_permuted_image_is_padded_in_a_compiled_model():
    compiled = torch.compile(programs.PADS[0].function, backend="ortable", fullgraph=True)
    x = programs.CHANNELS_LAST
    assert torch.equal(compiled(x), programs.PADS[0].function(x))
