"""`ortable.profile`: all time is accounted for, kernels are joined with what they were made for,
and nobody notices that it ran. No test asks how long anything takes."""

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
from ortable.debug.profiling import record
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


class Broken(Net):
    """A graph break, and a batch norm whose buffers a call would write."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        y = self.layers(x)
        if y.sum() > 1e6:
            y = y * 2
        return self.norm(y).sum()


class Sorted(Net):
    def forward(self, x):
        return self.layers(self.layers(x).sort(dim=-1)[0])


@pytest.fixture(scope="module")
def found():
    """A profile of an inference graph."""
    torch._dynamo.reset()
    return ortable.profile(Net().eval(), torch.randn(4, 8), calls=3)


def assert_adds_up(found):
    """Every table has the call's time: kernels and the named rest."""
    rest = sum(row.us for row in found.rest)
    for rows in (found.nodes, found.lines, found.operators, found.kernels):
        assert sum(row.us for row in rows) + rest == pytest.approx(found.call_us)
    assert sum(row.own_us for row in found.modules) + rest == pytest.approx(found.call_us)
    assert all(row.us >= 0 for row in (*found.nodes, *found.rest))
    graphs = [row for row in found.modules if not row.path]
    assert [row.us for row in graphs] == pytest.approx([g.kernels_us for g in found.graphs])


# -- accounts


def test_instants_belong_to_the_innermost_and_are_shared_by_threads():
    spans = [
        Span(10, 90, 1, SESSION_RUN, 0),
        Span(20, 60, 1, KERNEL, 0),  # a loop
        Span(30, 40, 1, KERNEL, 0),  # in its body
        Span(30, 30, 1, KERNEL, 0),  # too short for the clock
        Span(50, 70, 1, KERNEL, 0),  # ends after what is around it
        Span(60, 80, 2, KERNEL, 0),  # on another thread
        Span(0, 200, 0, TORCH, 0),  # around the session, and beyond the call
    ]
    taken, idle = attribute_window(spans, (5, 100))
    assert taken == [10 + 10, 10 + 10, 10, 0, 10 + 5, 5 + 10, 5 + 10] and idle == 0
    assert sum(taken) == 95
    assert attribute_window([], (5, 100)) == ([], 95)
    taken, idle = attribute_window(spans[:2], (0, 100))
    assert (taken, idle) == ([40, 40], 20)


def test_calls_that_were_disturbed_do_not_count():
    windows = [(0, 10), (10, 13), (20, 29), (30, 39), (40, 49), (50, 950)]
    made = attribute_time(Recording(windows, [1, 2, 3, 1000], [], []))
    assert (made.calls, made.call, made.python, made.plain) == (4, 9.25, 9.25, 2.5)
    made = attribute_time(Recording(windows[:3], [5], [], []))
    assert made.calls == 3 and made.call == pytest.approx(22 / 3)


def test_a_profile_adds_up(found):
    assert_adds_up(found)
    assert found.calls == 3 and found.call_us > 0 and found.plain_us > 0
    assert [row.name for row in found.rest] == [
        "outside of kernels (session)",
        "Python around the session",
    ]
    assert {node.runs for node in found.nodes} == {1.0}


def test_forward_and_backward_are_graphs_and_add_up():
    model = Net()
    found = ortable.profile(model, torch.randn(4, 8), train=True, calls=2)
    assert_adds_up(found)
    assert [graph.kind for graph in found.graphs] == ["forward", "backward"]
    assert all(graph.kernels_us > 0 for graph in found.graphs)
    paths = {(row.graph, row.path) for row in found.modules}
    assert {(0, "layers.0.fc"), (1, "layers.0.fc")} <= paths
    assert "autograd around the backward" in {row.name for row in found.rest}
    assert all(parameter.grad is None for parameter in model.parameters())


def test_graph_breaks_are_graphs_of_one_call():
    found = ortable.profile(Broken().eval(), torch.randn(4, 8), calls=2)
    assert_adds_up(found)
    assert [graph.number for graph in found.graphs] == [1, 2]
    assert found.graphs[0].where.startswith("Broken.forward (test_profile.py:")
    assert "after a graph break" in found.graphs[1].where


def test_what_torch_runs_between_sessions_has_a_row():
    options = {"fallback": "eager", "raise_on": ["aten::sort"]}
    found = ortable.profile(Sorted().eval(), torch.randn(4, 8), options=options, calls=2)
    assert_adds_up(found)
    (graph,) = found.graphs
    row = next(row for row in found.rest if row.name == "torch around its operators")
    assert row.us == graph.torch_us > 0
    (sort,) = (node for node in found.nodes if node.provider == "torch")
    assert (sort.operator, sort.kernel, sort.runs) == ("aten::sort", "aten::sort", 1)
    assert sort.line.endswith("return self.layers(self.layers(x).sort(dim=-1)[0])")
    steps = {step.what for step in found.timeline}
    assert steps == {"torch", "operator", "partition", "session", "kernel"}


