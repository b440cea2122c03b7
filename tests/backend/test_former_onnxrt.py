"""Behaviours of PyTorch's former backend `onnxrt`, from its own tests, with this package's API."""

from __future__ import annotations

import onnx
import onnxruntime
import pytest
import torch
from torch.utils import _pytree as pytree

from tests.backend.against_eager import assert_close, assert_equal_to_eager, compiled
from tests.backend.threads import in_threads

F = torch.nn.functional


# -- functions and small networks ---------------------------------------------------------------


def one_result(x):
    y = x.relu()
    return (y + y.sigmoid()) * y.cos()


def several_results(x):
    y = x.relu()
    return y, y.sigmoid(), y.tanh() + x


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("fn", [one_result, several_results])
@pytest.mark.parametrize("dynamic", [False, True])
def test_elementwise_functions(fn, dynamic):
    run = compiled(fn, dynamic=dynamic)
    for size in (3, 5):
        x = torch.randn(size, 2, requires_grad=True)
        got, expected = run(x), fn(x)
        assert_close(got, expected)
        tensors = pytree.tree_leaves(got), pytree.tree_leaves(expected)
        assert_close(*(torch.autograd.grad(sum(t.sum() for t in ts), x) for ts in tensors))


def test_graph_without_inputs():
    run = compiled(lambda: torch.ones(2, 3) + torch.arange(3))
    assert_close(run(), torch.ones(2, 3) + torch.arange(3))


def test_size_as_input_and_output():
    run = compiled(lambda x, n: (x.reshape(-1, n) * n, x.shape[0]), dynamic=True)
    for rows, n in ((4, 2), (9, 3)):
        x = torch.randn(rows, 6)
        result, size = run(x, n)
        assert_close(result, x.reshape(-1, n) * n)
        assert size == rows and type(size) is int


def test_results_that_are_none():
    """The backward returns None for arguments without a gradient; a result may also be None."""
    storage = {}
    run = compiled(lambda x, w: (x * w, None), storage=storage)
    x, w = torch.randn(3), torch.randn(3, requires_grad=True)
    result, none_result = run(x, w)
    assert none_result is None
    result.sum().backward()
    assert x.grad is None
    assert_close(w.grad, x)
    backward = next(r for r in storage["instance"] if r["kind"] == "backward")
    assert [role.kind.value for role in backward["outputs"]].count("none") == 1


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(2, 4)
        self.fc2 = torch.nn.Linear(4, 2)

    def forward(self, x):
        return F.relu(self.fc2(F.relu(self.fc1(x))))


@pytest.mark.parametrize("dynamic", [False, True])
def test_mlp(dynamic):
    sizes = (3, 5, 9) if dynamic else (3,)
    records = assert_equal_to_eager(MLP(), [(torch.randn(n, 2),) for n in sizes], dynamic=dynamic)
    assert [r["kind"] for r in records] == ["inference", "forward", "backward"]


class MNIST(torch.nn.Module):
    """Two convolutions, two dense layers, dropout after each pair."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 4, 3, 1)
        self.conv2 = torch.nn.Conv2d(4, 8, 3, 1)
        self.dropout1 = torch.nn.Dropout(0.25)
        self.dropout2 = torch.nn.Dropout(0.5)
        self.fc1 = torch.nn.Linear(8 * 6 * 6, 16)
        self.fc2 = torch.nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = self.dropout2(F.relu(self.fc1(torch.flatten(x, 1))))
        return F.log_softmax(self.fc2(x), dim=1)


@pytest.mark.parametrize("loss_inside", [False, True])
def test_training_like_mnist(loss_inside):
    def train_model(use_compiled):
        torch.manual_seed(0)
        model = MNIST()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x, y):
            return F.nll_loss(model(x), y)

        if use_compiled and loss_inside:
            step = compiled(step)
        elif use_compiled:
            run = compiled(model)
            step = lambda x, y: F.nll_loss(run(x), y)  # noqa: E731
        losses = []
        for _ in range(4):
            x, y = torch.randn(8, 1, 16, 16), torch.randint(0, 10, (8,))
            optimizer.zero_grad()
            loss = step(x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.detach() for p in model.parameters()]

    assert_close(train_model(True), train_model(False))


# -- options ------------------------------------------------------------------------------------


def test_transforms_of_the_model_run_in_order_and_take_effect():
    operators = []

    def record(model):
        operators.append([node.op_type for node in model.graph.node])

    def negate(model):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for node in changed.graph.node:
            if node.op_type == "Abs":
                node.op_type = "Neg"
        return changed

    run = compiled(lambda x: torch.abs(x) + 1, pre_ort_model_transforms=[record, negate, record])
    x = torch.randn(4)
    assert_close(run(x), 1 - x)
    assert operators == [["Abs", "Add"], ["Neg", "Add"]]


def test_transforms_see_the_backward_too():
    node_counts = []
    model = MLP()
    run = compiled(model, pre_ort_model_transforms=lambda m: node_counts.append(len(m.graph.node)))
    run(torch.randn(3, 2)).sum().backward()
    assert len(node_counts) == 2


@pytest.mark.parametrize(
    "providers",
    ["CPUExecutionProvider", ["CPUExecutionProvider"], [("CPUExecutionProvider", {})]],
)
def test_providers_are_chosen(providers):
    storage = {}
    x = torch.randn(3)
    assert_close(compiled(torch.exp, providers=providers, storage=storage)(x), torch.exp(x))
    assert storage["instance"][0]["providers"] == ["CPUExecutionProvider"]


def test_a_preferred_provider_that_is_missing_is_an_error():
    """The former backend used the remaining providers; this package never falls back silently."""
    missing = sorted(
        set(onnxruntime.get_all_providers()) - set(onnxruntime.get_available_providers())
    )
    for name in (missing[0], "NoSuchExecutionProvider"):
        with pytest.raises(Exception, match=f"{name}.* is not available"):
            compiled(torch.exp, providers=[name, "CPUExecutionProvider"])(torch.randn(3))
        torch._dynamo.reset()


def test_tensors_on_two_devices():
    """The former backend accepted mixed devices; here the provider must support all of them."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    with pytest.raises(Exception, match="must be on the CPU"):
        compiled(lambda x, y: x + y.cpu())(torch.randn(3), torch.randn(3, device="cuda"))


