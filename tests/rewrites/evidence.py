"""Count where rules fire: export, compile and train models with every rule.

    python -m tests.rewrites.evidence              # all models; writes evidence.yaml
    python -m tests.rewrites.evidence export/bert  # models whose names start with a prefix

`page` reads the file for the table of docs/rewrites.md.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import yaml

import ortable
from benchmarks.models.architectures import ARCHITECTURES, build_architecture
from benchmarks.models.inference import MODELS, build
from benchmarks.models.training import SMALL_TRAINABLES
from ortable.passes import pipeline
from ortable.passes.rewrite.record import RewriteRecord
from tests.suites import torch_cases, torch_check

FILE = Path(__file__).with_name("evidence.yaml")
MODULE_STRIDE = 5  # every fifth of torch's module tests, which are many and small


@contextmanager
def collect_records() -> Iterator[list[RewriteRecord]]:
    """Collect the records of all graphs that are rewritten in the context."""
    records: list[RewriteRecord] = []
    original = pipeline.rewrite_graph

    def rewrite_and_record(graph: Any, rules: Any, record: RewriteRecord) -> Any:
        records.append(record)
        return original(graph, rules, record)

    with mock.patch.object(pipeline, "rewrite_graph", rewrite_and_record):
        yield records


def _export(name: str, target: str | None) -> None:
    model, arguments = build(name, small=True)
    ortable.to_onnx(model.eval(), arguments, target=target)


def _architecture(name: str, dynamic: bool) -> None:
    architecture = ARCHITECTURES[name]
    args, kwargs = architecture.call()
    dims: Any = architecture.dynamic_shapes() if dynamic else None
    module = build_architecture(name)
    program = torch.export.export(module, args, kwargs, dynamic_shapes=dims, strict=False)
    ortable.to_onnx(program)


def _compile(name: str) -> None:
    model, arguments = build(name, small=True)
    with torch.no_grad():
        torch.compile(model.eval(), backend="ortable")(*arguments)


def _train(name: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    trainable = SMALL_TRAINABLES[name]
    model, arguments = trainable.build().train(), trainable.batch(4)
    if dynamic:
        for argument in arguments:
            torch._dynamo.mark_dynamic(argument, 0)
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.compile(model, backend="ortable")(*arguments).backward()


def _check_module(name: str) -> None:
    torch_check.check_case(name)


def list_programs() -> dict[str, Callable[[], None]]:
    programs: dict[str, Callable[[], None]] = {}
    for name in MODELS:
        programs[f"export/{name}"] = partial(_export, name, None)
        programs[f"runtime/{name}"] = partial(_export, name, "onnxruntime")
        programs[f"compile/{name}"] = partial(_compile, name)
    for name in SMALL_TRAINABLES:
        programs[f"training/{name}"] = partial(_train, name, False)
        programs[f"training-dynamic/{name}"] = partial(_train, name, True)
    for name in ARCHITECTURES:
        programs[f"static/{name}"] = partial(_architecture, name, False)
        programs[f"dynamic/{name}"] = partial(_architecture, name, True)
    for name in torch_cases.names()[::MODULE_STRIDE]:
        programs[f"torch/{name}"] = partial(_check_module, name)
    return programs


def load_evidence() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text()) if FILE.exists() else {"programs": {}}


def count_by_rule(records: list[RewriteRecord]) -> dict[str, dict[str, int]]:
    """Return how often each rule fired and how many nodes it saved."""
    fired: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    for record in records:
        for event in record.fired:
            fired[event.rule] += 1
            saved[event.rule] += len(event.removed) - len(event.made)
    return {name: {"fired": fired[name], "saved": saved[name]} for name in sorted(fired)}


def main(prefixes: list[str]) -> None:
    """Run the programs whose names start with one of the prefixes, and record the counts."""
    torch.set_num_threads(1)
    counts = load_evidence()["programs"]
    programs = list_programs()
    for name, run in programs.items():
        if prefixes and not any(name.startswith(prefix) for prefix in prefixes):
            continue
        torch._dynamo.reset()
        start = time.process_time()
        with collect_records() as records, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run()
            except Exception as error:  # an unsupported model gives no evidence
                print(f"{name}: {type(error).__name__}: {str(error)[:100]}", flush=True)
                continue
        counts[name] = count_by_rule(records)
        print(f"{name}: {len(counts[name])} rules, {time.process_time() - start:.1f} s", flush=True)
        counts = {name: counts[name] for name in sorted(counts)}
        FILE.write_text(yaml.safe_dump({"programs": counts}, width=100, default_flow_style=None))


if __name__ == "__main__":
    main(sys.argv[1:])
