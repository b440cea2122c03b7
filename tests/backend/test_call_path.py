"""The generated call: its source, and its results for every kind of argument and result."""

from __future__ import annotations

import linecache

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from ortable.backend.execute.call_source import code_of
from ortable.backend.sessions import session as session_module
from ortable.compat.onnxruntime import dlpack_source


def compile_and_call(fn, *args, **options):
    with torch.no_grad():
        return torch.compile(fn, backend="ortable", fullgraph=True, options=options or None)(*args)


def test_source_of_frozen_weights(backends):
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    torch.testing.assert_close(compile_and_call(model, x), model(x).detach())
    source = backends[0].source
    assert source.startswith("def call(args):\n    a0, a1, a2 = args\n")
    assert "a0 is w0 and a1 is w1" in source
    assert f"feeds = {{'args.0': {dlpack_source('a2', False)}}}" in source
    assert dlpack_source("a2", False).startswith("feed(dlpack(a2)")


def test_source_of_weights_that_are_inputs(backends):
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    compile_and_call(model, x, freeze="off")
    assert "[a0.data_ptr(), a1.data_ptr()] != kept" in backends[0].source
    assert "feed(dlpack(a0)" not in backends[0].source


def test_results_that_are_arguments_or_nothing_do_not_pass_through_onnx_runtime(backends):
    x = torch.randn(3)
    got = compile_and_call(lambda x, y: (x, None, 3, y * 2, x), x, torch.randn(3))
    assert got[0] is x and got[1] is None and got[2] == 3 and got[4] is x
    assert len(backends[0].compiled.fetches) == 1


def test_equal_texts_are_compiled_once(backends):
    for size in (3, 4, 5):
        torch._dynamo.reset()
        compile_and_call(lambda x: x * 2 + 1, torch.randn(size, size))
    codes = {backend._call.__code__ for backend in backends}
    assert len(backends) == 3
    assert len(codes) == 1


def test_source_is_shown_in_tracebacks():
    import traceback

    code = code_of("def call(args):\n    raise ValueError(args)\n")
    from types import FunctionType

    try:
        FunctionType(code, {"__builtins__": __builtins__}, "call")([])
    except ValueError as exc:
        assert "raise ValueError(args)" in "".join(traceback.format_exception(exc))


def test_the_list_of_arguments_is_cleared(backends):
    model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
    compile_and_call(model, x)
    args = [model.weight, model.bias, x]
    torch.testing.assert_close(backends[0](args), [model(x).detach()])
    assert args == []
    model.bias.data.add_(1)
    model.bias.data = model.bias.data.clone()  # detected; the unfrozen call clears `args`, too
    args = [model.weight, model.bias, x]
    torch.testing.assert_close(backends[0](args), [model(x).detach()])
    assert args == []


@pytest.mark.parametrize("make", [lambda: torch.randn(4, 2).t(), lambda: torch.randn(2, 8)[:, ::2]])
def test_a_layout_that_torch_did_not_trace(make, backends):
    """Calls of a compiler inside the user's own AOTAutograd are not guarded by dynamo."""
    model = torch.nn.Linear(4, 3)
    compile_and_call(model, torch.randn(2, 4))
    x = make()
    torch.testing.assert_close(backends[0]([model.weight, model.bias, x]), [model(x).detach()])


def test_an_argument_of_another_type_is_refused_by_onnx_runtime(backends):
    model = torch.nn.Linear(4, 3)
    compile_and_call(model, torch.randn(2, 4))
    with pytest.raises(Exception, match="Unexpected input data type"):
        backends[0]([model.weight, model.bias, torch.randn(2, 4, dtype=torch.float64)])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.complex64]
)
@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1), (2, 3)])
@pytest.mark.parametrize("layout", ["contiguous", "permuted", "gaps"])
def test_any_argument_and_a_promised_result(dtype, shape, layout, run_both):
    x = torch.arange(24).reshape(4, 6)[: 2 * (shape[0] if shape else 1), : 2 * (shape or (1, 1))[1]]
    x = x[::2, ::2] if shape else x[0, 0]
    x = (x % 2 == 0) if dtype is torch.bool else x.to(dtype)
    if layout == "contiguous":
        x = x.contiguous()
    elif layout == "permuted" and shape:
        x = x.t().contiguous().t()
    fn = lambda x: (torch.clone(x), x.reshape(-1) == x.reshape(-1))  # noqa: E731
    run_both(fn, x, strides=shape == (2, 3))  # strides of axes of size 0 or 1 have no meaning


