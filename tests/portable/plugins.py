"""Plugins of ONNX Runtime: ortable's sessions with the execution provider of a plugin library.

``python -m tests.portable.plugins NAME`` registers a library, for its whole process, and prints the
outcomes as JSON. `check_plugins` installs the packages and starts such processes.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import torch

import ortable
from ortable.compat.providers import check_providers, is_plugin_provider

from .runtimes import SECONDS, Runtime, error_text, install

ROOT = Path(__file__).resolve().parents[2]


class Plugin(NamedTuple):
    """A package with a plugin library, its function of the path, and what it needs for a device."""

    package: str
    path_function: str
    needs: str = ""


PLUGINS = {
    "ggml": Plugin("onnxruntime-ggml==0.2.0", "library_path"),
    "OpenVINOExecutionProvider": Plugin(
        "onnxruntime-ep-openvino==1.8.1", "get_library_path", "a processor of Intel"
    ),
}
_TOLERANCE = 2e-3  # ggml multiplies constants in float16


def _make_model() -> torch.nn.Module:
    layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4), torch.nn.Softmax(-1)
    return torch.nn.Sequential(*layers)


def _check_inference(provider: str) -> None:
    storage: dict[str, Any] = {}
    model, fast = compile_for(provider, storage=storage)
    with torch.no_grad():
        assert_close(fast(torch.ones(3, 8)), model(torch.ones(3, 8)))
        model[0].weight.mul_(2)  # constants of a plugin's session follow writes
        assert_close(fast(torch.ones(3, 8)), model(torch.ones(3, 8)))
    record = storage["instance"][0]
    assert record.providers[0] == provider and len(record.frozen) == 4, record
    assert record.cpu_nodes == {}, record.cpu_nodes


def _check_dynamic_sizes(provider: str) -> None:
    model, fast = compile_for(provider, dynamic=True)
    with torch.no_grad():
        for rows in (2, 5, 1):
            x = torch.randn(rows, 8)
            assert_close(fast(x), model(x))


def _check_training(provider: str) -> None:
    gradients = []
    model, fast = compile_for(provider)
    for run in (fast, model):
        model.zero_grad()
        run(torch.ones(3, 8)).square().sum().backward()
        gradients.append(model[0].weight.grad.clone())
    assert_close(*gradients)


def _check_program(provider: str) -> None:
    model, x = _make_model().eval(), torch.randn(3, 8)
    program = ortable.export(model, (x,))
    program.initialize_inference_session(providers=[(provider, {"device_id": "0"})])
    assert program.session().get_providers()[0] == provider
    assert_close(program(x), model(x).detach())


def _check_cpu_nodes(provider: str) -> None:
    pool, options = torch.nn.MaxPool2d(2), {"providers": [provider], "hints": False}
    explained = ortable.explain(pool, torch.ones(1, 1, 4, 4), options=options)
    nodes = explained.graphs[0].cpu_nodes  # ggml has no MaxPool
    assert nodes and f"run in CPUExecutionProvider, not in {provider}" in str(explained), nodes


def compile_for(provider: str, dynamic: bool | None = None, **options: Any) -> tuple[Any, Any]:
    """Return a new model, and the model compiled for a provider."""
    model = _make_model()
    options = {"providers": [provider], "hints": False, **options}
    return model, torch.compile(model, backend="ortable", dynamic=dynamic, options=options)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=_TOLERANCE, rtol=_TOLERANCE)


def run_checks(provider: str) -> dict[str, str]:
    """Register a plugin's library and return the outcome of each check: "passed" or a failure."""
    plugin = PLUGINS[provider]
    try:
        check_providers([provider])
        return {"registration": "the provider is there before its library"}
    except ortable.ProviderError:
        module = importlib.import_module(plugin.package.partition("==")[0].replace("-", "_"))
    path = getattr(module, plugin.path_function)()
    onnxruntime.register_execution_provider_library(provider, path)
    if not is_plugin_provider(provider):
        return {"registration": f"no device: it needs {plugin.needs}"}
    outcomes = {}
    for check in (
        _check_inference, _check_dynamic_sizes, _check_training, _check_program, _check_cpu_nodes,
    ):  # fmt: skip
        torch.manual_seed(0)
        torch._dynamo.reset()
        try:
            check(provider)
            outcomes[check.__name__] = "passed"
        except Exception as error:
            outcomes[check.__name__] = f"{type(error).__name__}: {str(error)[:300]}"
    return outcomes


def check_plugins(names: list[str]) -> list[str]:
    """Install plugins, run their checks in processes, and return a line for each failure."""
    failures = []
    for name in names:
        packages = Runtime(name, (PLUGINS[name].package,))
        install(packages)
        process = subprocess.run(
            [sys.executable, "-m", "tests.portable.plugins", name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(packages.folder)])},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if process.returncode:
            failures.append(f"plugin {name}: {error_text(process.stderr)}")
            continue
        outcomes = json.loads(process.stdout.splitlines()[-1])
        print(name, outcomes, flush=True)
        accepted = ("passed", f"no device: it needs {PLUGINS[name].needs or 'nothing'}")
        failures += [
            f"plugin {name}, {check}: {outcome}"
            for check, outcome in outcomes.items()
            if outcome not in accepted
        ]
    return failures


if __name__ == "__main__":
    print(json.dumps(run_checks(sys.argv[1])))
