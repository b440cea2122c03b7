"""Compiled graphs in torch's AOTAutograd cache, and what a second process reads from it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from ortable.backend.cache import keys
from ortable.backend.options import OrtOptions
from ortable.interpreter.user_specs import LoadedSpecs

from .test_cache_disk import aten, cached, capture, entries, forget
from .test_cache_disk import own_folders as own_folders  # an autouse fixture

SCRIPT = """
import json, sys
import torch
from torch._dynamo.utils import counters
from ortable import onnx_custom_backend

def main(folder):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    storage = {}
    options = {"storage": storage, "cache_dir": folder}
    def backend(gm, args):
        return onnx_custom_backend(gm, args, options=options)
    fast = torch.compile(model, backend=backend)
    results = []
    for batch in (2, 3, 6):
        out = fast(torch.arange(3.0 * batch).reshape(batch, 3))
        out.pow(2).sum().backward()
        results.append(out.tolist())
    results.append([p.grad.tolist() for p in model.parameters()])
    with torch.no_grad():
        results.append(fast(torch.ones(2, 3)).tolist())
    records = [(r["kind"], r["cache"], sorted(r["timings"])) for r in storage["instance"]]
    return {"results": results, "records": records, "counters": dict(counters["aot_autograd"])}

if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    folder = str(tmp_path / "c")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    first, second = (
        json.loads(subprocess.check_output([sys.executable, str(script), folder])) for _ in range(2)
    )
    kinds = ["backward", "backward", "forward", "forward", "inference"]
    assert sorted(kind for kind, _, _ in first["records"]) == kinds
    assert [kind for kind, _, _ in second["records"]].count("backward") == 2
    assert {cache for _, cache, _ in first["records"]} == {"miss"}
    assert {cache for _, cache, _ in second["records"]} == {"disk"}
    assert not any("convert" in timings for _, _, timings in second["records"])
    assert second["counters"]["autograd_cache_hit"] == second["counters"]["total"] == 3
    assert "autograd_cache_miss" not in second["counters"]
    assert second["results"] == first["results"]


# -- torch's cache


def test_torch_keeps_a_key_and_no_model(tmp_path):
    capture(nn.Linear(300, 300), torch.ones(2, 300), cache_dir=str(tmp_path / "c"))
    (path,) = [file for file in (tmp_path / "torch").rglob("*") if file.is_file()]
    content = path.read_bytes()
    assert b"Gemm" not in content and len(content) < 40_000
    assert all(compiled.stat().st_size < 20_000 for compiled in entries(tmp_path / "c"))


@pytest.mark.parametrize(
    "options", [{"target_opset": 18}, {"optimize": False}, {"raise_on": ("aten::relu",)}]
)
def test_other_options_find_nothing(tmp_path, options):
    folder = str(tmp_path / "c")
    capture(torch.exp, torch.ones(3), cache_dir=folder)
    forget()
    graphs, _ = capture(torch.exp, torch.ones(3), cache_dir=folder, **options)
    assert cached(graphs) == ["miss"]
    assert "autograd_cache_hit" not in counters["aot_autograd"]


def _keep_only_the_key(artifact):
    artifact.run = artifact.options = None


def test_another_backend_finds_nothing(tmp_path, monkeypatch):
    """Neither backend uses a graph that the other has put into torch's cache."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config

    from ortable.backend.aot.compilation import Compilation
    from ortable.backend.aot.torch_cache import _make_serializing_compiler
    from ortable.backend.precompile.artifact import Artifact

    options = OrtOptions(cache_dir=str(tmp_path / "c"))

    def compile_with_other_backend(graph_module, args):
        # Bundled like ortable's, with artifacts of the same class: only the key's salt differs.
        def compile_graph(inner, example_inputs):
            def run(args):
                return [torch.zeros(3)]

            return run

        compilation = Compilation(graph_module, args, options, compile_graph, compile_graph)
        backend = aot_autograd(fw_compiler=_make_serializing_compiler(compile_graph, compilation))
        with config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True):
            return backend(graph_module, args)

    def run_ortable():
        graphs, got = capture(torch.exp, torch.ones(3), cache_dir=options.cache_dir)
        torch.testing.assert_close(got, torch.ones(3).exp())
        return cached(graphs)

    def run_other_backend():
        return torch.compile(torch.exp, backend=compile_with_other_backend)(torch.ones(3)).tolist()

    monkeypatch.setattr(Artifact, "prepare_for_serialization", _keep_only_the_key)
    for expected in ("miss", "disk"):
        forget()
        assert run_other_backend() == [0, 0, 0]
        forget()
        assert run_ortable() == [expected]


def test_settings_of_torch_are_left_alone(tmp_path):
    from torch._functorch import config

    settings = config.bundled_autograd_cache, config.force_non_lazy_backward_lowering
    capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
    assert (config.bundled_autograd_cache, config.force_non_lazy_backward_lowering) == settings
    assert settings == (False, False)


def test_without_torch_s_cache_conversions_are_still_found(tmp_path):
    from torch._functorch import config

    folder = str(tmp_path / "c")
    model = nn.Linear(3, 2)
    with config.patch(enable_autograd_cache=False):
        capture(model, torch.ones(2, 3), cache_dir=folder)
        forget()
        graphs, _ = capture(model, torch.ones(2, 3), cache_dir=folder)
    assert cached(graphs) == ["disk", "disk"]
    assert "autograd_cache_hit" not in counters["aot_autograd"]


def test_own_decompositions_stay_out_of_torch_s_cache(tmp_path):
    import ortable

    table = {aten.silu.default: lambda x: x * torch.sigmoid(x)}
    options = {"export_options": ortable.ExportOptions(decomposition_table=table)}
    options["cache_dir"] = str(tmp_path / "c")
    for expected in ("miss", "disk"):
        forget()
        graphs, _ = capture(nn.SiLU(), torch.ones(3), **options)
        assert cached(graphs) == [expected]
    assert not (tmp_path / "torch" / "aotautograd").exists()


def test_graphs_with_functions_of_the_user_stay_out_of_torch_s_cache(tmp_path, monkeypatch):
    loaded = LoadedSpecs("mine.yaml", ("mine::op",), "def f(): pass", lowerings=("f",))
    monkeypatch.setattr(keys, "LOADED_SPECS", [loaded])
    for _ in range(2):
        forget()
        graphs, got = capture(torch.exp, torch.ones(3), cache_dir=str(tmp_path / "c"))
        torch.testing.assert_close(got, torch.ones(3).exp())
        assert cached(graphs) == ["miss"] and entries(tmp_path / "c") == []
    assert not (tmp_path / "torch" / "aotautograd").exists()


def test_a_backward_that_cannot_be_compiled_fails_when_it_runs(tmp_path):
    from ortable.errors import OrtableError

    options = {"raise_on": ("aten::silu_backward",), "cache_dir": str(tmp_path / "c")}
    for _ in range(2):  # torch's cache does not hold such a graph
        forget()
        x = torch.ones(3, requires_grad=True)
        out = torch.compile(nn.SiLU(), backend="ortable", options=options)(x)
        torch.testing.assert_close(out, nn.functional.silu(x))
        with pytest.raises(OrtableError, match="silu_backward"):
            out.sum().backward()
        assert counters["aot_autograd"]["autograd_cache_bypass"] == 1
