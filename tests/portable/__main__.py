"""Export the architectures of the benchmarks and run the files in the runtimes of others.

Execution providers of plugin libraries run checks of their own (plugins.py).

Results are compared with eager. A model that is not equal is an error, unless expected.yaml says
why. `--docs` writes the table to docs/deployment.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import yaml
from torch.utils._pytree import tree_leaves

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture
from benchmarks.report import insert, table
from ortable.errors import OrtableError

from .plugins import PLUGINS, check_plugins
from .runtimes import RUNTIMES, Runtime, RuntimeFailure, install, run_model

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment.md"
BOUNDED = ("resnet18", "mobilenet", "bert", "lstm", "vit", "gpt2")
EQUAL = "equal"
EXPECTED: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "expected.yaml").read_text()
)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.portable", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument(
        "--bounded", action="store_true", help=f"only {', '.join(BOUNDED)}, without node"
    )
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--json", type=Path, help="file for the outcomes")
    parser.add_argument("--docs", action="store_true", help=f"write the table to {PAGE.name}")
    options = parser.parse_args()
    names = options.models.split(",") if options.models else list(ARCHITECTURES)
    options.names = [name for name in names if not options.bounded or name in BOUNDED]
    return options


def check_model(name: str, opset: int, runtimes: Sequence[Runtime]) -> dict[str, str]:
    """Return the outcome of a model in each runtime: `equal`, a difference, or a failure."""
    architecture = ARCHITECTURES[name]
    module = build_architecture(name)
    args, kwargs = architecture.call()
    try:
        program = ortable.export(module, args, kwargs, target_opset=opset)
    except OrtableError as error:
        return dict.fromkeys(
            (runtime.name for runtime in runtimes), f"not exported: {str(error).splitlines()[0]}"
        )
    with torch.no_grad():
        expected = module(*args, **kwargs)
    leaves = [leaf for leaf in tree_leaves(expected) if isinstance(leaf, torch.Tensor)]
    arrays = [leaf.detach().numpy() for leaf in leaves]
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    pairs = zip(program.input_names, given, strict=True)
    inputs = {input_name: tensor.detach().numpy() for input_name, tensor in pairs}
    outcomes = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        program.save(folder / "model.onnx")
        for runtime in runtimes:
            try:
                results = run_model(runtime, folder, inputs)
            except RuntimeFailure as failure:
                outcomes[runtime.name] = f"fails: {failure}"
                continue
            outcomes[runtime.name] = compare(results, arrays, architecture.tolerance)
    return outcomes


def compare(results: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float) -> str:
    """Return `equal`, or the first difference between two lists of results."""
    if len(results) != len(expected):
        return f"differs: {len(results)} results, not {len(expected)}"
    for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        if result.shape != wanted.shape:
            return f"differs: result {index} has shape {result.shape}, not {wanted.shape}"
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-12)
        error = float(np.abs(result.astype(np.float64) - wanted).max(initial=0)) / scale
        if not error <= tolerance:
            return f"differs: result {index} by {error:.1e}"
    return EQUAL


def markdown(outcomes: dict[str, dict[str, str]], opset: int) -> str:
    """Format the number of equal models by runtime, and why the others are not."""
    names = list(dict.fromkeys(name for row in outcomes.values() for name in row))
    counts = Counter(
        name for row in outcomes.values() for name, outcome in row.items() if outcome == EQUAL
    )
    versions = {runtime.name: runtime.packages[0] for runtime in RUNTIMES}
    rows = [[f"`{versions[name]}`", f"{counts[name]} of {len(outcomes)}"] for name in names]
    failures = [
        f"- {model}, {name}: {EXPECTED.get(name, {}).get(model, outcome)}"
        for model, row in outcomes.items()
        for name, outcome in row.items()
        if outcome != EQUAL
    ]
    head = f"Files of opset {opset}, sizes of the tests, against eager."
    parts = [head, table(["runtime", "models that are equal"], rows)]
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def main() -> int:
    options = parse()
    warnings.simplefilter("ignore")
    with_node = all(map(shutil.which, ("node", "npm"))) and not options.bounded
    runtimes = [runtime for runtime in RUNTIMES if with_node or not runtime.is_node]
    for runtime in runtimes:
        install(runtime)
    outcomes = {}
    for name in options.names:
        outcomes[name] = check_model(name, options.opset, runtimes)
        print(name, outcomes[name], flush=True)
    text = markdown(outcomes, options.opset)
    print(f"\n{text}")
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1) + "\n")
    if options.docs:
        insert(PAGE, text, "tests.portable")
    unexpected = find_unexpected(outcomes)
    unexpected += check_plugins(["ggml"] if options.bounded else list(PLUGINS))
    print("\n".join(unexpected))
    return 1 if unexpected else 0


def find_unexpected(outcomes: dict[str, dict[str, str]]) -> list[str]:
    """Return a line for each outcome that is not as expected.yaml says."""
    return [
        f"unexpected: {model}, {name}: {outcome}"
        for model, row in outcomes.items()
        for name, outcome in row.items()
        if (outcome == EQUAL) == (model in EXPECTED.get(name, {}))
    ]


if __name__ == "__main__":
    sys.exit(main())
