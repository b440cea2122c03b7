"""What a compilation says through logging, TORCH_LOGS and TORCH_TRACE, and that it says nothing
unless somebody asks."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

from ortable.errors import OrtableError
from tests.packaging.files import ROOT


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def said(caplog):
    """`said()`: the lines since the last call."""
    caplog.set_level(logging.INFO, logger="ortable")

    def lines():
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    return lines


def compiled(model, **options):
    return torch.compile(model, backend="ortable", options=options)


def test_a_compiled_graph_is_one_line_with_place_nodes_sessions_and_seconds(said):
    model = Small().eval()
    with torch.no_grad():
        compiled(model)(torch.ones(2, 8))
    line, weights, frozen = said()
    assert re.fullmatch(
        r"compiled the inference graph of Small\.forward \(test_logging\.py:\d+\): 5 operators -> "
        r"3 ONNX nodes in 1 session; converted, \d+\.\d{3} s "
        r"\(key .*, convert .*, optimize .*, to_onnx .*, session .*\)",
        line,
    )
    assert weights == "4 weights of it become constants at the first call"
    assert re.fullmatch(
        r"4 weights of the inference graph of Small\.forward \(test_logging\.py:\d+\) "
        r"\(432 bytes\) are constants of its session now, made in \d+\.\d{3} s",
        frozen,
    )


def test_calls_say_nothing(said):
    function = compiled(Small().eval())
    with torch.no_grad():
        function(torch.ones(2, 8))
        said()
        function(torch.ones(2, 8))
    assert said() == []


def test_a_conversion_in_a_cache_says_where(said, tmp_path):
    from ortable.backend.cache.memory import clear_caches

    found = []
    for keep in (True, True, False):
        if not keep:
            clear_caches()
        torch._dynamo.reset()
        with torch.no_grad():
            compiled(torch.relu, cache_dir=str(tmp_path))(torch.ones(2, 8))
        found.append(said()[0].split("; ")[1].split(",")[0])
    assert found[0] == "converted" and found[1:] == ["found in memory", "found on disk"]


def test_a_recompilation_says_how_often_and_where_to_read_why(said):
    def square(x):
        return x * x

    function = compiled(square)
    function(torch.ones(2))
    said()
    function(torch.ones(2, 2))
    again, line, *_ = said()
    assert re.fullmatch(
        r"compiling .*square \(test_logging\.py:\d+\) again, for the second time: "
        r"TORCH_LOGS=recompiles names the guard that failed",
        again,
    )
    assert re.match(r"compiled the inference graph of .*square \(test_logging\.py:", line)


def test_what_torch_runs_is_told_with_operator_line_and_reason(said):
    def function(x):
        return (x @ x).sort()[0]

    compiled(function, fallback="eager", hints=False, raise_on=["aten::sort"])(torch.ones(4, 4))
    line, torchs = said()
    assert "2 operators -> 1 ONNX nodes in 1 session" in line
    assert re.fullmatch(
        r"torch: aten::sort, 1 call at test_logging\.py:\d+: return \(x @ x\)\.sort\(\)\[0\]"
        r": option raise_on names it",
        torchs,
    )


def test_a_graph_that_torch_runs_whole_has_no_session(said):
    compiled(torch.sort, fallback="eager", hints=False, raise_on=["aten::sort"])(torch.ones(4))
    assert "1 operator -> 0 ONNX nodes in 0 sessions; all in torch" in said()[0]


def test_weights_that_stay_inputs_say_why_and_backwards_say_nothing_of_them(said):
    compiled(Small())(torch.ones(2, 8)).sum().backward()
    forward, weights, backward = said()
    assert forward.startswith("compiled the forward graph of Small.forward")
    assert weights.startswith("4 weights of it stay inputs: grad mode was on")
    assert backward.startswith("compiled the backward graph of Small.forward")


def test_weights_that_changed_are_inputs_again_and_say_so(said):
    model = Small().eval()
    function = compiled(model)
    with torch.no_grad():
        function(torch.ones(2, 8))
        said()
        model.first.weight.mul_(2)
        function(torch.ones(2, 8))
    (line,) = said()
    assert re.fullmatch(
        r"weights of the inference graph of Small\.forward \(.*\) changed: passing them as "
        r"session inputs until they are stable",
        line,
    )


def test_a_backward_that_cannot_be_compiled_is_told(said):
    function = compiled(nn.Conv2d(1, 1, 3), raise_on=["aten::convolution_backward"])
    with pytest.raises(OrtableError, match="raise_on"):
        function(torch.ones(1, 1, 5, 5)).sum().backward()
    told = [line for line in said() if line.startswith("the backward of")]
    assert len(told) == 1 and "raise_on" in told[0] and "fails when it runs" in told[0]


def test_what_follows_a_graph_break_names_the_line_it_goes_on_with(said):
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    compiled(function)(torch.ones(3))
    places = [line.partition(":")[0] for line in said() if line.startswith("compiled")]
    assert places[1].startswith("compiled the inference graph of function after a graph break (")


def test_debug_adds_the_onnx_graph_and_the_caches(caplog):
    caplog.set_level(logging.DEBUG, logger="ortable")
    compiled(torch.relu)(torch.ones(3))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert re.search(r"^Relu\(.*\) -> output_0$", text, re.MULTILINE)
    assert "no conversion of the inference graph is stored under" in text


def test_nothing_is_formatted_when_nobody_listens(monkeypatch):
    from ortable.backend.aot import events

    def unexpected(*args):
        raise AssertionError("called for nobody")

    for name in ("pretty_onnx", "_make_report", "_log_summary"):
        monkeypatch.setattr(events, name, unexpected)
    trace = logging.getLogger("torch.__trace")
    monkeypatch.setattr(trace, "handlers", [])
    compiled(torch.relu)(torch.ones(3))


def test_the_library_installs_no_handler_but_the_null_one():
    import ortable

    handlers = logging.getLogger(ortable.__name__).handlers
    assert any(isinstance(each, logging.NullHandler) for each in handlers)


SCRIPT = """
import torch
from torch._dynamo.backends.registry import _BACKENDS, list_backends, register_backend

