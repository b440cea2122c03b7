"""Unsupported operators fall back to torch with a warning each, or raise one error."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
import yaml
from torch._dynamo import config as dynamo_config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.testing import CompileCounterWithBackend
from torch._library.effects import EffectType

import ortable
from ortable import FallbackWarning, FunctionNotFoundError, onnx_custom_backend
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.fallback import unsupported_nodes

pytestmark = pytest.mark.filterwarnings("ignore::ortable.errors.FallbackWarning")
STRICT = {"fallback": "error"}


@pytest.fixture(scope="module", autouse=True)
def library():
    """Define custom operators without converters."""
    with torch.library._scoped_library("ortable_fallback", "DEF") as lib:
        for name, function in {"cube": lambda x: x**3, "halve": lambda x: x / 2}.items():
            lib.define(f"{name}(Tensor x) -> Tensor")
            lib.impl(name, function, "CompositeExplicitAutograd")
            torch.library.register_fake(f"ortable_fallback::{name}", torch.empty_like, lib=lib)
        lib.define("fill_diagonal(Tensor(a!) x, Tensor y) -> ()")
        lib.impl("fill_diagonal", _fill_diagonal, "CompositeExplicitAutograd")
        torch.library.register_fake("ortable_fallback::fill_diagonal", lambda x, y: None, lib=lib)
        lib.define("tell(Tensor x) -> Tensor")
        lib.impl("tell", _print_sum, "CompositeExplicitAutograd")
        torch.library.register_fake("ortable_fallback::tell", torch.empty_like, lib=lib)
        lib._register_effectful_op("ortable_fallback::tell", EffectType.ORDERED)
        yield


def _fill_diagonal(x, y):
    x.fill_diagonal_(float(y.max()))


def _print_sum(x):
    print("sum is", int(x.sum()))
    return x.clone()


def run(fn, *args, dynamic=None, **options):
    """Check a compiled function's results against eager's and return its records."""
    storage = {}
    options = {"storage": storage, **options}
    compiled = torch.compile(
        fn, backend="ortable", fullgraph=True, dynamic=dynamic, options=options
    )
    with torch.no_grad():
        expected, got = fn(*args), compiled(*args)
    torch.testing.assert_close(got, expected)
    return storage["instance"]


def get_reasons(records):
    return {p.operator: p.why for p in records[0]["placement"] if p.where == "torch"}


X = torch.rand(4, 4)


def call_custom(x):
    return torch.ops.ortable_fallback.cube(x @ x) @ torch.ops.ortable_fallback.halve(x)


def test_one_error_names_all_operators():
    with torch.no_grad(), pytest.raises(BackendCompilerFailed) as error:
        torch.compile(call_custom, backend="ortable", options=STRICT)(X)
    assert "ortable_fallback::cube, 1 call" in str(error.value)
    assert "ortable_fallback::halve, 1 call" in str(error.value)


def test_one_error_also_where_operators_are_placed_in_torch():
    def fn(x):
        return call_custom(torch.bernoulli(x) @ x)

    with torch.no_grad(), pytest.raises(BackendCompilerFailed) as error:
        torch.compile(fn, backend="ortable", options=STRICT)(X)
    assert "ortable_fallback::cube, 1 call" in str(error.value)
    assert "ortable_fallback::halve, 1 call" in str(error.value)
    assert "aten::bernoulli" not in str(error.value).partition("closest")[0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_custom_operators_run_in_torch(dynamic):
    records = run(call_custom, X, dynamic=dynamic)
    reasons = get_reasons(records)
    assert set(reasons) == {"ortable_fallback::cube", "ortable_fallback::halve"}
    assert reasons["ortable_fallback::cube"] == "no entry of the specs converts it"
    assert [len(record["onnx"].graph.node) for record in records] == [1, 1]
    lines = [p.line for p in records[0]["placement"] if p.where == "torch"]
    assert all("torch.ops.ortable_fallback.cube(x @ x)" in line for line in lines)


def test_a_supported_graph_stays_whole():
    (record,) = run(lambda x: (x @ x).relu(), X)
    assert all(p.where == "onnx" for p in record["placement"])


def test_refused_arguments_move_one_call_only():
    def fn(x, i):
        a = torch.special.log_ndtr(x @ x)
        wide = torch.conv_tbc(a[:, None].double(), i[None].double(), i[0].double())
        return a @ x, torch.histc(a, bins=4) @ x, wide[:, 0].float() @ x

    records = run(fn, X, torch.eye(4) * 3)
    assert "in float64" in get_reasons(records)["aten::conv_tbc"]
    assert len([p for p in records[0]["placement"] if p.where == "torch"]) == 1


def test_an_operator_whose_arguments_are_refused():
    """The conversion error names one node; other nodes stay in ONNX Runtime."""

    def fn(x):
        return (
            torch.nn.functional.grid_sample(
                (x @ x)[None, None], x.reshape(1, 2, 4, 2), mode="bicubic", align_corners=False
            ).sum()
            + torch._standard_gamma(x).shape[0]
            + (x @ x)
        )

    run(fn, X)


def test_raise_on_is_left_to_torch():
    records = run(lambda x: torch.tanh(x @ x) @ x, X, raise_on=["aten::tanh"], fallback="eager")
    assert get_reasons(records) == {"aten::tanh": "option raise_on names it"}
    assert len(records) == 2


def test_no_session_for_a_lone_reshape():
    def fn(x):
        y = torch.ops.ortable_fallback.cube(x).reshape(2, 8)
        return torch.ops.ortable_fallback.halve(y + 1) @ y.t()

    records = run(fn, X)
    assert len(records) == 1
    assert "too little" in get_reasons(records)["aten::view"]


def test_a_graph_that_torch_runs_whole():
    (record,) = run(lambda x: torch.ops.ortable_fallback.cube(x), X)
    assert record["onnx"] is None
    assert get_reasons([record]) == {"ortable_fallback::cube": "no entry of the specs converts it"}


def test_tensors_that_onnx_runtime_cannot_take():
    """Dynamo traces no sparse tensors, but a graph from AOTAutograd may contain them."""
    values = {"dense": X, "sparse": X.to_sparse()}
    values["quantized"] = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
    graph, calls = torch.fx.Graph(), {}
    for name, value in values.items():
        argument = graph.placeholder(name)
        calls[name] = graph.call_function(torch.ops.aten.relu.default, (argument,))
        argument.meta["val"] = calls[name].meta["val"] = value
    graph.output(list(calls.values()))
    reasons = unsupported_nodes(AotGraph(torch.fx.GraphModule({}, graph)), ())
    assert calls["dense"] not in reasons
    assert "layout torch.sparse_coo" in reasons[calls["sparse"]]
    assert "torch.qint8" in reasons[calls["quantized"]]


def test_gradients_flow_through_what_torch_runs():
    def fn(x):
        return torch.fft.fft(torch.erfinv(x @ x / 9)).abs() @ x

    eager_x, compiled_x = X.clone().requires_grad_(), X.clone().requires_grad_()
    fn(eager_x).sum().backward()
    compiled = torch.compile(
        fn, backend="ortable", options={"fallback": "eager", "raise_on": ["aten::erfinv"]}
    )
    compiled(compiled_x).sum().backward()
    torch.testing.assert_close(compiled_x.grad, eager_x.grad, rtol=1e-3, atol=1e-4)


def test_mutations_and_draws_beside_what_torch_runs():
    def fn(x, y):
        y.add_(torch.ops.ortable_fallback.cube(x @ x))
        return torch.nn.functional.dropout(y @ x, 0.5) @ x

    x, y = torch.rand(4, 4), torch.rand(4, 4)
    compiled = torch.compile(fn, backend="ortable")
    with torch.no_grad():
        compiled(x, y.clone())
        eager_y, compiled_y = y.clone(), y.clone()
        torch.manual_seed(2)
        expected = fn(x, eager_y)
        torch.manual_seed(2)
        got = compiled(x, compiled_y)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(compiled_y, eager_y)


def test_an_operator_that_writes_into_its_argument():
    def fn(x):
        y = x @ x
        torch.ops.ortable_fallback.fill_diagonal(y, x)
        return y @ x

    run(fn, X)


def test_control_flow_with_an_unsupported_branch():
    def fn(x):
        def cube(v):
            return torch.ops.ortable_fallback.cube(v)

        return torch.cond(x.sum() > 1, cube, lambda v: v * 2, (x @ x,)) @ x

    records = run(fn, X)
    assert "ortable_fallback::cube in a graph" in get_reasons(records)["cond"]


def test_effects_happen(capsys):
    def fn(x):
        return torch.ops.ortable_fallback.tell(x @ x) @ x

    x = torch.ones(2, 2)
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="ortable_fallback"):
        torch.compile(fn, backend="ortable", fullgraph=True, options=STRICT)(x)
    torch._dynamo.reset()
    capsys.readouterr()
    compiled = torch.compile(fn, backend="ortable", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), torch.full((2, 2), 4.0))
    assert capsys.readouterr().out == "sum is 8\n"


def test_the_report(capsys):
    run(call_custom, X, verbose=1)
    text = capsys.readouterr().out
    assert "torch: ortable_fallback::cube, 1 call at test_fallback.py:" in text
    assert "no entry of the specs converts it" in text


def test_errors_that_are_no_matter_of_operators_stay():
    def return_no_model(model):
        return "no model"

    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="pre_ort_model_transforms"):
        run(lambda x: x @ x, X, pre_ort_model_transforms=return_no_model)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="NoSuchExecutionProvider"):
        run(lambda x: x @ x, X, providers=["NoSuchExecutionProvider"])


@pytest.mark.parametrize("transform", [True, False])
def test_what_onnx_runtime_refuses_stays_an_error(transform):
    def break_model(model):
        model.graph.node[0].op_type = "NoSuchOperator"

    options = {"pre_ort_model_transforms": break_model, "freeze": "off"}
    if not transform:
        options = {"providers": ["CUDAExecutionProvider"]}
    compiler = partial(onnx_custom_backend, **options)
    backend = aot_autograd(fw_compiler=compiler)  # skips the early check of the providers
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="ProviderError"):
        torch.compile(lambda x: x @ x, backend=backend)(X)


@pytest.mark.parametrize("name", ["aten::relu", "aten::relu.default"])
def test_an_operator_refused_on_purpose_runs_in_torch_alone(name):
    records = run(lambda x: (x @ x).relu() @ x, X, raise_on=[name], fallback="eager")
    assert get_reasons(records) == {"aten::relu": "option raise_on names it"}


@pytest.mark.parametrize("grad", [True, False])
def test_weights_beside_an_effect(grad, capsys):
    linear = torch.nn.Linear(64, 64)
    storage = {}

    def fn(x):
        return linear(torch.ops.ortable_fallback.tell(x))

    options = {"storage": storage}
    compiled = torch.compile(fn, backend="ortable", fullgraph=True, options=options)
    with torch.set_grad_enabled(grad):
        x = torch.rand(2, 64)
        torch.testing.assert_close(compiled(x), fn(x))
    static = {role.shape for role in storage["instance"][0]["inputs"] if role.static}
    assert static == {(64, 64), (64,)}


# -- the default -------------------------------------------------------------------------------


@pytest.fixture
def get_warnings(monkeypatch):
    """Return a function that lists the fallback warnings since the start of the test."""
    from ortable.backend.aot import hints

    monkeypatch.setattr(hints, "_warned_operators", set())
    with pytest.warns(FallbackWarning) as warning_records:
        yield lambda: [str(record.message) for record in warning_records]


def test_one_warning_names_the_operator_its_line_and_an_entry(get_warnings):
    for factor in (1, 2):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, k=factor: call_custom(x) * k, backend="ortable")
        with torch.no_grad():
            torch.testing.assert_close(compiled(X), call_custom(X) * factor)
    cube, halve = get_warnings()
    assert cube.startswith("ortable cannot convert ortable_fallback::cube (test_fallback.py:")
    assert "torch.ops.ortable_fallback.cube(x @ x)" in cube and "{'fallback': 'error'}" in cube
    assert "ortable_fallback::halve" in halve
    entry = yaml.safe_load(cube.partition("starts from:\n")[2])
    assert entry[0]["op"] == "ortable_fallback::cube(Tensor x) -> Tensor"


def test_a_refusal_of_a_converter_is_a_warning_with_the_reason(get_warnings):
    compiled = torch.compile(lambda x: (x @ x).to(torch.complex32).real, backend="ortable")
    with torch.no_grad():
        compiled(torch.eye(4) * 3)
    text = next(text for text in get_warnings() if "_to_copy" in text)
    assert "torch.complex32" in text and "starts from" not in text


def test_hints_silence_the_warning(recwarn, monkeypatch):
    from ortable.backend.aot import hints

    monkeypatch.setattr(hints, "_warned_operators", set())
    torch.compile(call_custom, backend="ortable", options={"hints": False})(X)
    assert not [record for record in recwarn if record.category is FallbackWarning]


def test_a_graph_that_converts_keeps_the_placements_of_before():
    """The graph has small partitions, operators placed in torch by the tables, and a data check."""

    def fn(x, y):
        random = torch.bernoulli(x)
        return torch.linalg.inv(x + torch.eye(4)) @ (random * y + 1), (y + 2).sort()[0]

    def get_placements(**options):
        torch._dynamo.reset()
        storage = {}
        options = {"storage": storage, **options}
        torch.compile(fn, backend="ortable", options=options)(X, X.clone().requires_grad_())
        return [[(p.operator, p.where) for p in record.placement] for record in storage["instance"]]

    assert get_placements() == get_placements(fallback="error")


def test_a_marked_size_that_must_be_known_runs_in_torch():
    weight = torch.ones(2, 3, 2, 2)

    def fn(x):
        return torch.nn.functional.conv2d(x, weight, dilation=x.size(0)) + x.sum()

    counter = CompileCounterWithBackend("ortable")
    compiled = torch.compile(fn, backend=counter)
    for size in (4, 3):
        x = torch.randn(size, 3, 12, 12)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), fn(x), rtol=1e-4, atol=1e-4)
    assert counter.frame_count == 1


def test_sizes_stay_free_where_the_refusal_is_of_something_else():
    counter = CompileCounterWithBackend("ortable")
    compiled = torch.compile(lambda x: torch.linalg.eigvals(x).abs(), backend=counter, dynamic=True)
    for size in (3, 5):
        compiled(torch.eye(size))
    assert counter.frame_count == 1


# -- operators of a library: writes, results of unknown sizes, gradients ------------------------


@torch.library.custom_op("ortable_fallback_ops::add_sum", mutates_args=("x",))
def add_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y.sum())
    return y * 2


@add_sum.register_fake
def _(x, y):
    return torch.empty_like(y)


@torch.library.custom_op("ortable_fallback_ops::add_to_all", mutates_args=("xs",))
def add_to_all(xs: list[torch.Tensor], y: torch.Tensor) -> None:
    for x in xs:
        x.add_(y.sum())


@torch.library.custom_op("ortable_fallback_ops::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("ortable_fallback_ops::count", mutates_args=())
def count(x: torch.Tensor) -> int:
    return int((x > 0).sum())


@count.register_fake
def _(x):
    return torch.library.get_ctx().new_dynamic_size()


def write_into_an_argument(x, y):
    result = add_sum(x, y @ y)
    return x @ y + result


def write_into_a_view(x, y):
    z = x @ y
    add_sum(z[0], y)
    return z @ y


def write_into_a_list(x, y):
    first, second = x @ y, y @ x
    add_to_all([first, second], y)
    return first @ second


WRITES_AND_UNKNOWN_SIZES = [
    write_into_an_argument,
    write_into_a_view,
    write_into_a_list,
    lambda x, y: positive(x @ y) * 2 + 1,
    lambda x, y: (x @ y) * count(y) + torch.ones(count(x)).sum(),
]


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", WRITES_AND_UNKNOWN_SIZES)
def test_operators_that_write_and_sizes_that_data_decide(fn, dynamic):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    compiled_x, eager_x = x.clone(), x.clone()
    with dynamo_config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        got = torch.compile(fn, backend="ortable", dynamic=dynamic, fullgraph=True)(compiled_x, y)
        torch.testing.assert_close(got, fn(eager_x, y))
    torch.testing.assert_close(compiled_x, eager_x)


@torch.library.custom_op("ortable_fallback_ops::experts", mutates_args=())
def experts(x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply rows, which are sorted by expert, by the matrix of their expert."""
    out, begin = x.new_empty(x.shape[0], weights.shape[2]), 0
    for weight, end in zip(weights, ends.tolist(), strict=True):
        out[begin:end] = x[begin:end] @ weight
        begin = end
    return out


