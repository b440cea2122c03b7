"""backend="ortable" works by name, through the entry point of the package or through
register_backend."""

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


def declare(folder, distribution, *lines):
    """A distribution that is found in `folder`, with its entry points."""
    info = folder / f"{distribution}-0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[torch_dynamo_backends]", *lines, ""]))


@pytest.mark.parametrize("others", [False, True])
def test_onnxrt_is_ours_unless_somebody_else_has_the_name(others, tmp_path, monkeypatch):
    from ortable.backend.aot.entry import _find_onnxrt_backend, onnxrt, ortable

    declare(tmp_path / "ours", "ours", "onnxrt = ortable.backend.aot.entry:onnxrt")
    monkeypatch.syspath_prepend(tmp_path / "ours")
    if others:
        declare(tmp_path / "theirs", "theirs", "onnxrt = theirs:compiler")
        (tmp_path / "theirs" / "theirs.py").write_text(
            "def compiler(gm, inputs, **settings):\n    return lambda *args: (settings, args)\n"
        )
        sys.path.append(str(tmp_path / "theirs"))  # torch finds ours first
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
        sys.path[:] = [each for each in sys.path if each != str(tmp_path / "theirs")]


def test_listed_and_found_by_name(tmp_path):
    """In a process of its own, which sees the entry point and has not imported the package."""
    names = ("ortable", "onnxrt")
    declare(tmp_path, "ortable_entry", *(f"{n} = ortable.backend.aot.entry:{n}" for n in names))
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
    done = python("-c", script, cwd=tmp_path)
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
