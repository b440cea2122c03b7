"""torch's CompilerBisector finds faults in ortable's subsystems, in-process and as a command."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import compiler_bisector

from ortable.compat import bisector
from tests.packaging.files import ROOT

from .faults import ENTRIES, RULES, changed_entry, changed_rule


@pytest.fixture(autouse=True)
def _stub_backends(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove torch's slow backends, except for a stub of inductor, which the bisector reads."""
    bisector.register_subsystems()
    subsystems = compiler_bisector.BACKENDS["ortable"]
    stubs = {
        "eager": [],
        "ortable": subsystems,
        "inductor": [compiler_bisector.BisectSubsystem("none")],
    }
    monkeypatch.setattr(compiler_bisector, "BACKENDS", stubs)
    yield
    torch.compiler.reset()


def make_check(model: Any, args: Any) -> Callable[[], bool]:
    def call() -> bool:
        torch.compiler.reset()
        with torch.no_grad():
            result = torch.compile(model, backend="ortable", dynamic=False)(*args)
            return torch.allclose(result, model(*args), rtol=1e-3, atol=1e-4)

    return call


def test_a_lowering_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, args = ENTRIES[0].call()
    with changed_entry(ENTRIES[0], tmp_path):
        bisection = compiler_bisector.CompilerBisector.do_bisect(make_check(model.eval(), args))
    assert (bisection.backend, bisection.subsystem) == ("ortable", "lowerings")
    assert bisection.debug_info == "aten::relu of relu (specs/aten/activation.yaml)"
    assert "Disabling rewrites did not fix the issue" in capsys.readouterr().out


def test_a_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = RULES[0].call()
    with changed_rule(RULES[0], monkeypatch):
        bisection = compiler_bisector.CompilerBisector.do_bisect(make_check(model, args))
    assert (bisection.backend, bisection.subsystem) == ("ortable", "rewrites")
    assert bisection.debug_info is not None
    assert bisection.debug_info.startswith("gelu_erf of ")


def test_nothing_is_off_while_nobody_searches() -> None:
    assert not bisector.is_bisecting()
    assert not any(map(bisector.is_searching, bisector.SUBSYSTEMS))
    states = [
        bisector.is_disabled(name, lambda: pytest.fail("not bisecting")) for name in ("rewrites",)
    ]
    assert states == [False]


SCRIPT = """
import os, sys

backend = os.environ.get("TORCH_COMPILE_BACKEND", "ortable")
if backend != "ortable":
    sys.exit(0)  # right, and seconds of imports

import torch
import ortable

ortable.load_specs("wrong.yaml", override=True)

def model(x):
    return torch.relu(x * 2) + 1

x = torch.linspace(-1, 1, 12)
sys.exit(not torch.allclose(torch.compile(model, backend=backend)(x), model(x)))
"""

WRONG_ENTRY = """
- op: aten::relu(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower: return Neg(self)
  samples: [{self: "f32[2,3]"}]
"""


@pytest.mark.slow  # each step starts a process
def test_the_command_line_walks_through_ortable(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    (tmp_path / "wrong.yaml").write_text(WRONG_ENTRY)
    path = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generated", "codegen"))
    process = subprocess.run(
        [sys.executable, "-m", "ortable.debug.bisection", "run", sys.executable, "script.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert "subsystem='lowerings'" in process.stdout, (process.stdout + process.stderr)[-4000:]
    assert "aten::relu" in process.stdout
