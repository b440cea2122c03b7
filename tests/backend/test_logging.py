"""Output of a compilation in logging, TORCH_LOGS and TORCH_TRACE, and none unless requested."""

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

pytestmark = pytest.mark.alternates(parts=3)


class SmallModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@pytest.fixture
def get_lines(caplog):
    """Return a function that returns the lines logged since its last call."""
    caplog.set_level(logging.INFO, logger="ortable")

    def take_lines():
        messages = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return messages

    return take_lines


def compile_fn(model, **options):
    return torch.compile(model, backend="ortable", options=options)


def test_a_compiled_graph_is_one_line_with_place_nodes_sessions_and_seconds(get_lines):
    model = SmallModel().eval()
    with torch.no_grad():
        compile_fn(model)(torch.ones(2, 8))
    line, weights, frozen = get_lines()
    assert re.fullmatch(
        r"compiled the inference graph of SmallModel\.forward \(test_logging\.py:\d+\): "
        r"5 operators -> 3 ONNX nodes in 1 session; converted, \d+\.\d{3} s "
        r"\(key .*, convert .*, optimize .*, to_onnx .*, session .*\)",
        line,
    )
    assert weights == "4 weights of it become constants at the first call"
    assert re.fullmatch(
        r"4 weights of the inference graph of SmallModel\.forward \(test_logging\.py:\d+\) "
        r"\(432 bytes\) are constants of its session now, made in \d+\.\d{3} s",
        frozen,
    )


def test_calls_say_nothing(get_lines):
    function = compile_fn(SmallModel().eval())
    with torch.no_grad():
        function(torch.ones(2, 8))
        get_lines()
        function(torch.ones(2, 8))
    assert get_lines() == []


def test_a_conversion_in_a_cache_says_where(get_lines, tmp_path):
    from ortable.backend.cache.memory import clear_caches

    sources = []
    for keep_memory in (True, True, False):
        if not keep_memory:
            clear_caches()
        torch._dynamo.reset()
        with torch.no_grad():
            compile_fn(torch.relu, cache_dir=str(tmp_path))(torch.ones(2, 8))
        sources.append(get_lines()[0].split("; ")[1].split(",")[0])
    assert sources[0] == "converted" and sources[1:] == ["found in memory", "found on disk"]


def test_a_recompilation_says_how_often_and_where_to_read_why(get_lines):
    def square(x):
        return x * x

    function = compile_fn(square)
    function(torch.ones(2))
    get_lines()
    function(torch.ones(2, 2))
    recompilation, line, *_ = get_lines()
    assert re.fullmatch(
        r"compiling .*square \(test_logging\.py:\d+\) again, for the second time: "
        r"TORCH_LOGS=recompiles names the guard that failed",
        recompilation,
    )
    assert re.match(r"compiled the inference graph of .*square \(test_logging\.py:", line)


def test_what_torch_runs_is_told_with_operator_line_and_reason(get_lines):
    def function(x):
        return (x @ x).sort()[0]

    compile_fn(function, fallback="eager", hints=False, raise_on=["aten::sort"])(torch.ones(4, 4))
    line, fallback = get_lines()
    assert "2 operators -> 1 ONNX nodes in 1 session" in line
    assert re.fullmatch(
        r"torch: aten::sort, 1 call at test_logging\.py:\d+: return \(x @ x\)\.sort\(\)\[0\]"
        r": option raise_on names it",
        fallback,
    )


def test_a_graph_that_torch_runs_whole_has_no_session(get_lines):
    compile_fn(torch.sort, fallback="eager", hints=False, raise_on=["aten::sort"])(torch.ones(4))
    assert "1 operator -> 0 ONNX nodes in 0 sessions; all in torch" in get_lines()[0]


def test_weights_that_stay_inputs_say_why_and_backwards_say_nothing_of_them(get_lines):
    compile_fn(SmallModel())(torch.ones(2, 8)).sum().backward()
    forward, weights, backward = get_lines()
    assert forward.startswith("compiled the forward graph of SmallModel.forward")
    assert weights.startswith("4 weights of it stay inputs: grad mode was on")
    assert backward.startswith("compiled the backward graph of SmallModel.forward")


