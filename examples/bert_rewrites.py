"""Optimize BERT: profile, inspect, swap a module, fuse with your rules, partition, measure.

    python examples/bert_rewrites.py          # two layers of width 128, takes seconds
    python examples/bert_rewrites.py --base   # BERT base, takes minutes

Weights are random, and nothing is downloaded. Exits with status 1 if a result differs from eager's.
The rules are in bert_rules.yaml.

A common suggestion for BERT is missing: to replace LayerNorm by BatchNorm, which folds into the
previous matrix product. It changes results, which a rewrite must not. To replace GELU by ReLU
changes results, too, but here it is an explicit change of the model.
"""

from __future__ import annotations

import argparse
import copy
import operator
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupport
from torch.profiler import ProfilerActivity, record_function
from transformers import BertConfig, BertModel
from transformers.activations import GELUActivation

import ortable
from ortable.debug.plot import to_dot

RULES = str(Path(__file__).with_name("bert_rules.yaml"))
CHOICE = ["default", RULES]
TOLERANCE = 1e-4

Inputs = Mapping[str, torch.Tensor]
Run = Callable[[], Any]


class CalibratedBert(torch.nn.Module):
    """BERT with a classifier whose logits are divided by a temperature and shifted by a prior."""

    def __init__(self, config: BertConfig, classes: int = 8) -> None:
        super().__init__()
        self.bert = BertModel(config)
        self.weight = torch.nn.Parameter(torch.randn(config.hidden_size, classes) * 0.05)
        self.prior = torch.nn.Parameter(torch.randn(classes))
        self.temperature = 1.7

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return torch.matmul(hidden, self.weight) / self.temperature + self.prior


def bert(base: bool = False) -> tuple[CalibratedBert, Inputs]:
    """Build the model with random weights, and an input whose last row is padded."""
    torch.manual_seed(0)
    config = BertConfig(attn_implementation="eager")  # attention as matmul, scale and softmax
    if not base:
        config = BertConfig(
            vocab_size=1000,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=512,
            attn_implementation="eager",
        )
    ids = torch.randint(0, config.vocab_size, (2, 32))
    mask = torch.ones_like(ids)
    mask[-1, 24:] = 0
    return CalibratedBert(config).eval(), {"input_ids": ids, "attention_mask": mask}


# -- profile


def profile(model: torch.nn.Module, inputs: Inputs) -> tuple[Counter[str], Counter[str]]:
    """Return microseconds by operator, and by class of module with its submodules; three calls."""
    with ExitStack() as hooks, torch.no_grad():
        for module in model.modules():
            _record_calls(module, hooks)
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=3)
        with torch.profiler.profile(
            activities=[ProfilerActivity.CPU], schedule=schedule, acc_events=True
        ) as profiler:
            for _ in range(4):
                model(**inputs)
                profiler.step()
    operators: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    for event in profiler.key_averages():
        if event.key.startswith("module "):
            modules[event.key.removeprefix("module ")] += event.cpu_time_total
        elif event.key.startswith("aten::"):
            operators[event.key] += event.self_cpu_time_total
    return operators, modules


def _record_calls(module: torch.nn.Module, hooks: ExitStack) -> None:
    """Record each call of a module as an event of the profiler."""
    events = []

    def enter(module: torch.nn.Module, _: Any) -> None:
        events.append(record_function(f"module {type(module).__name__}").__enter__())

    def leave(*_: Any) -> None:
        events.pop().__exit__(None, None, None)

    hooks.callback(module.register_forward_pre_hook(enter).remove)
    hooks.callback(module.register_forward_hook(leave).remove)


def show_times(title: str, times: Counter[str], count: int = 6) -> None:
    """Print the slowest rows, with their shares of the total."""
    total = max(times.total() if "CalibratedBert" not in times else times["CalibratedBert"], 1)
    print(f"\n{title}")
    for name, microseconds in times.most_common(count):
        print(f"  {name:28} {microseconds / 1000:9.2f} ms {microseconds / total:6.0%}")


# -- inspect


def attention_graph(model: CalibratedBert) -> Any:
    """Export one self-attention module of the model."""
    attention = model.bert.encoder.layer[0].attention.self
    width = model.bert.config.hidden_size
    return ortable.to_onnx(attention, (torch.randn(2, 32, width),), rewrites="none")


# -- swap


def swap(module: torch.nn.Module, old: type[torch.nn.Module], new: Callable[[], Any]) -> int:
    """Replace every submodule of a class, and return the number of replacements."""
    swapped = 0
    for name, child in module.named_children():
        if isinstance(child, old):
            setattr(module, name, new())
            swapped += 1
        else:
            swapped += swap(child, old, new)
    return swapped


# -- fuse


def export(
    model: torch.nn.Module, inputs: Inputs, rewrites: str | Sequence[str]
) -> tuple[Any, dict[str, int]]:
    """Export the model; return it, and how often each rule fired."""
    proto, builder = ortable.to_onnx(
        model, (), dict(inputs), rewrites=rewrites, return_builder=True
    )
    return proto, builder.record.rewrites.counts()


def compiled(
    model: torch.nn.Module, rewrites: str | Sequence[str], storage: dict[str, Any] | None = None
) -> Any:
    """Compile a copy of the model, so that each set of rules has its own."""
    options = {"rewrites": rewrites, "storage": {} if storage is None else storage}
    return torch.compile(copy.deepcopy(model), backend="ortable", options=options)


