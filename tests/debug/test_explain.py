"""`ortable.explain`: its report, the output formats, and the absence of side effects."""

from __future__ import annotations

import gc
import json
import re

import pytest
import torch
from onnx import parser
from torch import nn

import ortable
from ortable.debug.explain_records import find_fusions
from ortable.errors import OptionError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    """A model with two fusions, a batch norm and a graph break."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x):
        y = torch.relu(self.first(x))
        if y.sum() > 1e6:
            y = y * 2
        return self.last(self.norm(y))


class CallCounter(Net):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


@pytest.fixture
def net():
    return Net().eval()


def test_graphs_breaks_operators_nodes_weights_and_seconds(net):
    report = ortable.explain(net, torch.randn(4, 8))
    assert isinstance(report, ortable.Explanation)
    assert report.graph_count == len(report.graphs) == 2 and not report.unsupported
    (event,) = report.breaks
    assert event.where.startswith("test_explain.py:") and event.code == "if y.sum() > 1e6:"
    assert "a branch on the value of a tensor" in event.what
    first, second = report.graphs
    assert first.kind == "inference" and first.function == "Net.forward"
    assert first.operators["aten::addmm"] == 1 and first.nodes["Gemm"] == 1
    assert first.cases["addmm"] == "aten::addmm/3" and "t" not in first.cases
    assert all(case.rpartition("/")[0] in first.operators for case in first.cases.values())
    assert first.frozen == 2 and first.frozen_bytes == 4 * (8 * 8 + 8)
    assert first.cache == ("miss",) and first.providers == ("CPUExecutionProvider",)
    assert {"convert", "optimize", "session"} <= first.seconds.keys()
    assert second.function.endswith("after a graph break") and second.nodes["Gemm"] == 1


def test_what_onnx_runtime_fuses_is_told_with_parts_and_line(net):
    first = ortable.explain(net, torch.randn(4, 8)).graphs[0]
    texts = [str(fusion) for fusion in first.fusions]
    assert any(
        re.fullmatch(
            r"Gemm \+ Relu became FusedGemm "
            r"\(at test_explain\.py:\d+: y = torch\.relu\(self\.first\(x\)\)\)",
            text,
        )
        for text in texts
    )
    assert first.session_nodes["FusedGemm"] == 1 and "Relu" not in first.session_nodes


def test_the_three_forms_say_the_same(net):
    report = ortable.explain(net, torch.randn(4, 8))
    text = str(report)
    assert text.startswith("2 graphs, 1 graph break\n  break 1 at test_explain.py:")
    assert re.search(r"^graph 1 \(inference\) of Net\.forward \(test_explain\.py:\d+\)", text, re.M)
    assert "Gemm + Relu became FusedGemm" in text and "2 weights frozen" in text
    assert re.search(r"^  cases of spec entries: .*aten::addmm/3 1", text, re.M)
    page = report.to_markdown()
    assert page.startswith("# 2 graphs, 1 graph break\n") and "\n## graph 1 (inference)" in page
    assert "Gemm + Relu became FusedGemm" in page
    values = json.loads(report.to_json())
    assert values == report.as_dict()
    assert values["graph_count"] == 2 and values["graphs"][0]["nodes"]["Gemm"] == 1
    assert values["graphs"][0]["cases"]["addmm"] == "aten::addmm/3"
    assert values["graphs"][0]["fusions"][0]["before"] and "onnx" not in values["graphs"][0]


def test_unsupported_operators_are_listed_and_stop_nothing():
    report = ortable.explain(
        lambda x: (x @ x).sort()[0], torch.randn(4, 4), options={"raise_on": ["aten::sort"]}
    )
    (entry,) = report.unsupported
    assert entry.operator == "aten::sort" and entry.calls == 1
    assert entry.why == "option raise_on names it" and "test_explain.py" in entry.lines[0]
    assert str(report).startswith("1 graph, 0 graph breaks, 1 unsupported operator\n")
    assert "unsupported operators, which torch runs (an error with fallback='error')" in str(report)
    assert report.graphs[0].nodes == {"MatMul": 1}


def test_reasons_of_breaks_are_words_with_hints():
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        print("", end="")
        return y * 2

    first, second = ortable.explain(function, torch.ones(3)).breaks
    assert first.what == "Call to `torch._dynamo.graph_break()`"
    assert first.why.startswith("User-inserted graph break")
    assert first.hints == ("Remove the `torch._dynamo.graph_break()` call.",)
    assert first.code == "torch._dynamo.graph_break()"
    assert second.code == 'print("", end="")' and "print" in second.why
    assert not any("report an issue" in hint for hint in second.hints)


def test_training_has_forward_and_backward(net):
    net.train()
    report = ortable.explain(net, torch.randn(4, 8), train=True)
    assert [(g.number, g.kind) for g in report.graphs] == [
        (1, "forward"), (1, "backward"), (2, "forward"), (2, "backward"),
    ]  # fmt: skip
    assert not report.notes
    assert report.graphs[0].frozen == 0 and "grad mode was on" in report.graphs[0].not_frozen


def test_notes_say_which_mode_does_not_fit(net):
    assert "evaluation mode" in ortable.explain(net, torch.randn(4, 8), train=True).notes[0]
    net.train()
    assert "training mode" in ortable.explain(net, torch.randn(4, 8)).notes[0]
    report = ortable.explain(torch.relu, torch.ones(3), train=True)
    assert report.notes == ("no result requires gradients: nothing runs backward",)


def test_a_note_names_the_setting_for_recurrent_networks():
    lstm = torch.nn.LSTM(4, 4).eval()
    assert "allow_rnn = True" in ortable.explain(lstm, torch.randn(3, 2, 4)).notes[-1]
    with torch._dynamo.config.patch(allow_rnn=True):
        report = ortable.explain(lstm, torch.randn(3, 2, 4))
    assert len(report.graphs) == 1 and not report.notes


@pytest.mark.parametrize("train", [False, True])
def test_the_model_and_the_arguments_are_what_they_were(train):
    net = CallCounter()
    x = torch.randn(4, 8, requires_grad=True)
    net.first.weight.grad = gradient = torch.ones(8, 8)
    parameters = dict(net.named_parameters())
    buffers = dict(net.named_buffers())
    state = {name: (t.clone(), t._version) for name, t in net.state_dict(keep_vars=True).items()}
    rng_state = torch.get_rng_state()
    ortable.explain(nn.Sequential(net, nn.Dropout()), x, train=train)
    assert torch.is_grad_enabled() and net.training and net.calls == 0
    assert torch.equal(torch.get_rng_state(), rng_state)
    assert x.grad is None and net.first.weight.grad is gradient
    assert all(p.grad is None for name, p in parameters.items() if name != "first.weight")
    assert all(dict(net.named_parameters())[name] is p for name, p in parameters.items())
    assert all(dict(net.named_buffers())[name] is b for name, b in buffers.items())
    for name, tensor in net.state_dict(keep_vars=True).items():
        value, version = state[name]
        assert torch.equal(tensor, value) and tensor._version == version


def test_arguments_that_the_model_writes_are_copies():
    x, cache = torch.zeros(3), {"seen": [torch.zeros(3)]}

    def function(x, cache):
        cache["seen"][0].add_(1)
        return x.add_(1)

    ortable.explain(function, x, cache=cache)
    assert x.sum() == 0 and cache["seen"][0].sum() == 0


def test_what_the_user_compiled_stays_compiled(net):
    graphs = []

    def backend(graph_module, inputs):
        graphs.append(graph_module)
        return graph_module.forward

    x = torch.randn(4, 8)
    compiled = torch.compile(net, backend=backend)
    with torch.no_grad():
        compiled(x)
        graph_count = len(graphs)
        first = ortable.explain(compiled, x)  # explains the model itself
        ortable.explain(net, torch.randn(5, 8))
        compiled(x)
        assert len(graphs) == graph_count == 2
        # dynamo did not see the sizes of explain, so dimensions become dynamic only now
        compiled(torch.randn(6, 8))
    assert first.graph_count == 2 and len(graphs) > graph_count
    symbols = [n for g in graphs[:graph_count] for n in g.graph.nodes if n.type is torch.SymInt]
    assert not symbols


def test_a_model_compiled_in_place_is_explained(net):
    net.compile(backend="eager")
    assert ortable.explain(net, torch.randn(4, 8)).graph_count == 2
    assert net._compiled_call_impl is not None


def test_options_are_those_of_the_backend(net, tmp_path):
    storage = {}
    x = torch.randn(4, 8)
    options = {"freeze": "off", "storage": storage, "session_options": {"intra_op_num_threads": 1}}
    report = ortable.explain(net, x, options=options)
    assert report.graphs[0].frozen == 0 and report.graphs[0].not_frozen == "option freeze is 'off'"
    assert len(storage["instance"]) == 2
    cached = ortable.explain(net, x, options=options)
    assert cached.graphs[0].cache == ("memory",) and "(memory cache)" in str(cached)
    with pytest.raises(OptionError, match="Did you mean 'freeze'"):
        ortable.explain(net, x, options={"freez": "on"})


def test_settings_in_an_object_of_the_user_leave_the_fusions_untold(net):
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    report = ortable.explain(net, torch.randn(4, 8), options={"session_options": session_options})
    assert report.graphs[0].session_nodes is None and "ONNX Runtime" not in str(report)


def test_an_error_of_the_model_is_the_models():
    def function(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        ortable.explain(function, torch.ones(2))


BEFORE = """<ir_version: 10, opset_import: ["" : 20]>
g (float[2] x, float[2] w) => (float[2] y) {
  c = Constant <value = float[2] {1, 2}> ()
  d = Neg(c)
  a = Mul(x, w)
  b = Add(a, d)
  e = Relu(b)
  f = Tanh(e)
  y = Identity(f)
}"""
AFTER = """<ir_version: 10, opset_import: ["" : 20, "com.microsoft.nchwc" : 1]>
g (float[2] x, float[2] w) => (float[2] y) <float[2] new = {1, 2}> {
  inner = com.microsoft.nchwc.Conv(x, w, new)
  e = com.microsoft.ReorderOutput(inner)
  y = Tanh(e)
}"""


def test_fusions_are_what_lies_between_names_that_stay():
    (fusion, *others), removed = find_fusions(parser.parse_model(BEFORE), parser.parse_model(AFTER))
    assert not others
    assert fusion.before == ("Constant", "Neg", "Mul", "Add", "Relu")
    assert fusion.after == ("nchwc.Conv", "ReorderOutput")
    assert removed == {"Identity": 1}


def test_no_session_is_kept(net):
    from ortable.backend.execute.weights import watched_sets

    ortable.explain(net, torch.randn(4, 8))
    gc.collect()
    weights = [weight for weight_set in watched_sets() for weight in weight_set.tensors]
    assert not any(weight is net.first.weight for weight in weights)
