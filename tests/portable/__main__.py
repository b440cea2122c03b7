"""Export the architectures of the benchmarks and run the files in the runtimes of others.

Execution providers of plugin libraries run checks of their own (plugins.py).

Results are compared with eager. A model that is not equal is an error, unless expected.yaml says
why. `--docs` writes the table to docs/deployment.md. `--samples` runs the sample calls of the specs
instead, and takes the options of tests.suites (see samples.py). `--faults` runs the small files
that show the limits of the runtimes (see faults.py), as `--samples --bounded` does in addition.
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
from .runtimes import RUNTIMES, Runtime, RuntimeFailure, RuntimeServer, install

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deployment.md"
BOUNDED = ("resnet18", "mobilenet", "bert", "lstm", "vit", "gpt2")
EQUAL = "equal"
EXPECTED: dict[str, dict[str, str]] = yaml.safe_load(
    (Path(__file__).parent / "expected.yaml").read_text()
)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.portable", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument(
        "--bounded", action="store_true", help=f"only {', '.join(BOUNDED)}, without node"
    )
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument(
        "--runtimes",
        default=",".join(runtime.name for runtime in RUNTIMES if not runtime.is_importer),
        help=f"of {', '.join(runtime.name for runtime in RUNTIMES)} (default: %(default)s)",
    )
    parser.add_argument(
        "--json", type=Path, help="file for the outcomes; those of other runtimes stay in it"
    )
    parser.add_argument("--docs", action="store_true", help=f"write the table to {PAGE.name}")
    options = parser.parse_args(argv)
    names = options.models.split(",") if options.models else list(ARCHITECTURES)
    options.names = [name for name in names if not options.bounded or name in BOUNDED]
    return options


def check_model(name: str, opset: int, servers: Sequence[RuntimeServer]) -> dict[str, str]:
    """Return the outcome of a model in each runtime: `equal`, a difference, or a failure."""
    architecture = ARCHITECTURES[name]
    module = build_architecture(name)
    args, kwargs = architecture.call()
    try:
        program = ortable.export(module, args, kwargs, target_opset=opset)
    except OrtableError as error:
        names = [server.runtime.name for server in servers]
        return dict.fromkeys(names, f"not exported: {str(error).splitlines()[0]}")
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
        for server in servers:
            try:
                results = server.run_model(folder, inputs)
            except RuntimeFailure as failure:
                outcomes[server.runtime.name] = f"fails: {failure}"
                continue
            outcomes[server.runtime.name] = compare(results, arrays, architecture.tolerance)
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
    """Format which models are equal in each runtime, and why the others are not."""
    ran = {name for row in outcomes.values() for name in row}
    runtimes = [runtime for runtime in RUNTIMES if runtime.name in ran]
    counts = Counter(
        name for row in outcomes.values() for name, outcome in row.items() if outcome == EQUAL
    )
    words = {EQUAL: "equal", None: "-"}
    rows = [
        [model, *(words.get(row.get(runtime.name), "no") for runtime in runtimes)]
        for model, row in outcomes.items()
    ]
    totals = [
        f"{counts[runtime.name]} of {sum(runtime.name in row for row in outcomes.values())}"
        for runtime in runtimes
    ]
    failures = [
        f"- {model}, {name}: {find_reason(name, model, opset) or outcome}"
        for model, row in outcomes.items()
        for name, outcome in row.items()
        if outcome != EQUAL
    ]
    head = f"Files of opset {opset}, sizes of the tests, against eager."
    header = ["model", *(f"`{runtime.packages[0]}`" for runtime in runtimes)]
    parts = [head, table(header, [*rows, ["equal", *totals]])]
    return "\n\n".join([*parts, *(["\n".join(failures)] if failures else [])])


def install_runtimes(names: Sequence[str], with_node: bool) -> list[Runtime]:
    """Install the named runtimes; without node or npm, those of node are left out."""
    with_node = with_node and all(map(shutil.which, ("node", "npm")))
    runtimes = [r for r in RUNTIMES if r.name in names and (with_node or not r.is_node)]
    for runtime in runtimes:
        install(runtime)
    return runtimes


def check_operators(argv: Sequence[str]) -> int:
    """Run the small files, or the sample calls of the specs with the options of tests.suites."""
    from tests.suites.command import main as run_suite

    from .faults import check_faults
    from .samples import make_suite

    names = [runtime.name for runtime in RUNTIMES if not runtime.is_importer]
    runtimes = install_runtimes(names, with_node=True)
    if "--faults" in argv:
        return check_faults(runtimes)
    options = [argument for argument in argv if argument != "--samples"]
    status = run_suite(make_suite(runtimes), options)
    return max(status, check_faults(runtimes)) if "--bounded" in argv else status


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if "--samples" in argv or "--faults" in argv:
        return check_operators(argv)
    options = parse(argv)
    warnings.simplefilter("ignore")
    runtimes = install_runtimes(options.runtimes.split(","), with_node=not options.bounded)
    servers = [RuntimeServer(runtime) for runtime in runtimes]
    outcomes = {}
    for name in options.names:
        outcomes[name] = check_model(name, options.opset, servers)
        print(name, outcomes[name], flush=True)
    unexpected = find_unexpected(outcomes, options.opset)
    if options.json:
        earlier = json.loads(options.json.read_text()) if options.json.exists() else {}
        outcomes = {name: earlier.get(name, {}) | row for name, row in outcomes.items()}
        options.json.write_text(json.dumps(outcomes, indent=1) + "\n")
    text = markdown(outcomes, options.opset)
    print(f"\n{text}")
    if options.docs:
        insert(PAGE, text, "tests.portable")
    unexpected += check_plugins(["ggml"] if options.bounded else list(PLUGINS))
    print("\n".join(unexpected))
    return 1 if unexpected else 0


def find_reason(name: str, model: str, opset: int) -> str | None:
    """Return why a model is not equal in a runtime, None where it should be."""
    older = EXPECTED.get(f"{name}, opset {opset}", {})
    return older.get(model) or EXPECTED.get(name, {}).get(model)


def find_unexpected(outcomes: dict[str, dict[str, str]], opset: int) -> list[str]:
    """Return a line for each outcome that is not as expected.yaml says."""
    return [
        f"unexpected: {model}, {name}: {outcome}"
        for model, row in outcomes.items()
        for name, outcome in row.items()
        if (outcome == EQUAL) == (find_reason(name, model, opset) is not None)
    ]


if __name__ == "__main__":
    sys.exit(main())