# -- partition


class MatmulAndScaleSupport(OperatorSupport):
    """Supported operators of a partition: matrix products, and scaling by numbers."""

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function":
            return False
        if node.target in (operator.mul, operator.truediv):
            return isinstance(node.args[1], (int, float))
        return node.target in (torch.matmul, torch._C._nn.linear)


def partitioning(storage: dict[str, Any]) -> Any:
    """Return a backend that runs the supported partitions in ortable and the rest in torch."""

    def backend(graph_module: torch.fx.GraphModule, _: Any) -> Any:
        partitioner = CapabilityBasedPartitioner(
            graph_module, MatmulAndScaleSupport(), allows_single_node_partition=False
        )
        split = partitioner.fuse_partitions(partitioner.propose_partitions())
        for node in list(split.graph.nodes):
            if node.op == "call_module" and node.target.startswith("fused_"):
                example = [argument.meta["example_value"] for argument in node.args]
                part = split.get_submodule(node.target)
                run = ortable.onnx_custom_backend(part, example, storage=storage)
                split.delete_submodule(node.target)
                setattr(split, node.target, Part(run))
        split.recompile()
        return split.forward

    return backend


class Part(torch.nn.Module):
    """A compiled partition as a module of the surrounding graph."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.run = run

    def forward(self, *args: torch.Tensor) -> Any:
        results = self.run(*args)
        return results[0] if len(results) == 1 else results


# -- measure


def time_in_turns(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Measure seconds in turns, so that other load on the machine affects all candidates."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
        run()
    names = list(runs)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            start = time.perf_counter()
            runs[name]()
            times[name].append(time.perf_counter() - start)
    return times


def show_parts(instances: Sequence[Any]) -> None:
    """Print the operators of each partition in ONNX Runtime, and how often it occurs."""
    counts = Counter(
        " ".join(node.op_type for node in instance.onnx.graph.node) for instance in instances
    )
    for nodes, count in counts.most_common():
        print(f"  {count} x {nodes}")


def show_ratios(times: dict[str, list[float]]) -> None:
    """Print each median in milliseconds, and its ratio to eager in the same rounds."""
    for name, seconds in times.items():
        ratios = [a / b for a, b in zip(seconds, times["eager"], strict=True)]
        print(
            f"  {name:28} {1000 * statistics.median(seconds):8.2f} ms   "
            f"{statistics.median(ratios):.2f} of eager"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all steps; return 0 if every result equals eager's."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--base", action="store_true", help="BERT base instead of a small model")
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds")
    options = parser.parse_args(arguments)
    model, inputs = bert(options.base)
    with torch.no_grad():
        expected = model(**inputs)

    print("== Profile")
    operators, modules = profile(model, inputs)
    show_times("operators, by self time", operators)
    show_times("modules, with their submodules", modules, count=8)

    print("\n== The graph of one self-attention")
    graph = attention_graph(model)
    print(ortable.pretty_onnx(graph))
    print(f"(drawn: {len(to_dot(graph).splitlines())} lines of DOT, or ortable.plot_dot(graph))")
    print("three matrix products have the same input; the scores are scaled by a constant")

    print("\n== Swap GELU for ReLU (another model: results differ, and retraining is up to you)")
    relu = copy.deepcopy(model)
    print(f"{swap(relu, GELUActivation, lambda: torch.nn.ReLU(inplace=True))} modules swapped")
    with torch.no_grad():
        output = relu(**inputs)
    print(f"shape {tuple(output.shape)}, largest difference {(output - expected).abs().max():.3f}")

    print("\n== Fuse by rules")
    differs = False
    for name, choice in (("none", "none"), ("default", "default"), ("default + ours", CHOICE)):
        proto, counts = export(model, inputs, choice)
        print(f"export, {name}: {len(proto.graph.node)} nodes, {counts}")
    storages: dict[str, dict[str, Any]] = {}
    runs: dict[str, Run] = {"eager": lambda: model(**inputs), "eager, ReLU": lambda: relu(**inputs)}
    for name, choice in (("no rules", "none"), ("default", "default"), ("default + ours", CHOICE)):
        compiled_model = compiled(model, choice, storages.setdefault(name, {}))
        runs[f"ortable, {name}"] = lambda compiled_model=compiled_model: compiled_model(**inputs)
    parts: dict[str, Any] = {}
    partitioned = torch.compile(copy.deepcopy(model), backend=partitioning(parts))
    runs["parts by ortable"] = lambda: partitioned(**inputs)
    with torch.no_grad():
        for name, run in runs.items():
            if name.endswith("ReLU"):
                continue
            difference = float((run() - expected).abs().max())
            differs |= difference > TOLERANCE
            print(f"{name:28} largest difference from eager {difference:.1e}")
    for name, storage in storages.items():
        (record,) = storage["instance"]
        print(f"compiled, {name}: {len(record.onnx.graph.node)} nodes, {record.rewrites}")

    print("\n== A part of the graph")
    print(f"{len(parts['instance'])} parts of products and factors run in ONNX Runtime:")
    show_parts(parts["instance"])

    print("\n== Measure, in turns")
    with torch.no_grad():
        times = time_in_turns(runs, options.rounds)
    show_ratios(times)
    print("\nresults DIFFER" if differs else "\nresults equal eager's")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
