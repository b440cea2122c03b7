"""Plugins of ONNX Runtime: ortable's sessions with the execution provider of a plugin library.

``python -m tests.portable.plugins NAME`` registers a library, for its whole process, and prints the
outcomes of CHECKS as JSON. `check_plugins` starts such processes.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import ortable
from ortable.compat.providers import check_providers, is_plugin_provider

from .runtimes import FOLDER, SECONDS, Runtime, error_text, install

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Plugin:
    """A package with a plugin library, its module, its provider and the function of the path.

    ``needs`` says on which machines the provider lists a device.
    """

    package: str
    module: str
    provider: str
    path_function: str
    needs: str = ""


PLUGINS = {
    plugin.provider: plugin
    for plugin in (
        Plugin("onnxruntime-ggml==0.2.0", "onnxruntime_ggml", "ggml", "library_path"),
        Plugin(
            "onnxruntime-ep-openvino==1.8.1", "onnxruntime_ep_openvino",
            "OpenVINOExecutionProvider", "get_library_path", "a processor of Intel",
        ),
    )
}  # fmt: skip
_TOLERANCE = 2e-3  # ggml multiplies constants in float16


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.last(torch.relu(self.first(x))), -1)


def _check_inference(provider: str) -> None:
    storage: dict[str, Any] = {}
    model = _Net().eval()
    fast = compile_for(model, provider, storage=storage)
    with torch.no_grad():
        for _ in range(2):
            assert_close(fast(torch.ones(3, 8)), model(torch.ones(3, 8)))
        model.first.weight.mul_(2)  # constants of a plugin's session follow writes
        assert_close(fast(torch.ones(3, 8)), model(torch.ones(3, 8)))
    record = storage["instance"][0]
    assert record.providers[0] == provider and len(record.frozen) == 4, record
    assert record.cpu_nodes == {}, record.cpu_nodes


def _check_dynamic_sizes(provider: str) -> None:
    model = _Net().eval()
    fast = compile_for(model, provider, dynamic=True)
    with torch.no_grad():
        for rows in (2, 5, 1):
            x = torch.randn(rows, 8)
            assert_close(fast(x), model(x))


def _check_training(provider: str) -> None:
    model, x = _Net(), torch.randn(3, 8)
    gradients = []
    for run in (compile_for(model, provider), model):
        model.zero_grad()
        run(x).square().sum().backward()
        gradients.append(model.first.weight.grad.clone())
    assert_close(*gradients)


def _check_program(provider: str) -> None:
    model, x = _Net().eval(), torch.randn(3, 8)
    program = ortable.export(model, (x,))
    program.initialize_inference_session(providers=[(provider, {"device_id": "0"})])
    assert program.session().get_providers()[0] == provider
    with torch.no_grad():
        assert_close(program(x), model(x))


def _check_cpu_nodes(provider: str) -> None:
    pool = torch.nn.MaxPool2d(2)  # ggml does not have it
    explained = ortable.explain(
        pool, torch.ones(1, 1, 4, 4), options={"providers": [provider], "hints": False}
    )
    nodes = explained.graphs[0].cpu_nodes
    assert nodes and f"run in CPUExecutionProvider, not in {provider}" in str(explained), nodes


CHECKS: dict[str, Callable[[str], None]] = {
    "inference": _check_inference,
    "dynamic sizes": _check_dynamic_sizes,
    "training": _check_training,
    "program": _check_program,
    "nodes of the CPU": _check_cpu_nodes,
}


def compile_for(model: Any, provider: str, dynamic: bool | None = None, **options: Any) -> Any:
    torch._dynamo.reset()
    options = {"providers": [provider], "hints": False, **options}
    return torch.compile(model, backend="ortable", dynamic=dynamic, options=options)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=_TOLERANCE, rtol=_TOLERANCE)


def run_checks(plugin: Plugin) -> dict[str, str]:
    """Register a plugin's library and return the outcome of each check: "passed" or a failure."""
    try:
        check_providers([plugin.provider])
        return {"registration": "the provider is there before its library"}
    except ortable.ProviderError:
        pass
    path = getattr(importlib.import_module(plugin.module), plugin.path_function)()
    onnxruntime.register_execution_provider_library(plugin.provider, path)
    if not is_plugin_provider(plugin.provider) and plugin.needs:
        return {"registration": f"no device: it needs {plugin.needs}"}
    outcomes = {}
    for name, check in CHECKS.items():
        torch.manual_seed(0)
        try:
            check(plugin.provider)
            outcomes[name] = "passed"
        except Exception as error:
            outcomes[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return outcomes


def check_plugins(names: list[str]) -> list[str]:
    """Install plugins, run their checks in processes, and return a line for each failure."""
    failures = []
    for name in names:
        plugin = PLUGINS[name]
        install(Runtime(name, (plugin.package,)))
        process = subprocess.run(
            [sys.executable, "-m", "tests.portable.plugins", name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(FOLDER / name)])},
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
        accepted = ("passed", f"no device: it needs {plugin.needs}")
        failures += [
            f"plugin {name}, {check}: {outcome}"
            for check, outcome in outcomes.items()
            if outcome not in accepted
        ]
    return failures


if __name__ == "__main__":
    print(json.dumps(run_checks(PLUGINS[sys.argv[1]])))