if "ortable" not in list_backends() and "ortable" not in _BACKENDS:
    from ortable.backend.aot.entry import ortable
    register_backend(ortable, name="ortable")

def double(x):
    return torch.relu(x) * 2

if SET_LOGS:
    import logging
    torch._logging.set_logs(modules={"ortable": logging.INFO})
double = torch.compile(double, backend="ortable")
double(torch.ones(3, requires_grad=True)).sum().backward()
"""


def run_script(set_logs=False, **environment):
    """What SCRIPT writes to the error stream in a process of its own."""
    path = os.pathsep.join([str(ROOT / "runtime"), str(ROOT / "generated"), str(ROOT / "codegen")])
    found = subprocess.run(
        [sys.executable, "-c", f"SET_LOGS = {set_logs}\n{SCRIPT}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=True,
        timeout=300,
    )
    return found.stderr


def test_torch_logs_and_torch_trace_know_the_name(tmp_path):
    told = run_script(TORCH_LOGS="ortable", TORCH_TRACE=str(tmp_path))
    lines = [line for line in told.splitlines() if "compiled the" in line]
    assert len(lines) == 2 and all("[0/0]" in line for line in lines)
    assert "inference" not in told and "Relu(" not in told
    artifacts = read_artifacts(next(tmp_path.glob("*.log")))
    assert [name for name, _, _ in artifacts] == ["ortable_report", "ortable_onnx_graph"] * 2
    assert {record["frame_id"] for _, record, _ in artifacts} == {0}
    reports = [json.loads(payload) for name, _, payload in artifacts if name == "ortable_report"]
    assert [each["kind"] for each in reports] == ["forward", "backward"]
    forward = reports[0]
    assert forward["function"] == "double" and forward["line"] > 0
    assert forward["operators"] == {"aten::relu": 1, "aten::mul.Tensor": 1, "aten::detach": 2}
    assert forward["torch"] == []
    (session,) = forward["sessions"]
    assert session["nodes"] == {"Relu": 1, "Mul": 1} and session["cache"] == "miss"
    assert session["providers"] == ["CPUExecutionProvider"]
    assert {"convert", "optimize", "session"} <= forward["seconds"].keys()
    texts = [payload for name, _, payload in artifacts if name == "ortable_onnx_graph"]
    assert texts[0].startswith("# the forward graph of double (") and "\nRelu(" in texts[0]
    assert timed_events(next(tmp_path.glob("*.log"))) >= {"ortable", "ortable.session"}


def test_set_logs_takes_the_name_of_the_package():
    told = run_script(set_logs=True)
    assert told.count("compiled the") == 2


def read_records(path):
    """Records of a file of TORCH_TRACE with their payloads: lines of JSON, each followed by its
    payload, which is indented."""
    found = []
    for line in path.read_text().splitlines():
        start = re.match(r"V\d{4} .*?\] (\{.*)", line)
        if start:
            found.append((json.loads(start[1]), []))
        elif line.startswith("\t"):
            found[-1][1].append(line[1:])
    return [(record, "\n".join(payload)) for record, payload in found]


def read_artifacts(path):
    return [
        (record["artifact"]["name"], record, payload)
        for record, payload in read_records(path)
        if record.get("artifact", {}).get("name", "").startswith("ortable")
    ]


def timed_events(path):
    payloads = [payload for record, payload in read_records(path) if "chromium_event" in record]
    return {json.loads(payload)["name"] for payload in payloads}