def test_a_graph_that_torch_runs_whole_is_told():
    found = ortable.profile(
        lambda x: x.sort()[0],
        torch.randn(4),
        options={"fallback": "eager", "raise_on": ["aten::sort"]},
        calls=1,
    )
    assert_adds_up(found)
    assert {node.operator for node in found.nodes} == {"aten::sort"}
    assert {node.provider for node in found.nodes} == {"torch"}


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
def test_training_that_torch_runs_has_operators(broken):
    model = Convolved()

    def call(x):
        y = model(x)
        if broken and y.sum() > 1e6:
            y = y * 2
        return model(y)

    found = ortable.profile(call, torch.randn(1, 1, 9, 9), train=True, calls=2)
    assert_adds_up(found)
    ran = {row.name: row.runs for row in found.operators}
    assert ran["aten::convolution"] == ran["aten::convolution_backward"] == 2
    assert {graph.kind for graph in found.graphs} >= {"forward", "backward"}


def test_runs_outside_of_the_calls_are_an_error():
    event = {"cat": "Session", "ph": "X", "name": "model_run", "ts": 5, "dur": 2, "tid": 1}
    proto = onnx.ModelProto()
    session = record.SessionRecord(0, 1000, [event], proto, None)
    graphs = [record.GraphRecord(1, "inference", "f")]
    inside = attribute_time(Recording([(0, 10_000)], [10_000], graphs, [session]))
    assert (inside.sessions, inside.python, inside.call) == ({0: 2000}, 8000, 10_000)
    with pytest.raises(ProviderError, match="another clock"):
        attribute_time(Recording([(10_000, 20_000)], [10_000], graphs, [session]))


def test_a_full_profile_is_an_error(monkeypatch):
    monkeypatch.setattr(record, "_MAX_EVENTS", 3)
    with pytest.raises(ProviderError, match="fewer calls"):
        ortable.profile(Net().eval(), torch.randn(4, 8), calls=1)


# -- the join

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


def described(text, names, about=()):
    """A model of a text whose nodes have names, and metadata."""
    model = parser.parse_model(text)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    for node, (path, target, line) in zip(model.graph.node, about, strict=False):
        pairs = {"module_path": path, "aten_target": target, "source": line}
        for key, value in pairs.items():
            node.metadata_props.add(key=key, value=value)
    return model


@pytest.fixture
def fused():
    about = [
        ("net.conv", "aten.convolution.default", "a.py:1: self.conv(x)"),
        ("net", "aten.relu.default", "a.py:2: relu(x)"),
        ("net.a.b", "aten.sin.default", "a.py:3: sin(x)"),
        ("net.a.c", "aten.cos.default", "a.py:4: cos(x)"),
    ]
    return described(BEFORE, ["net.conv/conv", "net/relu", "net.a.b/sin", "net.a.c/y"], about)


def test_fused_and_added_nodes_are_joined_with_those_they_stand_for(fused):
    after = described(AFTER, ["ReorderInput", "relu_nchwc", "ReorderOutput", "made_up"])
    find = make_origin_finder(fused, after)
    convolution = KernelOrigin("net.conv", "aten::convolution + aten::relu", "a.py:1: self.conv(x)")
    assert find("relu_nchwc", "Conv") == ("com.microsoft.nchwc.Conv", convolution)
    # named after nothing: by what it computes
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
    find = make_origin_finder(described(BEFORE, list("abcd")), None)
    assert find("a", "Conv") == ("Conv", KernelOrigin(operator=UNKNOWN_OPERATOR))


def test_metadata_of_torch_onnx_are_read(tmp_path):
    torch.onnx.export(Net().eval(), (torch.randn(4, 8),), tmp_path / "net.onnx", dynamo=True)
    found = ortable.profile(tmp_path / "net.onnx", calls=1)
    assert_adds_up(found)
    assert {"layers.0.fc", "layers.1"} <= {row.path for row in found.modules}
    assert any("aten::linear" in row.name for row in found.operators)
    lines = {node.line for node in found.nodes if node.module.endswith("fc")}
    assert {line.partition(":")[0] for line in lines} == {"test_profile.py"}


