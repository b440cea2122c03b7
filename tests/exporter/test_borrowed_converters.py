"""OxsDispatcher converts operators that the tables lack with onnxscript's torchlib."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ortable.errors import ConversionError, OptionError, UnsupportedCase
from ortable.exporter.dispatchers import onnxscript_dispatcher
from ortable.exporter.dispatchers.onnxscript_dispatcher import OxsDispatcher
from ortable.exporter.to_onnx import to_onnx

from .helpers import FLOAT32, assert_close, assert_same, feeds_of, run_onnx

pytestmark = pytest.mark.alternates(parts=3)

ATEN = torch.ops.aten


class Borrowing(OxsDispatcher):
    """A dispatcher that borrows the named operators, as if the tables lacked them."""

    def __init__(self, *names: str, verbose: int = 0) -> None:
        super().__init__(verbose=verbose)
        self.names = names

    def find(self, name: str, target: Any, native: Any) -> Any:
        is_missing = name.startswith(tuple(f"aten::{operator}" for operator in self.names))
        return super().find(name, target, None if is_missing else native)


def module_of(function) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            return function(x, y)

    return Module()


def properties(node) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}


def test_the_page_s_celu_prints_what_is_borrowed(capsys) -> None:
    class Neuron(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.celu(self.linear(x))

    x, model = torch.rand(5, 3), Neuron()
    proto = to_onnx(model, (x,), input_names=["x"], dispatcher=Borrowing("celu", verbose=2))
    assert [node.op_type for node in proto.graph.node] == ["Gemm", "Celu"]
    assert list(proto.graph.node[1].output) == ["output_0"]
    assert_same(proto, model, (x,))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "find" in line] == [
        "[Borrowing.find] 'aten::celu' has no converter here: borrowed from onnxscript"
    ]
    assert [line for line in lines if "[OxsDispatcher.convert] Celu(" in line]


def attention(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ATEN._scaled_dot_product_flash_attention.default(x, y, y)[0]


def test_an_operator_that_no_table_of_ours_has() -> None:
    """CUDA's flash attention, one of whose nine results is read; eager supports it only on CUDA."""
    x, y = torch.rand(2, 2, 3, 4), torch.rand(2, 2, 5, 4)
    sizes = {"x": {2: "rows"}, "y": {2: "columns"}}
    model = to_onnx(module_of(attention), (x, y), dynamic_shapes=sizes, dispatcher=OxsDispatcher())
    x, y = torch.rand(2, 2, 6, 4), torch.rand(2, 2, 1, 4)
    expected = torch.nn.functional.scaled_dot_product_attention(x, y, y)
    assert_close(run_onnx(model, feeds_of(model, (x, y))), [expected], FLOAT32)


CALLS = {
    "several results": ("topk", lambda x, y: torch.topk(x, 2, dim=1)),
    "one of several": ("topk", lambda x, y: torch.topk(x, 2, dim=1)[1]),
    "a list of results": ("split", lambda x, y: torch.split(x, [1, 2], dim=1)),
    "a list of arguments": ("cat", lambda x, y: torch.cat([x, y, x], 1)),
    "a dtype": ("_to_copy", lambda x, y: ATEN._to_copy.default(x, dtype=torch.float16)),
    "numbers": ("leaky_relu", lambda x, y: torch.nn.functional.leaky_relu(x - 0.5, 0.3)),
    "a word": ("gelu", lambda x, y: torch.nn.functional.gelu(x, approximate="tanh")),
    "the same twice": ("mul", lambda x, y: x * x),
    "a constant": ("where", lambda x, y: torch.where(x > 0.5, torch.tensor(2.0), x)),
}


@pytest.mark.alternates(parts=4)
@pytest.mark.parametrize("name", CALLS)
def test_arguments_and_results_of_every_kind(name) -> None:
    operator, function = CALLS[name]
    module = module_of(function)
    x, y = torch.rand(4, 3), torch.rand(4, 3)
    sizes = {"x": {0: "n"}, "y": {0: "n"}}
    model = to_onnx(module, (x, y), dynamic_shapes=sizes, dispatcher=Borrowing(operator))
    assert any("converter" in properties(node) for node in model.graph.node)
    assert_same(model, module, (x, y))
    assert_same(model, module, (torch.rand(7, 3), torch.rand(7, 3)))


