"""OnnxProgram: files, sessions, reports, validation, optimization, weights and copies."""

from __future__ import annotations

import copy
import gc
import math
import os
import pickle
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

import ortable
from ortable import LargeModel, export, to_onnx
from ortable.errors import (
    ArgumentError,
    BuilderError,
    ExportError,
    InputError,
    OptionError,
    OrtableError,
    ProviderError,
)
from ortable.exporter import program as program_module
from ortable.exporter.reporting.sessions import make_session
from tests.backend.threads import in_threads

from .program_helpers import Small, X, check, module_of

# -- files


def list_files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_saving(tmp_path: Path) -> None:
    module = Small()
    program = export(module, X)
    program.save(tmp_path / "one.onnx")
    program.save(str(tmp_path / "two.onnx"), external_data=True)
    assert list_files(tmp_path) == ["one.onnx", "two.onnx"]  # no weight has 1024 bytes
    assert (tmp_path / "one.onnx").read_bytes() == program.model_proto.SerializeToString()
    program = export(module, X, external_threshold=8)
    proto = program.model_proto
    program.save(tmp_path / "two.onnx", external_data=True)
    assert list_files(tmp_path) == ["one.onnx", "two.onnx", "two.onnx.data"]
    assert onnx.load(tmp_path / "two.onnx").graph.initializer[0].doc_string
    assert proto.SerializeToString() == program.model_proto.SerializeToString()
    onnx.checker.check_model(tmp_path / "two.onnx")
    for name in ("one.onnx", "two.onnx"):
        session = onnxruntime.InferenceSession(tmp_path / name)
        [result] = session.run(None, {"x": X[0].numpy()})
        torch.testing.assert_close(torch.from_numpy(result), module(*X).detach())
    program.save(tmp_path / "two.onnx", external_data=False)
    assert list_files(tmp_path) == ["one.onnx", "two.onnx"]
    with pytest.raises(ExportError, match="does not exist"):
        program.save(tmp_path / "none" / "m.onnx")
    with pytest.raises(OptionError, match="external_data is True, False or None"):
        program.save(tmp_path / "m.onnx", external_data="yes")
    with pytest.raises(OptionError, match="max_shard_bytes is for external data"):
        program.save(tmp_path / "m.onnx", external_data=False, max_shard_bytes=100)
    with pytest.raises(OptionError, match="path is the file to write"):
        program.save(None)


