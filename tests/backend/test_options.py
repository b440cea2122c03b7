"""Options of the backend are checked by name and type; errors list the accepted values."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import onnxruntime
import pytest
import torch
from onnx import TensorProto
from torch._dynamo.exc import BackendCompilerFailed

from ortable import ExportOptions, OrtOptions, onnx_custom_backend
from ortable.backend.aot import entry
from ortable.backend.aot.entry import options_of_mode, ortable
from ortable.errors import OptionError


def test_unknown_option_lists_the_known_and_the_closest():
    with pytest.raises(OptionError) as error:
        OrtOptions.from_mapping({"target_opsett": 18})
    message = str(error.value)
    assert "'target_opsett'" in message and "Did you mean 'target_opset'?" in message
    for field in dataclasses.fields(OrtOptions):
        assert field.name in message


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "providers",
            [
                [],
                "",
                [""],
                [("", {})],
                [("CPUExecutionProvider", {}), " "],
                [3],
                [()],
                ("CPUExecutionProvider", {}),
                ["A", "A"],
            ],
        ),
        ("target_opset", ["18", True, 5, 99, {}, {"com.microsoft": 1}, {"": True}, {"": 99}]),
        ("target_opset", [{"": 18, "my.domain": 1}, {"": 18, "com.microsoft": 7}, {1: 18}, [18]]),
        ("optimize", [1, None, "no"]),
        ("rewrites", ["", "nothing", ["default", 3], None, ["-nothing"]]),
        ("storage", [[], "", 3]),
        ("dump_prefix", [3, "", " ", b"model"]),
        ("verbose", [-1, 3, 5, "1", 1.0]),
        ("session_options", [3, "", {1: 2}, onnxruntime.RunOptions()]),
        ("run_options", ["x", onnxruntime.SessionOptions()]),
        ("pre_ort_model_transforms", [3, "", [3], {}]),
        ("export_options", [{}, "none", ExportOptions(strict=True), ExportOptions(save_ep="x")]),
        ("freeze", ["ON", True, "", None, ["on"]]),
        ("fallback", ["", True, "Eager"]),
        ("cache_dir", [3, "", " ", b"/tmp"]),
        ("weight_copies", [0, -1, True, "1", 1.5]),
        ("autotune", [1, None, "on", "onnxruntime", ["torch"]]),
        ("torch_regions", [True, None, "torch", "Inductor"]),
        ("raise_on", ["aten::relu", [""], ["relu"], ["aten.relu"], ["aten::relu.no"], [3], 3]),
    ],
)
def test_a_wrong_value_names_option_and_what_is_accepted(name, values):
    for value in values:
        with pytest.raises(OptionError, match=name):
            OrtOptions(**{name: value})


def test_paths_may_be_of_any_kind_and_begin_at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    options = OrtOptions(cache_dir="~/q", dump_prefix=Path("~/sub") / "m")
    assert options.cache_dir == str(tmp_path / "q")
    assert options.dump_prefix == str(tmp_path / "sub" / "m")


def test_names_of_operators_are_those_of_torch():
    names = ["aten::relu.default", "aten::add.Tensor", "aten::add", "cond"]
    assert OrtOptions(raise_on=names).raise_on == ("aten::relu", *names[1:])


def test_rewrites_that_optimize_would_not_run_are_refused():
    with pytest.raises(OptionError, match=r"'rewrites' is .* but 'optimize' is False"):
        OrtOptions(optimize=False, rewrites="all")
    OrtOptions(optimize=False, rewrites="none")


def test_options_are_frozen_and_normalised():
    options = OrtOptions(providers="CPUExecutionProvider", raise_on=["aten::relu"])
    assert options.providers == ("CPUExecutionProvider",)
    assert options.raise_on == ("aten::relu",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.verbose = 1


def test_option_given_twice_is_refused():
    with pytest.raises(OptionError, match="'verbose' is given twice"):
        OrtOptions.from_mapping({"verbose": 1}, {"verbose": 2})
    assert OrtOptions.from_mapping({"verbose": None}, {"verbose": 2}).verbose == 2


def test_the_default_of_fallback():
    assert OrtOptions().fallback == "eager"
    assert OrtOptions(raise_on=["aten::relu"]).fallback == "error"
    assert OrtOptions(raise_on=["aten::relu"], fallback="eager").fallback == "eager"


def test_unknown_option_through_torch_compile():
    fn = torch.compile(lambda x: x + 1, backend="ortable", options={"frozen": True})
    with pytest.raises(BackendCompilerFailed, match=r"Unknown option 'frozen'.*All: autotune"):
        fn(torch.randn(2))


@pytest.mark.parametrize(
    "mode, autotune",
    [
        ("default", False),
        ("reduce-overhead", False),
        ("max-autotune", True),
        ("max-autotune-no-cudagraphs", True),
    ],
)
def test_a_mode_stands_for_the_nearest_options(mode, autotune, caplog, monkeypatch):
    received = []
    original = entry.compile_with_autograd
    monkeypatch.setattr(
        entry, "compile_with_autograd", lambda *args: received.append(args[2]) or original(*args)
    )
    monkeypatch.setattr(entry, "_logged_modes", set())
    for _ in range(2):
        torch._dynamo.reset()
        fn = torch.compile(lambda x: x + 1, backend="ortable", mode=mode)
        torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))
    assert [options.autotune for options in received] == [autotune, autotune]
    mode_messages = [text for text in caplog.messages if f"mode '{mode}' of torch.compile" in text]
    assert len(mode_messages) == (mode != "default")


def test_options_go_before_a_mode():
    graph_module = torch.fx.symbolic_trace(lambda x: x + 1)
    assert options_of_mode("max-autotune") == {"autotune": True}
    with pytest.raises(OptionError, match=r"'autotune' must be True, False or 'torch', got 3"):
        ortable(graph_module, [], mode="max-autotune", options={"autotune": 3})
    with pytest.raises(RuntimeError, match="mode or options"):
        torch.compile(lambda x: x, backend="ortable", mode="max-autotune", options={"verbose": 0})


def test_an_unknown_mode_lists_the_known_ones():
    fn = torch.compile(lambda x: x + 1, backend="ortable", mode="fastest")
    with pytest.raises(BackendCompilerFailed, match=r"no mode 'fastest'.*: default, reduce-over"):
        fn(torch.randn(2))


@pytest.mark.parametrize("mode", [None, "max-autotune"])
@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("disable", [False, True])
def test_the_other_arguments_of_torch_compile(mode, dynamic, disable):
    fn = torch.compile(
        lambda x: (x @ x).relu(),
        backend="ortable",
        mode=mode,
        dynamic=dynamic,
        fullgraph=True,
        disable=disable,
    )
    for size in (3, 5, 4):
        x = torch.randn(size, size)
        torch.testing.assert_close(fn(x), (x @ x).relu())


def test_options_dict_reaches_a_callable_backend():
    storage = {}
    fn = torch.compile(
        lambda x: x * 2,
        backend=onnx_custom_backend,
        options={"storage": storage, "target_opset": 18},
    )
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))
    assert storage["instance"][0]["onnx"].opset_import[0].version == 18


OPTION_VALUES = {
    "providers": ["CPUExecutionProvider"],
    "target_opset": 18,
    "optimize": True,
    "rewrites": "none",
    "storage": {},
    "dump_prefix": Path("sub") / "m",
    "verbose": 1,
    "session_options": {"intra_op_num_threads": 1},
    "run_options": {"log_severity_level": 3},
    "pre_ort_model_transforms": lambda model: None,
    "export_options": ExportOptions(decomposition_table="none"),
    "freeze": "off",
    "fallback": "eager",
    "cache_dir": Path("kept"),
    "tune": 0.1,
    "cache_megabytes": 100,
    "cache_days": 7,
    "autotune": True,
    "torch_regions": "auto",
    "resizable": True,
    "weight_copies": 1,
    "hints": False,
    "raise_on": ["aten::relu"],
    "weights": "int4",
}


@pytest.mark.parametrize("field", [spec.name for spec in dataclasses.fields(OrtOptions)])
def test_every_option_is_a_keyword_too(field, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    received, original = [], entry.compile_from_torch

    def record_options(graph_module, args, options, runner, name):
        received.append(options)
        return original(graph_module, args, options, runner, name)

    monkeypatch.setattr(entry, "compile_from_torch", record_options)
    option = {field: OPTION_VALUES[field]}
    for keywords, options in ((option, None), ({}, option)):
        torch._dynamo.reset()
        backend = functools.partial(onnx_custom_backend, **keywords)
        fn = torch.compile(torch.tanh, backend=backend, options=options)
        torch.testing.assert_close(fn(torch.ones(2)), torch.ones(2).tanh())
    assert received == [OrtOptions(**option)] * 2


def test_session_and_run_options_are_used():
    storage = {}
    options = {
        "storage": storage,
        "session_options": {"intra_op_num_threads": 3, "session.intra_op.allow_spinning": "0"},
        "run_options": {"log_severity_level": 3},
    }
    fn = torch.compile(lambda x: x * 2, backend="ortable", options=options)
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))


def test_unknown_session_setting_is_named():
    options = {"session_options": {"intra_threads": 3}}
    fn = torch.compile(lambda x: x * 2, backend="ortable", options=options)
    with pytest.raises(BackendCompilerFailed, match=r"no setting 'intra_threads'.*intra_op_num"):
        fn(torch.ones(2))


def test_session_options_object_is_used():
    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = 2
    options = {"session_options": session_options, "run_options": onnxruntime.RunOptions()}
    fn = torch.compile(lambda x: x * 2, backend="ortable", options=options)
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))


def test_transforms_run_in_order_before_the_session():
    graph_names = []

    def rename(model):
        model.graph.name = "changed"

    def record(model):
        graph_names.append(model.graph.name)
        return model

    fn = torch.compile(
        lambda x: x * 2, backend="ortable", options={"pre_ort_model_transforms": [rename, record]}
    )
    fn(torch.ones(2))
    assert graph_names == ["changed"]


def test_transform_that_returns_something_else_is_named():
    fn = torch.compile(
        lambda x: x * 2,
        backend="ortable",
        options={"pre_ort_model_transforms": lambda model: 3},
    )
    with pytest.raises(BackendCompilerFailed, match="returned a int; return a ModelProto"):
        fn(torch.ones(2))


def test_dump_prefix_writes_model_and_text(tmp_path):
    prefix = str(tmp_path / "sub" / "model")
    fn = torch.compile(lambda x: x * 2, backend="ortable", options={"dump_prefix": prefix})
    fn(torch.ones(2))
    models = list((tmp_path / "sub").glob("model_*.onnx"))
    assert len(models) == 1
    text = models[0].with_suffix(".txt").read_text()
    assert "aten.mul" in text and "= Mul (" in text


def test_verbose_prints_a_line_per_graph(capsys):
    fn = torch.compile(lambda x: x * 2, backend="ortable", options={"verbose": 1})
    fn(torch.ones(2))
    out = capsys.readouterr().out
    assert "[ortable] inference: 1 ONNX nodes" in out


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ("session_options", {"intra_op_num_threads": "two"}),
        ("session_options", {"graph_optimization_level": 3}),
        ("run_options", {"log_severity_level": "high"}),
    ],
)
def test_a_setting_of_the_wrong_type_is_named(option, setting):
    [name] = setting
    with pytest.raises(BackendCompilerFailed, match=f"OptionError: {option}: {name} must be"):
        torch.compile(torch.relu, backend="ortable", options={option: setting})(torch.rand(2))


def compute_relu_twice(x):
    return torch.relu(x).t() @ torch.relu(x)


def quantize_twice(x):
    import torch.ao.quantization.fx._decomposed  # defines the operators

    quantize = torch.ops.quantized_decomposed.quantize_per_tensor
    dequantize = torch.ops.quantized_decomposed.dequantize_per_tensor
    codes = (0.1, 0, -128, 127, torch.int8)
    y = dequantize(quantize(x, *codes), *codes)
    return dequantize(quantize(torch.relu(y.reshape(-1)), *codes), *codes)


def compile_to_nodes(fn, **options):
    """Compare a compiled function with eager; return the types of its nodes, and the model."""
    torch._dynamo.reset()
    storage, x = {}, torch.rand(3, 3)
    with torch.no_grad():
        compiled = torch.compile(fn, backend="ortable", options={"storage": storage, **options})
        torch.testing.assert_close(compiled(x), fn(x))
    (record,) = storage["instance"]
    return [node.op_type for node in record["onnx"].graph.node], record["onnx"]


def test_without_optimize_no_pass_runs():
    assert compile_to_nodes(compute_relu_twice)[0].count("Relu") == 1
    op_types, _ = compile_to_nodes(compute_relu_twice, optimize=False)
    assert op_types.count("Relu") == 2 and "Identity" in op_types


def test_without_rewrites_codes_stay_as_the_model_has_them():
    op_types, model = compile_to_nodes(quantize_twice, rewrites="none")
    assert op_types.count("Identity") == 0, "the other passes should have removed Identity nodes"
    assert {TensorProto.INT8} <= {tensor.data_type for tensor in model.graph.initializer}
    _, rewritten = compile_to_nodes(quantize_twice)
    assert TensorProto.INT8 not in {tensor.data_type for tensor in rewritten.graph.initializer}
    compile_to_nodes(quantize_twice, optimize=False)


@pytest.mark.parametrize("table", [None, "none", "default", "all", {}])
def test_tables_of_decompositions_by_name(table):
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3))
    op_types, _ = compile_to_nodes(model, export_options=ExportOptions(decomposition_table=table))
    assert ("LayerNormalization" in op_types) == (table != "all"), op_types


def test_raise_on_refuses_what_torch_would_run_too():
    options = {"raise_on": ["aten::bernoulli"]}
    fn = torch.compile(lambda x: torch.bernoulli(x) + x, backend="ortable", options=options)
    with pytest.raises(BackendCompilerFailed, match="aten::bernoulli is refused"):
        fn(torch.rand(3))
