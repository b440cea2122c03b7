"""Traced graphs without metadata: ambiguous or invalid calls are refused with instructions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import onnxruntime
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import ortable
from ortable.errors import ConversionError, ExportError, FunctionNotFoundError, UnsupportedCase

_ATEN = torch.ops.aten
_UNKNOWN_SHAPE = r"the shape of its result is unknown; give example inputs \(args\)"
_AMBIGUOUS_SHAPES = "shapes whose common shape depends on which dynamic size is 1"
_AMBIGUOUS_BATCHES = "batches whose common shape depends on which dynamic size is 1"


def _trace(function: Callable[..., Any], *shapes: tuple[int, ...]) -> torch.fx.GraphModule:
    """Trace a function whose float32 inputs have known shapes; a negative size is dynamic."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    traced = torch.fx.symbolic_trace(function)
    inputs = [node for node in traced.graph.nodes if node.op == "placeholder"]
    for node, shape in zip(inputs, shapes, strict=True):
        dimensions = [DimDynamic.DYNAMIC if size < 0 else DimDynamic.STATIC for size in shape]
        node.meta["val"] = mode.from_tensor(
            torch.empty([abs(size) for size in shape]),
            symbolic_context=StatelessSymbolicContext(dynamic_sizes=dimensions),
        )
    return traced


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (lambda x: torch.arange(x.shape[0]), [(-3, 2)], _UNKNOWN_SHAPE),
        (lambda x: torch.linalg.matrix_rank(x), [(3, 4)], _UNKNOWN_SHAPE),
        (lambda x, y: torch.linalg.solve(x, y), [(3, 3), (3, 3)], _UNKNOWN_SHAPE),
        (lambda x, y: torch.linalg.tensorsolve(x, y), [(2, 3, 6), (2, 3)], _UNKNOWN_SHAPE),
        (lambda x: torch.as_strided(x + 1, (2, 2), (1, 2)), [(3, 3)],
         r"strides are unknown; give example inputs \(args\)"),
        (lambda x: _ATEN.sym_stride.int(x, 0) + x, [(3, 3)],
         r"the memory layout of the elements is unknown; give example inputs \(args\)"),
        (lambda x: _ATEN._linalg_det(x + 1)[1], [(3, 3)],
         r"memory layout is unknown; give example inputs \(args\)"),
        (lambda x: x.reshape(-1, 0), [(3, 3)], r"a shape \[-1, 0\] with both -1 and 0 does"),
        (lambda x, y: torch.broadcast_tensors(x, y)[0], [(-2, 3), (-4, 3)], _AMBIGUOUS_SHAPES),
        (lambda x, y: torch.take_along_dim(x, y.long(), 1), [(-2, 3), (-4, 3)], _AMBIGUOUS_SHAPES),
        (lambda x, y: torch.matmul(x, y), [(-2, 3, 0), (-4, 0, 3)], _AMBIGUOUS_BATCHES),
        (lambda x, y: torch.linalg.solve_triangular(x, y, upper=True), [(-2, 3, 3), (-4, 3, 3)],
         _AMBIGUOUS_BATCHES),
        (lambda x, y: torch.einsum("ij,jk,kl->il", x, y), [(3, 4), (4, 5)],
         "einsum 'ij,jk,kl->il' names 3 operands, 2 are given"),
        (lambda x: _ATEN.is_contiguous(x), [(3, 3)],
         "torch resolves this call to aten::is_contiguous, which has no converter"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(_trace(function, *shapes))


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (lambda x: torch.nn.functional.max_pool2d(x, (2, 2, 2)), (1, 1, 4, 4),
         "3 values were given for 2 dimensions"),
        (lambda x: x.expand(3), (3, 3),
         r"a result of rank 2 cannot be expanded to 1 sizes: \[3\]"),
        (lambda x: x.repeat(2), (3, 3), r"one repeat per axis of \[3, 3\], not \[2\]"),
        (lambda x: torch.conv_transpose2d(x, torch.ones(1, 1, 2, 2)), (1, 3, 3, 3),
         r"input \[1, 3, 3, 3\] and weight \[1, 1, 2, 2\] do not fit"),
    ],
)  # fmt: skip
def test_a_call_that_torch_would_refuse_is_an_error_that_says_what_does_not_fit(
    function: Callable[..., Any], shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ConversionError, match=message):
        ortable.to_onnx(_trace(function, shape))


@pytest.mark.parametrize(
    ("function", "count", "node"),
    [
        (lambda x: torch.max(x, 1), 2, "max_1"),
        (lambda x: torch.linalg.slogdet(x), 2, "linalg_slogdet"),
        (lambda x: (x + 1, x.unbind(0)), 3, "unbind"),
        (lambda x: x.shape, 2, "getattr_1"),
    ],
)
def test_results_in_one_are_refused_and_their_parts_asked_for(
    function: Callable[..., Any], count: int, node: str
) -> None:
    message = rf"is a sequence of all {count} results of node '{node}'"
    with pytest.raises(ConversionError, match=message):
        ortable.to_onnx(_trace(function, (3, 3)))


