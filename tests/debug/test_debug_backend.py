"""onnx_debug_backend runs graphs node by node and prints, dumps and compares the results."""

from __future__ import annotations

import inspect

import numpy as np
import onnx
import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from ortable import OrtableError, get_decomposition_table, onnx_debug_backend
from ortable.debug.arrays import describe_value, to_numpy, to_torch
from ortable.errors import MismatchError, OptionError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def compile_fn(fn, dynamic=None, **options):
    return torch.compile(
        fn, backend=onnx_debug_backend, options=options, fullgraph=True, dynamic=dynamic
    )


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(10, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

    def forward(self, x):
        return self.layers(x)


# -- use in place of the default backend --------------------------------------------------------

WIRINGS = {
    "options": lambda: {"backend": onnx_debug_backend, "options": {"target_opset": 18}},
    "function": lambda: {
        "backend": lambda *args, **kwargs: onnx_debug_backend(*args, target_opset=18, **kwargs)
    },
    "autograd": lambda: {
        "backend": aot_autograd(
            fw_compiler=onnx_debug_backend, decompositions=get_decomposition_table()
        )
    },
    "forward and backward": lambda: {
        "backend": aot_autograd(fw_compiler=onnx_debug_backend, bw_compiler=onnx_debug_backend)
    },
}


@pytest.mark.alternates("dynamic")
@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_it_trains_in_every_place(wiring, dynamic):
    model = MLP()
    fn = torch.compile(model, fullgraph=True, dynamic=dynamic, **WIRINGS[wiring]())
    for batch in (3, 5):
        x = torch.randn(batch, 10)
        expected = torch.autograd.grad(model(x).pow(2).sum(), list(model.parameters()))
        actual = torch.autograd.grad(fn(x).pow(2).sum(), list(model.parameters()))
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


def test_it_has_a_name_when_it_is_registered():
    from torch._dynamo.backends.registry import _BACKENDS, register_backend

    register_backend(onnx_debug_backend, name="reference")
    try:
        x = torch.randn(3)
        fn = torch.compile(torch.relu, backend="reference", options={"verbose": 0})
        torch.testing.assert_close(fn(x), torch.relu(x))
    finally:
        _BACKENDS.pop("reference")


DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    actual = compile_fn(lambda x: x * 2 + x, compare=True)(x)
    torch.testing.assert_close(actual, x * 2 + x)


def test_bool_integer_and_complex_results():
    def fn(x, z):
        return x > 0, x + 1, z * 2, z.real + x, torch.complex(z.real, z.imag)

    args = torch.tensor([-1, 0, 2]), torch.randn(3, dtype=torch.complex64)
    for a, b in zip(compile_fn(fn, compare=True)(*args), fn(*args), strict=True):
        assert a.dtype is b.dtype
        torch.testing.assert_close(a, b)


def test_results_do_not_alias_the_arguments():
    x = torch.ones(3)
    result = compile_fn(lambda x: x.clone())(x)
    result.zero_()
    torch.testing.assert_close(x, torch.ones(3))


def test_writes_land_and_views_alias():
    def fn(x, y):
        x[:, 0].mul_(2)
        z = x + y
        return z, z.t(), y

    def make_args():
        return torch.ones(2, 3), torch.ones(2, 3).t().contiguous().t()

    eager, args = make_args(), make_args()
    expected, actual = fn(*eager), compile_fn(fn, compare=True)(*args)
    torch.testing.assert_close(args, eager)
    torch.testing.assert_close(actual, expected)
    assert [t.stride() for t in actual] == [t.stride() for t in expected]
    assert actual[1].data_ptr() == actual[0].data_ptr() and actual[2] is args[1]


def test_sizes_are_arguments_and_results():
    fn = compile_fn(lambda x, n: (x * n, x.shape[0] + n, None), dynamic=True, compare=True)
    for rows, n in ((3, 4), (5, 7)):
        x = torch.randn(rows, 2)
        result, number, nothing = fn(x, n)
        torch.testing.assert_close(result, x * n)
        assert number == rows + n and nothing is None


def test_convolutions_loops_and_indices():
    def fn(x, w, i):
        y = torch.nn.functional.conv_transpose2d(x, w, stride=2, groups=2)
        picked = torch.gather(y.flatten(1), 1, i)
        return y, picked, torch.logsumexp(picked, 1), torch.cumsum(picked, 1) ** 2, torch.pow(i, 3)

    args = torch.randn(1, 2, 3, 3), torch.randn(2, 1, 2, 2), torch.tensor([[3, 0, 8]])
    torch.testing.assert_close(compile_fn(fn, compare=True)(*args), fn(*args))


def test_options_of_onnxruntime_are_refused():
    for option in (
        {"session_options": {"log_severity_level": 1}},
        {"providers": ["CUDAExecutionProvider"]},
        {"freeze": "on"},
        {"resizable": True},
        {"autotune": True},
    ):
        with pytest.raises(Exception, match=f"cannot honour {next(iter(option))}"):
            compile_fn(torch.relu, **option)(torch.ones(2))
        torch._dynamo.reset()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"comparee": True}, "Unknown option 'comparee'"),
        ({"compare": "yes"}, "must be True or False"),
        ({"compare": True, "atol": "small"}, "must be a number"),
    ],
)
def test_wrong_options_are_errors(option, message):
    with pytest.raises(Exception, match=message) as exc_info:
        compile_fn(torch.relu, **option)(torch.ones(2))
    assert isinstance(exc_info.value.__cause__ or exc_info.value.inner_exception, OptionError)