@pytest.mark.parametrize("as_object", [False, True])
def test_session_options_reach_the_session(tmp_path, as_object):
    path = str(tmp_path / "optimized.onnx")
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    settings = {"optimized_model_filepath": path, "graph_optimization_level": level}
    if as_object:
        options = onnxruntime.SessionOptions()
        for name, value in settings.items():
            setattr(options, name, value)
        settings = options
    x = torch.randn(3)
    got = compiled(lambda x: torch.sigmoid(x) * x, session_options=settings)(x)
    assert_close(got, torch.sigmoid(x) * x)
    assert [n.op_type for n in onnx.load(path).graph.node] == ["Sigmoid", "Mul"]


def test_run_options_reach_the_call():
    options = onnxruntime.RunOptions()
    run = compiled(lambda x: x * 2, run_options=options)
    assert_close(run(torch.ones(3)), torch.full((3,), 2.0))
    options.terminate = True
    with pytest.raises(Exception, match=r"(?i)terminate"):
        run(torch.ones(3))


def test_models_are_dumped(tmp_path):
    run = compiled(MLP(), dump_prefix=str(tmp_path / "model"))
    run(torch.randn(3, 2)).sum().backward()
    models = sorted(tmp_path.glob("model_*.onnx"))
    assert len(models) == 2
    for path in models:
        onnx.checker.check_model(onnx.load(path))
        assert path.with_suffix(".txt").exists()


@pytest.mark.parametrize("opset", [18, 20])
def test_the_opset_is_chosen(opset):
    storage = {}
    model = MLP()
    x = torch.randn(3, 2)
    assert_close(compiled(model, target_opset=opset, storage=storage)(x), model(x))
    assert {r["onnx"].opset_import[0].version for r in storage["instance"]} == {opset}


# -- operators without a converter --------------------------------------------------------------


@pytest.fixture
def unknown_operator():
    """Define an operator that no table contains."""
    with torch.library._scoped_library("former_onnxrt", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x**3, "CompositeExplicitAutograd")
        torch.library.register_fake("former_onnxrt::odd", torch.empty_like, lib=library)
        yield torch.ops.former_onnxrt.odd


def test_supported_parts_run_between_unsupported_operators(unknown_operator):
    """The former backend also partitioned by default; here an option turns this into an error."""

    def fn(x, w):
        y = torch.softmax(torch.relu(x @ w), -1)
        return torch.tanh(unknown_operator(y) @ w) + x

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    storage = {}
    with torch.no_grad():
        assert_close(compiled(fn, hints=False, storage=storage)(x, w), fn(x, w))
        types = [[n.op_type for n in r["onnx"].graph.node] for r in storage["instance"]]
        assert len(types) == 2 and "Softmax" in types[0] and "Tanh" in types[1]
        torch._dynamo.reset()
        with pytest.raises(Exception, match="former_onnxrt::odd"):
            compiled(fn, fallback="error")(x, w)


# -- one backend, many callers ------------------------------------------------------------------


def test_one_compiled_function_in_many_threads():
    model = MLP()
    run = compiled(model, dynamic=True)
    with torch.no_grad():
        run(torch.randn(4, 2))

    def run_calls(index):
        generator = torch.Generator().manual_seed(index)
        with torch.no_grad():
            for size in range(2, 40):
                x = torch.randn(size, 2, generator=generator)
                assert_close(run(x), model(x))

    in_threads(4, run_calls)


def test_one_compiled_function_trains_in_many_threads():
    weight = torch.randn(2, 3)
    run = compiled(lambda x, w: torch.tanh(x @ w).sum())
    run(torch.randn(4, 2), weight.clone().requires_grad_()).backward()

    def train(index):
        generator = torch.Generator().manual_seed(index)
        for _ in range(20):
            x = torch.randn(4, 2, generator=generator)
            compiled_weight, eager_weight = (weight.clone().requires_grad_() for _ in range(2))
            run(x, compiled_weight).backward()
            torch.tanh(x @ eager_weight).sum().backward()
            assert_close(compiled_weight.grad, eager_weight.grad)

    in_threads(4, train)


def test_every_thread_compiles_its_own():
    def compile_and_check(index):
        x = torch.randn(index + 2, 3)
        assert_close(compiled(lambda x: torch.relu(x) * index)(x), torch.relu(x) * index)

    in_threads(4, compile_and_check)
