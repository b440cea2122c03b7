"""The caller's autocast and inference mode, and torch.onnx.is_in_onnx_export during capture."""

from __future__ import annotations

import operator
import threading
from typing import Any

import pytest
import torch

from ortable import ExportOptions, to_onnx
from ortable.errors import ExportError
from ortable.exporter.frontend.module_state import in_onnx_export
from tests.backend.threads import in_threads

from .helpers import assert_close, assert_same, feeds_of, run_onnx

X = torch.rand(4, 3)
CAPTURE_SETTINGS = [{"strict": False}, {"strict": True}, {"tracing": True}]


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 5)

    def forward(self, x, **scales):
        y = self.linear(x)
        for scale in scales.values():
            y = y * scale
        return y.float()


class ExportBranch(torch.nn.Module):
    """A module that computes differently for ONNX, as some libraries do."""

    def forward(self, x):
        return x * 2 if torch.onnx.is_in_onnx_export() else x + x


class FailingModule(torch.nn.Module):
    def forward(self, x):
        raise ValueError("bad thing")


class CallCounter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)
        self.norm.bias = self.norm.weight
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        y = self.norm(x)
        y[:, 0].add_(1)
        return y * self.calls


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


def capture_with_dynamo(module: torch.nn.Module) -> list[Any]:
    """Return the call targets of the graph that dynamo captures of a module."""
    targets: list[Any] = []

    def backend(graph_module: torch.fx.GraphModule, example: Any) -> Any:
        targets.extend(n.target for n in graph_module.graph.nodes if n.op == "call_function")
        return graph_module.forward

    torch._dynamo.reset()
    torch.compile(module, backend=backend, fullgraph=True)(X)
    return targets


@pytest.mark.parametrize("settings", CAPTURE_SETTINGS)
def test_a_module_is_captured_under_the_callers_autocast(settings: dict[str, Any]) -> None:
    module, options = Layer(), ExportOptions(validate=True, **settings)
    scales = {} if "tracing" in settings else {"first": torch.rand(4, 1)}
    shapes = {name: {0: "batch"} for name in ("x", *scales)}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = module(X, **scales)
        model = to_onnx(
            module, (X,), scales, dynamic_shapes=shapes, export_options=options, validate=True
        )
        assert torch.is_autocast_enabled("cpu")
    assert "forward" not in vars(module)
    assert "Cast" in operators(model)
    assert_close(run_onnx(model, feeds_of(model, (X,), scales)), [expected], 1e-2)


def test_weights_of_a_model_under_autocast_keep_their_dtype_and_values() -> None:
    """Rewrites fold weights outside of autocast."""
    module = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 1), torch.nn.BatchNorm2d(3)).eval()
    args = (torch.rand(1, 2, 4, 4),)
    with torch.autocast("cpu", enabled=False):
        float32_model = to_onnx(module, args)
    assert_same(float32_model, module, args)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = to_onnx(module, args, validate=True)
    assert "Cast" in operators(model)


def test_a_program_is_converted_as_it_is() -> None:
    program = torch.export.export(Layer(), (X,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = to_onnx(program, validate=True)
    assert operators(model) == ["Gemm"]


@pytest.mark.parametrize("settings", CAPTURE_SETTINGS)
def test_torch_onnx_says_that_an_export_is_under_way(settings: dict[str, Any]) -> None:
    model = to_onnx(ExportBranch(), (X,), export_options=ExportOptions(**settings), validate=True)
    assert operators(model) == ["Mul"]
    assert not torch.onnx.is_in_onnx_export()
    with pytest.raises(ExportError, match="bad thing"):
        to_onnx(FailingModule(), (X,), export_options=ExportOptions(**settings))
    assert not torch.onnx.is_in_onnx_export()
    assert capture_with_dynamo(ExportBranch()) == [operator.add]


def test_exports_in_threads_say_so_until_the_last_one_ends() -> None:
    """Two exports overlap, and the second one ends last."""
    first_inside, second_inside, first_done = (threading.Event() for _ in range(3))
    observed: list[bool] = []

    def first() -> None:
        with in_onnx_export():
            first_inside.set()
            second_inside.wait(10)
        first_done.set()

    def second() -> None:
        first_inside.wait(10)
        with in_onnx_export():
            second_inside.set()
            first_done.wait(10)
            observed.append(torch.onnx.is_in_onnx_export())
            observed.append(capture_with_dynamo(ExportBranch()) == [operator.mul])

    in_threads(2, lambda index: (first, second)[index]())
    assert observed == [True, True]
    assert not torch.onnx.is_in_onnx_export()
    assert capture_with_dynamo(ExportBranch()) == [operator.add]


def test_an_export_inside_another_changes_nothing_when_it_ends() -> None:
    with in_onnx_export():
        with in_onnx_export():
            assert torch.onnx.is_in_onnx_export()
        assert torch.onnx.is_in_onnx_export()
    assert not torch.onnx.is_in_onnx_export()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_weights_and_arguments_that_were_made_in_inference_mode(strict: bool, inside: bool) -> None:
    with torch.inference_mode():
        module, x = CallCounter().eval(), torch.rand(4, 3)
    original = dict(module.named_parameters(remove_duplicate=False))
    with torch.inference_mode(inside):
        model = to_onnx(module, (x,), export_options=ExportOptions(strict=strict), validate=True)
    current = dict(module.named_parameters(remove_duplicate=False))
    assert all(current[name] is value for name, value in original.items())
    assert module.calls.is_inference() and module.calls.tolist() == [0, 0, 0]
    outputs = run_onnx(model, {"x": x.numpy()})
    with torch.inference_mode():
        assert_close(outputs, [module(x), module.calls])