def test_it_needs_torch_compile():
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    with pytest.raises(OrtableError, match="onnx_debug_backend was called outside"):
        onnx_debug_backend(module, [torch.ones(2)])


# -- printed output -----------------------------------------------------------------------------


def test_nothing_is_printed_by_default(capsys):
    compile_fn(lambda x: torch.relu(x) * 2)(torch.ones(3))
    assert capsys.readouterr().out == ""


def test_nodes_are_printed_with_their_place(capsys):
    compile_fn(lambda x: torch.relu(x) * 2, verbose=1)(torch.ones(3))
    out = capsys.readouterr().out
    assert "Relu(x) -> relu" in out and "# relu, test_debug_backend.py:" in out
    assert "inference, call 1: 2 ONNX nodes" in out
    assert " + " not in out


def test_results_are_printed(capsys):
    compile_fn(lambda x: torch.relu(x) * 2, verbose=2)(torch.ones(3))
    out = capsys.readouterr().out
    assert "input x: float32[3] [1., 1., 1.]" in out
    assert " + output_0: float32[3] [2., 2., 2.]" in out
    torch._dynamo.reset()
    compile_fn(lambda x: torch.relu(x) * 2, verbose=2)(torch.arange(30.0))
    assert "+ output_0: float32[30] min=0 max=58 mean=29" in capsys.readouterr().out
    torch._dynamo.reset()
    compile_fn(lambda x: torch.relu(x) * 2, verbose=3)(torch.arange(30.0))
    assert "54., 56., 58.]" in capsys.readouterr().out


def test_values_as_text():
    assert describe_value(np.array(2, dtype=np.int64)) == "int64[] 2"
    assert describe_value(np.zeros((0, 3))) == "float64[0,3] []"
    assert describe_value(np.arange(20) > 4) == "bool[20] 15 of 20 true"
    values = np.arange(20, dtype=np.float32)
    values[:3] = np.nan, np.inf, -np.inf
    assert describe_value(values) == "float32[20] min=3 max=19 mean=11 nan=1 inf=2"
    assert describe_value(torch.ones(12).bfloat16().float().numpy().astype("bfloat16")).startswith(
        "bfloat16[12] min=1"
    )
    assert describe_value([np.array(1), None]) == "[int64[] 1, None]"


# -- dumped files -------------------------------------------------------------------------------


def test_models_and_inputs_of_the_first_call_are_dumped(tmp_path):
    model = MLP()
    fn = compile_fn(model, dump_prefix=str(tmp_path / "mlp"))
    x = torch.randn(3, 10)
    result = fn(x)
    result.sum().backward()
    fn(torch.zeros(3, 10))
    paths = sorted(tmp_path.glob("mlp_*.onnx"), key=lambda path: path.stat().st_mtime_ns)
    assert len(paths) == 2
    for path in paths:
        assert "relu" in path.with_suffix(".txt").read_text()
        proto = onnx.load(path)
        folder = path.with_name(f"{path.stem}_data")
        names = [value.name for value in proto.graph.input]
        tensors = [read_tensor(folder / f"input_{i}.pb") for i in range(len(names))]
        assert [tensor.name for tensor in tensors] == names
        evaluator = onnx.reference.ReferenceEvaluator(proto)
        feeds = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in tensors}
        for index, value in enumerate(evaluator.run(None, feeds)):
            expected = onnx.numpy_helper.to_array(read_tensor(folder / f"output_{index}.pb"))
            np.testing.assert_allclose(value, expected, rtol=1e-6)
    first = [
        onnx.numpy_helper.to_array(t) for t in map(read_tensor, paths[0].parent.glob("*/input_*"))
    ]
    assert any(a.shape == (3, 10) and np.array_equal(a, x.numpy()) for a in first)


def test_bfloat16_inputs_are_dumped(tmp_path):
    x = torch.randn(4).bfloat16()
    compile_fn(lambda x: x * 2, dump_prefix=str(tmp_path / "half"))(x)
    (path,) = tmp_path.glob("half_*_data/input_0.pb")
    tensor = read_tensor(path)
    assert tensor.data_type == onnx.TensorProto.BFLOAT16
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(tensor).astype(np.float32), x.float().numpy()
    )


def read_tensor(path):
    return onnx.TensorProto.FromString(path.read_bytes())


# -- comparison with eager ----------------------------------------------------------------------


def replace_op(old, new):
    """Return a model transform that replaces an operator by a wrong one."""

    def transform(model):
        for node in model.graph.node:
            if node.op_type == old:
                node.op_type = new

    return transform


def get_mismatch(fn, *args, **options):
    with pytest.raises(MismatchError) as exc_info:
        compile_fn(fn, compare=True, **options)(*args)
    return str(exc_info.value)