@experts.register_fake
def _(x, weights, ends):
    return x.new_empty(x.shape[0], weights.shape[2])


@torch.library.custom_op("ortable_fallback_ops::experts_backward", mutates_args=())
def experts_backward(
    grad: torch.Tensor, x: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    x_grad, weights_grad, begin = torch.empty_like(x), torch.zeros_like(weights), 0
    for index, end in enumerate(ends.tolist()):
        x_grad[begin:end] = grad[begin:end] @ weights[index].T
        weights_grad[index] = x[begin:end].T @ grad[begin:end]
        begin = end
    return x_grad, weights_grad


@experts_backward.register_fake
def _(grad, x, weights, ends):
    return torch.empty_like(x), torch.empty_like(weights)


experts.register_autograd(
    lambda ctx, grad: (*experts_backward(grad, *ctx.saved_tensors), None),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Mixture(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(16, 4)
        self.weights = torch.nn.Parameter(torch.randn(4, 16, 16) / 4)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x):
        probability, expert = self.gate(x).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        ends = torch.nn.functional.one_hot(expert, 4).sum(0).cumsum(0)
        rows = experts(x[order], self.weights, ends)
        return self.head(x + torch.zeros_like(x).index_copy(0, order, rows) * probability[:, None])


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_mixture_of_experts_trains(dynamic):
    model = Mixture()
    eager = copy.deepcopy(model)
    storage = {}
    options = {"storage": storage}
    compiled = torch.compile(model, backend="ortable", dynamic=dynamic, options=options)
    for size in (12, 7):
        x = torch.randn(size, 16)
        results = [module(x) for module in (compiled, eager)]
        torch.testing.assert_close(*results)
        for result in results:
            result.pow(2).sum().backward()
        for got, expected in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(got.grad, expected.grad, rtol=1e-4, atol=1e-4)
    operators = {(r.kind, p.operator) for r in storage["instance"] for p in r.placement if p.by}
    assert ("forward", "ortable_fallback_ops::experts") in operators
    assert ("backward", "ortable_fallback_ops::experts_backward") in operators


def test_explain_lists_the_operator_with_an_entry_to_start_from():
    explanation = ortable.explain(call_custom, X)
    drafts = {entry.operator: entry.draft for entry in explanation.unsupported}
    assert set(drafts) == {"ortable_fallback::cube", "ortable_fallback::halve"}
    assert drafts["ortable_fallback::cube"].startswith("- op: ortable_fallback::cube(Tensor x)")
    assert "start from:" in str(explanation) and "- op: ortable_fallback::halve" in str(explanation)


def test_exports_still_refuse():
    class Model(torch.nn.Module):
        def forward(self, x):
            return call_custom(x)

    with pytest.raises(FunctionNotFoundError, match="ortable_fallback::cube"):
        ortable.to_onnx(Model(), (X,))