def _call_module(part: torch.nn.Module, args: str, kwargs: str) -> torch.fx.GraphModule:
    """Return a graph that passes its input to ``part`` for each letter of ``args``, and by name."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 3)
    graph.output(graph.call_module("part", (x,) * len(args), {kwargs: x} if kwargs else {}))
    owner = torch.nn.Module()
    owner.part = part
    return torch.fx.GraphModule(owner, graph)


class _Branches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ("", "", r"the submodule has the arguments \(input\), but is called without input"),
        ("xxx", "", r"the submodule has .*, but is called with too many positional arguments: 3"),
        ("x", "y", r"the submodule has .*, but is called with the unknown y"),
        ("x", "input", r"the submodule has .*, but is called twice with input"),
    ],
)
def test_a_submodule_that_is_called_wrongly_is_an_error_that_names_the_call(
    args: str, kwargs: str, message: str
) -> None:
    model = _call_module(torch.fx.symbolic_trace(torch.nn.ReLU()), args, kwargs)
    with pytest.raises(ConversionError, match=f"part could not be converted: {message}") as caught:
        ortable.to_onnx(model)
    assert "node 'part'" in str(caught.value)


def test_a_submodule_that_cannot_be_traced_is_refused() -> None:
    error = r"torch cannot trace this module symbolically\nWhat to do: give example inputs \(args\)"
    with pytest.raises(FunctionNotFoundError, match=error):
        ortable.to_onnx(_call_module(_Branches(), "x", ""))


def _assign(
    operation: Any,
    *,
    is_new: bool = True,
    is_view: bool = False,
    is_read: bool = False,
    is_wide: bool = False,
) -> torch.fx.GraphModule:
    """Return ``y = x * 2; v = y.t(); v += 3; return v, y``, as `torch._dynamo.export` writes it."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 2)
    y = graph.call_function(torch.mul, (x, 2)) if is_new else x
    v = graph.call_method("t", (y,)) if is_view else y
    operand = graph.call_function(torch.ops.aten.to.dtype, (x, torch.float64)) if is_wide else 3
    z = graph.call_function(operation, (v, operand))
    graph.output((z, y) if is_read else z)
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize("options", [{"is_read": True}, {"is_view": True}, {"is_new": False}])
def test_an_assignment_that_others_may_see_is_refused(options: dict[str, bool]) -> None:
    message = r"cannot be converted as it is.*Give example inputs \(args\): torch.export then"
    with pytest.raises(ExportError, match=message):
        ortable.to_onnx(_assign(operator.iadd, **options))


def test_an_assignment_that_would_change_the_dtype_is_refused() -> None:
    with pytest.raises(UnsupportedCase, match="an assignment of float64 to a tensor of float32"):
        ortable.to_onnx(_assign(operator.iadd, is_wide=True))


def test_an_assignment_that_nobody_else_sees_is_the_operator() -> None:
    model, x = _assign(operator.imul), torch.rand(2, 2)
    assert torch.equal(_run(model, x), model(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.std(0),
        lambda x: torch.var(x, 1),
        lambda x: torch.std(x, -1, True),
        lambda x: x.std(None),
        lambda x: x.std(False),
        lambda x: torch.var_mean(x, 0)[0],
        lambda x: x.var(0, correction=0),
    ],
)
def test_a_number_is_no_flag(function: Callable[..., Any]) -> None:
    """``x.std(0)`` selects a dimension, although an overload of torch has ``unbiased``."""
    x = torch.randn(4, 3)
    torch.testing.assert_close(_run(_trace(function, (4, 3)), x), function(x))


def _run(model: torch.fx.GraphModule, x: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(
        ortable.to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return torch.from_numpy(session.run(None, {"x": x.numpy()})[0])


class _Sum(torch.nn.Module):
    def forward(self, *parts: torch.Tensor) -> torch.Tensor:
        return parts[0] + 1


def test_a_submodule_of_any_number_of_arguments_is_refused() -> None:
    message = r"the submodule has variadic arguments \(\*parts\)"
    with pytest.raises(UnsupportedCase, match=message):
        ortable.to_onnx(_call_module(_Sum(), "x", ""))


def test_an_attribute_that_the_module_lost_is_an_error_that_names_it() -> None:
    constant = torch.eye(3)
    traced = _trace(lambda x: x @ constant, (2, 3))
    (node,) = (node for node in traced.graph.nodes if node.op == "get_attr")
    delattr(traced, str(node.target))
    message = rf"node '{node.name}' reads '{node.target}', which .* lacks"
    with pytest.raises(ConversionError, match=message):
        ortable.to_onnx(traced)


def test_an_input_of_which_nothing_is_known_is_refused() -> None:
    traced = torch.fx.symbolic_trace(lambda x, y: x + y)
    message = r"input 'x' of the graph cannot become an ONNX input: its type and shape"
    with pytest.raises(ConversionError, match=message):
        ortable.to_onnx(traced)
    next(iter(traced.graph.nodes)).meta["val"] = object()
    with pytest.raises(ConversionError, match=r"it is a object. Give example inputs \(`args`\)"):
        ortable.to_onnx(traced)
