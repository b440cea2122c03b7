"""Latency, compilation and call overhead of the torch.compile backend, model by model.

Inference runs under torch.no_grad(). Evaluation with gradients on is a column of its own: such a
graph could train, so its weights are not frozen. Every model runs in a process of its own; inside
it the candidates take turns. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

MODULE = "benchmarks.backend"
RESULTS = ROOT / "benchmarks" / "results"
OVERHEAD = "overhead"
PARAMETERS = 80  # of the second model of the overhead


def measure_model(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One model: seconds of compilation, latency of every candidate, difference from eager."""
    import torch

    from benchmarks import measure as harness
    from benchmarks.backend import candidates
    from benchmarks.models.inference import build

    candidates.prepare(options.threads)
    model, arguments = build(name, small=options.small)
    expected = candidates.eager(model, arguments)()
    makers: dict[str, Callable[[], candidates.Candidate]] = {
        "ortable": lambda: candidates.ortable(model, arguments),
        "ortable, grad on": lambda: candidates.ortable(model, arguments, grad=True),
        "bare session": lambda: candidates.bare(model, arguments, options.threads),
    }
    if not options.no_inductor and candidates.has_compiler():
        makers["inductor"] = lambda: candidates.inductor(model, arguments)
        makers["inductor, freezing"] = lambda: candidates.inductor(model, arguments, True)
    calls: dict[str, candidates.Candidate] = {"eager": candidates.eager(model, arguments)}
    record: dict[str, Any] = {"name": name, "compile": {}, "errors": {}, "difference": {}}
    for label, maker in makers.items():
        try:
            record["compile"][label] = harness.seconds(
                lambda f=maker, k=label: calls.update({k: f()})
            )
        except Exception as exc:  # one candidate that fails is a cell of the table
            record["errors"][label] = f"{type(exc).__name__}: {str(exc).splitlines()[0]}"
            calls.pop(label, None)
            continue
        got = calls[label]()
        got = torch.as_tensor(got[0] if isinstance(got, list | tuple) else got).detach()
        scale = expected.abs().max().clamp_min(1e-12)
        record["difference"][label] = float((got - expected).abs().max() / scale)
    if "ortable" in calls:
        calls["ortable, again"] = calls["ortable"]
    for call in calls.values():  # what refreezes, tunes or warms up after the first calls
        for _ in range(3):
            call()
    found = harness.interleave(calls, options.rounds)
    record["seconds"] = {label: statistics.median(times) for label, times in found.items()}
    record["ratio"] = {label: harness.median_ratio(found, label, "eager") for label in found}
    if "ortable" in found:
        record["band"] = harness.band(found, "ortable", "ortable, again")
        if "bare session" in found:
            record["to_bare"] = harness.median_ratio(found, "ortable", "bare session")
    return record


def measure_overhead(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds per call of a tiny MLP, and of one with 80 parameters that does the same."""
    import torch

    from benchmarks import measure as harness
    from benchmarks.backend import candidates
    from benchmarks.models.inference import build

    candidates.prepare(options.threads)

    class Many(torch.nn.Module):
        """The tiny MLP with a bias made of 78 more parameters, which a frozen graph folds."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = build("tiny_mlp")[0]
            self.more = torch.nn.ParameterList(torch.randn(16) for _ in range(PARAMETERS - 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x + torch.stack(list(self.more)).sum(0))

    tiny, arguments = build("tiny_mlp")
    record: dict[str, Any] = {"name": OVERHEAD, "microseconds": {}, "errors": {}}
    for label, model in (("tiny MLP", tiny), (f"{PARAMETERS} parameters", Many().eval())):
        torch._dynamo.reset()
        makers: dict[str, Callable[[], candidates.Candidate]] = {
            "eager": lambda m=model: candidates.eager(m, arguments),
            'backend "eager"': lambda m=model: candidates.named(m, arguments, "eager"),
            'backend "aot_eager"': lambda m=model: candidates.named(m, arguments, "aot_eager"),
            "AOTAutograd floor": lambda m=model: candidates.floor(m, arguments),
            "ortable": lambda m=model: candidates.ortable(m, arguments),
        }
        if not options.no_inductor and candidates.has_compiler():
            makers["inductor"] = lambda m=model: candidates.inductor(m, arguments)
        calls: dict[str, candidates.Candidate] = {}
        for name, maker in makers.items():
            try:
                calls[name] = maker()
            except Exception as exc:  # a cell of the table
                record["errors"][name] = f"{type(exc).__name__}: {str(exc).splitlines()[0]}"
        found = harness.interleave(calls, 3 * options.rounds, block=0.01)
        record["microseconds"][label] = {
            name: 1e6 * statistics.median(times) for name, times in found.items()
        }
    return record


def parse() -> argparse.Namespace:
    from benchmarks.models.inference import MODELS

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.backend", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--models", help="names, separated by commas; default: all")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds")
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--repeat", type=int, default=21, help="rounds, after the warm-up")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--no-inductor", action="store_true", help="needs no C++ compiler, and time"
    )
    parser.add_argument("--no-overhead", action="store_true", help="leave the tiny calls out")
    parser.add_argument("--json", type=Path, help="where the records go")
    parser.add_argument("--svg", type=Path, help="where the plot goes")
    parser.add_argument("--docs", type=Path, help="a page whose marked part the tables replace")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # measure this one, in this process
    options = parser.parse_args()
    options.rounds = max(5, options.repeat // 3) if options.quick else options.repeat
    options.names = options.models.split(",") if options.models else list(MODELS)
    unknown = [name for name in options.names if name not in MODELS]
    if unknown:
        parser.error(f"unknown models {', '.join(unknown)}; known: {', '.join(MODELS)}")
    if options.repeat < 1 or options.threads < 1:
        parser.error("--repeat and --threads are at least 1")
    return options


def main() -> None:
    options = parse()
    if options.one:
        record = (
            measure_overhead(options)
            if options.one == OVERHEAD
            else measure_model(options.one, options)
        )
        options.json.write_text(json.dumps(record))
        return
    from benchmarks import measure as harness
    from benchmarks.backend import report

    passed = [f"--repeat={options.rounds}", f"--threads={options.threads}"]
    passed += ["--small"] if options.small else []
    passed += ["--no-inductor"] if options.no_inductor else []
    names = options.names + ([] if options.no_overhead else [OVERHEAD])
    records = []
    for name in names:
        found = harness.in_process(MODULE, name, passed, options.threads)
        records.append({"name": name, **found})
        print(report.one_line(records[-1]), flush=True)
        gc.collect()
    described = harness.machine(options.threads)
    text = report.markdown(records, described)
    print("\n" + text)
    whole = options.models is None and not options.small
    json_path = options.json or (RESULTS / "backend.json" if whole else None)
    svg_path = options.svg or (RESULTS / "backend.svg" if whole else None)
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(
            json.dumps({"machine": described, "records": records}, indent=1) + "\n"
        )
    if svg_path is not None:
        svg_path.parent.mkdir(parents=True, exist_ok=True)
        report.plot(records, described, svg_path)
    if options.docs is not None:
        report.insert(options.docs, text)


if __name__ == "__main__":
    main()
