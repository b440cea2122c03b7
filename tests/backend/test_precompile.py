"""Loading compiled functions from files (`aot_compile`, TORCH_CACHING_PRECOMPILE), and refusals."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

import ortable
from ortable.backend.cache import envelope
from ortable.backend.cache.memory import conversions
from ortable.backend.precompile import pack
from ortable.backend.precompile.artifact import Precompiled
from ortable.errors import OptionError, PrecompileError

from .test_cache_disk import own_folders as own_folders  # an autouse fixture

# Guards that a file can hold: torch's default also selects guards that it then refuses to save.
PORTABLE_GUARDS = torch.compiler.keep_portable_guards_unsafe

MODELS_SOURCE = '''
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)
        self.register_buffer("scale", torch.arange(16.0))

    def forward(self, x, *, shift=0.0):
        return self.b(torch.nn.functional.gelu(self.a(x)) * self.scale / 16) + shift

class Partly(nn.Module):
    """Torch draws the mask of dropout and writes the statistics."""

    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x):
        return torch.nn.functional.dropout(self.n(self.a(x)), 0.5, training=True).sigmoid()

def aliases(x):
    y = x.exp()
    return y, y.t(), x.add_(1)

def make(name):
    torch.manual_seed(0)
    return {"Net": Net, "Partly": Partly, "aliases": lambda: aliases}[name]()
'''

LOAD_SCRIPT = """
import json, pathlib, sys
import torch, models
from torch._dynamo.utils import counters

def same(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)

def trained(call, model, x, **keywords):
    model.zero_grad()
    torch.manual_seed(7)
    out = call(x, **keywords)
    out.pow(2).sum().backward()
    return [out, *(p.grad.clone() for p in model.parameters()), *model.buffers()]

def check(name, load):
    kind, _, model = name.partition("-")
    fast, model, again = load(name), models.make(model), models.make(model)
    for size in (2, 3, 5) if "dynamic" in kind else (3,):
        x = torch.linspace(-1, 1, 8 * size).reshape(size, 8)
        if kind == "aliases":
            one, two = x.clone(), x.clone()
            with torch.no_grad():
                found, wanted = fast(one), again(two)
            same(found, wanted), same(one, two)
            assert found[1]._base is found[0] and found[2] is one
        elif "training" in kind:
            call = lambda x, **keywords: fast(model, x, **keywords)
            keywords = {"shift": 1.5} if "shift" in kind else {}
            found = trained(call, model, x, **keywords)
            same(found, trained(again, again, x, **keywords))
        else:
            with torch.no_grad():
                same(fast(model, x), again(x))

def main(folder, threads):
    folder = pathlib.Path(folder)
    torch.set_num_threads(int(threads))  # a guard of every function

    def load(name):
        with open(folder / name, "rb") as file:
            return torch.compiler.load_compiled_function(file)

    names = sorted(path.name for path in folder.iterdir() if "-" in path.name)
    check("inference-Net", load)
    converters = ("ortable.builder", "ortable.exporter", "ortable.interpreter.interpreter")
    first = [name for name in converters if name in sys.modules]
    for name in names:
        check(name, load)
    load("inference-Net").save_compiled_function(str(folder / "saved again"))
    with torch.no_grad():
        same(load("saved again")(models.make("Net"), torch.ones(3, 8)),
             models.make("Net")(torch.ones(3, 8)))
    refused = 0
    try:
        load("inference-Net")(models.make("Net"), torch.ones(4, 8))
    except RuntimeError as error:
        refused = "size mismatch" in str(error) or "GuardManager" in str(error)
    return {
        "names": names,
        "counters": dict(counters),
        "refused": bool(refused),
        "first": first,
    }

