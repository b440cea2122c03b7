"""What ONNX Runtime cannot run is left to torch, with the reason and one warning an operator; with
`fallback="error"` it is one error."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed
from torch._library.effects import EffectType

from ortable import onnx_custom_backend
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.partition.fallback import unsupported_nodes

pytestmark = pytest.mark.filterwarnings("ignore::ortable.errors.FallbackWarning")
STRICT = {"fallback": "error"}


@pytest.fixture(scope="module", autouse=True)
def library():
    """Operators of a user, unknown to ortable."""
    with torch.library._scoped_library("ortable_fallback", "DEF") as lib:
        for name, function in {"cube": lambda x: x**3, "halve": lambda x: x / 2}.items():
            lib.define(f"{name}(Tensor x) -> Tensor")
            lib.impl(name, function, "CompositeExplicitAutograd")
            torch.library.register_fake(f"ortable_fallback::{name}", torch.empty_like, lib=lib)
        lib.define("fill_diagonal(Tensor(a!) x, Tensor y) -> ()")
        lib.impl("fill_diagonal", _fill_diagonal, "CompositeExplicitAutograd")
        torch.library.register_fake("ortable_fallback::fill_diagonal", lambda x, y: None, lib=lib)
        lib.define("tell(Tensor x) -> Tensor")
        lib.impl("tell", _tell, "CompositeExplicitAutograd")
        torch.library.register_fake("ortable_fallback::tell", torch.empty_like, lib=lib)
        lib._register_effectful_op("ortable_fallback::tell", EffectType.ORDERED)
        yield


def _fill_diagonal(x, y):
    x.fill_diagonal_(float(y.max()))


def _tell(x):
    print("sum is", int(x.sum()))
    return x.clone()


def run(fn, *args, dynamic=None, **options):
    """The records of a compiled function whose results agree with eager's."""
    storage = {}
    options = {"storage": storage, **options}
    fast = torch.compile(fn, backend="ortable", fullgraph=True, dynamic=dynamic, options=options)
    with torch.no_grad():
        expected, got = fn(*args), fast(*args)
    torch.testing.assert_close(got, expected)
    return storage["instance"]


def in_torch(records):
    return {p.operator: p.why for p in records[0]["placement"] if p.where == "torch"}


X = torch.rand(4, 4)


def custom(x):
    return torch.ops.ortable_fallback.cube(x @ x) @ torch.ops.ortable_fallback.halve(x)


def test_one_error_names_all_operators():
    with torch.no_grad(), pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(custom, backend="ortable", options=STRICT)(X)
    assert "ortable_fallback::cube, 1 call" in str(caught.value)
    assert "ortable_fallback::halve, 1 call" in str(caught.value)


def test_one_error_also_where_operators_are_placed_in_torch():
    def fn(x):
        return custom(torch.bernoulli(x) @ x)

    with torch.no_grad(), pytest.raises(BackendCompilerFailed) as caught:
        torch.compile(fn, backend="ortable", options=STRICT)(X)
    assert "ortable_fallback::cube, 1 call" in str(caught.value)
    assert "ortable_fallback::halve, 1 call" in str(caught.value)
    assert "aten::bernoulli" not in str(caught.value).partition("closest")[0]


@pytest.mark.parametrize("dynamic", [False, True])
def test_custom_operators_run_in_torch(dynamic):
    records = run(custom, X, dynamic=dynamic)
    found = in_torch(records)
    assert set(found) == {"ortable_fallback::cube", "ortable_fallback::halve"}
    assert found["ortable_fallback::cube"] == "no entry of the specs converts it"
    assert [len(r["onnx"].graph.node) for r in records] == [1, 1]
    lines = [p.line for p in records[0]["placement"] if p.where == "torch"]
    assert all("torch.ops.ortable_fallback.cube(x @ x)" in line for line in lines)


def test_a_supported_graph_stays_whole():
    (record,) = run(lambda x: (x @ x).relu(), X)
    assert all(p.where == "onnx" for p in record["placement"])


def test_refused_arguments_move_one_call_only():
    def fn(x, i):
        a = torch.special.log_ndtr(x @ x)
        return a @ x, torch.histc(a, bins=4) @ x, torch.linalg.eigvals(x + i).abs() @ x

    records = run(fn, X, torch.eye(4) * 3)
    assert "which are complex" in in_torch(records)["aten::linalg_eig"]
    assert len([p for p in records[0]["placement"] if p.where == "torch"]) == 1


def test_an_operator_whose_arguments_are_refused():
    """An error while converting names the node; the others stay."""

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
    assert in_torch(records) == {"aten::tanh": "option raise_on names it"}
    assert len(records) == 2


def test_no_session_for_a_lone_reshape():
    def fn(x):
        y = torch.ops.ortable_fallback.cube(x).reshape(2, 8)
        return torch.ops.ortable_fallback.halve(y + 1) @ y.t()

    records = run(fn, X)
    assert len(records) == 1
    assert "too little" in in_torch(records)["aten::view"]


def test_a_graph_that_torch_runs_whole():
    (record,) = run(lambda x: torch.ops.ortable_fallback.cube(x), X)
    assert record["onnx"] is None
    assert in_torch([record]) == {"ortable_fallback::cube": "no entry of the specs converts it"}


