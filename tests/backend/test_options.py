"""Options of the backend: checked by name and type, and an error says what is accepted."""

from __future__ import annotations

import dataclasses

import onnxruntime
import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from ortable import OrtOptions, onnx_custom_backend
from ortable.errors import OptionError


def test_unknown_option_lists_the_known_and_the_closest():
    with pytest.raises(OptionError) as error:
        OrtOptions.from_mapping({"target_opsett": 18})
    text = str(error.value)
    assert "'target_opsett'" in text and "Did you mean 'target_opset'?" in text
    for field in dataclasses.fields(OrtOptions):
        assert field.name in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("providers", []),
        ("providers", [3]),
        ("target_opset", "18"),
        ("target_opset", True),
        ("optimize", 1),
        ("storage", []),
        ("dump_prefix", 3),
        ("verbose", -1),
        ("session_options", 3),
        ("run_options", "x"),
        ("pre_ort_model_transforms", 3),
        ("export_options", {}),
        ("raise_on", "aten::relu"),
    ],
)
def test_wrong_type_names_option_and_value(name, value):
    with pytest.raises(OptionError, match=name):
        OrtOptions(**{name: value})


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


def test_unknown_option_through_torch_compile():
    fn = torch.compile(lambda x: x + 1, backend="ortable", options={"frozen": True})
    with pytest.raises(BackendCompilerFailed, match=r"Unknown option 'frozen'.*Known options"):
        fn(torch.randn(2))


def test_mode_is_refused():
    fn = torch.compile(lambda x: x + 1, backend="ortable", mode="reduce-overhead")
    with pytest.raises(BackendCompilerFailed, match="modes belong to inductor"):
        fn(torch.randn(2))


def test_options_dict_reaches_a_callable_backend():
    storage = {}
    fn = torch.compile(
        lambda x: x * 2,
        backend=onnx_custom_backend,
        options={"storage": storage, "target_opset": 18},
    )
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))
    assert storage["instance"][0]["onnx"].opset_import[0].version == 18


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


def test_session_options_object_is_used_as_it_is():
    given = onnxruntime.SessionOptions()
    given.intra_op_num_threads = 2
    options = {"session_options": given, "run_options": onnxruntime.RunOptions()}
    fn = torch.compile(lambda x: x * 2, backend="ortable", options=options)
    torch.testing.assert_close(fn(torch.ones(2)), torch.full((2,), 2.0))


def test_transforms_run_in_order_before_the_session():
    seen = []

    def rename(model):
        model.graph.name = "changed"

    def check(model):
        seen.append(model.graph.name)
        return model

    fn = torch.compile(
        lambda x: x * 2, backend="ortable", options={"pre_ort_model_transforms": [rename, check]}
    )
    fn(torch.ones(2))
    assert seen == ["changed"]


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
