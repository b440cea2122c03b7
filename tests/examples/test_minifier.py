"""torch's minifier reduces a graph on which the backend fails on purpose, in a process and a
folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = [str(ROOT / name) for name in ("runtime", "generated", "codegen")]

BACKEND = """
from ortable.backend.aot.entry import ortable


def failing_ortable(gm, example_inputs):
    return ortable(gm, example_inputs, options={"raise_on": ["aten::relu"]})
"""

SCRIPT = """
import sys
import torch
import torch._dynamo.config as config

config.repro_after = "dynamo"
config.repro_level = 2
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
    assert "raise_on" in str(error), error
    assert "minifier_launcher.py" in str(error), error
else:
    raise SystemExit("the backend did not fail")
"""


def run(arguments, folder):
    """Runs Python in `folder`, with the failing backend registered by an entry point there."""
    path = os.pathsep.join([str(folder), *FOLDERS])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def calls_of(text):
    """Operators called in the `forward` of a reproducer."""
    body = text[text.index("def forward(self") : text.index("mod = Repro()")]
    return re.findall(r"= (torch\.\w+|\w+)\b[^\n]*;", body) or body.splitlines()


def test_a_failing_graph_is_reduced_to_the_failing_operator(tmp_path):
    (tmp_path / "failing_backend.py").write_text(textwrap.dedent(BACKEND))
    info = tmp_path / "failing_backend-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: failing-backend\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text(
        "[torch_dynamo_backends]\nfailing_ortable = failing_backend:failing_ortable\n"
    )
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    output = run(["script.py", str(tmp_path / "debug")], tmp_path)
    launchers = list(tmp_path.rglob("minifier_launcher.py"))
    assert len(launchers) == 1, output
    original = launchers[0].read_text()
    run([str(launchers[0])], tmp_path)
    reduced = (tmp_path / "repro.py").read_text()
    assert len(calls_of(reduced)) < len(calls_of(original))
    assert "relu" in reduced
    assert "* 2" not in reduced and "- 3" not in reduced
