"""One list of passes for export, backend and local functions: the options alone say which run."""

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
# As the converters make it: the Gemm reads the Relu through the Transpose, which nobody reads then,
# and the graph's output gets its name by an Identity.
CONVERTED = ["Relu", "Transpose", "Relu", "Gemm", "Identity"]


def twice(x):
    return torch.relu(x).t() @ torch.relu(x)


class Twice(torch.nn.Module):
    def forward(self, x):
        return twice(x)


@torch.library.custom_op("ortable_pipeline::twice", mutates_args=())
def custom(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x).t() @ torch.relu(x)


@custom.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.t() @ x


class Custom(torch.nn.Module):
    def forward(self, x):
        return custom(x) + 1


@pytest.fixture
def ran(monkeypatch):
    """Names of the passes that ran, in order."""
    names = []

    def noted(step):
        def run(state):
            names.append(step.name)
            return step.run(state)

        return replace(step, run=run)

    monkeypatch.setattr(pipeline, "PASSES", tuple(noted(step) for step in PASSES))
    return names


def compiled(fn, **options):
    """The model that the backend makes of a function of one tensor, whose result is eager's."""
    torch._dynamo.reset()
    storage, x = {}, torch.rand(3, 3)
    made = torch.compile(fn, backend="ortable", options={"storage": storage, **options})
    with torch.no_grad():
        torch.testing.assert_close(made(x), fn(x))
    (record,) = storage["instance"]
    return record["onnx"]


def exported(module, **options):
    return to_onnx(module, (torch.rand(3, 3),), **options)


def types(nodes):
    return [node.op_type for node in nodes]


def test_the_order_of_the_passes():
    assert NAMES == [
        "remove_identity_nodes",
        "fold_weight_transposes",
        "rewrites",  # codes that arrive, before folding makes floats of them
        "constant_folding",
        "merge_equal_nodes",
        "remove_unused",
        "rewrites",
        "merge_scanned_attention",
        "rewrites",
        "remove_identity_nodes",
        "constant_folding",
        "arrange_quantized",
        "remove_unused",
        "merge_equal_initializers",
        "merge_equal_nodes",
        "remove_unused",
        "remove_unused_functions",
    ]


def test_without_optimize_export_keeps_what_the_converters_made(ran):
    module = exported(Twice(), optimize=False)
    assert types(module.graph.node) == CONVERTED
    assert ran == []


def test_without_optimize_the_backend_keeps_what_the_converters_made(ran):
    module = compiled(twice, optimize=False)
    assert types(module.graph.node) == CONVERTED
    assert ran == []


@pytest.mark.parametrize("options", [{}, {"rewrites": "all"}])
def test_without_optimize_bodies_of_functions_are_as_converted_too(ran, options):
    choices = ExportOptions(functions=("custom_ops",))
    model = exported(Custom(), optimize=False, export_options=choices, **options)
    (body,) = model.functions
    assert types(body.node) == CONVERTED
    model = exported(Twice(), optimize=False, export_modules_as_functions=True, **options)
    assert types(model.graph.node).count("Relu") == 2
    assert ran == []


def test_with_optimize_bodies_of_functions_go_through_the_same_passes(ran):
    choices = ExportOptions(functions=("custom_ops",))
    (body,) = exported(Custom(), export_options=choices).functions
    assert types(body.node) == ["Relu", "Gemm"]
    twice_each = ("rewrites", "arrange_quantized", "merge_equal_initializers")
    assert [ran.count(name) for name in twice_each] == [2, 2, 2]
    assert ran.count("fold_weight_transposes") == 1, "functions hold weights as they are"


def test_without_rewrites_only_the_basic_passes_run(ran):
    assert types(compiled(twice, rewrites="none").graph.node) == ["Relu", "Gemm"]
    in_backend = [*ran]
    assert set(in_backend) == set(BASIC)
    ran.clear()
    model = exported(Twice(), rewrites="none", export_options=ExportOptions(constant_folding=False))
    assert types(model.graph.node) == ["Relu", "Gemm"]
    assert ran == in_backend
    ran.clear()
    exported(Twice(), rewrites="none")
    assert set(ran) == {*BASIC, "fold_weight_transposes", "constant_folding"}


def test_export_and_backend_run_the_same_passes(ran):
    compiled(twice)
    in_backend = [*ran]
    ran.clear()
    exported(Twice(), export_options=ExportOptions(constant_folding=False))
    assert ran == in_backend and {"rewrites", "arrange_quantized"} <= set(ran)


def graph():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2,))
    kept = [builder.make_initializer(name, np.array([1, 2], np.float32)) for name in ("a", "b")]
    total = builder.op.Add(builder.op.Add("x", kept[0]), builder.op.Identity(kept[1]))
    builder.make_tensor_output(builder.op.Mul(total, builder.op.Add("x", kept[0]), outputs=["y"]))
    return builder


def test_counts_by_pass():
    builder = graph()
    assert run_passes(builder, PassOptions(optimize=False, folding=True)).counts == {}
    assert len(builder.nodes) == 5
    assert run_passes(builder, PassOptions()).counts == {
        "remove_identity_nodes": 1,
        "remove_unused": 0,
        "merge_equal_initializers": 1,
        "merge_equal_nodes": 1,
    }


def test_a_builder_of_the_user_keeps_the_names_of_equal_initializers(ran):
    builder = graph()
    assert builder.optimize() == {
        "remove_identity_nodes": 1,
        "remove_unused": 0,
        "merge_equal_nodes": 1,
    }
    assert list(builder.initializers_dict) == ["a", "b"]
    assert "rewrites" not in ran and "merge_equal_initializers" not in ran


def test_unknown_names_of_rules_are_refused_with_optimize_or_without():
    for optimize in (True, False):
        with pytest.raises(OptionError, match="no rule or file of rules 'nothing'"):
            pipeline.select_passes(optimize, "nothing")