def test_a_symbolic_size_is_an_input_of_the_borrowed_nodes() -> None:
    module = module_of(lambda x, y: y.expand(x.shape[0] + 1, -1))
    args = torch.rand(4, 3), torch.rand(1, 2)
    model = to_onnx(module, args, dynamic_shapes={"x": {0: "n"}, "y": None},
                    dispatcher=Borrowing("expand"))  # fmt: skip
    assert_same(model, module, args)
    assert_same(model, module, (torch.rand(9, 3), torch.rand(1, 2)))


@pytest.mark.parametrize("opset", [23, 26])
def test_borrowed_nodes_have_the_opset_of_the_graph(opset) -> None:
    module = module_of(lambda x, y: torch.celu(torch.nn.functional.gelu(x)) + y)
    args = torch.rand(4, 3), torch.rand(4, 3)
    model = to_onnx(module, args, target_opset=opset, dispatcher=Borrowing("celu", "gelu"))
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    assert_same(model, module, args)


def test_a_call_like_one_before_is_not_exported_again(monkeypatch) -> None:
    opsets = []
    original = torch.onnx.export

    def export(*args, **kwargs):
        opsets.append(kwargs["opset_version"])
        return original(*args, **kwargs)

    monkeypatch.setattr(torch.onnx, "export", export)

    def apply_celu(x, y):
        for _ in range(12):
            x = torch.celu(x)
        return torch.celu(x, alpha=2.0) + torch.celu(y[:2])

    module = module_of(lambda x, y: apply_celu(x[:2], y))
    args = torch.rand(4, 3), torch.rand(4, 3)
    dispatcher = Borrowing("celu")
    model = to_onnx(module, args, dispatcher=dispatcher)
    assert len(opsets) == 2  # two values of alpha
    assert sum(node.op_type == "Celu" for node in model.graph.node) == 14
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    assert_same(model, module, args)
    to_onnx(module, args, dispatcher=dispatcher)
    assert len(opsets) == 2


def test_borrowed_nodes_say_where_they_come_from() -> None:
    module = module_of(lambda x, y: torch.celu(x) + y)
    model = to_onnx(module, (torch.rand(2), torch.rand(2)), dispatcher=Borrowing("celu"))
    celu, add = (properties(node) for node in model.graph.node)
    assert celu["fx_node"] == "celu" and celu["aten_target"] == "aten.celu.default"
    assert celu["source"].startswith("test_borrowed_converters.py:")
    assert celu["converter"].startswith("onnxscript ") and "converter" not in add
    assert not [key for key in celu if key.startswith("pkg.")]


def test_a_decomposition_of_ours_comes_before_onnxscript() -> None:
    module = module_of(lambda x, y: torch.linalg.cross(x, y) + ATEN.cross.default(x, y))
    args = torch.rand(3, 3), torch.rand(3, 3)  # onnxscript's default axis differs from torch's
    model = to_onnx(module, args, dispatcher=OxsDispatcher())
    assert not [node for node in model.graph.node if "converter" in properties(node)]
    assert_same(model, module, args)


def test_what_onnxscript_lacks_too_is_an_error_that_says_so() -> None:
    module = module_of(lambda x, y: torch._lazy_clone(x))
    with pytest.raises(ConversionError, match="onnxscript has no converter for this call of aten"):
        to_onnx(module, (torch.rand(2), torch.rand(2)), dispatcher=OxsDispatcher())


def test_complex_arguments_are_refused() -> None:
    module = module_of(lambda x, y: torch.real(torch.complex(x, y) * 2))
    with pytest.raises((UnsupportedCase, ConversionError), match="complex"):
        to_onnx(module, (torch.rand(2), torch.rand(2)), dispatcher=Borrowing("mul"))


def test_without_onnxscript_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setattr(onnxscript_dispatcher.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'ortable\[onnxscript\]'"):
        OxsDispatcher()


def test_the_users_converters_come_first() -> None:
    def celu(graph, res, self):
        return graph.make_node("Softsign", [self], res.outputs)

    dispatcher = OxsDispatcher({torch.celu: celu})
    module = module_of(lambda x, y: torch.celu(x))
    model = to_onnx(module, (torch.rand(2), torch.rand(2)), dispatcher=dispatcher)
    assert [node.op_type for node in model.graph.node] == ["Softsign"]
    np.testing.assert_equal(dispatcher._borrowed, {})
