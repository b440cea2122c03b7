"""Inputs and weights that are not dense, or of a type that ONNX lacks, are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase

_X = torch.rand(3, 3)
_MESSAGE = r"ortable converts dense tensors only; make it dense before the conversion \(`to_dense`"
_LAYOUTS = {
    "sparse_coo": lambda: torch.eye(3).to_sparse(),
    "sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "jagged": lambda: torch.nested.nested_tensor([_X[:1], _X[:2]], layout=torch.jagged),
    "_mkldnn": lambda: torch.eye(3).to_mkldnn(),
}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # most layouts are "in beta state"


class _Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class _MatMul(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight @ x


@pytest.mark.parametrize("layout", [name for name in _LAYOUTS if name != "_mkldnn"])
def test_an_input_that_is_not_dense_is_refused(layout: str) -> None:
    message = f"placeholder 'x' is not supported .* of the layout torch.{layout}: {_MESSAGE}"
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(_Double(), (_LAYOUTS[layout](),))


@pytest.mark.parametrize("layout", [name for name in _LAYOUTS if name != "jagged"])
def test_a_weight_that_is_not_dense_is_refused(layout: str) -> None:
    message = f"placeholder 'b_weight' is not supported .* of the layout torch.{layout}: {_MESSAGE}"
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(_MatMul(_LAYOUTS[layout]()), (_X,))


def _make_graph(weight: torch.Tensor) -> torch.fx.GraphModule:
    """Return a graph that returns a weight, and that torch.export did not trace."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = _X
    graph.output((x, graph.get_attr("weight")))
    return torch.fx.GraphModule(_MatMul(weight), graph)


def _make_quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(_X, 0.1, 0, torch.qint8)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (_LAYOUTS["sparse_coo"], f"of the layout torch.sparse_coo: {_MESSAGE}"),
        (
            lambda: torch.nested.nested_tensor([_X[0], _X[1]]),
            f"of the layout torch.nested: {_MESSAGE}",
        ),
        (_make_quantized, r"a quantized tensor \(torch.qint8\) contains its scale and zero point"),
        (lambda: torch.empty(3, dtype=torch.complex32), "torch.complex32 has no ONNX element type"),
        (lambda: torch.empty(3, dtype=torch.bits8), "torch.bits8 has no ONNX element type"),
    ],
    ids=["sparse", "nested", "quantized", "complex32", "bits"],
)
def test_a_weight_of_a_traced_graph_that_onnx_cannot_hold_is_refused(
    weight: Callable[[], Any], message: str
) -> None:
    with pytest.raises(UnsupportedCase, match=f"get_attr 'weight' is not supported .*{message}"):
        ortable.to_onnx(_make_graph(weight()))


def test_a_quantized_input_of_a_traced_graph_is_refused() -> None:
    traced = torch.fx.symbolic_trace(_Double())
    next(iter(traced.graph.nodes)).meta["val"] = _make_quantized()
    message = r"placeholder 'x' is not supported .*a quantized tensor \(torch.qint8\)"
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(traced)