def test_weights_that_changed_are_inputs_again_and_say_so(get_lines):
    model = SmallModel().eval()
    function = compile_fn(model)
    with torch.no_grad():
        function(torch.ones(2, 8))
        get_lines()
        model.first.weight.mul_(2)
        function(torch.ones(2, 8))
    (line,) = get_lines()
    assert re.fullmatch(
        r"weights of the inference graph of SmallModel\.forward \(.*\) changed: passing them as "
        r"session inputs until they are stable",
        line,
    )


def test_a_backward_that_cannot_be_compiled_is_told(get_lines):
    function = compile_fn(nn.Conv2d(1, 1, 3), raise_on=["aten::convolution_backward"])
    with pytest.raises(OrtableError, match="raise_on"):
        function(torch.ones(1, 1, 5, 5)).sum().backward()
    lines = [line for line in get_lines() if line.startswith("the backward of")]
    assert len(lines) == 1 and "raise_on" in lines[0] and "fails when it runs" in lines[0]


def test_what_follows_a_graph_break_names_the_line_it_goes_on_with(get_lines):
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    compile_fn(function)(torch.ones(3))
    labels = [line.partition(":")[0] for line in get_lines() if line.startswith("compiled")]
    assert labels[1].startswith("compiled the inference graph of function after a graph break (")


def test_debug_adds_the_onnx_graph_and_the_caches(caplog):
    caplog.set_level(logging.DEBUG, logger="ortable")
    compile_fn(torch.relu)(torch.ones(3))
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert re.search(r"^Relu\(.*\) -> output_0$", text, re.MULTILINE)
    assert "no conversion of the inference graph is stored under" in text


def test_nothing_is_formatted_when_nobody_listens(monkeypatch):
    from ortable.backend.aot import events

    def unexpected(*args):
        raise AssertionError("called without a handler")

    for name in ("pretty_onnx", "_make_report", "_log_summary"):
        monkeypatch.setattr(events, name, unexpected)
    trace = logging.getLogger("torch.__trace")
    monkeypatch.setattr(trace, "handlers", [])
    compile_fn(torch.relu)(torch.ones(3))


def test_the_library_installs_no_handler_but_the_null_one():
    import ortable

    handlers = logging.getLogger(ortable.__name__).handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


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
    """Run SCRIPT in a process and return its stderr."""
    path = os.pathsep.join([str(ROOT / "runtime"), str(ROOT / "generated"), str(ROOT / "codegen")])
    process = subprocess.run(
        [sys.executable, "-c", f"SET_LOGS = {set_logs}\n{SCRIPT}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
        check=True,
        timeout=300,
    )
    return process.stderr


def test_torch_logs_and_torch_trace_know_the_name(tmp_path):
    stderr = run_script(TORCH_LOGS="ortable", TORCH_TRACE=str(tmp_path))
    lines = [line for line in stderr.splitlines() if "compiled the" in line]
    assert len(lines) == 2 and all("[0/0]" in line for line in lines)
    assert "inference" not in stderr and "Relu(" not in stderr
    artifacts = read_artifacts(next(tmp_path.glob("*.log")))
    assert [name for name, _, _ in artifacts] == ["ortable_report", "ortable_onnx_graph"] * 2
    assert {record["frame_id"] for _, record, _ in artifacts} == {0}
    reports = [json.loads(payload) for name, _, payload in artifacts if name == "ortable_report"]
    assert [report["kind"] for report in reports] == ["forward", "backward"]
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
    assert read_timed_events(next(tmp_path.glob("*.log"))) >= {"ortable", "ortable.session"}


def test_set_logs_takes_the_name_of_the_package():
    stderr = run_script(set_logs=True)
    assert stderr.count("compiled the") == 2


def read_records(path):
    """Return the records of a TORCH_TRACE file, each with the indented lines that follow it."""
    records = []
    for line in path.read_text().splitlines():
        start = re.match(r"V\d{4} .*?\] (\{.*)", line)
        if start:
            records.append((json.loads(start[1]), []))
        elif line.startswith("\t"):
            records[-1][1].append(line[1:])
    return [(record, "\n".join(payload)) for record, payload in records]


def read_artifacts(path):
    return [
        (record["artifact"]["name"], record, payload)
        for record, payload in read_records(path)
        if record.get("artifact", {}).get("name", "").startswith("ortable")
    ]


def read_timed_events(path):
    payloads = [payload for record, payload in read_records(path) if "chromium_event" in record]
    return {json.loads(payload)["name"] for payload in payloads}
