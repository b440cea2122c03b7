"""The steps of examples/bert_rewrites.py: profile, print, swap a module, fuse, partition."""

from __future__ import annotations

import copy
from types import ModuleType

import pytest
import torch

import ortable
from ortable.debug.plot import to_dot
from ortable.passes.rewrite.rule_selection import load_rules
from ortable.testing.entries import run_onnx
from ortable.testing.trial import RewriteTrial, list_operators
from ortable_generated.onnx.traits import BY_TRAIT
from ortablegen.rewrites.model import Rewrite, RewriteSample
from ortablegen.rewrites.read import read_rewrites_text
from ortablegen.source.diagnostics import Diagnostics

from . import EXAMPLES, script

RULES = EXAMPLES / "bert_rules.yaml"
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return script("bert_rewrites")


@pytest.fixture(scope="module")
def model_and_inputs(example: ModuleType):
    return example.bert()


@pytest.fixture(scope="module")
def expected(model_and_inputs) -> torch.Tensor:
    model, inputs = model_and_inputs
    with torch.no_grad():
        return model(**inputs)


# -- profile, print, swap


def test_products_and_layers_are_where_the_time_goes(example, model_and_inputs):
    operators, modules = example.profile(*model_and_inputs)
    assert {"aten::addmm", "aten::native_layer_norm", "aten::bmm"} <= set(operators)
    assert {"BertSelfAttention", "BertLayer", "CalibratedBert"} <= set(modules)
    assert modules["CalibratedBert"] >= modules["BertLayer"] >= modules["BertSelfAttention"] > 0
    model, _ = model_and_inputs
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_the_graph_of_an_attention_shows_what_can_be_fused(example, model_and_inputs):
    graph = example.attention_graph(model_and_inputs[0])
    text = ortable.pretty_onnx(graph)
    assert text.count("MatMul(hidden_states, ") == 3
    assert "Mul(" in text and "Softmax(" in text
    dot = to_dot(graph)
    assert dot.startswith("digraph") and "query.bias" in dot


def test_gelu_is_swapped_for_relu(example, model_and_inputs, expected):
    model, inputs = copy.deepcopy(model_and_inputs[0]), model_and_inputs[1]
    assert example.swap(model, example.GELUActivation, torch.nn.ReLU) == 2
    assert not any(isinstance(m, example.GELUActivation) for m in model.modules())
    with torch.no_grad():
        result = model(**inputs)
    assert result.shape == expected.shape and not torch.allclose(result, expected, atol=1e-3)
    proto = ortable.to_onnx(model, (), dict(inputs), rewrites="none", validate=True)
    op_types = [node.op_type for node in proto.graph.node]
    assert op_types.count("Relu") == 2 and "Erf" not in op_types


# -- fuse


def count_nodes(proto, op_type: str) -> int:
    return sum(node.op_type == op_type for node in proto.graph.node)


def test_rules_of_the_file_in_an_export(example, model_and_inputs, expected):
    model, inputs = model_and_inputs
    plain, none = example.export(model, inputs, "none")
    fused, counts = example.export(model, inputs, str(RULES))
    assert none == {}
    assert counts == {
        "fold_scale_into_query": 2,
        "join_projections": 2,
        "fold_div_into_matmul_add": 1,
    }
    for proto in (plain, fused):
        torch.testing.assert_close(run_onnx(proto, inputs)[0], expected, **TOLERANCE)
    # a Split replaces two projections in each layer; the scales of the scores and the division by
    # the temperature are folded into weights
    assert count_nodes(plain, "MatMul") - count_nodes(fused, "MatMul") == 4
    assert count_nodes(fused, "Split") == 2
    assert count_nodes(plain, "Mul") - count_nodes(fused, "Mul") == 2
    assert count_nodes(plain, "Div") - count_nodes(fused, "Div") == 1
    assert len(plain.graph.node) - len(fused.graph.node) == 5


def test_the_record_says_what_fired_where(model_and_inputs):
    model, inputs = model_and_inputs
    proto, builder = ortable.to_onnx(
        model, (), dict(inputs), rewrites=str(RULES), return_builder=True
    )
    record = builder.record.rewrites
    assert [fired.rule for fired in record.fired].count("join_projections") == 2
    first = next(fired for fired in record.fired if fired.rule == "join_projections")
    assert len(first.results) == len(first.removed) == 3 and first.graph == ""
    refused = record.statistics["fold_add_div_into_matmul"].refused
    assert refused and all(reason.endswith("is read elsewhere") for reason in refused)
    assert record.refusals()["fold_add_div_into_matmul"] == dict(refused)
    (split, _) = [node for node in proto.graph.node if node.op_type == "Split"]
    metadata = {prop.key: prop.value for prop in split.metadata_props}
    assert metadata["ortable.passes.rewrite"] == "join_projections"
    assert metadata["module_path"].startswith("bert.encoder.layer.0.attention.self.")
    assert metadata["source"].startswith("modeling_bert.py:")


def test_dynamic_sizes_stay_dynamic(model_and_inputs):
    model, inputs = model_and_inputs
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length", min=2, max=512)
    shape = {0: batch, 1: length}
    proto, builder = ortable.to_onnx(
        model,
        (),
        dict(inputs),
        dynamic_shapes=dict.fromkeys(inputs, shape),
        rewrites=str(RULES),
        validate=True,
        return_builder=True,
    )
    assert builder.record.rewrites.counts()["join_projections"] == 2
    for value in proto.graph.input:
        assert [d.dim_param for d in value.type.tensor_type.shape.dim] == ["batch", "length"]


