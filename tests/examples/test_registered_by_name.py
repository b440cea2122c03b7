"""backend="ortable" works by name, through the entry point of the package or through
register_backend."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch._dynamo import list_backends, lookup_backend, register_backend

from ortable import onnx_custom_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
ROOT = Path(__file__).parents[2]


def test_the_declared_entry_point_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    target = project["entry-points"]["torch_dynamo_backends"]["ortable"]
    module, _, name = target.partition(":")
    assert callable(getattr(import_module(module), name))


def test_listed_and_found_by_name(tmp_path):
    """In a process of its own, which sees the entry point and has not imported the package."""
    info = tmp_path / "ortable_entry-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ortable-entry\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text(
        "[torch_dynamo_backends]\nortable = ortable.backend.entry:ortable\n"
    )
    script = textwrap.dedent(
        """
        import sys, torch
        assert "ortable" in torch._dynamo.list_backends()
        assert "ortable" not in sys.modules
        model = torch.nn.Linear(3, 2)
        x = torch.randn(4, 3)
        y = torch.compile(model, backend="ortable", fullgraph=True)(x)
        torch.testing.assert_close(y, model(x))
        print("ran by name")
        """
    )
    path = [str(tmp_path), *(str(ROOT / name) for name in ("runtime", "generated", "codegen"))]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "ran by name" in done.stdout


def test_a_user_registers_a_variant():
    from torch._dynamo.backends import registry

    @register_backend
    def my_ortable(gm, example_inputs):
        return onnx_custom_backend(gm, example_inputs, target_opset=18)

    try:
        assert "my_ortable" in list_backends()
        assert lookup_backend("my_ortable") is my_ortable
        x = torch.randn(3)
        got = torch.compile(lambda x: x * 2, backend="my_ortable")(x)
        torch.testing.assert_close(got, x * 2)
    finally:
        registry._BACKENDS.pop("my_ortable", None)
        registry._COMPILER_FNS.pop("my_ortable", None)