def test_the_first_result_that_differs_is_named():
    text = get_mismatch(
        MLP(), torch.randn(3, 10), pre_ort_model_transforms=replace_op("Relu", "Neg")
    )
    assert "differs from eager at FX node 'relu'" in text
    assert "aten::relu(Tensor self) -> Tensor" in text
    assert "spec: specs/aten/activation.yaml" in text
    assert "layers.1 (ReLU)" in text
    assert f"source: {__file__}" in text and "return self.layers(x)" in text
    assert "computed by: Neg(addmm)" in text and "    addmm: float32[3,32]" in text
    assert "96 of 96 values" in text and "1 results before it agree" in text


def test_a_wrong_backward_is_named():
    fn = compile_fn(
        MLP(), compare=True, pre_ort_model_transforms=replace_op("LessOrEqual", "GreaterOrEqual")
    )
    result = fn(torch.randn(3, 10))
    with pytest.raises(MismatchError, match="at FX node 'threshold_backward'"):
        result.sum().backward()


def test_wrong_types_and_shapes_are_named():
    def narrow_cast(model):
        for node in model.graph.node:
            if node.op_type == "Cast":
                node.attribute[0].i = onnx.TensorProto.INT32

    def change_keepdims(model):
        for node in model.graph.node:
            if node.op_type == "ReduceSum":
                node.attribute[0].i = 1 - node.attribute[0].i

    x = torch.randn(3, 4)
    text = get_mismatch(lambda x: x.long() + 1, x, pre_ort_model_transforms=narrow_cast)
    assert "dtype int32 in place of int64" in text
    torch._dynamo.reset()
    text = get_mismatch(lambda x: x.sum(1) * 2, x, pre_ort_model_transforms=change_keepdims)
    assert "shape [3, 1] in place of [3]" in text and "aten::sum.dim_IntList" in text


def test_tolerances_are_options():
    def shift(model):
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                values = onnx.numpy_helper.to_array(tensor) + np.float32(0.01)
                tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))

    x = torch.ones(3)
    assert "3 of 3 values" in get_mismatch(lambda x: x + 2.5, x, pre_ort_model_transforms=shift)
    torch._dynamo.reset()
    fn = compile_fn(lambda x: x + 2.5, compare=True, atol=0.1, pre_ort_model_transforms=shift)
    torch.testing.assert_close(fn(x), x + 2.51)


def test_equal_graphs_pass_with_dynamic_shapes_and_mutation():
    model = torch.nn.Sequential(
        torch.nn.Conv1d(2, 3, 3), torch.nn.BatchNorm1d(3), torch.nn.GELU(), torch.nn.MaxPool1d(2)
    )
    fn = compile_fn(model, dynamic=True, compare=True)
    for batch in (3, 5):
        fn(torch.randn(batch, 2, 4 * batch)).sum().backward()
    assert int(model[1].num_batches_tracked) == 2


def test_random_operators_use_the_numbers_that_torch_drew():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    results = []
    for fn in (model, compile_fn(model, compare=True)):
        torch.manual_seed(1)
        result = fn(x)
        results.append([result, *torch.autograd.grad(result.sum(), list(model.parameters()))])
    torch.testing.assert_close(*results)
    torch._dynamo.reset()
    text = get_mismatch(model, x, pre_ort_model_transforms=replace_op("Mul", "Add"))
    assert "node 'native_dropout'" in text and "spec: specs/aten/random.yaml" in text


def test_not_a_number_and_uninitialised_memory_are_no_differences():
    def fn(x):
        return torch.log(x), torch.empty_like(x).fill_(1) + x, x / 0

    compile_fn(fn, compare=True)(torch.tensor([-1.0, 0.0, 2.0]))


def test_a_node_that_cannot_run_is_named():
    with pytest.raises(OrtableError, match=r"cannot run MatMul\(.*\n  x: float32\[3\]") as e:
        compile_fn(
            lambda x: torch.relu(x) + x,
            pre_ort_model_transforms=lambda model: replace_relu_by_matmul(model),
        )(torch.ones(3))
    assert "source: test_debug_backend.py" in str(e.value)


def replace_relu_by_matmul(model):
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "MatMul"
            node.input.append("shape")
    values = np.ones((2, 2), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "shape"))


@pytest.mark.parametrize("name", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"])
def test_8_bit_floats_keep_their_bits(name):
    dtype = getattr(torch, f"float8_{name}")
    x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    roundtrip = to_torch(to_numpy(x))
    assert roundtrip.dtype is dtype
    assert torch.equal(roundtrip.view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize(
    "name", sorted(set(inspect.signature(onnx_debug_backend).parameters) - {"graph_module", "args"})
)
def test_every_keyword_is_checked(name):
    with pytest.raises(OptionError, match="dict of option names" if name == "options" else name):
        onnx_debug_backend(None, [], **{name: object()})


def test_an_option_of_its_own_is_given_once():
    with pytest.raises(OptionError, match="Option 'compare' is given twice; give it once"):
        onnx_debug_backend(None, [], compare=True, options={"compare": False})
