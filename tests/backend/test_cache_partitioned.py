"""Graphs that run partly in torch: what a second process reads from torch's AOTAutograd cache."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.fx import Graph

from ortable.backend.cache.codec import Unserializable
from ortable.backend.partition import host_graph
from ortable.backend.partition.host_graph import HostGraph, decode_host_graph, encode_host_graph
from ortable.backend.partition.placement import Placement
from ortable.backend.precompile.artifact import Artifact

from .test_cache_disk import aten, cached, capture, entries, forget
from .test_cache_disk import own_folders as own_folders  # an autouse fixture

SCRIPT = """
import json, sys
import torch
from torch import nn
from torch._dynamo.utils import counters

class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 8, mode="sum")
        self.top = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, rows, offsets):
        return self.top(self.bag(rows, offsets))

def net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(16, 4),
    )

def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 5), nn.Dropout())

MODELS = {
    "dropout": (mlp, lambda n: (torch.randn(n, 6),)),
    "convolutions": (net, lambda n: (torch.randn(n, 3, 8, 8),)),
    "bags": (Bags, lambda n: (torch.randint(20, (4 * n,)), torch.arange(0, 4 * n, 4))),
}

def run(name, folder):
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, storage, results = make(), {}, []
    options = {"storage": storage, "cache_dir": folder}
    fast = torch.compile(model, backend="ortable", options=options)
    for batch in (2, 3, 6):  # the second one makes it dynamic
        out = fast(*inputs(batch))
        out.pow(2).sum().backward()
        results.append(out.tolist())
    results.append([p.grad.tolist() for p in model.parameters()])
    results.append([b.tolist() for b in model.buffers()])
    with torch.no_grad():
        results.append(fast(*inputs(2)).tolist())
        results.append(model.eval()(*inputs(2)).tolist())
    results.append(torch.rand(1).item())  # the generator is where it was
    records = [
        (r["kind"], r["cache"], sorted(r["timings"]), [p.operator for p in r["placement"]
         if p.where == "torch"]) for r in storage["instance"]
    ]
    return {"results": results, "records": records, "counters": dict(counters["aot_autograd"])}

if __name__ == "__main__":
    print(json.dumps({name: run(name, sys.argv[1]) for name in MODELS}))