print(json.dumps(main(*sys.argv[1:])))
"""


def aot_compile(function, args, keywords=None, **options):
    compiled = torch.compile(function, backend="ortable", fullgraph=True, options=options)
    compiled = compiled.forward if isinstance(function, nn.Module) else compiled
    return compiled.aot_compile((tuple(args), keywords or {}))


def run_script(tmp_path: Path, script: str, *arguments: str, **environment: str) -> dict:
    (tmp_path / "models.py").write_text(MODELS_SOURCE)
    path = tmp_path / "script.py"
    path.write_text(script)
    process = subprocess.run(
        [sys.executable, "-W", "ignore", str(path), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert not process.returncode, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture
def models(tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text(MODELS_SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "models", raising=False)
    import models

    yield models
    del sys.modules["models"]


def test_a_new_process_neither_traces_nor_converts(tmp_path, models):
    folder = tmp_path / "files"
    folder.mkdir()

    def save(name, *, grad, **keywords):
        function = models.make(name.partition("-")[2])
        x = torch.linspace(-1, 1, 24).reshape(3, 8)
        if "dynamic" in name:
            torch._dynamo.mark_dynamic(x, 0)
        with torch.set_grad_enabled(grad):
            compiled = aot_compile(function, (x,), keywords)
        compiled.save_compiled_function(str(folder / name))
        torch._dynamo.reset()
        return compiled, function, x

    for name in ("inference-Net", "dynamic inference-Net", "aliases-aliases"):
        save(name, grad=False)
    compiled, function, x = save("training and shift-Net", grad=True, shift=1.5)
    torch.testing.assert_close(compiled(function, x, shift=1.5), function(x, shift=1.5))
    save("dynamic training-Net", grad=True)
    save("training-Partly", grad=True)
    report = run_script(tmp_path, LOAD_SCRIPT, str(folder), str(torch.get_num_threads()))
    assert len(report["names"]) == 6 and report["refused"]
    assert report["counters"] == {}  # Dynamo and AOTAutograd did nothing
    assert report["first"] == []  # no converter is imported for a graph without partitions


class WithConstant(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(300, 300)

    def forward(self, x):
        return self.a(x), torch.tensor(list(range(3000))) + x[0, 0].long()


def test_weights_are_not_in_the_file_and_constants_once(tmp_path):
    model = WithConstant()
    with torch.no_grad():
        content = Precompiled.serialize_compile_artifacts(
            aot_compile(model, [torch.ones(2, 300)])._artifacts.compiled_fn
        )
    assert 3000 * 8 <= len(content) < 3000 * 8 * 2
    assert model.a.weight.detach().numpy().tobytes()[:64] not in content


# -- refusals


def serialize_exp(**options) -> bytes:
    with torch.no_grad():
        compiled = aot_compile(torch.exp, [torch.ones(3)], **options)
    return Precompiled.serialize_compile_artifacts(compiled._artifacts.compiled_fn)


def test_damaged_and_foreign_bytes_are_refused(monkeypatch):
    content = serialize_exp()
    load = Precompiled.deserialize_compile_artifacts
    torch.testing.assert_close(load(content)(torch.ones(3))[0], torch.ones(3).exp())
    with pytest.raises(PrecompileError, match="truncated"):  # as in test_cache_disk.py
        load(content[:-1])
    for foreign_bytes in (b"", b"PK\x03\x04", content[1:], "text"):
        with pytest.raises(PrecompileError, match="not a compiled graph of ortable"):
            load(foreign_bytes)
    conversion = envelope.seal_bytes("conversion", {}, b"")
    with pytest.raises(PrecompileError, match="of kind 'conversion', not 'entry'"):
        load(conversion)
    with pytest.raises(PrecompileError, match="of kind 'conversion', not 'graph'"):
        pack.unpack_graph(conversion)
    versions = {**envelope.dependency_versions(), "torch": "1.0"}
    monkeypatch.setattr(envelope, "dependency_versions", lambda: versions)
    with pytest.raises(PrecompileError, match=r"saved by other versions: torch .* \(here 1.0\)"):
        load(content)


def test_a_file_that_is_cut_off_is_not_loaded(tmp_path):
    with torch.no_grad():
        aot_compile(torch.exp, [torch.ones(3)]).save_compiled_function(str(tmp_path / "f"))
    content = (tmp_path / "f").read_bytes()
    for fraction in (0.1, 0.5, 0.9, 0.999):
        (tmp_path / "g").write_bytes(content[: int(fraction * len(content))])
        with open(tmp_path / "g", "rb") as file, pytest.raises(Exception, match=r"."):
            torch.compiler.load_compiled_function(file)


def test_what_a_file_cannot_hold_is_said_when_it_is_asked_for():
    import onnxruntime

    with torch.no_grad():
        with pytest.raises(PrecompileError, match="'session_options' cannot be stored"):
            aot_compile(torch.exp, [torch.ones(3)], session_options=onnxruntime.SessionOptions())
        torch._dynamo.reset()
        debugged = torch.compile(torch.exp, backend=ortable.onnx_debug_backend, fullgraph=True)
        with pytest.raises(
            PrecompileError, match=r"^aot_compile: graphs of a backend that compares"
        ):
            debugged.aot_compile(((torch.ones(3),), {}))
        torch._dynamo.reset()
        with pytest.raises(OptionError, match="autotune"):
            aot_compile(torch.exp, [torch.ones(3)], autotune=True)
    torch._dynamo.reset()
    patch = torch._dynamo.config.patch(install_free_tensors=True, inline_inbuilt_nn_modules=True)
    with patch, torch.no_grad(), pytest.raises(PrecompileError, match="left weights in the"):
        aot_compile(WithConstant(), [torch.ones(2, 300)])
    torch._dynamo.reset()
    with pytest.raises(ortable.OrtableError, match="silu_backward"):
        x = torch.ones(3, requires_grad=True)
        aot_compile(nn.functional.silu, [x], raise_on=("aten::silu_backward",))


def test_without_torchs_cache_there_is_no_file_of_a_function_with_a_backward():
    with torch._functorch.config.patch(enable_autograd_cache=False):
        compiled = aot_compile(torch.exp, [torch.ones(3, requires_grad=True)])
    with pytest.raises(PrecompileError, match="torch stored nothing of this") as error:
        Precompiled.serialize_compile_artifacts(compiled._artifacts.compiled_fn)
    assert "torch._functorch.config.enable_autograd_cache" in str(error.value)


def test_a_model_with_files_of_its_own_is_not_kept():
    def add_external_weight(model):
        weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")
        weight.ClearField("raw_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value="w.bin")
        model.graph.initializer.append(weight)

    with pytest.raises(
        PrecompileError, match=r"cannot be serialized .* stores tensors in other files"
    ):
        serialize_exp(pre_ort_model_transforms=add_external_weight)


def test_options_of_a_run_go_along(tmp_path):
    content = serialize_exp(freeze="off", session_options={"session.x": "1"}, verbose=0)
    header, _ = envelope.unseal_bytes("graph", content)
    options = pack.deserialize_options(header["options"])
    assert options.freeze == "off" and options.session_options == {"session.x": "1"}
    assert options.providers == ("CPUExecutionProvider",) and options.cache_dir is None


# -- TORCH_CACHING_PRECOMPILE

CACHING_SCRIPT = """
import json, sys
import torch, models
from torch._dynamo.utils import counters

