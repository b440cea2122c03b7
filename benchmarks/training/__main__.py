"""Training steps: forward and backward of small models through ortable, next to eager's.

Each model is compiled with ``torch.compile(backend="ortable")`` and steps in turn with eager on the
same batch, in one process; the table holds medians. A step is the loss and its gradients; the
optimizer, which is torch's in both, is left out. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import math
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import settle
from benchmarks.models.densenet import DenseNet
from benchmarks.models.training import (
    Classifier,
    Recommender,
    Recurrent,
    Trainable,
    VisionTransformer,
    bert,
    convnext,
    gpt2,
    images,
    masked_words,
    mlp,
    recommendations,
    resnet,
    words,
)


def vectors(count: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(count, 256), torch.randint(10, (count,))


# Small enough to step in milliseconds, large enough that operators cost more than calls.
MODELS = {
    "mlp": (Trainable(lambda: mlp(256, 512), vectors), 64),
    "resnet": (Trainable(lambda: resnet(32, 2), images(64)), 4),
    "densenet": (
        Trainable(lambda: Classifier(DenseNet((3, 6, 4), 16, 32, 4, 10)), images(64)),
        4,
    ),
    "bert": (Trainable(lambda: bert(4, 256, 2000), masked_words(64, 2000)), 4),
    "gpt2": (Trainable(lambda: gpt2(4, 256, 2000), masked_words(64, 2000)), 4),
    "vit": (Trainable(lambda: Classifier(VisionTransformer(64, 8, 192, 3, 4)), images(64)), 4),
    "convnext": (Trainable(lambda: convnext(48, 2), images(64)), 4),
    "lstm": (Trainable(lambda: Classifier(Recurrent(2000, 64, 64)), words(32, 2000)), 8),
    "dlrm": (Trainable(lambda: Recommender(8, 5000, 32), recommendations(8, 5000, 10)), 128),
}


def step(model: Any, arguments: tuple[torch.Tensor, ...], clock: Callable[[], float]) -> float:
    """Seconds of one forward and backward, with fresh gradients."""
    model.zero_grad(set_to_none=True)
    started = clock()
    model(*arguments).backward()
    return clock() - started


def measure_rewrites(
    name: str, rounds: int, choices: list[str], clock: Callable[[], float]
) -> list[tuple[int, float]]:
    """For each choice of rewrites: nodes of all graphs, and median milliseconds of a step; the
    compiled models step in turn."""
    trainable, count = MODELS[name]
    models, records = [], []
    torch._dynamo.reset()
    for choice in choices:
        torch.manual_seed(0)
        model = trainable.build().train()
        arguments = trainable.batch(count)
        storage: dict[str, Any] = {}
        options = {"rewrites": choice.split("+"), "storage": storage}
        compiled = torch.compile(model, backend="ortable", dynamic=False, options=options)
        step(compiled, arguments, clock)
        models.append(compiled)
        records.append(storage["instance"])
    taken: list[list[float]] = [[] for _ in choices]
    for _ in range(rounds + 1):  # the first round is not counted
        for model, times in zip(models, taken, strict=True):
            settle()
            times.append(statistics.median([step(model, arguments, clock) for _ in range(4)][1:]))
    graphs = [[record["onnx"] for record in each if record["onnx"]] for each in records]
    nodes = [sum(len(model.graph.node) for model in each) for each in graphs]
    medians = [statistics.median(times[1:]) * 1e3 for times in taken]
    return list(zip(nodes, medians, strict=True))


def print_rewrites(
    names: list[str], rounds: int, choices: list[str], clock: Callable[[], float]
) -> None:
    """A table of models by choices of rewrites."""
    print(f"{'model':12}" + "".join(f"{'nodes':>8}{choice + ' ms':>14}" for choice in choices))
    for name in names:
        found = measure_rewrites(name, rounds, choices, clock)
        row = "".join(f"{nodes:8}{milliseconds:14.2f}" for nodes, milliseconds in found)
        print(f"{name:12}{row}", flush=True)


def measure(
    name: str, rounds: int, backend: str, clock: Callable[[], float]
) -> tuple[float, float, float]:
    """Median milliseconds of eager and of the compiled step, and seconds of the first one."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    trainable, count = MODELS[name]
    eager = trainable.build().train()
    arguments = trainable.batch(count)
    compiled = torch.compile(eager, backend=backend, dynamic=False)
    seconds = step(compiled, arguments, time.perf_counter)
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):  # the first round is not counted
        for model, times in zip((eager, compiled), taken, strict=True):
            settle()
            steps = [step(model, arguments, clock) for _ in range(4)]
            times.append(statistics.median(steps[1:]))
    gc.collect()
    first, second = (statistics.median(times[1:]) * 1e3 for times in taken)
    return first, second, seconds


