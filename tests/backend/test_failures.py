"""Unsupported programs raise errors that name cause and remedy; nothing falls back silently."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensorMode

from ortable import onnx_custom_backend, onnx_debug_backend
from ortable.errors import (
    ConversionError,
    FunctionNotFoundError,
    InputError,
    OrtableError,
    ProviderError,
)


@pytest.fixture(scope="module")
def unknown_op():
    """Define two operators that no table contains."""
    with torch.library._scoped_library("ortable_test_failures", "DEF") as library:
        library.define("mystery(Tensor x) -> Tensor")
        library.define("riddle(Tensor x) -> Tensor")
        for name in ("mystery", "riddle"):
            library.impl(name, lambda x: x + 1, "CompositeExplicitAutograd")
            library.impl(name, lambda x: torch.empty_like(x), "Meta")
        yield torch.ops.ortable_test_failures


def get_cause(error):
    """Return ortable's error inside the one that dynamo raises."""
    assert isinstance(error, BackendCompilerFailed)
    return error.inner_exception


@pytest.mark.parametrize("backend", [onnx_custom_backend, onnx_debug_backend])
def test_outside_torch_compile(backend):
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(OrtableError, match=r"outside torch.compile.*torch.compile\(model"):
        backend(gm, [torch.randn(3)])


def test_every_unsupported_operator_is_listed(unknown_op):
    fn = torch.compile(
        lambda x: unknown_op.mystery(unknown_op.riddle(unknown_op.mystery(x))),
        backend="ortable",
        options={"fallback": "error"},
    )
    with pytest.raises(BackendCompilerFailed) as error:
        fn(torch.randn(3))
    cause = get_cause(error.value)
    assert isinstance(cause, FunctionNotFoundError)
    text = " ".join(str(cause).split())  # joins lists that span several lines
    assert "ortable_test_failures::mystery, 2 calls" in text
    assert "ortable_test_failures::riddle, 1 call" in text
    assert "test_failures.py" in text


@pytest.mark.parametrize("name", ["aten::relu", "aten::relu.default"])
def test_operator_refused_on_purpose(name):
    fn = torch.compile(lambda x: torch.relu(x) + 1, backend="ortable", options={"raise_on": [name]})
    with pytest.raises(BackendCompilerFailed) as error:
        fn(torch.randn(3))
    assert isinstance(get_cause(error.value), FunctionNotFoundError)
    assert "raise_on" in str(error.value)


def test_missing_provider_lists_what_is_there():
    fn = torch.compile(
        lambda x: x + 1, backend="ortable", options={"providers": ["MIGraphXExecutionProvider"]}
    )
    with pytest.raises(BackendCompilerFailed) as error:
        fn(torch.randn(3))
    cause = get_cause(error.value)
    assert isinstance(cause, ProviderError)
    assert "CPUExecutionProvider" in str(cause) and "1.31 or newer that has it" in str(cause)


def test_unknown_provider_lists_the_known_ones():
    fn = torch.compile(
        lambda x: x + 1, backend="ortable", options={"providers": ["NoExecutionProvider"]}
    )
    with pytest.raises(BackendCompilerFailed, match=r"has no such provider.*CUDAExecution"):
        fn(torch.randn(3))


def test_missing_provider_inside_the_user_s_wiring():
    from torch._dynamo.backends.common import aot_autograd

    backend = aot_autograd(
        fw_compiler=lambda gm, args: onnx_custom_backend(
            gm, args, providers=["MIGraphXExecutionProvider"]
        )
    )
    with pytest.raises(BackendCompilerFailed, match="or newer that has it"):
        torch.compile(lambda x: x + 1, backend=backend)(torch.randn(3))


def test_complex_half_argument_is_refused_by_name():
    fn = torch.compile(lambda z: z + 1, backend="ortable", options={"fallback": "error"})
    with pytest.raises(BackendCompilerFailed) as error:
        fn(torch.zeros(3, dtype=torch.complex32))
    cause = get_cause(error.value)
    assert isinstance(cause, ConversionError)
    assert "complex32" in str(cause)


