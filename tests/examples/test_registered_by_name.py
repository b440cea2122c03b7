"""backend="ortable" works by name, through the package's entry point or register_backend."""

from __future__ import annotations

import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch._dynamo import list_backends, lookup_backend, register_backend

from ortable import onnx_custom_backend
from tests.child import python

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["ortable", "onnxrt"])
def test_the_declared_entry_points_exist(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    target = project["entry-points"]["torch_dynamo_backends"][name]
    assert target == f"ortable.backend.aot.entry:{name}"
    assert callable(getattr(import_module("ortable.backend.aot.entry"), name))


def write_distribution(folder, distribution, *lines):
    """Write the metadata of a distribution with entry points into `folder`."""
    dist_info = folder / f"{distribution}-0.0.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.0\n"
    )
    (dist_info / "entry_points.txt").write_text("\n".join(["[torch_dynamo_backends]", *lines, ""]))


@pytest.mark.parametrize("others", [False, True])
def test_onnxrt_is_ours_unless_somebody_else_has_the_name(others, tmp_path, monkeypatch):
    from ortable.backend.aot.entry import _find_onnxrt_backend, onnxrt, ortable

    write_distribution(tmp_path / "ours", "ours", "onnxrt = ortable.backend.aot.entry:onnxrt")
    monkeypatch.syspath_prepend(tmp_path / "ours")
    if others:
        write_distribution(tmp_path / "theirs", "theirs", "onnxrt = theirs:compiler")
        (tmp_path / "theirs" / "theirs.py").write_text(
            "def compiler(gm, inputs, **settings):\n    return lambda *args: (settings, args)\n"
        )
        sys.path.append(str(tmp_path / "theirs"))  # after ours, which torch finds first
    _find_onnxrt_backend.cache_clear()
    try:
        if others:
            assert onnxrt(None, [], options={"a": 1})(2) == ({"options": {"a": 1}}, (2,))
        else:
            assert _find_onnxrt_backend() is ortable
            x = torch.rand(3)
            torch.testing.assert_close(torch.compile(torch.sin, backend=onnxrt)(x), x.sin())
    finally:
        _find_onnxrt_backend.cache_clear()
        sys.path[:] = [path for path in sys.path if path != str(tmp_path / "theirs")]


def test_listed_and_found_by_name(tmp_path):
    """Another process, which has not imported the package, finds the entry points."""
    names = ("ortable", "onnxrt")
    write_distribution(
        tmp_path, "ortable_entry", *(f"{n} = ortable.backend.aot.entry:{n}" for n in names)
    )
    script = textwrap.dedent(
        """
        import sys, torch
        assert {"ortable", "onnxrt"} <= set(torch._dynamo.list_backends())
        assert "ortable" not in sys.modules
        model = torch.nn.Linear(3, 2)
        x = torch.randn(4, 3)
        for name in ("ortable", "onnxrt"):
            torch._dynamo.reset()
            y = torch.compile(model, backend=name, fullgraph=True)(x)
            torch.testing.assert_close(y, model(x))
        print("ran by name")
        """
    )
    process = python("-c", script, cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-3000:]
    assert "ran by name" in process.stdout


def test_a_user_registers_a_variant():
    from torch._dynamo.backends import registry

    @register_backend
    def my_ortable(gm, example_inputs):
        return onnx_custom_backend(gm, example_inputs, target_opset=18)

    try:
        assert "my_ortable" in list_backends()
        assert lookup_backend("my_ortable") is my_ortable
        x = torch.randn(3)
        result = torch.compile(lambda x: x * 2, backend="my_ortable")(x)
        torch.testing.assert_close(result, x * 2)
    finally:
        registry._BACKENDS.pop("my_ortable", None)
        registry._COMPILER_FNS.pop("my_ortable", None)
