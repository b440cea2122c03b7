"""Export, backend and local functions share one list of passes; options select which run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ortable import ExportOptions, GraphBuilder, dtypes, to_onnx
from ortable.errors import OptionError
from ortable.passes import pipeline
from ortable.passes.pipeline import PASSES, PassOptions, run_passes

NAMES = [step.name for step in PASSES]
BASIC = ["remove_identity_nodes", "remove_unused", "merge_equal_initializers", "merge_equal_nodes"]
# The converters' output: Gemm has transA=1 and reads the Relu directly, so the Transpose is unused;
# an Identity names the graph output.
CONVERTED = ["Relu", "Transpose", "Relu", "Gemm", "Identity"]


def relu_gram(x):
    return torch.relu(x).t() @ torch.relu(x)


class ReluGram(torch.nn.Module):
    def forward(self, x):
        return relu_gram(x)


@torch.library.custom_op("ortable_pipeline::twice", mutates_args=())
def custom_gram(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x).t() @ torch.relu(x)


@custom_gram.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x


class CustomGram(torch.nn.Module):
    def forward(self, x):
        return custom_gram(x) + 1


@pytest.fixture
def passes_run(monkeypatch):
    """Return a list that collects the names of the passes that run, in order."""
    names = []

    def record_name(step):
        def run(state):
            names.append(step.name)
            return step.run(state)

        return replace(step, run=run)

    monkeypatch.setattr(pipeline, "PASSES", tuple(record_name(step) for step in PASSES))
    return names


def compile_graph(fn, **options):
    """Compile a function of one tensor, compare it with eager and return its ONNX model."""
    torch._dynamo.reset()
    storage, x = {}, torch.rand(3, 3)
    compiled = torch.compile(fn, backend="ortable", options={"storage": storage, **options})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), fn(x))
    (record,) = storage["instance"]
    return record["onnx"]


def export(module, **options):
    return to_onnx(module, (torch.rand(3, 3),), **options)


def op_types(nodes):
    return [node.op_type for node in nodes]


def test_the_order_of_the_passes():
    assert NAMES == [
        "remove_identity_nodes",
        "fold_weight_transposes",
        "rewrites",  # match quantized inputs before folding dequantizes them
        "constant_folding",
        "merge_equal_nodes",
        "remove_unused",
        "rewrites",
        "merge_scanned_attention",
        "rewrites",
        "remove_identity_nodes",
        "constant_folding",
        "arrange_quantized",
        "join_products",
        "keep_casts",
        "remove_unused",
        "merge_equal_initializers",
        "merge_equal_nodes",
        "remove_unused",
        "remove_unused_functions",
    ]


def test_without_optimize_export_keeps_what_the_converters_made(passes_run):
    module = export(ReluGram(), optimize=False)
    assert op_types(module.graph.node) == CONVERTED
    assert passes_run == []


def test_without_optimize_the_backend_keeps_what_the_converters_made(passes_run):
    module = compile_graph(relu_gram, optimize=False)
    assert op_types(module.graph.node) == CONVERTED
    assert passes_run == []


@pytest.mark.parametrize("options", [{}, {"rewrites": "all"}])
def test_without_optimize_bodies_of_functions_are_as_converted_too(passes_run, options):
    choices = ExportOptions(functions=("custom_ops",))
    model = export(CustomGram(), optimize=False, export_options=choices, **options)
    (body,) = model.functions
    assert op_types(body.node) == CONVERTED
    model = export(ReluGram(), optimize=False, export_modules_as_functions=True, **options)
    assert op_types(model.graph.node).count("Relu") == 2
    assert passes_run == []


def test_with_optimize_bodies_of_functions_go_through_the_same_passes(passes_run):
    choices = ExportOptions(functions=("custom_ops",))
    (body,) = export(CustomGram(), export_options=choices).functions
    assert op_types(body.node) == ["Relu", "Gemm"]
    run_twice = ("rewrites", "arrange_quantized", "merge_equal_initializers")
    assert [passes_run.count(name) for name in run_twice] == [2, 2, 2]
    assert passes_run.count("fold_weight_transposes") == 1, "functions are skipped"


def test_without_rewrites_only_the_basic_passes_run(passes_run):
    assert op_types(compile_graph(relu_gram, rewrites="none").graph.node) == ["Relu", "Gemm"]
    backend_passes = [*passes_run]
    assert set(backend_passes) == set(BASIC)
    passes_run.clear()
    model = export(
        ReluGram(), rewrites="none", export_options=ExportOptions(constant_folding=False)
    )
    assert op_types(model.graph.node) == ["Relu", "Gemm"]
    assert passes_run == backend_passes
    passes_run.clear()
    export(ReluGram(), rewrites="none")
    assert set(passes_run) == {*BASIC, "fold_weight_transposes", "constant_folding"}


def test_export_and_backend_run_the_same_passes(passes_run):
    compile_graph(relu_gram)
    backend_passes = [*passes_run]
    passes_run.clear()
    export(ReluGram(), export_options=ExportOptions(constant_folding=False))
    assert passes_run == backend_passes and {"rewrites", "arrange_quantized"} <= set(passes_run)


def make_graph():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2,))
    w = [builder.make_initializer(name, np.array([1, 2], np.float32)) for name in ("a", "b")]
    total = builder.op.Add(builder.op.Add("x", w[0]), builder.op.Identity(w[1]))
    builder.make_tensor_output(builder.op.Mul(total, builder.op.Add("x", w[0]), outputs=["y"]))
    return builder


def test_counts_by_pass():
    builder = make_graph()
    assert run_passes(builder, PassOptions(optimize=False, folding=True)).counts == {}
    assert len(builder.nodes) == 5
    assert run_passes(builder, PassOptions()).counts == {
        "remove_identity_nodes": 1,
        "remove_unused": 0,
        "merge_equal_initializers": 1,
        "merge_equal_nodes": 1,
    }


def test_a_builder_of_the_user_keeps_the_names_of_equal_initializers(passes_run):
    builder = make_graph()
    assert builder.optimize() == {
        "remove_identity_nodes": 1,
        "remove_unused": 0,
        "merge_equal_nodes": 1,
    }
    assert list(builder.initializers_dict) == ["a", "b"]
    assert "rewrites" not in passes_run and "merge_equal_initializers" not in passes_run


def test_unknown_names_of_rules_are_refused_with_optimize_or_without():
    for optimize in (True, False):
        with pytest.raises(OptionError, match="no rule or file of rules 'nothing'"):
            pipeline.select_passes(optimize, "nothing")