def test_opset_that_onnxruntime_cannot_run():
    fn = torch.compile(lambda x: x + 1, backend="ortable", options={"target_opset": 27})
    with pytest.raises(
        BackendCompilerFailed, match="opset 27 is not supported; supported are 18 to 26"
    ):
        fn(torch.randn(3))


def test_model_that_onnxruntime_refuses():
    def break_model(model):
        model.graph.node[0].op_type = "NoSuchOperator"

    fn = torch.compile(
        lambda x: x + 1, backend="ortable", options={"pre_ort_model_transforms": break_model}
    )
    with pytest.raises(BackendCompilerFailed) as error:
        fn(torch.randn(3))
    assert isinstance(get_cause(error.value), ProviderError)
    assert "NoSuchOperator" in str(error.value) and "dump_prefix" in str(error.value)


def test_int_of_another_type_at_call_time():
    storage = {}
    compiled = []

    def backend(gm, args):
        compiled.append(onnx_custom_backend(gm, args, storage=storage))
        return compiled[-1]

    from torch._dynamo.backends.common import aot_autograd

    fn = torch.compile(lambda x, k: x * k, backend=aot_autograd(fw_compiler=backend), dynamic=True)
    fn(torch.randn(3), 5)
    arguments = [
        3.5 if role.kind.value == "dimension" else torch.randn(3)
        for role in storage["instance"][0]["inputs"]
    ]
    with pytest.raises(InputError, match=r"expects an int, but got 3\.5"):
        compiled[-1](arguments)


def test_a_failed_compilation_leaves_no_record(unknown_op):
    storage = {}
    fn = torch.compile(
        lambda x: unknown_op.mystery(x), backend="ortable", options={"storage": storage}
    )
    with pytest.raises(BackendCompilerFailed):
        fn(torch.randn(3))
    assert storage.get("instance", []) == []


def test_tensors_that_onnx_runtime_cannot_take_are_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    from ortable.backend.lower.inputs import InputPlan, check_inputs

    def check(make, **settings):
        gm = torch.fx.symbolic_trace(lambda x: x + 1)
        with FakeTensorMode():
            next(iter(gm.graph.nodes)).meta["val"] = make((3, 3), **settings)
        check_inputs(InputPlan(gm), ("CPUExecutionProvider",))

    with pytest.raises(ProviderError, match=r"is on cuda.*CPUExecutionProvider"):
        check(torch.empty, device="cuda")
    with pytest.raises(ConversionError, match=r"Argument 0 \(x\) has layout .* Call to_dense\(\)"):
        check(torch.empty, layout=torch.sparse_coo)
    with pytest.raises(
        ConversionError, match=r"float8_e4m3fn on cuda.* Convert the tensor outside"
    ):
        check(torch.empty, device="cuda", dtype=torch.float8_e4m3fn)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda x, m: m + 1, "Argument 0 "),
        (lambda x, m: x.to("meta"), "Result 0 "),
        (lambda x, m: (x + 1, torch.empty(3, device="meta") + 1), "Result 1 "),
        (lambda x, m: (x + m.shape[0], m), None),
    ],
)
def test_tensors_without_data(fn, message, grad):
    x, m = torch.ones(3, requires_grad=grad), torch.ones(2, device="meta", requires_grad=grad)

    def check(**options):
        torch._dynamo.reset()
        got = torch.compile(fn, backend="ortable", options=options)(x, m)
        expected = fn(x, m)
        for result, reference in zip(
            *(v if isinstance(v, tuple) else (v,) for v in (got, expected)), strict=True
        ):
            assert result.device == reference.device and result.shape == reference.shape
            assert result.is_meta or torch.equal(result, reference)

    check(hints=False)
    if message is None:
        return check(fallback="error")
    with pytest.raises(BackendCompilerFailed, match=message) as error:
        check(fallback="error")
    assert isinstance(get_cause(error.value), ConversionError)
    assert "is on device meta, which has no data" in str(get_cause(error.value))


# torch 2.14 passes mkldnn tensors to the backend at compilation, older versions at the call.
MKLDNN_FAILS_AT_CALL = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)
ERRORS = (InputError,) if MKLDNN_FAILS_AT_CALL else (InputError, BackendCompilerFailed)


