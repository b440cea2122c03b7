"""Inputs and outputs of the local functions of submodules, equal to eager, also inlined."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from onnx.inliner import inline_local_functions
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

from ortable import to_onnx
from ortable.exporter.frontend.export_request import ExportOptions

from .helpers import assert_close, eager, feeds_of, run_onnx
from .test_module_functions import Part, Whole, calls_of, functions_of

Tensor = torch.Tensor


class Running(nn.Module):
    """A module with one buffer that changes at each call, and one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("steps", torch.arange(4.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        return x + self.total * self.steps


class TiedLinears(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def use_dict_result(m: Any, x: Tensor) -> Tensor:
    result = m.part(x)
    assert result["none"] is None
    return result["p"] + result["pair"][0] * result["pair"][1]


def count_from_data(p: Any, x: Tensor) -> int:
    count = x.abs().sum().to(torch.int64).item()
    torch._check(count >= 0)
    torch._check(count < 1000)
    return count


def loop_linear(p: Any, x: Tensor) -> Tensor:
    step = lambda i, y: (i + 1, p.linear(y))  # noqa: E731
    return while_loop(lambda i, y: i < 3, step, (torch.tensor(0), x))[1]


X = torch.randn(3, 4)
Y = torch.randn(5, 4)
PART = lambda function: {"part": Part(function)}  # noqa: E731
CASES: dict[str, tuple[Any, dict[str, nn.Module], tuple[Tensor, ...]]] = {
    "kwargs, None, int, dict": (
        lambda m, x: m.part(x, scale=2, mask=None, more={"a": (x + 1, 3)}),
        PART(lambda p, x, scale, mask, more: p.linear(more["a"][0]) * scale * more["a"][1] - x),
        (X,),
    ),
    "lists of tensors": (
        lambda m, x: m.part([x, x + 1], (x, [x * 3])),
        PART(lambda p, a, b: sum(p.linear(y) for y in a) + b[1][0]),
        (X,),
    ),
    "a dict is returned": (
        use_dict_result,
        PART(lambda p, x: {"p": p.linear(x), "pair": (x + 1, x.shape[0]), "none": None}),
        (X,),
    ),
    "an output nobody reads": (
        lambda m, x: m.part(x)[0],
        PART(lambda p, x: (x * 2, p.linear(x))),
        (X,),
    ),
    "a weight is returned": (
        lambda m, x: m.part(x),
        PART(lambda p, x: (p.linear(x), p.linear.weight)),
        (X,),
    ),
    "a weight of two modules": (
        lambda m, x: m.part(x) + m.part.linear.weight.sum(),
        PART(lambda p, x: p.linear(x) * p.linear.weight.mean()),
        (X,),
    ),
    "tied weights": (lambda m, x: m.tied(m.tied(x)), {"tied": TiedLinears()}, (X,)),
    "constants of the code": (
        lambda m, x: m.part(x) + m.part(x * 2),
        PART(lambda p, x: p.linear(x) * torch.tensor([1.0, 2, 3, 4]) + torch.tensor(3)),
        (X,),
    ),
    "a size of another input": (
        lambda m, x, y: m.part(x, y.shape[0] * 2 + 1),
        PART(lambda p, x, size: torch.ones(size) * p.linear(x).sum()),
        (X, Y),
    ),
    "a size is returned": (
        lambda m, x, y: torch.zeros(m.part(y)[1], 2) + x.sum() + m.part(y)[0].sum(),
        PART(lambda p, y: (p.linear(y), y.shape[0] * 3)),
        (X, Y),
    ),
    "a float of a size": (
        lambda m, x: m.part(x, x.shape[0] / 3.0),
        PART(lambda p, x, factor: p.linear(x) * factor),
        (X,),
    ),
    "a size that only the data know": (
        lambda m, x: m.other(m.part(x), x),
        {
            "part": Part(count_from_data),
            "other": Part(lambda p, n, x: torch.ones(n).cumsum(0) * p.linear(x).sum()),
        },
        (X,),
    ),
    "a result of unknown size": (
        lambda m, x: m.other(m.part(x)),
        {
            "part": Part(lambda p, x: torch.nonzero(x > 0)),
            "other": Part(lambda p, i: (i * 2).sum(0) + i.shape[0]),
        },
        (X,),
    ),
    "parts of a split": (
        lambda m, x: m.other(m.part(x)),
        {
            "part": Part(lambda p, x: torch.split(p.linear(x), 2, dim=1)),
            "other": Part(lambda p, pair: pair[0] * pair[1]),
        },
        (X,),
    ),
    "a chunk outside": (
        lambda m, x: m.part(*torch.chunk(x, 2, 1)),
        PART(lambda p, a, b: p.linear(torch.cat([b, a], 1))),
        (X,),
    ),
    "an activation in place": (
        lambda m, x: (lambda y: (m.relu(y), y * 2))(m.part(x)),
        {**PART(lambda p, x: p.linear(x)), "relu": nn.ReLU(inplace=True)},
        (X,),
    ),
    "an argument is written": (
        lambda m, x: (lambda y: (m.part(y), y))(x * 2),
        PART(lambda p, y: p.linear(y.add_(1))),
        (X,),
    ),
    "cond inside": (
        lambda m, x: m.part(x),
        PART(lambda p, x: torch.cond(x.sum() > 0, p.linear, lambda x: x - 1, (x,))),
        (X,),
    ),
    "while_loop inside": (lambda m, x: m.part(x), PART(loop_linear), (X,)),
    "modules inside cond": (
        lambda m, x: torch.cond(x.sum() > 0, m.part, lambda x: m.part(x) - 1, (m.part(x),)),
        PART(lambda p, x: p.linear(x)),
        (X,),
    ),
    "complex tensors": (
        lambda m, x: torch.fft.irfft(m.other(m.part(x)), n=4),
        {
            "part": Part(lambda p, x: torch.fft.rfft(p.linear(x))),
            "other": Part(lambda p, z: z * 2),
        },
        (X,),
    ),
}
STATIC_ONLY = ("while_loop inside", "complex tensors")


# torch.export specializes the sizes of the STATIC_ONLY cases.
VARIANTS = [(name, False) for name in CASES]
VARIANTS += [(name, True) for name in CASES if name not in STATIC_ONLY]


@pytest.mark.parametrize(("name", "dynamic"), VARIANTS)
def test_functions_take_and_return_what_modules_do(name: str, dynamic: bool) -> None:
    function, parts, args = CASES[name]
    module = Whole(function, **parts).eval()
    sizes = tuple({0: torch.export.Dim(f"n{i}")} for i in range(len(args))) if dynamic else None
    program = torch.export.export(module, args, dynamic_shapes=None if sizes is None else (sizes,))
    calls = [args]
    if dynamic:
        calls.append(tuple(torch.randn(arg.shape[0] + 2, 4) for arg in args))
    for options in (
        {"optimize": False},
        {},
        {"export_options": ExportOptions(function_weights="inputs", constant_folding=True)},
    ):
        model = to_onnx(program, export_modules_as_functions=True, **options)
        onnx.checker.check_model(model, full_check=True)
        assert model.functions
        for call in calls:
            expected = eager(module, call)
            assert_close(run_onnx(model, feeds_of(model, call)), expected)
    inlined = inline_local_functions(model)
    assert_close(run_onnx(inlined, feeds_of(model, calls[-1])), eager(module, calls[-1]))


@pytest.mark.parametrize("weights", ["auto", "inputs", "constants"])
def test_buffers_that_change_inside_are_returned(weights: str) -> None:
    module = Whole(lambda m, x: m.a(m.a(x)) + m.b(x), a=Running(), b=Running())
    options = ExportOptions(function_weights=weights)
    model = to_onnx(
        module, (X,), export_modules_as_functions=True, export_options=options, validate=True
    )
    assert [output.name for output in model.graph.output] == ["output_0", "a.total", "b.total"]
    if weights == "inputs":
        assert calls_of(model.graph.node) == ["Running"] * 3
        assert set(functions_of(model)) == {"Running"}
    results = run_onnx(model, feeds_of(model, (X,)))
    expected = eager(module, (X,))
    a = X.sum(0) + (X + X.sum(0) * torch.arange(4.0)).sum(0)
    assert_close(results, [*expected, a, X.sum(0)])


def test_batch_norm_in_training_mode_returns_its_statistics() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    model = to_onnx(module, (X,), export_modules_as_functions=True)
    assert set(functions_of(model)) == {"Linear", "BatchNorm1d", "ReLU"}
    names = [output.name for output in model.graph.output]
    assert set(names[1:]) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    results = dict(zip(names, run_onnx(model, feeds_of(model, (X,))), strict=True))
    expected = module(X).detach()
    assert_close([results["output_0"]], [expected])
    for name in names[1:]:
        assert_close([results[name]], [module.state_dict()[name]])


def test_functions_of_fake_weights_take_them_as_inputs() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        module, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.randn(2, 4)
    model = to_onnx(module, (x,), export_modules_as_functions=True)
    assert calls_of(model.graph.node) == ["Linear", "Linear"]
    assert len(model.graph.input) == 5 and not model.graph.initializer
    onnx.checker.check_model(model, full_check=True)
