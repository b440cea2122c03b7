"""Graphs that run partly in torch, in torch's cache of AOTAutograd: what a second process finds."""

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
from .test_cache_disk import own_folders as own_folders  # a fixture of every test here

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
def processes(tmp_path_factory):
    """What two processes say that run the script one after the other."""
    folder = tmp_path_factory.mktemp("processes")
    script = folder / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch")}
    command = [sys.executable, str(script), str(folder / "c")]
    return [json.loads(subprocess.check_output(command, env=environment)) for _ in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dropout", "convolutions", "bags"])
def test_a_second_process_compiles_nothing(processes, name):
    first, second = (process[name] for process in processes)
    kinds = {kind for kind, *_ in first["records"]}
    assert kinds == {"forward", "backward", "inference"}
    assert "miss" in {cache for _, cache, *_ in first["records"]}
    assert any(in_torch for *_, in_torch in first["records"])
    assert {cache for _, cache, *_ in second["records"]} <= {"disk", "memory"}
    assert not any("convert" in timings for _, _, timings, _ in second["records"])
    assert second["counters"]["autograd_cache_hit"] == second["counters"]["total"]
    assert "autograd_cache_miss" not in second["counters"]
    assert second["results"] == first["results"]


# -- what is kept of a graph


def capture_once(fn, x, folder, **options):
    """What a call compiles and returns in a process that knows nothing."""
    forget()
    torch.manual_seed(3)
    return capture(fn, x, cache_dir=str(folder), **options)


def hits():
    return counters["aot_autograd"].get("autograd_cache_hit", 0)


def dropped(x):
    return nn.functional.dropout(x.exp(), 0.5)


def drawn_kinds(x):
    y = torch.rand_like(x) * x.exp()
    return torch.bernoulli(torch.sigmoid(y)), y.mul(2), torch.randint_like(y, 5), y.shape[0] * 2


def written(x):
    x.add_(torch.randn_like(x))
    return x[1:], torch.randint_like(x, 2, 6)


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("rows", [4, 5], ids=["static", "dynamic"])
@pytest.mark.parametrize("fn", [dropped, drawn_kinds, written], ids=lambda f: f.__name__)
def test_draws_and_writes(tmp_path, fn, rows):
    torch.manual_seed(3)
    expected = fn(torch.ones(rows, 3))
    first, second = (capture_once(fn, torch.ones(rows, 3), tmp_path / "c") for _ in range(2))
    assert set(cached(first[0])) == {"miss"} and set(cached(second[0])) == {"disk"}
    assert hits() == 1
    for got in (first[1], second[1]):
        torch.testing.assert_close(got, expected)


def test_a_graph_that_torch_runs_whole(tmp_path):
    def spread(x):
        return torch.bernoulli(x)

    records = []
    for _ in range(2):
        storage = {}
        capture_once(spread, torch.full((3,), 0.5), tmp_path / "c", storage=storage)
        records += storage["instance"]
    assert hits() == 1
    assert [(r["kind"], r["onnx"], r["cache"]) for r in records] == [
        ("inference", None, "miss"),
        ("inference", None, "disk"),
    ]
    assert records[0]["placement"] == records[1]["placement"] != []


def test_what_ran_where_is_told_without_tracing(tmp_path, capsys):
    told = []
    for _ in range(2):
        capture_once(dropped, torch.ones(4), tmp_path / "c", verbose=1)
        told.append([line for line in capsys.readouterr().out.splitlines() if "torch:" in line])
    assert hits() == 1 and told[0] == told[1] != []
    assert "empty_strided" in told[0][0] and "test_cache_partitioned.py" in told[0][0]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_partition_is_converted_again(tmp_path, lost):
    def two(x):
        return torch.bernoulli(torch.sigmoid(x.exp())).cos()

    capture_once(two, torch.ones(4), tmp_path / "c")
    paths = entries(tmp_path / "c")
    assert len(paths) == 2
    paths[lost].unlink()
    found, _ = capture_once(two, torch.ones(4), tmp_path / "c")
    # the other one is in memory where it was loaded before the loss was noticed
    assert hits() == 0 and len(found) == 2 and cached(found).count("miss") == 1
    capture_once(two, torch.ones(4), tmp_path / "c")
    assert hits() == 1


def test_what_has_no_description_stays_out_of_torch_s_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(host_graph, "NAMESPACES", ())
    for expected in ("miss", "disk"):
        found, _ = capture_once(dropped, torch.ones(4), tmp_path / "c")
        assert cached(found) == [expected]
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
        _, expected = capture_once(dropped, torch.ones(4), tmp_path / "c")
    found, got = capture_once(dropped, torch.ones(4), tmp_path / "c")
    assert hits() == 0 and counters["aot_autograd"]["autograd_cache_miss"] == 1
    assert cached(found) == ["disk"] and torch.equal(got, expected)


# -- descriptions


def described(graph, partitions=()):
    graph.output([list(graph.nodes)[-1]])
    return encode_host_graph(
        HostGraph(graph, "inference", [Placement("a", "aten::add", "torch", "why")]), partitions
    )


def test_a_graph_comes_back():
    graph = Graph()
    x = graph.placeholder("x; import os")
    both = graph.call_module("part", ([x, None],))
    first = graph.call_function(operator.getitem, (both, 0))
    size = graph.call_function(aten.sym_size.int, (x, 0))
    half = graph.call_function(operator.floordiv, (size, 2))
    kinds = {"dtype": torch.float64, "device": torch.device("cpu"), "layout": torch.strided}
    room = graph.call_function(aten.empty.memory_format, ([half, 3],), kinds)
    drawn = graph.call_function(aten.random_, (room, 5))
    scaled = graph.call_function(aten.add.Scalar, (drawn, float("-inf"), 0.1))
    graph.call_function(aten.cat.default, ((first, scaled),))
    text = described(graph, ["part"])
    found = decode_host_graph(text, 1)
    assert (found.kind, found.placement) == (
        "inference",
        [Placement("a", "aten::add", "torch", "why")],
    )
    assert [n.op for n in found.graph.nodes] == [n.op for n in graph.nodes]
    for old, new in zip(graph.nodes, found.graph.nodes, strict=True):
        if old.op == "call_function":
            assert new.target is old.target
        assert len(new.all_input_nodes) == len(old.all_input_nodes)
    code = found.graph.python_code("self").src
    assert "import os" not in code and "self.partition_0([arg0, None])" in code
    assert encode_host_graph(found, ["partition_0"]) == text


def _constant(graph):
    graph.get_attr("_tensor_constant0")


def _number(graph):
    graph.call_function(aten.mul.Scalar, (graph.placeholder("x"), 1j))


def _other_namespace(graph):
    graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (graph.placeholder("x"),))


def _function(graph):
    graph.call_function(print, (graph.placeholder("x"),))


def _method(graph):
    graph.call_method("exp", (graph.placeholder("x"),))


def _module(graph):
    graph.call_module("strange", (graph.placeholder("x"),))


@pytest.mark.parametrize(
    "write", [_constant, _number, _other_namespace, _function, _method, _module]
)
def test_what_cannot_be_described(write):
    graph = Graph()
    write(graph)
    with pytest.raises(Unserializable):
        described(graph, ["part"])


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
    text = described(graph)
    assert decode_host_graph(text, 0)
    content = json.loads(text)
    for nodes in (content["nodes"][:-1], []):
        with pytest.raises(ValueError, match="a graph without results"):
            decode_host_graph(json.dumps({**content, "nodes": nodes}), 0)
    with pytest.raises((ValueError, TypeError, AttributeError)):
        decode_host_graph(text.replace('"aten.exp.default"', json.dumps(name)), partitions)
