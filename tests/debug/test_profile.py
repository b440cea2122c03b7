"""`ortable.profile` attributes all time of a call to modules, operators, lines and kernels.

It has no side effects. No test checks durations.
"""

from __future__ import annotations

import html.parser
import json
import re
import sys

import onnx
import pytest
import torch
from onnx import TensorProto, helper, parser
from torch import nn

import ortable
from ortable.debug.profiling import call, record
from ortable.debug.profiling.join import (
    ADDED_NODE,
    UNKNOWN_OPERATOR,
    KernelOrigin,
    inline_module_functions,
    make_origin_finder,
)
from ortable.debug.profiling.record import Recording
from ortable.debug.profiling.time_attribution import (
    KERNEL,
    SESSION_RUN,
    TORCH,
    Span,
    attribute_time,
    attribute_window,
)
from ortable.errors import InputError, OptionError, OrtableError, ProviderError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.fc(x)) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())

    def forward(self, x):
        return self.layers(x)


class GraphBreakNet(Net):
    """A model with a graph break, and a batch norm whose buffers are updated in training."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        y = self.layers(x)
        if y.sum() > 1e6:
            y = y * 2
        return self.norm(y).sum()


class SortNet(Net):
    def forward(self, x):
        return self.layers(self.layers(x).sort(dim=-1)[0])


@pytest.fixture(scope="module")
def profile():
    """Profile an inference graph."""
    torch._dynamo.reset()
    return ortable.profile(Net().eval(), torch.randn(4, 8), calls=3)


def assert_adds_up(profile):
    """Check that each table sums to the time of the call: kernels and the named rest."""
    rest = sum(row.us for row in profile.rest)
    for rows in (profile.nodes, profile.lines, profile.operators, profile.kernels):
        assert sum(row.us for row in rows) + rest == pytest.approx(profile.call_us)
    assert sum(row.own_us for row in profile.modules) + rest == pytest.approx(profile.call_us)
    assert all(row.us >= 0 for row in (*profile.nodes, *profile.rest))
    graphs = [row for row in profile.modules if not row.path]
    assert [row.us for row in graphs] == pytest.approx([g.kernels_us for g in profile.graphs])


# -- attribution of time


def test_instants_belong_to_the_innermost_and_are_shared_by_threads():
    spans = [
        Span(10, 90, 1, SESSION_RUN, 0),
        Span(20, 60, 1, KERNEL, 0),  # a loop
        Span(30, 40, 1, KERNEL, 0),  # in its body
        Span(30, 30, 1, KERNEL, 0),  # too short for the clock
        Span(50, 70, 1, KERNEL, 0),  # ends after the span that encloses it
        Span(60, 80, 2, KERNEL, 0),  # on another thread
        Span(0, 200, 0, TORCH, 0),  # encloses the session, and exceeds the call
    ]
    busy, idle = attribute_window(spans, (5, 100))
    assert busy == [10 + 10, 10 + 10, 10, 0, 10 + 5, 5 + 10, 5 + 10] and idle == 0
    assert sum(busy) == 95
    assert attribute_window([], (5, 100)) == ([], 95)
    busy, idle = attribute_window(spans[:2], (0, 100))
    assert (busy, idle) == ([40, 40], 20)


def test_calls_that_were_disturbed_do_not_count():
    windows = [(0, 10), (10, 13), (20, 29), (30, 39), (40, 49), (50, 950)]
    times = attribute_time(Recording(windows, [1, 2, 3, 1000], [], []))
    assert (times.calls, times.call, times.python, times.plain) == (4, 9.25, 9.25, 2.5)
    times = attribute_time(Recording(windows[:3], [5], [], []))
    assert times.calls == 3 and times.call == pytest.approx(22 / 3)


def test_a_profile_adds_up(profile):
    assert_adds_up(profile)
    assert profile.calls == 3 and profile.call_us > 0 and profile.plain_us > 0
    assert [row.name for row in profile.rest] == [
        "outside of kernels (session)",
        "Python around the session",
    ]
    assert {node.runs for node in profile.nodes} == {1.0}


def test_forward_and_backward_are_graphs_and_add_up():
    model = Net()
    profile = ortable.profile(model, torch.randn(4, 8), train=True, calls=2)
    assert_adds_up(profile)
    assert [graph.kind for graph in profile.graphs] == ["forward", "backward"]
    assert all(graph.kernels_us > 0 for graph in profile.graphs)
    paths = {(row.graph, row.path) for row in profile.modules}
    assert {(0, "layers.0.fc"), (1, "layers.0.fc")} <= paths
    assert "autograd around the backward" in {row.name for row in profile.rest}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_graph_breaks_are_graphs_of_one_call():
    profile = ortable.profile(GraphBreakNet().eval(), torch.randn(4, 8), calls=2)
    assert_adds_up(profile)
    assert [graph.number for graph in profile.graphs] == [1, 2]
    assert profile.graphs[0].where.startswith("GraphBreakNet.forward (test_profile.py:")
    assert "after a graph break" in profile.graphs[1].where


def test_what_torch_runs_between_sessions_has_a_row():
    options = {"fallback": "eager", "raise_on": ["aten::sort"]}
    profile = ortable.profile(SortNet().eval(), torch.randn(4, 8), options=options, calls=2)
    assert_adds_up(profile)
    (graph,) = profile.graphs
    row = next(row for row in profile.rest if row.name == "torch around its operators")
    assert row.us == graph.torch_us > 0
    (sort,) = (node for node in profile.nodes if node.provider == "torch")
    assert (sort.operator, sort.kernel, sort.runs) == ("aten::sort", "aten::sort", 1)
    assert sort.line.endswith("return self.layers(self.layers(x).sort(dim=-1)[0])")
    steps = {step.what for step in profile.timeline}
    assert steps == {"torch", "operator", "partition", "session", "kernel"}


def test_a_graph_that_torch_runs_whole_is_told():
    profile = ortable.profile(
        lambda x: x.sort()[0],
        torch.randn(4),
        options={"fallback": "eager", "raise_on": ["aten::sort"]},
        calls=1,
    )
    assert_adds_up(profile)
    (sort,) = profile.nodes
    assert (sort.operator, sort.provider, sort.runs) == ("aten::sort", "torch", 1)
    assert [row.name for row in profile.kernels] == ["aten::sort (torch)"]
    assert profile.model == "test_a_graph_that_torch_runs_whole_is_told.<locals>.<lambda>"


def test_a_call_without_a_graph_has_a_note():
    profile = ortable.profile(lambda x: 1, torch.randn(4), calls=1)
    assert not profile.graphs
    assert profile.notes == ("dynamo found nothing to compile: all code runs in Python",)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


@pytest.mark.parametrize("graph_break", [False, True], ids=["whole", "broken"])
def test_training_that_torch_runs_has_operators(graph_break):
    model = ConvNet()

    def call(x):
        y = model(x)
        if graph_break and y.sum() > 1e6:
            y = y * 2
        return model(y)

    profile = ortable.profile(call, torch.randn(1, 1, 9, 9), train=True, calls=2)
    assert_adds_up(profile)
    runs = {row.name: row.runs for row in profile.operators}
    assert runs["aten::convolution"] == runs["aten::convolution_backward"] == 2
    assert {graph.kind for graph in profile.graphs} >= {"forward", "backward"}


def test_runs_outside_of_the_calls_are_an_error():
    event = {"cat": "Session", "ph": "X", "name": "model_run", "ts": 5, "dur": 2, "tid": 1}
    proto = onnx.ModelProto()
    session = record.SessionRecord(0, 1000, [event], proto, None)
    graphs = [record.GraphRecord(1, "inference", "f")]
    inside = attribute_time(Recording([(0, 10_000)], [10_000], graphs, [session]))
    assert (inside.sessions, inside.python, inside.call) == ({0: 2000}, 8000, 10_000)
    with pytest.raises(ProviderError, match="another clock"):
        attribute_time(Recording([(10_000, 20_000)], [10_000], graphs, [session]))


@pytest.mark.parametrize(
    ("provider", "label", "noted"),
    [
        ("CPUExecutionProvider", "CPU", False),
        ("CUDAExecutionProvider", "CUDA", True),
        ("", "unknown provider", True),
    ],
)
def test_kernels_are_listed_by_provider_and_those_of_devices_are_noted(provider, label, noted):
    event = {
        "cat": "Node", "ph": "X", "name": "y_kernel_time", "ts": 5, "dur": 2, "tid": 1,
        "args": {"op_name": "Relu", "provider": provider},
    }  # fmt: skip
    session = record.SessionRecord(0, 1000, [event], onnx.ModelProto(), None)
    graphs = [record.GraphRecord(1, "inference", "f")]
    profile = call._make_profile("f", Recording([(0, 10_000)], [10_000], graphs, [session]), None)
    assert [(row.name, row.us) for row in profile.kernels] == [(f"Relu ({label})", 2.0)]
    assert [note.partition(" run ")[0] for note in profile.notes] == [f"kernels of {label}"] * noted


def test_a_full_profile_is_an_error(monkeypatch):
    monkeypatch.setattr(record, "_MAX_EVENTS", 3)
    with pytest.raises(ProviderError, match="fewer calls"):
        ortable.profile(Net().eval(), torch.randn(4, 8), calls=1)


# -- the join of kernels and nodes

BEFORE = """
<ir_version: 10, opset_import: ["": 18]>
g (float[1,1,4,4] x, float[1,1,1,1] w) => (float[1,1,4,4] y) {
    conv = Conv (x, w)
    relu = Relu (conv)
    sin = Sin (relu)
    y = Cos (sin)
}
"""
AFTER = """
<ir_version: 10, opset_import: ["": 18, "com.microsoft.nchwc": 1]>
g (float[1,1,4,4] x, float[1,1,1,1] w) => (float[1,1,4,4] y) {
    reorder = com.microsoft.nchwc.ReorderInput (x)
    packed = com.microsoft.nchwc.Conv (reorder, w)
    relu = com.microsoft.nchwc.ReorderOutput (packed)
    y = SinCos (relu)
}
"""


def name_nodes(text, names, metadata=()):
    """Parse a model and set names and metadata of its nodes."""
    model = parser.parse_model(text)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    for node, (path, target, line) in zip(model.graph.node, metadata, strict=False):
        pairs = {"module_path": path, "aten_target": target, "source": line}
        for key, value in pairs.items():
            node.metadata_props.add(key=key, value=value)
    return model


@pytest.fixture
def fused():
    nodes = [
        ("net.conv", "aten.convolution.default", "a.py:1: self.conv(x)"),
        ("net", "aten.relu.default", "a.py:2: relu(x)"),
        ("net.a.b", "aten.sin.default", "a.py:3: sin(x)"),
        ("net.a.c", "aten.cos.default", "a.py:4: cos(x)"),
    ]
    return name_nodes(BEFORE, ["net.conv/conv", "net/relu", "net.a.b/sin", "net.a.c/y"], nodes)


def test_fused_and_added_nodes_are_joined_with_those_they_stand_for(fused):
    after = name_nodes(AFTER, ["ReorderInput", "relu_nchwc", "ReorderOutput", "made_up"])
    find = make_origin_finder(fused, after)
    convolution = KernelOrigin("net.conv", "aten::convolution + aten::relu", "a.py:1: self.conv(x)")
    assert find("relu_nchwc", "Conv") == ("com.microsoft.nchwc.Conv", convolution)
    # its name matches no node, so it is joined by what it computes
    assert find("made_up", "SinCos")[1] == KernelOrigin(
        "net.a", "aten::sin + aten::cos", "a.py:3, a.py:4"
    )
    for name in ("ReorderInput", "ReorderOutput"):
        assert find(name, name)[1].operator == ADDED_NODE
    assert find("ReorderInput", "ReorderInput")[1].module == "net.conv"
    assert find("ReorderOutput", "ReorderOutput")[1].module == "net"


def test_without_the_optimized_model_names_tell(fused):
    find = make_origin_finder(fused, None)
    assert find("net.conv/conv", "FusedConv")[1].operator == "aten::convolution"
    assert find("net.a.b/sin/SomeFusion", "Whatever")[1].module == "net.a.b"
    assert find("relu_nchwc", "Conv")[1].operator == "aten::relu"
    assert find("nobody", "Whatever")[1] == KernelOrigin(operator=ADDED_NODE)


def test_nodes_without_metadata_keep_their_time():
    find = make_origin_finder(name_nodes(BEFORE, list("abcd")), None)
    assert find("a", "Conv") == ("Conv", KernelOrigin(operator=UNKNOWN_OPERATOR))


def test_metadata_of_torch_onnx_are_read(tmp_path):
    torch.onnx.export(Net().eval(), (torch.randn(4, 8),), tmp_path / "net.onnx", dynamo=True)
    profile = ortable.profile(tmp_path / "net.onnx", calls=1)
    assert_adds_up(profile)
    assert {"layers.0.fc", "layers.1"} <= {row.path for row in profile.modules}
    assert any("aten::linear" in row.name for row in profile.operators)
    lines = {node.line for node in profile.nodes if node.module.endswith("fc")}
    assert {line.partition(":")[0] for line in lines} == {"test_profile.py"}


def test_kernels_of_a_model_have_modules_operators_and_lines(profile):
    assert {node.module for node in profile.nodes} == {
        f"layers.{i}{inner}" for i in (0, 1) for inner in ("", ".fc")
    }
    assert "aten::addmm + aten::relu" in {row.name for row in profile.operators}
    lines = {row.name.partition(": ")[2] for row in profile.lines}
    assert lines == {"return torch.relu(self.fc(x)) + x"}
    kinds = {row.path: row.kind for row in profile.modules}
    assert kinds == {
        "": "Net", "layers": "Sequential", "layers.0": "Block", "layers.0.fc": "Linear",
        "layers.1": "Block", "layers.1.fc": "Linear",
    }  # fmt: skip
    assert {node.provider for node in profile.nodes} == {"CPUExecutionProvider"}


# -- exported models


class LoopNet(nn.Module):
    def forward(self, n, x):
        def go_on(i, y):
            return i < n

        def body(i, y):
            return i + 1, y.sin()

        return torch.while_loop(go_on, body, (torch.tensor(0), x))[1]


def test_bodies_of_loops_are_counted_apart_from_the_loop():
    program = ortable.export(LoopNet(), (torch.tensor(4), torch.randn(3)))
    profile = ortable.profile(program, torch.tensor(4), torch.randn(3), calls=2)
    assert_adds_up(profile)
    runs = {node.kernel: node.runs for node in profile.nodes}
    assert runs["Sin"] == 4 and runs["Loop"] == 1
    names = {row.name for row in profile.operators}
    assert {"while_loop", "aten::sin"} <= names
    assert not any(node.module.startswith("_export") for node in profile.nodes)


def test_modules_that_share_a_function_keep_their_own_paths():
    program = ortable.export(Net().eval(), (torch.randn(4, 8),), export_modules_as_functions=True)
    result = program(torch.ones(4, 8))
    profile = ortable.profile(program, torch.randn(4, 8), calls=1)
    assert_adds_up(profile)
    assert {"layers.0.fc", "layers.1.fc"} <= {node.module for node in profile.nodes}
    assert program.model_proto.functions, "the program lost its functions"
    assert torch.equal(program(torch.ones(4, 8)), result)
    inlined = inline_module_functions(program.model_proto)
    assert not any(node.domain for node in inlined.graph.node)
    assert inline_module_functions(inlined) is inlined, "inlining twice copies the model"


def test_a_file_runs_with_inputs_that_are_made(tmp_path):
    batch = torch.export.Dim("batch")
    program = ortable.export(Net().eval(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    path = tmp_path / "net.onnx"
    program.save(path, external_data=True)
    profile = ortable.profile(path, sizes={"batch": 3}, calls=1)
    assert_adds_up(profile)
    assert profile.model == "net.onnx" and profile.notes == ("generated inputs: x float32[3, 8]",)
    assert "layers.0.fc" in {node.module for node in profile.nodes}
    for inputs in ({"x": torch.randn(2, 8)}, torch.randn(2, 8).numpy()):
        assert_adds_up(ortable.profile(str(path), inputs, calls=1))
    assert_adds_up(ortable.profile(program, torch.randn(7, 8), calls=1))
    assert_adds_up(ortable.profile(program.model_proto, x=torch.randn(5, 8), calls=1))


def test_nodes_without_names_are_told_apart():
    model = parser.parse_model(BEFORE)
    profile = ortable.profile(model, torch.randn(1, 1, 4, 4), torch.randn(1, 1, 1, 1), calls=1)
    assert_adds_up(profile)
    assert {row.name for row in profile.operators} <= {UNKNOWN_OPERATOR, ADDED_NODE}
    assert len(profile.nodes) >= 3 and not any(node.name for node in model.graph.node[:1])


# -- side effects


def test_what_is_compiled_and_the_model_stay_as_they_are():
    model, x = GraphBreakNet().train(), torch.randn(4, 8)
    records: dict[str, list[object]] = {}
    compiled = torch.compile(model, backend="ortable", options={"storage": records})
    with torch.no_grad():
        compiled(x)
        count, mean = len(records["instance"]), model.norm.running_mean.clone()
        ortable.profile(compiled, x, calls=2)
        assert torch.equal(model.norm.running_mean, mean)
        compiled(x)
    assert len(records["instance"]) == count, "the profile added compiled graphs"
    assert not torch.equal(model.norm.running_mean, mean)


def test_options_that_find_compiled_graphs_or_time_them_are_left_out(tmp_path):
    options = {"tune": 1.0, "cache_dir": tmp_path}
    profile = ortable.profile(Net().eval(), torch.randn(4, 8), options=options, calls=1)
    assert any("tune" in note for note in profile.notes)
    assert not list(tmp_path.rglob("*.onnx"))


# -- output formats


def test_the_text_has_the_tables_and_the_rest(profile):
    text = profile.text()
    assert str(profile) == text
    assert text.startswith("Net: ") and "(the mean of 3 calls)" in text
    for title in ("by module", "by source line", "by ATen operator", "by kernel"):
        assert re.search(rf"^{title} +ms +% +kernels$", text, re.MULTILINE)
    assert text.count("Python around the session") == text.count("the call ") == 4
    assert re.search(r"^    [01] \(Block\) ", text, re.MULTILINE)
    assert re.search(r"^\d+ more ", profile.text(rows=0), re.MULTILINE)


def test_json_has_all_numbers_under_documented_names(profile):
    data = json.loads(profile.json())
    assert set(data) == {
        "version", "model", "calls", "counted", "call_us", "plain_us", "graphs", "nodes", "modules",
        "lines", "operators", "kernels", "rest", "notes",
    }  # fmt: skip
    assert data["version"] == 1
    assert set(data["graphs"][0]) == {
        "number", "kind", "where", "kernels_us", "session_us", "torch_us",
    }  # fmt: skip
    assert set(data["nodes"][0]) == {
        "graph", "name", "kernel", "provider", "module", "operator", "line", "us", "runs",
        "results",
    }  # fmt: skip
    assert set(data["modules"][0]) == {"graph", "path", "kind", "us", "own_us", "runs"}
    for rows in ("lines", "operators", "kernels", "rest"):
        assert set(data[rows][0]) == {"name", "us", "runs"}
    total = sum(row["us"] for row in [*data["lines"], *data["rest"]])
    assert total == pytest.approx(data["call_us"])


def test_the_trace_nests_modules_above_kernels(profile, tmp_path):
    profile.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    stack: list[dict[str, object]] = []
    ancestors = {}
    for event in spans:  # sorted by start, enclosing spans first
        while stack and stack[-1]["ts"] + stack[-1]["dur"] < event["ts"] + 1e-6:
            stack.pop()
        if stack:
            assert event["ts"] + event["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 1.001
        stack.append(event)
        ancestors.setdefault(event["cat"], [span["name"] for span in stack[:-1]])
    assert ancestors["call"] == [] and ancestors["session"] == ["Net"]
    assert ancestors["kernel"][2:] == ["layers", "0", "fc"]
    assert {e["args"]["line"].partition(":")[0] for e in spans if e["cat"] == "kernel"} == {
        "test_profile.py"
    }


class _PageParser(html.parser.HTMLParser):
    """Collect the URLs that a page loads, and its text outside of scripts."""

    def __init__(self):
        super().__init__()
        self.loaded, self.text = [], ""
        self.script = False

    def handle_starttag(self, tag, attrs):
        self.script = tag in ("script", "style")
        self.loaded += [value for name, value in attrs if name in ("src", "href", "action")]

    def handle_endtag(self, tag):
        self.script = False

    def handle_data(self, data):
        if not self.script:
            self.text += data


def test_the_page_is_self_contained_and_says_what_the_text_says(profile, tmp_path):
    profile.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    tags = _PageParser()
    tags.feed(page)
    assert tags.loaded == []
    assert "@import" not in page.partition("</style>")[0]
    assert "by ATen operator" in tags.text and "aten::addmm + aten::relu" in tags.text
    assert "layers" in page.rpartition("Plotly.newPlot")[2], "the flame graph lacks the modules"
    assert len(page) > 1_000_000, "the page lacks plotly's JavaScript"


def test_names_of_the_model_cannot_change_the_page(tmp_path):
    class ScriptTag(nn.Module):
        def forward(self, x):
            return torch.sin(x) if "</script><script>" else x

    profile = ortable.profile(ScriptTag(), torch.randn(3), calls=1)
    assert "<script>" in profile.lines[0].name
    profile.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"</script><script>"' not in page


def test_a_missing_extra_is_named_with_the_line_of_pip(profile, monkeypatch, tmp_path):
    for name in [module for module in sys.modules if module.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(OrtableError, match=r"pip install 'ortable\[profile\]'"):
        profile.save_html(tmp_path / "file")
    assert not (tmp_path / "file").exists()


# -- errors


@pytest.mark.parametrize("calls", [0, True, 2.0])
def test_calls_is_a_number_above_zero(calls):
    with pytest.raises(OptionError, match="calls is a number"):
        ortable.profile(Net(), torch.randn(4, 8), calls=calls)


def make_model(op_type, size):
    """Make a model of one node whose input has one dimension `size`, or is a sequence if None."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])
    if size is None:
        value = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [None])
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], "g", [value], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_a_profile_keeps_the_settings_of_sessions(tmp_path):
    user_settings = {"intra_op_num_threads": 1}
    settings = record.profile_settings(user_settings, ["CPUExecutionProvider"], tmp_path / "run")
    assert user_settings.items() < settings.items() and settings["enable_profiling"] is True
    assert user_settings == {"intra_op_num_threads": 1}