def main():
    model = models.make("Net")
    fast = torch.compile(model, backend="ortable", options=json.loads(sys.argv[1]))
    with torch.no_grad():
        results = [fast(torch.ones(size, 8)).tolist() for size in (3, 4, 5)]
    fast(torch.ones(3, 8)).sum().backward()
    results.append(model.a.weight.grad.tolist())
    torch.compiler.save_cache_artifacts()
    kept = {name: dict(counters[name]) for name in ("dynamo_cache", "frames", "aot_autograd")}
    return {"results": results, **kept}

print(json.dumps(main()))
"""


@pytest.mark.slow  # two processes
def test_functions_are_kept_for_the_next_process(tmp_path):
    def run_process(**options):
        return run_script(tmp_path, CACHING_SCRIPT, json.dumps(options), **environment)

    environment = {
        "TORCH_CACHING_PRECOMPILE": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
    }
    first, second, other = run_process(), run_process(), run_process(freeze="off")
    assert first["dynamo_cache"] == {"dynamo_cache_miss": 1}
    assert second["dynamo_cache"] == {"dynamo_cache_hit": 1}
    assert not second["frames"] and not second["aot_autograd"]
    assert second["results"] == first["results"]
    # torch's key contains neither the backend nor its options
    assert other["dynamo_cache"] == {"dynamo_cache_error": 1} and other["frames"]
    for result, expected in zip(other["results"], first["results"], strict=True):
        torch.testing.assert_close(torch.tensor(result), torch.tensor(expected))


@pytest.fixture
def call_package(tmp_path, monkeypatch):
    """Return a function that calls a function of a Dynamo package and returns torch's counters."""

    def call_function(**settings):
        # import again: Dynamo never removes compiled code from a code object
        monkeypatch.delitem(sys.modules, "kept", raising=False)
        function = importlib.import_module("kept").function
        torch._dynamo.reset()
        torch._dynamo.precompile_context.PrecompileContext.clear()
        counters.clear()
        conversions.clear()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = torch.compile(function, **{"backend": "ortable", **settings})(torch.ones(3))
            torch.compiler.save_cache_artifacts()
        torch.testing.assert_close(result, torch.ones(3).exp() + 1)
        return dict(counters["dynamo_cache"])

    (tmp_path / "kept.py").write_text("def function(x):\n    return x.exp() + 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with torch._dynamo.config.patch(caching_precompile=True):
        yield call_function


@pytest.mark.parametrize(
    ("damage", "settings"),
    [
        ("damaged", {}),
        ("truncated", {}),
        ("other versions", {}),
        ("", {"options": {"freeze": "off"}}),
        ("", {"backend": "aot_eager"}),
    ],
)
def test_a_damaged_package_is_compiled_again(tmp_path, monkeypatch, call_package, damage, settings):
    assert call_package() == {"dynamo_cache_miss": 1}
    assert call_package() == {"dynamo_cache_hit": 1}
    (path,) = (tmp_path / "torch" / "dynamo").rglob("entry")
    content = path.read_bytes()
    if damage == "damaged":
        position = content.index(b"ortable precompiled") + 300
        path.write_bytes(content[:position] + b"#" + content[position + 1 :])
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "other versions":
        versions = {**envelope.dependency_versions(), "torch": "1.0"}
        monkeypatch.setattr(envelope, "dependency_versions", lambda: versions)
    assert call_package(**settings) == {"dynamo_cache_error": 1}
    assert call_package(**settings) == {"dynamo_cache_hit": 1}


def test_a_function_that_no_file_can_hold_runs_all_the_same(call_package):
    import onnxruntime

    for _ in range(2):
        call_package(options={"session_options": onnxruntime.SessionOptions()})
        assert counters["aot_autograd"]["autograd_cache_bypass"] == 1


NEEDS_PRECOMPILE = pytest.mark.skipif(
    not hasattr(getattr(torch.compiler, "precompile", None), "capture"),
    reason="torch.compiler.precompile.capture came with torch 2.15",
)


def _train_step(model, x):
    loss = model(x).square().sum()
    loss.backward()
    return loss.detach()


@NEEDS_PRECOMPILE
@pytest.mark.parametrize("function", [_train_step, lambda model, x: model(x)])
def test_a_source_file_of_torch_is_compiled(function, tmp_path):
    """`torch.compiler.precompile` writes torch's graph as Python; a loaded one is a function."""
    precompile = torch.compiler.precompile
    files = tmp_path / "step.py", tmp_path / "step.cache"
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.randn(5, 4)
    with precompile.capture(
        function, artifact_path=files[0], cache_path=files[1], backend="eager"
    ) as capture:
        capture(model, x)
    storage = {}
    fast = torch.compile(precompile.load(*files), backend="ortable", options={"storage": storage})
    results = []
    with torch.set_grad_enabled(function is _train_step):
        for run in (function, fast, fast):
            model.zero_grad()
            results.append([run(model, x), model[0].weight.grad])
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])
    (record,) = storage["instance"]  # one graph, with the backward in it
    assert {call.where for call in record.placement} == {"onnx"}


@NEEDS_PRECOMPILE
def test_torch_writes_no_file_with_the_graphs_of_a_backend(tmp_path):
    """If this fails, torch takes other backends, and docs/deployment.md is to say how."""
    with pytest.raises(ValueError, match="must be 'inductor' or 'eager'"):
        torch.compiler.precompile.capture(
            torch.tanh, artifact_path=tmp_path / "f", cache_path=tmp_path / "c", backend="ortable"
        ).__enter__()