def test_kernels_of_a_model_have_modules_operators_and_lines(found):
    assert {node.module for node in found.nodes} == {
        f"layers.{i}{inner}" for i in (0, 1) for inner in ("", ".fc")
    }
    assert "aten::addmm + aten::relu" in {row.name for row in found.operators}
    lines = {row.name.partition(": ")[2] for row in found.lines}
    assert lines == {"return torch.relu(self.fc(x)) + x"}
    kinds = {row.path: row.kind for row in found.modules}
    assert kinds == {
        "": "Net", "layers": "Sequential", "layers.0": "Block", "layers.0.fc": "Linear",
        "layers.1": "Block", "layers.1.fc": "Linear",
    }  # fmt: skip
    assert {node.provider for node in found.nodes} == {"CPUExecutionProvider"}


# -- exported models


class Looped(nn.Module):
    def forward(self, n, x):
        def go_on(i, y):
            return i < n

        def body(i, y):
            return i + 1, y.sin()

        return torch.while_loop(go_on, body, (torch.tensor(0), x))[1]


def test_bodies_of_loops_are_counted_apart_from_the_loop():
    program = ortable.export(Looped(), (torch.tensor(4), torch.randn(3)))
    found = ortable.profile(program, torch.tensor(4), torch.randn(3), calls=2)
    assert_adds_up(found)
    runs = {node.kernel: node.runs for node in found.nodes}
    assert runs["Sin"] == 4 and runs["Loop"] == 1
    names = {row.name for row in found.operators}
    assert {"while_loop", "aten::sin"} <= names
    assert not any(node.module.startswith("_export") for node in found.nodes)


def test_modules_that_share_a_function_keep_their_own_paths():
    program = ortable.export(Net().eval(), (torch.randn(4, 8),), export_modules_as_functions=True)
    called = program(torch.ones(4, 8))
    found = ortable.profile(program, torch.randn(4, 8), calls=1)
    assert_adds_up(found)
    assert {"layers.0.fc", "layers.1.fc"} <= {node.module for node in found.nodes}
    assert program.model_proto.functions, "the program keeps its functions"
    assert torch.equal(program(torch.ones(4, 8)), called)
    inlined = inline_module_functions(program.model_proto)
    assert not any(node.domain for node in inlined.graph.node)
    assert inline_module_functions(inlined) is inlined, "nothing is left to do"


def test_a_file_runs_with_inputs_that_are_made(tmp_path):
    batch = torch.export.Dim("batch")
    program = ortable.export(Net().eval(), (torch.randn(4, 8),), dynamic_shapes=({0: batch},))
    path = tmp_path / "net.onnx"
    program.save(path, external_data=True)
    found = ortable.profile(path, sizes={"batch": 3}, calls=1)
    assert_adds_up(found)
    assert found.model == "net.onnx" and found.notes == ("generated inputs: x float32[3, 8]",)
    assert "layers.0.fc" in {node.module for node in found.nodes}
    for given in ({"x": torch.randn(2, 8)}, torch.randn(2, 8).numpy()):
        assert_adds_up(ortable.profile(str(path), given, calls=1))
    assert_adds_up(ortable.profile(program, torch.randn(7, 8), calls=1))
    assert_adds_up(ortable.profile(program.model_proto, x=torch.randn(5, 8), calls=1))


def test_nodes_without_names_are_told_apart():
    model = parser.parse_model(BEFORE)
    found = ortable.profile(model, torch.randn(1, 1, 4, 4), torch.randn(1, 1, 1, 1), calls=1)
    assert_adds_up(found)
    assert {row.name for row in found.operators} <= {UNKNOWN_OPERATOR, ADDED_NODE}
    assert len(found.nodes) >= 3 and not any(node.name for node in model.graph.node[:1])


# -- what it leaves behind


def test_what_is_compiled_and_the_model_stay_as_they_are():
    model, x = Broken().train(), torch.randn(4, 8)
    records: dict[str, list[object]] = {}
    compiled = torch.compile(model, backend="ortable", options={"storage": records})
    with torch.no_grad():
        compiled(x)
        count, mean = len(records["instance"]), model.norm.running_mean.clone()
        ortable.profile(compiled, x, calls=2)
        assert torch.equal(model.norm.running_mean, mean)
        compiled(x)
    assert len(records["instance"]) == count, "nothing was compiled again"
    assert not torch.equal(model.norm.running_mean, mean)


def test_options_that_find_compiled_graphs_or_time_them_are_left_out(tmp_path):
    options = {"tune": 1.0, "cache_dir": tmp_path}
    found = ortable.profile(Net().eval(), torch.randn(4, 8), options=options, calls=1)
    assert any("tune" in note for note in found.notes)
    assert not list(tmp_path.rglob("*.onnx"))