def test_what_cannot_be_profiled_is_refused_by_name(tmp_path):
    import onnxruntime

    x, model = torch.randn(4, 8), parser.parse_model(BEFORE)
    with pytest.raises(OptionError, match="Give a dict of settings"):
        ortable.profile(Net(), x, options={"session_options": onnxruntime.SessionOptions()})
    with pytest.raises(OptionError, match=r"ortable\.export"):
        ortable.profile(torch.export.export(Net(), (x,)))
    with pytest.raises(OptionError, match="sizes are for generated inputs"):
        ortable.profile(Net(), x, sizes={"batch": 2})
    with pytest.raises(OptionError, match="no option 'freeze'"):
        ortable.profile(model, options={"freeze": "off"})
    with pytest.raises(OptionError, match=r"torch\.compile"):
        ortable.profile(model, train=True)
    with pytest.raises(OptionError, match="no input has a dimension 'batch'"):
        ortable.profile(model, sizes={"batch": 2})
    with pytest.raises(OptionError, match="the size of 'n' is a number, not '8'"):
        ortable.profile(make_model("Relu", "n"), sizes={"n": "8"})
    with pytest.raises(ProviderError, match=r"cannot load the model: .*No Op registered for Rolu"):
        ortable.profile(make_model("Rolu", "n"), calls=1)
    with pytest.raises(InputError, match="input 'x' is not a tensor: give all inputs"):
        ortable.profile(make_model("SequenceLength", None))
    with pytest.raises(InputError, match="inputs x, w, and the call gives 1"):
        ortable.profile(model, x)
    with pytest.raises(InputError, match="could not run the model on x float32"):
        ortable.profile(model, x, x)
    with pytest.raises(InputError, match="no file"):
        ortable.profile(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("this is no model")
    with pytest.raises(InputError, match=r"is no(t an)? ONNX model"):
        ortable.profile(tmp_path / "text.onnx")