class AddShift(torch.nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def forward(self, x):
        return x + self.shift


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("backend", ["ortable", onnx_debug_backend])
@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (FakeTensorMode().from_tensor, "is a fake tensor, which has no data, and ONNX Runtime"),
        (
            torch.Tensor.to_mkldnn,
            r"has layout torch._mkldnn, .* Call to_dense\(\) before the model",
        ),
    ],
)
def test_tensors_whose_memory_cannot_be_read(convert, message, backend):
    dense = torch.arange(6.0).reshape(2, 3)
    calls = [(AddShift(1.0), convert(dense)), (AddShift(convert(dense)), convert(dense))]
    for module, x in calls:
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=backend, options={"fallback": "error"})
        with torch.no_grad(), pytest.raises(ERRORS, match=rf"Argument \d \(\w+\) {message}"):
            compiled(x)
    torch._dynamo.reset()
    compiled = torch.compile(AddShift(1.0), backend=backend, options={"fallback": "error"})
    with torch.no_grad():
        assert torch.equal(compiled(dense), dense + 1)
        with pytest.raises(ERRORS, match=message):
            compiled(convert(dense))
        assert torch.equal(compiled(dense), dense + 1)


def test_a_packed_tensor_is_not_returned_as_a_dense_one():
    def unpack(x):
        packed = x.to_mkldnn()
        torch._dynamo.graph_break()
        return packed.to_dense()

    message = r"has layout torch._mkldnn, .* Call to_dense\(\)|aten::to_mkldnn: it has no converter"
    with pytest.raises(ERRORS, match=message):
        torch.compile(unpack, backend="ortable", options={"fallback": "error"})(torch.ones(2, 3))


def test_an_error_of_onnx_runtime_in_a_call():
    compiled = torch.compile(Lookup(), backend="ortable")
    with torch.no_grad():
        compiled(torch.tensor([1, 2]))
        with pytest.raises(ProviderError, match="out of data bounds"):
            compiled(torch.tensor([1, 9]))


class Table(torch.nn.Embedding):
    """An embedding that skips the index checks, like some decompositions of torch."""

    def forward(self, x):
        return torch.ops.aten._unsafe_index(self.weight, [x]).relu()


class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = Table(4, 3)

    def forward(self, x):
        return self.table(x)


def test_an_error_of_onnx_runtime_names_the_line_of_the_model():
    compiled = torch.compile(Lookup(), backend="ortable")
    with torch.no_grad():
        compiled(torch.tensor([1, 2]))
        with pytest.raises(ProviderError) as error:
            compiled(torch.tensor([1, 9]))
    summary, source, node, advice = str(error.value).splitlines()
    assert summary.startswith(
        "ONNX Runtime cannot run the graph with these arguments at test_failures.py:"
    )
    assert summary.endswith(
        ": indices element out of data bounds, idx=9 must be within the inclusive range [-4,3]"
    )
    assert source.endswith(": return torch.ops.aten._unsafe_index(self.weight, [x]).relu()")
    assert "made from aten._unsafe_index.Tensor, in module table" in node
    assert "without torch.compile" in advice
    assert "[ONNXRuntimeError]" in error.value.details


@torch.library.custom_op("failures::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


class IdentityWithUnsupportedGradient(torch.autograd.Function):
    """An identity whose gradient calls an operator without a converter."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, gradient):
        return torch.ops.failures.twice(gradient)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_backward_that_cannot_be_compiled_says_so_once_and_shortly(dynamic, caplog):
    fn = torch.compile(
        lambda x: IdentityWithUnsupportedGradient.apply(x).sum(),
        backend="ortable",
        dynamic=dynamic,
        options={"fallback": "error"},
    )
    x = torch.rand(3, 4, requires_grad=True)
    with caplog.at_level("WARNING"):
        loss = fn(x)  # compiles the backward, too, if the graph is dynamic
    assert "failed to eagerly compile" not in caplog.text
    for _ in range(2):
        with pytest.raises(FunctionNotFoundError) as error:
            loss.backward(retain_graph=True)
        text = str(error.value)
        assert text.startswith("The backward of this graph cannot be compiled.")
        assert "failures::twice, 1 call" in text and "test_failures.py" in text
        assert "--DEBUG--" not in text and len(text.splitlines()) < 20