def test_tensors_that_onnx_runtime_cannot_take():
    """dynamo traces no sparse tensor; a graph of AOTAutograd may still hold one."""
    values = {"dense": X, "sparse": X.to_sparse()}
    values["quantized"] = torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)
    graph, calls = torch.fx.Graph(), {}
    for name, value in values.items():
        given = graph.placeholder(name)
        calls[name] = graph.call_function(torch.ops.aten.relu.default, (given,))
        given.meta["val"] = calls[name].meta["val"] = value
    graph.output(list(calls.values()))
    found = unsupported_nodes(AotGraph(torch.fx.GraphModule({}, graph)), ())
    assert calls["dense"] not in found
    assert "layout torch.sparse_coo" in found[calls["sparse"]]
    assert "torch.qint8" in found[calls["quantized"]]


def test_gradients_flow_through_what_torch_runs():
    def fn(x):
        return torch.fft.fft(torch.erfinv(x @ x / 9)).abs() @ x

    a, b = X.clone().requires_grad_(), X.clone().requires_grad_()
    fn(a).sum().backward()
    fast = torch.compile(fn, backend="ortable", options={"fallback": "eager", "raise_on": ["aten::erfinv"]})
    fast(b).sum().backward()
    torch.testing.assert_close(b.grad, a.grad, rtol=1e-3, atol=1e-4)


def test_mutations_and_draws_beside_what_torch_runs():
    def fn(x, y):
        y.add_(torch.ops.ortable_fallback.cube(x @ x))
        return torch.nn.functional.dropout(y @ x, 0.5) @ x

    x, y = torch.rand(4, 4), torch.rand(4, 4)
    fast = torch.compile(fn, backend="ortable")
    with torch.no_grad():
        fast(x, y.clone())
        mine, theirs = y.clone(), y.clone()
        torch.manual_seed(2)
        expected = fn(x, mine)
        torch.manual_seed(2)
        got = fast(x, theirs)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(theirs, mine)


def test_an_operator_that_writes_into_its_argument():
    def fn(x):
        y = x @ x
        torch.ops.ortable_fallback.fill_diagonal(y, x)
        return y @ x

    run(fn, X)


def test_control_flow_with_an_unsupported_branch():
    def fn(x):
        def one(v):
            return torch.ops.ortable_fallback.cube(v)

        return torch.cond(x.sum() > 1, one, lambda v: v * 2, (x @ x,)) @ x

    records = run(fn, X)
    assert "ortable_fallback::cube in a graph" in in_torch(records)["cond"]


def test_effects_happen(capsys):
    def fn(x):
        return torch.ops.ortable_fallback.tell(x @ x) @ x

    x = torch.ones(2, 2)
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="ortable_fallback"):
        torch.compile(fn, backend="ortable", fullgraph=True, options=STRICT)(x)
    torch._dynamo.reset()
    capsys.readouterr()
    fast = torch.compile(fn, backend="ortable", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), torch.full((2, 2), 4.0))
    assert capsys.readouterr().out == "sum is 8\n"


def test_the_report(capsys):
    run(custom, X, verbose=1)
    text = capsys.readouterr().out
    assert "torch: ortable_fallback::cube, 1 call at test_fallback.py:" in text
    assert "no entry of the specs converts it" in text


def test_errors_that_are_no_matter_of_operators_stay():
    def broken(model):
        return "no model"

    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="pre_ort_model_transforms"):
        run(lambda x: x @ x, X, pre_ort_model_transforms=broken)
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="NoSuchExecutionProvider"):
        run(lambda x: x @ x, X, providers=["NoSuchExecutionProvider"])


@pytest.mark.parametrize("transform", [True, False])
def test_what_onnx_runtime_refuses_stays_an_error(transform):
    def broken(model):
        model.graph.node[0].op_type = "NoSuchOperator"

    given = {"pre_ort_model_transforms": broken, "freeze": "off"}
    if not transform:
        given = {"providers": ["CUDAExecutionProvider"]}
    compiler = partial(onnx_custom_backend, **given)
    backend = aot_autograd(fw_compiler=compiler)  # nobody looked at the providers before
    with torch.no_grad(), pytest.raises(BackendCompilerFailed, match="ProviderError"):
        torch.compile(lambda x: x @ x, backend=backend)(X)


@pytest.mark.parametrize("name", ["aten::relu", "aten::relu.default"])
def test_an_operator_refused_on_purpose_runs_in_torch_alone(name):
    records = run(lambda x: (x @ x).relu() @ x, X, raise_on=[name], fallback="eager")
    assert in_torch(records) == {"aten::relu": "option raise_on names it"}


@pytest.mark.parametrize("grad", [True, False])
def test_weights_beside_an_effect(grad, capsys):
    linear = torch.nn.Linear(64, 64)
    storage = {}

    def fn(x):
        return linear(torch.ops.ortable_fallback.tell(x))

    options = {"storage": storage}
    fast = torch.compile(fn, backend="ortable", fullgraph=True, options=options)
    with torch.set_grad_enabled(grad):
        x = torch.rand(2, 64)
        torch.testing.assert_close(fast(x), fn(x))
    static = {role.shape for role in storage["instance"][0]["inputs"] if role.static}
    assert static == {(64, 64), (64,)}
