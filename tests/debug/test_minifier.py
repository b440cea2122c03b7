"""torch's minifier reduces graphs for which the backend raises or returns wrong results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT / name) for name in ("runtime", "generated", "codegen")]

BACKEND = """
from ortable.backend.aot.entry import ortable


def failing_ortable(gm, example_inputs):
    return ortable(gm, example_inputs, options={"raise_on": ["aten::relu"]})
"""

WRONG_BACKEND = """
from pathlib import Path

import ortable
from ortable.backend.aot.entry import ortable as backend

ortable.load_specs(Path(__file__).with_name("wrong.yaml"), override=True)


def failing_ortable(gm, example_inputs):
    return backend(gm, example_inputs)
"""

WRONG_ENTRY = """
- op: aten::relu(Tensor self) -> Tensor
  out: {shape: same(self), dtype: same(self)}
  lower: return Neg(self)
  samples: [{self: "f32[2,3]"}]
"""

SCRIPT = """
import sys
import torch
import torch._dynamo.config as config

config.repro_after = "dynamo"
config.repro_level = LEVEL
config.debug_dir_root = sys.argv[1]


def fn(x):
    for _ in range(4):
        x = x * 2 + 1
    x = torch.relu(x)
    for _ in range(4):
        x = x - 3
    return x


try:
    torch.compile(fn, backend="failing_ortable")(torch.randn(4))
except Exception as error:
    assert "SAID" in str(error), error
    assert "minifier_launcher.py" in str(error), error
else:
    raise SystemExit("the backend did not fail")
"""


def run_python(arguments, folder):
    """Run Python in `folder`, where an entry point registers the failing backend."""
    path = os.pathsep.join([str(folder), *FOLDERS])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    return process.stdout + process.stderr


def list_statements(text):
    """Return the beginning of each assignment in the `forward` of a reproducer."""
    body = text[text.index("def forward(self") : text.index("mod = Repro()")]
    return re.findall(r"= (torch\.\w+|\w+)\b[^\n]*;", body) or body.splitlines()


def write_script(folder, backend, level, message):
    """Write a failing backend, and a script that compiles a function with it."""
    (folder / "failing_backend.py").write_text(textwrap.dedent(backend))
    dist_info = folder / "failing_backend-0.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: failing-backend\nVersion: 0.0\n"
    )
    (dist_info / "entry_points.txt").write_text(
        "[torch_dynamo_backends]\nfailing_ortable = failing_backend:failing_ortable\n"
    )
    text = textwrap.dedent(SCRIPT).replace("LEVEL", str(level)).replace("SAID", message)
    (folder / "script.py").write_text(text)


def run_minifier(folder):
    """Run the minifier and return the operators it starts with and the script it writes."""
    output = run_python(["script.py", str(folder / "debug")], folder)
    launchers = list(folder.rglob("minifier_launcher.py"))
    assert len(launchers) == 1, output
    run_python([str(launchers[0])], folder)
    return list_statements(launchers[0].read_text()), (folder / "repro.py").read_text()


@pytest.mark.slow  # each step of the minifier compiles
def test_a_failing_graph_is_reduced_to_the_failing_operator(tmp_path):
    write_script(tmp_path, BACKEND, 2, "raise_on")
    original, minified = run_minifier(tmp_path)
    assert len(list_statements(minified)) < len(original)
    assert "relu" in minified
    assert "* 2" not in minified and "- 3" not in minified


@pytest.mark.slow  # each step of the minifier compiles
def test_a_wrong_graph_is_reduced_to_the_wrong_operator(tmp_path):
    (tmp_path / "wrong.yaml").write_text(WRONG_ENTRY)
    write_script(tmp_path, WRONG_BACKEND, 4, "AccuracyError")
    original, minified = run_minifier(tmp_path)
    assert len(list_statements(minified)) < len(original)
    assert "relu" in minified
    assert "* 2" not in minified and "- 3" not in minified
