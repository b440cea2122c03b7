"""Where rules fire: models are exported, compiled and trained with every rule, and each replacement
is counted with the nodes that it saves.

    python -m tests.rewrites.evidence              # all models, written down in evidence.yaml
    python -m tests.rewrites.evidence export/bert  # some of them, by the start of their names

`page` reads the file for the table of docs/rewrites.md."""

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
EVERY = 5  # of torch's module tests, which are many and small


@contextmanager
def collected() -> Iterator[list[RewriteRecord]]:
    """Records of all graphs that are rewritten meanwhile."""
    found: list[RewriteRecord] = []
    own = pipeline.rewrite_graph

    def kept(graph: Any, rules: Any, record: RewriteRecord) -> Any:
        found.append(record)
        return own(graph, rules, record)

    with mock.patch.object(pipeline, "rewrite_graph", kept):
        yield found


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


def _compiled(name: str) -> None:
    model, arguments = build(name, small=True)
    with torch.no_grad():
        torch.compile(model.eval(), backend="ortable")(*arguments)


def _trained(name: str, dynamic: bool) -> None:
    torch.manual_seed(0)
    trainable = SMALL_TRAINABLES[name]
    model, arguments = trainable.build().train(), trainable.batch(4)
    if dynamic:
        for each in arguments:
            torch._dynamo.mark_dynamic(each, 0)
    with torch._dynamo.config.patch(allow_rnn=True):
        torch.compile(model, backend="ortable")(*arguments).backward()


def _module(name: str) -> None:
    torch_check.check_case(name)


def programs() -> dict[str, Callable[[], None]]:
    """Everything that is converted, by name."""
    found: dict[str, Callable[[], None]] = {}
    for name in MODELS:
        found[f"export/{name}"] = partial(_export, name, None)
        found[f"runtime/{name}"] = partial(_export, name, "onnxruntime")
        found[f"compile/{name}"] = partial(_compiled, name)
    for name in SMALL_TRAINABLES:
        found[f"training/{name}"] = partial(_trained, name, False)
        found[f"training-dynamic/{name}"] = partial(_trained, name, True)
    for name in ARCHITECTURES:
        found[f"static/{name}"] = partial(_architecture, name, False)
        found[f"dynamic/{name}"] = partial(_architecture, name, True)
    for name in torch_cases.names()[::EVERY]:
        found[f"torch/{name}"] = partial(_module, name)
    return found


def recorded() -> dict[str, Any]:
    """What the last runs found."""
    return yaml.safe_load(FILE.read_text()) if FILE.exists() else {"programs": {}}


def counted(records: list[RewriteRecord]) -> dict[str, dict[str, int]]:
    """By rule: how often it fired, and how many nodes fewer there are."""
    times: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    for record in records:
        for fired in record.fired:
            times[fired.rule] += 1
            saved[fired.rule] += len(fired.removed) - len(fired.made)
    return {name: {"fired": times[name], "saved": saved[name]} for name in sorted(times)}


def main(wanted: list[str]) -> None:
    """Runs the programs whose names begin with one of ``wanted`` and writes down what fired."""
    torch.set_num_threads(1)
    kept = recorded()["programs"]
    known = programs()
    for name, run in known.items():
        if wanted and not any(name.startswith(each) for each in wanted):
            continue
        torch._dynamo.reset()
        start = time.process_time()
        with collected() as records, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                run()
            except Exception as error:  # what cannot be converted says nothing of rules
                print(f"{name}: {type(error).__name__}: {str(error)[:100]}", flush=True)
                continue
        kept[name] = counted(records)
        print(f"{name}: {len(kept[name])} rules, {time.process_time() - start:.1f} s", flush=True)
        kept = {name: kept[name] for name in sorted(kept)}
        FILE.write_text(yaml.safe_dump({"programs": kept}, width=100, default_flow_style=None))


if __name__ == "__main__":
    main(sys.argv[1:])