class Wide(torch.nn.Module):
    """A model with 64 kB of weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.tanh(self.one(x)))


def test_large_models_keep_their_weights_outside(tmp_path: Path, monkeypatch: Any) -> None:
    module, x = Wide(), torch.randn(2, 64)
    monkeypatch.setattr(sys.modules["ortable.exporter.to_onnx"], "LARGE_MODEL_BYTES", 50_000)
    program = export(module, (x,))
    assert isinstance(program.model, LargeModel)
    assert len(program.model.proto.SerializeToString()) < 10_000
    check(module, program, x)
    assert program.validate().ok
    program.save(tmp_path / "m.onnx")
    assert list_files(tmp_path) == ["m.onnx", "m.onnx.data"]
    program.save(tmp_path / "one.onnx", external_data=False)
    assert list_files(tmp_path) == ["m.onnx", "m.onnx.data", "one.onnx"]
    program.save(tmp_path / "shards.onnx", max_shard_bytes=40_000)
    assert sum("shards.onnx" in name for name in list_files(tmp_path)) == 3
    assert len(program.model_proto.graph.initializer) == 4
    assert "outside of the ModelProto" in repr(program)
    assert any("beside the model" in step for step in program.report.steps)
    copied = copy.deepcopy(program)
    expected = copied(x)
    assert copied.optimize(rewrites="all") is copied
    torch.testing.assert_close(copied(x), expected)
    assert isinstance(copied.model, LargeModel)


def test_a_file_that_protobuf_cannot_hold_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    program = export(Wide(), (torch.randn(2, 64),), large_model=True)
    monkeypatch.setattr(LargeModel, "nbytes", property(lambda self: 3 * 2**30))
    with pytest.raises(ExportError, match="external_data=False, and one file cannot hold"):
        program.save(tmp_path / "m.onnx", external_data=False)
    with pytest.raises(BuilderError, match="save"):
        program.model_proto  # noqa: B018
    assert list_files(tmp_path) == []


def test_weights_are_those_of_the_export() -> None:
    module = Small()
    program = export(module, X)
    expected = program(*X)
    with torch.no_grad():
        module.linear.weight.zero_()
    assert torch.equal(program(*X), expected)
    program.release()
    assert torch.equal(program(*X), expected)
    assert not program.validate()


# -- sessions


def test_sessions() -> None:
    program = export(Small(), X)
    session = program.session()
    assert isinstance(session, onnxruntime.InferenceSession)
    assert session is program.session() and session.get_providers() == ["CPUExecutionProvider"]
    settings = {"intra_op_num_threads": 1, "session.intra_op.allow_spinning": "0"}
    other = program.session(session_options=settings)
    assert other is not session
    assert other.get_session_options().intra_op_num_threads == 1
    assert session.get_session_options().intra_op_num_threads == 0  # ONNX Runtime's default
    options = onnxruntime.SessionOptions()
    options.inter_op_num_threads = 2
    program.initialize_inference_session(session_options=options)
    assert program.session() is not session
    assert program.session().get_session_options().inter_op_num_threads == 2
    program.release()
    assert program._session is None
    with pytest.raises(ProviderError, match="NoSuchProvider"):
        program.session(providers=["NoSuchProvider"])
    with pytest.raises(OptionError, match="no setting 'threads'"):
        program.session(session_options={"threads": 1})
    with pytest.raises(OptionError, match="a dict of its settings, not int"):
        program.session(session_options=3)


def test_threads_make_one_session(monkeypatch: Any) -> None:
    program = export(Small(), X)
    creating_threads = []

    def make_session_and_record(*args: Any) -> Any:
        creating_threads.append(threading.get_ident())
        return make_session(*args)

    monkeypatch.setattr(program_module, "make_session", make_session_and_record)
    call_program, results = program_module.OnnxProgram.__call__, []
    in_threads(4, lambda _: results.append(call_program(program, *X)))
    assert len(creating_threads) == 1 and len(results) == 4
    assert all(torch.equal(result, results[0]) for result in results)


# -- text and reports


def test_the_text_of_a_program() -> None:
    class Scores(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 2))

        def forward(self, x, mask):
            return x @ self.weight, mask

    program = export(
        Scores(),
        (X[0], torch.ones(4, dtype=torch.bool)),
        dynamic_shapes={"x": {0: "batch"}, "mask": {0: "batch"}},
        output_names=["scores", "same"],
    )
    assert repr(program).splitlines() == [
        "OnnxProgram Scores, opset 18",
        "  inputs   x       float32[batch, 3]",
        "           mask    bool[batch]",
        "  outputs  scores  float32[batch, 2]",
        "           same    bool[batch]",
        "  graph    2 nodes, 1 initializer of 24 bytes",
    ]
    assert program.input_names == ["x", "mask"] and program.output_names == ["scores", "same"]


def test_long_lists_are_cut() -> None:
    module = module_of(lambda self, *tensors: sum(tensors))
    program = export(module, X * 20)
    assert "... and 12 more" in repr(program) and len(repr(program).splitlines()) == 12


def test_the_report() -> None:
    program = export(Small(), X, validate=True)
    report = program.report
    assert "torch.export" in report.strategy and report.seconds["export"] > 0
    assert report.onnx_operators == {"Gemm": 1, "Relu": 1}
    assert report.torch_operators["aten::linear"] == 1
    assert report.rewrites == {} and report.comparisons[0].output == "output_0"
    assert export(module_of(lambda self, x: x.t().t() + 0.0), X).report.rewrites
    assert str(report).startswith("# Export of Small: done") and "| Gemm" in str(report)
    assert repr(report).startswith("ExportReport(torch.export")


def test_validating() -> None:
    module = Small()
    program = export(module, X, dynamic_shapes={"x": {0: "batch"}})
    validation = program.validate()
    assert validation and validation.check() is validation and validation.largest < 1e-4
    assert {c.inputs for c in validation.comparisons} == {"example", "batch=5", "batch=1"}
    assert program.validate(x=torch.randn(7, 3)).comparisons[0].shape == "[7, 5]"
    with pytest.raises(InputError, match="takes 3 there"):
        program.validate(torch.randn(7, 4))
    with torch.no_grad():
        module.linear.bias.add_(1)
    validation = program.validate()
    assert not validation and validation.failures and "differs from eager" in repr(validation)
    assert math.isclose(validation.largest, 1, rel_tol=0.1)
    with pytest.raises(ExportError, match="output_0"):
        validation.check()


def test_autocast_of_the_export_is_that_of_its_validation() -> None:
    module = Small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        program = export(module, X)
    assert program(*X).dtype == torch.bfloat16
    assert program.validate()


def test_values_inside_the_graph() -> None:
    module = Small()
    program = export(module, X)
    [name] = [node.output[0] for node in program.model_proto.graph.node if node.op_type == "Gemm"]
    inner, x = program.compute_values([name, "x"], X)
    torch.testing.assert_close(inner, module.linear(*X).detach())
    assert torch.equal(x, X[0])
    with pytest.raises(InputError, match="no result 'nothing'"):
        program.compute_values(["nothing"], X)


# -- optimizing


def test_optimizing_changes_the_graph_and_no_result() -> None:
    def forward(self, x):
        y = self.norm(x).transpose(0, 1).transpose(0, 1)
        return torch.nn.functional.gelu(y + 0) * (torch.ones(3) * 2)

    module = module_of(forward, norm=torch.nn.LayerNorm(3))
    program = export(
        module, X, optimize=False, dynamic_shapes={"x": {0: "batch"}},
        export_options=ortable.ExportOptions(metadata={"owner": "me"}),
    )  # fmt: skip
    expected, count = program(*X), len(program.model_proto.graph.node)
    session = program.session()
    assert program.optimize() is program
    proto = program.model_proto
    assert len(proto.graph.node) < count
    assert program.session() is not session
    torch.testing.assert_close(program(*X), expected)
    check(module, program, torch.randn(9, 3))
    reference_model = to_onnx(module, X, dynamic_shapes={"x": {0: "batch"}})
    assert sorted(n.op_type for n in proto.graph.node) == sorted(
        n.op_type for n in reference_model.graph.node
    )
    assert {p.key: p.value for p in proto.metadata_props}["owner"] == "me"
    assert {p.key for p in proto.metadata_props} > {p.key for p in reference_model.metadata_props}
    docs = {initializer.name: initializer.doc_string for initializer in proto.graph.initializer}
    assert docs["norm.weight"] == "norm.weight"
    assert all(node.metadata_props for node in proto.graph.node)
    onnx.checker.check_model(proto, full_check=True)
    assert program.validate()


def test_optimizing_for_onnxruntime_applies_its_rules() -> None:
    module = module_of(lambda self, x: self.norm(x + x), norm=torch.nn.LayerNorm(3))
    program = export(module, X)
    expected = program(*X)
    assert "Sum" not in program.optimize().report.onnx_operators
    program.optimize(target="onnxruntime")
    assert program.report.onnx_operators["Sum"] == 1
    assert program.report.rewrites["ort_sum_before_layer_norm"] == 1
    torch.testing.assert_close(program(*X), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(OptionError, match="target is one of"):
        program.optimize(target="tensorrt")
    with pytest.raises(OptionError, match="no_such_rule"):
        program.optimize(rewrites=["no_such_rule"])


def test_local_functions_survive_optimizing() -> None:
    module = torch.nn.Sequential(Wide(), Wide())
    x = torch.randn(2, 64)
    program = export(module, (x,), export_modules_as_functions={"Wide"}, optimize=False)
    assert "local function" in repr(program)
    expected = program(x)
    torch.testing.assert_close(program.optimize()(x), expected)
    assert len(program.model_proto.functions) >= 1


# -- weights without data


def test_weights_that_come_later(tmp_path: Path) -> None:
    with torch.device("meta"):
        module = Small()
    program = export(module, X)
    with pytest.raises(InputError, match=r"2 weights of the model have no data, .*apply_weights"):
        program(*X)
    with pytest.raises(InputError, match="2 weights of the model have no data"):
        program.compute_values(program.output_names, X)
    real = Small()
    program.apply_weights(real.state_dict())
    torch.testing.assert_close(program(*X), real(*X).detach())
    with pytest.raises(InputError, match="the program has its weights"):
        export(real, X).apply_weights(real.state_dict())


# -- copies, attributes, drawings


def test_copies() -> None:
    program = export(Small(), X)
    session, expected = program.session(), program(*X)
    shallow, deep = copy.copy(program), copy.deepcopy(program)
    assert shallow.model_proto is program.model_proto
    assert deep.model_proto is not program.model_proto
    deep.model_proto.graph.node[0].name = "changed"
    assert program.model_proto.graph.node[0].name != "changed"
    for copied in (shallow, deep):
        assert torch.equal(copied(*X), expected) and copied.session() is not session
    with pytest.raises(TypeError, match=r"cannot be pickled: save\(path\)"):
        pickle.dumps(program)


def test_a_program_lets_its_module_go() -> None:
    module = Small()
    program = export(module, X)
    program(*X)
    module_ref = weakref.ref(module)
    del module, program
    gc.collect()
    assert module_ref() is None


def test_words_of_torch_are_answered() -> None:
    program = export(Small(), X)
    with pytest.raises(AttributeError, match="ExtendedReferenceEvaluator"):
        program.call_reference  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'no_such_name'$"):
        program.no_such_name  # noqa: B018
    assert not hasattr(program, "_repr_html_")


def test_arguments_that_export_does_not_have_are_answered() -> None:
    module = Small()
    for args, kwargs, message in (
        ((module, X, "m.onnx"), {}, r"export has no f='m.onnx'.*\n.*program.save"),
        ((module, X), {"filename": "m.onnx"}, r"has no filename=.*of to_onnx.\n.*program.save"),
        ((module, X), {"return_builder": True}, r"\n.*program.report says"),
        ((module, X), {"external_data": True}, r"\n.*external_data=True"),
        ((module, X), {"opset": 3}, "did you mean 'target_opset'"),
        ((module, X, None, 3), {}, "export takes 3 positional arguments"),
    ):
        with pytest.raises(ArgumentError, match=message):
            export(*args, **kwargs)
    assert "opset 20" in repr(export(module, X, f=None, dynamo=True, opset_version=20))


def test_drawing(tmp_path: Path) -> None:
    program = export(Small(), X)
    program.draw(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text().startswith("digraph onnx {")
    with pytest.raises(ExportError, match="does not exist"):
        program.draw(tmp_path / "none" / "graph.dot")
    try:
        program.draw(tmp_path / "graph.svg")
    except OrtableError as error:
        assert "graphviz" in str(error)
    else:
        assert b"<svg" in (tmp_path / "graph.svg").read_bytes()


def test_the_model_is_that_of_to_onnx() -> None:
    options = {"dynamic_shapes": {"x": {0: "batch"}}, "output_names": ["y"], "target_opset": 20}
    program = export(Small(), X, **options)
    model = to_onnx(Small(), X, **options)
    assert program.model_proto.SerializeToString() == model.SerializeToString()
    assert program.model is program.model_proto