@pytest.mark.usefixtures("fresh_dynamo")
def test_rules_of_the_file_in_torch_compile(example, model_and_inputs, expected):
    model, inputs = model_and_inputs
    storages: list[dict[str, object]] = [{}, {}]
    for storage, choice in zip(storages, ("none", [str(RULES)]), strict=True):
        compiled = example.compiled(model, choice, storage)
        with torch.no_grad():
            torch.testing.assert_close(compiled(**inputs), expected, **TOLERANCE)
    (plain,), (fused,) = (storage["instance"] for storage in storages)
    assert plain["rewrites"] == {}
    assert fused["rewrites"] == {
        "fold_scale_into_query": 2,
        "join_projections_gemm": 2,
        "fold_div_into_matmul_add": 1,
    }
    assert count_nodes(plain["onnx"], "Gemm") - count_nodes(fused["onnx"], "Gemm") == 4
    assert count_nodes(fused["onnx"], "Split") == 2


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_dynamo")
def test_together_with_the_default_rules(example, model_and_inputs, expected):
    model, inputs = model_and_inputs
    proto, counts = example.export(model, inputs, example.CHOICE)
    torch.testing.assert_close(run_onnx(proto, inputs)[0], expected, **TOLERANCE)
    assert set(counts) & {rule.name for rule in load_rules(RULES)}
    compiled = example.compiled(model, example.CHOICE)
    with torch.no_grad():
        torch.testing.assert_close(compiled(**inputs), expected, **TOLERANCE)


@pytest.mark.usefixtures("fresh_dynamo")
def test_gradients_with_rules_equal_eager(example, model_and_inputs):
    """Each joined weight gets its gradient, since backward has a separate graph."""
    model, inputs = copy.deepcopy(model_and_inputs[0]), model_and_inputs[1]
    weights = [model.weight, model.bert.encoder.layer[0].attention.self.key.weight]
    expected = torch.autograd.grad(model(**inputs).square().sum(), weights)
    storage: dict[str, object] = {}
    compiled = torch.compile(
        model, backend="ortable", options={"rewrites": example.CHOICE, "storage": storage}
    )
    grads = torch.autograd.grad(compiled(**inputs).square().sum(), weights)
    for grad, expected_grad in zip(grads, expected, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-3, atol=1e-4)
    assert storage["instance"][0]["rewrites"]


# -- partition


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_part_runs_by_ortable_and_the_rest_by_torch(example, model_and_inputs, expected):
    model, inputs = model_and_inputs
    storage: dict[str, list] = {}
    calls: list[int] = []
    run_part = example.Part.forward

    def count_call(self, *args):
        calls.append(len(args))
        return run_part(self, *args)

    example.Part.forward = count_call
    try:
        compiled = torch.compile(model, backend=example.partitioning(storage))
        with torch.no_grad():
            torch.testing.assert_close(compiled(**inputs), expected, **TOLERANCE)
    finally:
        example.Part.forward = run_part
    records = storage["instance"]
    assert len(calls) == len(records) > 0
    op_types = {node.op_type for record in records for node in record["onnx"].graph.node}
    assert {"Gemm", "MatMul", "Mul", "Div"} <= op_types
    assert not op_types & {"Softmax", "LayerNormalization", "Gelu", "Tanh"}


# -- the example as a script, and the samples of its rules


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.slow
def test_the_program_says_that_results_are_equal(example, capfd):
    assert example.main(["--rounds", "2"]) == 0
    out = capfd.readouterr().out
    for title in ("Profile", "graph of one self-attention", "Swap", "Fuse", "part", "Measure"):
        assert title in out
    assert out.rstrip().endswith("results equal eager's")
    assert "'join_projections" in out or "'fold_scale_into_query" in out
    assert out.count(" of eager\n") == 6


def load_samples() -> list[tuple[Rewrite, RewriteSample]]:
    diagnostics = Diagnostics()
    rewrites = read_rewrites_text(RULES.read_text(), RULES.name, diagnostics, BY_TRAIT)
    assert not diagnostics.errors, diagnostics.render()
    return [(rewrite, sample) for rewrite in rewrites for sample in rewrite.samples]


@pytest.mark.parametrize("opset", [18, 24])
@pytest.mark.parametrize(
    ("rewrite", "sample"),
    [pytest.param(*pair, id=f"{pair[0].name}-{n}") for n, pair in enumerate(load_samples())],
)
def test_samples_of_the_rules(rewrite: Rewrite, sample: RewriteSample, opset: int) -> None:
    trial = RewriteTrial(rewrite, sample, opset, None)
    record = trial.apply([rule for rule in load_rules(RULES) if rule.name == rewrite.name])
    if sample.unchanged is not None:
        assert not record.fired
        reasons = record.statistics[rewrite.name].refused
        assert any(sample.unchanged in reason for reason in reasons), reasons
        return
    assert record.counts() == {rewrite.name: 1}
    if sample.expect is not None:
        assert list_operators(trial.builder) == sample.expect.split()
    trial.compare()