"""


@pytest.fixture(scope="module")
def process_reports(tmp_path_factory):
    """Return the reports of two processes that run the script one after the other."""
    folder = tmp_path_factory.mktemp("processes")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}
    command = [sys.executable, str(script), str(folder / "c")]
    return [json.loads(subprocess.check_output(command, env=environment)) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dropout", "convolutions", "bags"])
def test_a_second_process_compiles_nothing(process_reports, name):
    first, second = (process[name] for process in process_reports)
    kinds = {kind for kind, *_ in first["records"]}
    assert kinds == {"forward", "backward", "inference"}
    assert "miss" in {cache for _, cache, *_ in first["records"]}
    assert any(in_torch for *_, in_torch in first["records"])
    assert {cache for _, cache, *_ in second["records"]} <= {"disk", "memory"}
    assert not any("convert" in timings for _, _, timings, _ in second["records"])
    assert second["counters"]["autograd_cache_hit"] == second["counters"]["total"]
    assert "autograd_cache_miss" not in second["counters"]
    assert second["results"] == first["results"]


# -- cached parts of a graph


def capture_once(fn, x, folder, **options):
    """Return the graphs and results of a call in the state of a new process."""
    forget()
    torch.manual_seed(3)
    return capture(fn, x, cache_dir=str(folder), **options)


def count_cache_hits():
    return counters["aot_autograd"].get("autograd_cache_hit", 0)


def dropout(x):
    return nn.functional.dropout(x.exp(), 0.5)


def draw_kinds(x):
    y = torch.rand_like(x) * x.exp()
    return torch.bernoulli(torch.sigmoid(y)), y.mul(2), torch.randint_like(y, 5), y.shape[0] * 2


def draw_and_write(x):
    x.add_(torch.randn_like(x))
    return x[1:], torch.randint_like(x, 2, 6)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("rows", [4, 5], ids=["static", "dynamic"])
@pytest.mark.parametrize("fn", [dropout, draw_kinds, draw_and_write], ids=lambda f: f.__name__)
def test_draws_and_writes(tmp_path, fn, rows):
    torch.manual_seed(3)
    expected = fn(torch.ones(rows, 3))
    first, second = (capture_once(fn, torch.ones(rows, 3), tmp_path / "c") for _ in range(2))
    assert set(cached(first[0])) == {"miss"} and set(cached(second[0])) == {"disk"}
    assert count_cache_hits() == 1
    for got in (first[1], second[1]):
        torch.testing.assert_close(got, expected)


def test_a_graph_that_torch_runs_whole(tmp_path):
    def draw(x):
        return torch.bernoulli(x)

    records = []
    for _ in range(2):
        storage = {}
        capture_once(draw, torch.full((3,), 0.5), tmp_path / "c", storage=storage)
        records += storage["instance"]
    assert count_cache_hits() == 1
    assert [(record["kind"], record["onnx"], record["cache"]) for record in records] == [
        ("inference", None, "miss"),
        ("inference", None, "disk"),
    ]
    assert records[0]["placement"] == records[1]["placement"] != []


def test_what_ran_where_is_told_without_tracing(tmp_path, capsys):
    reports = []
    for _ in range(2):
        capture_once(dropout, torch.ones(4), tmp_path / "c", verbose=1)
        reports.append([line for line in capsys.readouterr().out.splitlines() if "torch:" in line])
    assert count_cache_hits() == 1 and reports[0] == reports[1] != []
    assert "empty_strided" in reports[0][0] and "test_cache_partitioned.py" in reports[0][0]


@pytest.mark.parametrize("lost_index", [0, 1])
def test_a_lost_partition_is_converted_again(tmp_path, lost_index):
    def draw_between_partitions(x):
        return torch.bernoulli(torch.sigmoid(x.exp())).cos()

    capture_once(draw_between_partitions, torch.ones(4), tmp_path / "c")
    paths = entries(tmp_path / "c")
    assert len(paths) == 2
    paths[lost_index].unlink()
    graphs, _ = capture_once(draw_between_partitions, torch.ones(4), tmp_path / "c")
    # The other partition is in memory if it was loaded before the loss was detected.
    assert count_cache_hits() == 0 and len(graphs) == 2 and cached(graphs).count("miss") == 1
    capture_once(draw_between_partitions, torch.ones(4), tmp_path / "c")
    assert count_cache_hits() == 1


def test_what_has_no_description_stays_out_of_torch_s_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(host_graph, "NAMESPACES", ())
    for expected in ("miss", "disk"):
        graphs, _ = capture_once(dropout, torch.ones(4), tmp_path / "c")
        assert cached(graphs) == [expected]
        assert counters["aot_autograd"]["autograd_cache_bypass"] == 1


@pytest.mark.alternates(parts=3)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-20],
        lambda text: text.replace("aten.bernoulli_.float", "os.system"),
        lambda text: text.replace("aten.bernoulli_.float", "aten.bernoulli_.strange"),
        lambda text: text.replace('"call"', '"run"'),
        lambda text: "null",
    ],
)
def test_a_damaged_description_is_a_miss(tmp_path, monkeypatch, change):
    def damage(artifact):
        artifact.text = change(artifact.text)
        artifact.run = artifact.options = None

    with monkeypatch.context() as patch:
        patch.setattr(Artifact, "prepare_for_serialization", damage)
        _, expected = capture_once(dropout, torch.ones(4), tmp_path / "c")
    graphs, got = capture_once(dropout, torch.ones(4), tmp_path / "c")
    assert count_cache_hits() == 0 and counters["aot_autograd"]["autograd_cache_miss"] == 1
    assert cached(graphs) == ["disk"] and torch.equal(got, expected)


# -- descriptions


def encode_graph(graph, partitions=()):
    graph.output([list(graph.nodes)[-1]])
    return encode_host_graph(
        HostGraph(graph, "inference", [Placement("a", "aten::add", "torch", "why")]), partitions
    )


def test_a_graph_comes_back():
    graph = Graph()
    x = graph.placeholder("x; import os")
    partition_results = graph.call_module("part", ([x, None],))
    first = graph.call_function(operator.getitem, (partition_results, 0))
    size = graph.call_function(aten.sym_size.int, (x, 0))
    half = graph.call_function(operator.floordiv, (size, 2))
    kwargs = {"dtype": torch.float64, "device": torch.device("cpu"), "layout": torch.strided}
    memory = graph.call_function(aten.empty.memory_format, ([half, 3],), kwargs)
    random = graph.call_function(aten.random_, (memory, 5))
    scaled = graph.call_function(aten.add.Scalar, (random, float("-inf"), 0.1))
    graph.call_function(aten.cat.default, ((first, scaled),))
    text = encode_graph(graph, ["part"])
    decoded = decode_host_graph(text, 1)
    assert (decoded.kind, decoded.placement) == (
        "inference",
        [Placement("a", "aten::add", "torch", "why")],
    )
    assert [node.op for node in decoded.graph.nodes] == [node.op for node in graph.nodes]
    for node_before, node_after in zip(graph.nodes, decoded.graph.nodes, strict=True):
        if node_before.op == "call_function":
            assert node_after.target is node_before.target
        assert len(node_after.all_input_nodes) == len(node_before.all_input_nodes)
    code = decoded.graph.python_code("self").src
    assert "import os" not in code and "self.partition_0([arg0, None])" in code
    assert encode_host_graph(decoded, ["partition_0"]) == text


def _add_constant(graph):
    graph.get_attr("_tensor_constant0")


def _add_complex(graph):
    graph.call_function(aten.mul.Scalar, (graph.placeholder("x"), 1j))


def _add_collective(graph):
    graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (graph.placeholder("x"),))


def _add_print(graph):
    graph.call_function(print, (graph.placeholder("x"),))


def _add_method(graph):
    graph.call_method("exp", (graph.placeholder("x"),))


def _add_module(graph):
    graph.call_module("strange", (graph.placeholder("x"),))


@pytest.mark.parametrize(
    "add_node", [_add_constant, _add_complex, _add_collective, _add_print, _add_method, _add_module]
)
def test_what_cannot_be_described(add_node):
    graph = Graph()
    add_node(graph)
    with pytest.raises(Unserializable):
        encode_graph(graph, ["part"])


@pytest.mark.parametrize(
    ("name", "partitions"),
    [
        ("builtins.print", 0),
        ("operator.attrgetter", 0),
        ("aten.exp.__class__", 0),
        ("aten.exp.default.__call__", 0),
        ("aten.__class__", 0),
        ("os.system", 0),
        (5, 0),
        ("aten.exp.default", 1),
    ],
)
def test_names_that_nobody_wrote(name, partitions):
    graph = Graph()
    graph.call_function(aten.exp.default, (graph.placeholder("x"),))
    text = encode_graph(graph)
    assert decode_host_graph(text, 0)
    content = json.loads(text)
    for nodes in (content["nodes"][:-1], []):
        with pytest.raises(ValueError, match="a graph without results"):
            decode_host_graph(json.dumps({**content, "nodes": nodes}), 0)
    with pytest.raises((ValueError, TypeError, AttributeError)):
        decode_host_graph(text.replace('"aten.exp.default"', json.dumps(name)), partitions)
