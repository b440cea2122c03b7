"""Converters that the caller adds, and those borrowed from onnxscript."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch

from ortable.errors import FunctionNotFoundError, OptionError
from ortable.export import Dispatcher, OxsDispatcher, from_seed_style, to_onnx

from ..interpreter.small_tables import CONVERTERS


class Erf(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.erfcx(x)


class Hash(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.hash_tensor(x)


def run(model, x):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


def test_a_converter_of_the_user_is_called_like_a_generated_one() -> None:
    seen = []

    def erfcx(graph, res, self):
        seen.append((res.dtype, res.shape, self))
        return graph.make_node("Erf", [self], res.outputs)

    model = to_onnx(Erf(), (torch.rand(2, 3),), dispatcher={"aten::special_erfcx": erfcx})
    assert [n.op_type for n in model.graph.node] == ["Erf"]
    assert seen == [(1, (2, 3), "x")]


def test_a_name_without_overload_stands_for_the_others() -> None:
    def add(graph, res, self, other, *, alpha=1):
        return graph.make_node("Mul", [self, other], res.outputs)

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x

    model = to_onnx(Add(), (torch.rand(2),), dispatcher=Dispatcher({"aten::add": add}))
    assert [n.op_type for n in model.graph.node] == ["Mul"]


def test_converters_in_the_older_form_are_adapted() -> None:
    known = []

    def aten_erfcx(g, sts, outputs, x):
        known.append(bool(sts))
        res = g.op.Erf(x, outputs=outputs, name="erfcx")
        if not sts:
            g.set_type(res, g.get_type(x))
        return res

    dispatcher = Dispatcher({"aten::special_erfcx": from_seed_style(aten_erfcx)})
    model = to_onnx(Erf(), (torch.rand(2),), dispatcher=dispatcher)
    assert [n.op_type for n in model.graph.node] == ["Erf"]
    assert known == [True]


@pytest.mark.parametrize("functions", [{"relu": len}, {"aten::relu": "Relu"}])
def test_a_dispatcher_checks_its_functions(functions) -> None:
    with pytest.raises(OptionError):
        Dispatcher(functions)


def test_operators_without_converter_are_borrowed_from_onnxscript(capsys) -> None:
    pytest.importorskip("onnxscript")
    dispatcher = OxsDispatcher({k: v for k, v in CONVERTERS.items() if k != "aten::celu"}, 2)
    native = dict.fromkeys(["aten::celu"])
    found = dispatcher.find("aten::celu", torch.ops.aten.celu.default, native["aten::celu"])
    assert found is not None
    out = capsys.readouterr().out
    assert "'aten::celu' has no converter here: borrowed from onnxscript" in out


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "rows"}}])
def test_a_borrowed_converter_computes_what_eager_does(dynamic) -> None:
    pytest.importorskip("onnxscript")

    class Logit(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.special_logit.default(torch.relu(x), 0.1)

    class Borrowing(OxsDispatcher):
        def find(self, name, target, native):
            return super().find(name, target, None if "logit" in name else native)

    x = torch.rand(4, 3)
    model = to_onnx(Logit(), (x,), dispatcher=Borrowing(CONVERTERS), dynamic_shapes=dynamic)
    y = torch.rand(6, 3) if dynamic else x
    np.testing.assert_allclose(run(model, y), Logit()(y).numpy(), rtol=1e-4)


def test_without_a_dispatcher_the_operator_is_missing() -> None:
    with pytest.raises(FunctionNotFoundError, match="aten::hash_tensor"):
        to_onnx(Hash(), (torch.rand(2),))