def test_several_results_of_every_kind(run_both):
    def fn(x, y):
        z = x @ y
        return z, z > 0, None, z.t(), x.shape[0], z.sum(0), z, x

    run_both(fn, torch.randn(3, 4), torch.randn(4, 5))
    run_both(fn, torch.randn(3, 4), torch.randn(4, 5), dynamic=True)


def test_a_graph_with_no_arguments_and_promised_strides(run_both):
    run_both(lambda: torch.ones(4, 3).t() + 1)


def test_session_and_source_before_and_after_the_first_call():
    storage = {}
    model = torch.nn.Linear(4, 3)
    compiled = torch.compile(model, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        compiled(torch.randn(2, 4))
    record = storage["instance"][0]
    assert record["providers"] == ["CPUExecutionProvider"]
    assert record["frozen"] == ("weight", "bias")


def _graph(nodes, inputs=(), outputs=(), initializers=()):
    return helper.make_graph(nodes, "g", list(inputs), list(outputs), list(initializers))


def _value_info(name, elem_type):
    return helper.make_tensor_value_info(name, elem_type, [1])


FLOAT_X = _value_info("x", TensorProto.FLOAT)
TO_DOUBLE = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.DOUBLE)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (_graph([], [FLOAT_X]), False),
        (_graph([helper.make_node("Relu", ["x"], ["y"])], [FLOAT_X]), False),
        (_graph([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT64)], [FLOAT_X]), False),
        (_graph([], [_value_info("x", TensorProto.DOUBLE)]), True),
        (_graph([], [], [_value_info("y", TensorProto.DOUBLE)]), True),
        (_graph([TO_DOUBLE], [FLOAT_X]), True),
        (_graph([], [], [], [helper.make_tensor("c", TensorProto.DOUBLE, [1], [1.0])]), True),
        (
            _graph(
                [
                    helper.make_node(
                        "Constant", [], ["c"], value=helper.make_tensor("", 11, [1], [1.0])
                    )
                ]
            ),
            True,
        ),
        (
            _graph(
                [
                    helper.make_node(
                        "If", ["b"], ["y"], then_branch=_graph([TO_DOUBLE]), else_branch=_graph([])
                    )
                ]
            ),
            True,
        ),
    ],
)
def test_float64_is_found_anywhere_in_the_model(graph, expected):
    model = onnx.helper.make_model(graph)
    assert any(map(session_module._has_double, (model.graph, *model.functions))) is expected


def test_products_of_float64_inside_a_float32_graph_keep_their_precision(run_both):
    def fn(x, y):
        scaled = (x.double() / 3.0) @ (y.double() / 7.0)
        return (scaled / 1.1).float(), (scaled * 1e9 % 1).float()

    run_both(fn, torch.randn(8, 16), torch.randn(16, 8))


def test_one_arena_is_registered_for_all_sessions(backends):
    compile_and_call(lambda x: x + 1, torch.randn(3))
    assert session_module.register_shared_arena() is True
    options = backends[0].session.get_session_options()
    assert options.get_session_config_entry("session.use_env_allocators") == "1"


def test_the_default_device_of_torch_does_not_matter(run_both):
    x = torch.rand(3, 2, 4, 4)
    upsample = torch.nn.Upsample(scale_factor=2, mode="bilinear")
    torch.set_default_device("meta")
    try:
        run_both(lambda x: (upsample(x) * x.shape[0]).reshape(-1, x.shape[0]), x, dynamic=False)
        run_both(lambda x: (x * x.shape[0]).reshape(-1, x.shape[0]), x, dynamic=True)
    finally:
        torch.set_default_device(None)


def test_a_negated_complex_argument():
    compiled = torch.compile(lambda x: x * 2, backend="ortable")
    x = torch.randn(3, dtype=torch.complex64)
    compiled(x)
    negated = torch._neg_view(x)
    torch.testing.assert_close(compiled(negated), negated * 2)


def test_lines_of_a_text_go_with_its_code():
    def list_cached_sources():
        return [name for name in linecache.cache if "ortable call" in name]

    count_before = len(list_cached_sources())
    code = code_of("def call(args):\n    return args[:1] + [12345]\n")
    assert len(list_cached_sources()) == count_before + 1
    code_of.cache_clear()
    del code
    assert len(list_cached_sources()) <= count_before