# -- forms


def test_the_text_has_the_tables_and_the_rest(found):
    text = found.text()
    assert str(found) == text
    assert text.startswith("Net: ") and "(the mean of 3 calls)" in text
    for title in ("by module", "by source line", "by ATen operator", "by kernel"):
        assert re.search(rf"^{title} +ms +% +kernels$", text, re.MULTILINE)
    assert text.count("Python around the session") == text.count("the call ") == 4
    assert re.search(r"^    [01] \(Block\) ", text, re.MULTILINE)
    assert re.search(r"^\d+ more ", found.text(rows=0), re.MULTILINE)


def test_json_has_all_numbers_under_documented_names(found):
    data = json.loads(found.json())
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


def test_the_trace_nests_modules_above_kernels(found, tmp_path):
    found.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    open_: list[dict[str, object]] = []
    around = {}
    for event in spans:  # in the order of their begin, what is around first
        while open_ and open_[-1]["ts"] + open_[-1]["dur"] < event["ts"] + 1e-6:
            open_.pop()
        if open_:
            assert event["ts"] + event["dur"] <= open_[-1]["ts"] + open_[-1]["dur"] + 1.001
        open_.append(event)
        around.setdefault(event["cat"], [each["name"] for each in open_[:-1]])
    assert around["call"] == [] and around["session"] == ["Net"]
    assert around["kernel"][2:] == ["layers", "0", "fc"]
    assert {e["args"]["line"].partition(":")[0] for e in spans if e["cat"] == "kernel"} == {
        "test_profile.py"
    }


class _Tags(html.parser.HTMLParser):
    """What a page would load, and its text outside of scripts."""

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


def test_the_page_is_self_contained_and_says_what_the_text_says(found, tmp_path):
    found.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    tags = _Tags()
    tags.feed(page)
    assert tags.loaded == []
    assert "@import" not in page.partition("</style>")[0]
    assert "by ATen operator" in tags.text and "aten::addmm + aten::relu" in tags.text
    assert "layers" in page.rpartition("Plotly.newPlot")[2], "the flame graph has the modules"
    assert len(page) > 1_000_000, "plotly's JavaScript is in it"


def test_names_of_the_model_cannot_change_the_page(tmp_path):
    class Odd(nn.Module):
        def forward(self, x):
            return torch.sin(x) if "</script><script>" else x

    found = ortable.profile(Odd(), torch.randn(3), calls=1)
    assert "<script>" in found.lines[0].name
    found.save_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"</script><script>"' not in page


def test_a_missing_extra_is_named_with_the_line_of_pip(found, monkeypatch, tmp_path):
    for name in [each for each in sys.modules if each.partition(".")[0] == "plotly"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(OrtableError, match=r"pip install 'ortable\[profile\]'"):
        found.save_html(tmp_path / "file")
    assert not (tmp_path / "file").exists()


# -- errors


@pytest.mark.parametrize("calls", [0, True, 2.0])
def test_calls_is_a_number_above_zero(calls):
    with pytest.raises(OptionError, match="calls is a number"):
        ortable.profile(Net(), torch.randn(4, 8), calls=calls)


def one_node(op_type, size):
    """A model whose input is of one free size, or a sequence."""
    made = helper.make_tensor_value_info("x", TensorProto.FLOAT, [size])
    if size is None:
        made = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [None])
    result = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"])], "g", [made], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def test_a_profile_keeps_the_settings_of_sessions(tmp_path):
    given = {"intra_op_num_threads": 1}
    settings = record.profile_settings(given, ["CPUExecutionProvider"], tmp_path / "run")
    assert given.items() < settings.items() and settings["enable_profiling"] is True
    assert given == {"intra_op_num_threads": 1}


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
        ortable.profile(one_node("Relu", "n"), sizes={"n": "8"})
    with pytest.raises(ProviderError, match=r"cannot load the model: .*No Op registered for Rolu"):
        ortable.profile(one_node("Rolu", "n"), calls=1)
    with pytest.raises(InputError, match="input 'x' is not a tensor: give all inputs"):
        ortable.profile(one_node("SequenceLength", None))
    with pytest.raises(InputError, match="inputs x, w, and the call gives 1"):
        ortable.profile(model, x)
    with pytest.raises(InputError, match="could not run the model on x float32"):
        ortable.profile(model, x, x)
    with pytest.raises(InputError, match="no file"):
        ortable.profile(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("this is no model")
    with pytest.raises(InputError, match=r"is no(t an)? ONNX model"):
        ortable.profile(tmp_path / "text.onnx")