def profile(name: str, rounds: int, top: int) -> None:
    """Where the compiled step spends its time in ONNX Runtime, by operator and graph."""
    torch.manual_seed(0)
    trainable, count = MODELS[name]
    model = trainable.build().train()
    arguments = trainable.batch(count)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"enable_profiling": True, "profile_file_prefix": f"{folder}/profile"}
        options = {"session_options": settings}
        compiled = torch.compile(model, backend="ortable", dynamic=False, options=options)
        for _ in range(rounds):
            step(compiled, arguments, time.perf_counter)
        del compiled
        torch._dynamo.reset()
        gc.collect()
        for path in sorted(Path(folder).iterdir()):
            events = json.loads(path.read_text())
            print_operators(name, events, top)


def print_operators(name: str, events: list[dict[str, Any]], top: int) -> None:
    """Milliseconds a step of each operator of one session, longest first: the sum of its nodes'
    medians."""
    nodes: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes[event["args"]["op_name"], event["name"]].append(event["dur"])
    total: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    for (kind, _), durations in nodes.items():
        total[kind] += int(statistics.median(durations))
        count[kind] += 1
    print(f"{name}: a session of {len(nodes)} nodes, {sum(total.values()) / 1e3:.3f} ms a step")
    for kind, microseconds in total.most_common(top):
        print(f"  {microseconds / 1e3:8.3f} ms  {count[kind]:5d} x {kind}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--model", choices=tuple(MODELS), action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=30, help="measured rounds, after three")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--backend", default="ortable", help="what is compared with eager")
    parser.add_argument(
        "--rewrites", help="choices to compare, as none,default; + joins names of one choice"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="processor time, for a machine that is shared (1 thread)"
    )
    parser.add_argument("--profile", action="store_true", help="operators of each session")
    parser.add_argument("--top", type=int, default=12, help="operators that --profile lists")
    options = parser.parse_args()
    if options.rounds < 1 or options.threads < 1:
        parser.error("--rounds and --threads are at least 1")
    return options


def main() -> None:
    options = arguments()
    torch.set_num_threads(options.threads)
    names = options.model or list(MODELS)
    if options.profile:
        for name in names:
            profile(name, options.rounds, options.top)
        return
    clock = time.process_time if options.cpu else time.perf_counter
    kind = "processor time" if options.cpu else "time"
    print(
        f"forward and backward, {kind}, {options.rounds} rounds interleaved, medians; "
        f"torch {torch.__version__}, {options.threads} threads, Python {platform.python_version()}"
    )
    if options.rewrites:
        print_rewrites(names, options.rounds, options.rewrites.split(","), clock)
        return
    print(f"{'model':12}{'eager ms':>10}{options.backend + ' ms':>14}{'ratio':>8}{'first s':>9}")
    ratios = []
    for name in names:
        eager, compiled, seconds = measure(name, options.rounds, options.backend, clock)
        ratios.append(compiled / eager)
        row = f"{name:12}{eager:10.2f}{compiled:14.2f}{ratios[-1]:8.2f}{seconds:9.1f}"
        print(row, flush=True)
    print(f"{'geomean':36}{math.exp(statistics.mean(map(math.log, ratios))):8.2f}")


if __name__ == "__main__":
    main()
