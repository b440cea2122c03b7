"""Graft samples of rewrites into each other, and judge the rewritten graph by several runtimes.

A graft is a graph of two to five samples: a result of one is an input of another, through
elementwise operators or unchanged, and may stay an output (the idea of OATest: patterns of an
optimizer within graphs that it was not tried on). The graph without optimizers is compared with
the rewritten one, with ONNX Runtime's optimizers on both, and with onnx.reference, at several sizes
and with infinities, NaN and zeros: `python -m tests.fuzz.grafts --count 1000`. With `--openvino`,
OpenVINO runs the rewritten graph, too, where it agrees on the graph as it was drawn.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import torch
from tqdm import tqdm

from ortable.builder import GraphBuilder
from ortable.debug.arrays import to_numpy, to_torch
from ortable.debug.reference import ExtendedReferenceEvaluator
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.testing.entries import make_session, run_session
from ortable.testing.graphs import SampleGraph
from ortable.testing.runs import make_checked_model
from ortable.testing.trial import all_rules, build_sample, default_rules, list_targets
from ortable.testing.values import concrete_shape, draw_tensor, is_free, list_sizes
from ortable_generated.kernels import KERNELS_CPU
from ortablegen.language.samples import TensorSample
from tests.forked import Died, Pool, Say
from tests.passes.rewrite.harness import all_rewrites
from tests.portable.runtimes import RUNTIMES, RuntimeFailure, RuntimeServer, install
from tests.rotation import rotation_seed
from tests.suites.model_check import differing

from .catalog import BUILD

LIMIT_S = 60.0
# Judges of the graph as it was drawn: a difference is a fault of theirs, or of an operator
UPSTREAM = ("optimized", "reference")
INTEGERS = range(onnx.TensorProto.UINT8, onnx.TensorProto.INT64 + 1)
GLUE = ("Neg", "Relu", "Abs", "Identity", "Sigmoid")
Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Piece:
    """The graph of a sample as a model."""

    rule: str
    model: onnx.ModelProto
    built: SampleGraph


@dataclass
class Graft:
    """The model of joined samples, and what its remaining inputs take."""

    target: str | None
    model: onnx.ModelProto
    rules: list[str] = field(default_factory=list)
    inputs: dict[str, TensorSample] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)


# -- drawing


@cache
def read_pieces(target: str | None) -> tuple[Piece, ...]:
    """Return the samples of all rewrites at the newest opset of the target."""
    pieces = []
    for rewrite in all_rewrites():
        for sample in rewrite.samples:
            targets = [opset for opset, name in list_targets(rewrite, sample) if name == target]
            if sample.quantize is None and targets:
                built = build_sample(rewrite, sample, targets[-1], target)
                pieces.append(Piece(rewrite.name, make_checked_model(built.builder), built))
    newest = max(_find_opset(piece.model) for piece in pieces)
    return tuple(piece for piece in pieces if _find_opset(piece.model) == newest)


def _find_opset(model: onnx.ModelProto) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))


def draw_graft(seed: int) -> Graft:
    """Draw a graft; the same seed draws the same one."""
    rng = random.Random(seed)
    target = rng.choice((None, "onnxruntime"))
    pieces = read_pieces(target)
    graft = Graft(target, onnx.ModelProto())
    for number in range(rng.randint(2, 5)):
        fits = [(piece, pairs) for piece in pieces if (pairs := _find_pairs(graft, piece))]
        if number and not fits:
            break
        piece, pairs = rng.choice(fits) if number else (rng.choice(pieces), [])
        _append(graft, piece, rng.sample(pairs, rng.randint(1, len(pairs))) if pairs else [], rng)
    return graft


def _find_pairs(graft: Graft, piece: Piece) -> list[tuple[str, str]]:
    """Return results of the graft, each with an input of the piece of the same type."""
    if any(graft.symbols.get(k, v) != v for k, v in piece.built.symbols.items()):
        return []
    results = {_describe(info): info.name for info in graft.model.graph.output}
    return [
        (results[_describe(info)], info.name)
        for info in piece.model.graph.input
        if _describe(info) in results and piece.built.inputs[info.name].values is None
    ]


def _describe(info: onnx.ValueInfoProto) -> bytes:
    return bytes(info.type.SerializeToString(deterministic=True))


def _append(graft: Graft, piece: Piece, pairs: list[tuple[str, str]], rng: random.Random) -> None:
    """Append a piece whose inputs are results of the graft."""
    prefix = f"p{len(graft.rules)}_"
    model = onnx.compose.add_prefix(piece.model, prefix)
    connected = {prefix + name for _, name in pairs}
    merged = graft.model if graft.rules else model
    if graft.rules:
        graph, added = merged.graph, model.graph
        for result, name in pairs:
            is_float = added.input[0].type.tensor_type.elem_type in (1, 11)
            glue = rng.choice(GLUE) if is_float and rng.random() < 0.5 else "Identity"
            graph.node.append(onnx.helper.make_node(glue, [result], [prefix + name]))
        consumed = {result for result, _ in pairs if rng.random() < 0.6}
        outputs = [info for info in graph.output if info.name not in consumed]
        del graph.output[:]
        graph.output.extend([*outputs, *added.output])
        graph.node.extend(added.node)
        graph.initializer.extend(added.initializer)
        graph.value_info.extend(added.value_info)
        graph.input.extend(info for info in added.input if info.name not in connected)
        domains = {entry.domain for entry in merged.opset_import}
        merged.opset_import.extend(e for e in model.opset_import if e.domain not in domains)
    graft.model = merged
    graft.rules.append(piece.rule)
    graft.symbols |= piece.built.symbols
    graft.inputs |= {
        prefix + name: sample
        for name, sample in piece.built.inputs.items()
        if prefix + name not in connected
    }


# -- judging


def judge(seed: int, openvino: RuntimeServer | None = None) -> tuple[str, str]:
    """Return the outcome of a graft, and what differs."""
    graft = draw_graft(seed)
    try:
        onnx.checker.check_model(graft.model, full_check=True)
        run = _make_runner(graft.model, optimize=False)
        draws = list(_draw_feeds(graft, seed))
        run(draws[0][1])
    except Exception as error:
        return "invalid", f"{type(error).__name__}: {str(error)[:200]}"
    builder = GraphBuilder(graft.model, target=graft.target)
    if graft.target:
        builder.kernel_table = KERNELS_CPU
    opset = _find_opset(graft.model)
    rules = (all_rules if seed % 3 == 0 else default_rules)(graft.target, opset)
    record = rewrite_graph(builder, rules)
    builder.remove_unused()
    rewritten = make_checked_model(builder)
    makers: dict[str, Callable[[], Callable[[Tensors], Tensors]]] = {
        "rewritten": lambda: _make_runner(rewritten, optimize=False),
        UPSTREAM[0]: lambda: _make_runner(graft.model, optimize=True),
        UPSTREAM[1]: lambda: _make_reference(graft.model),
        "rewritten and optimized": lambda: _make_runner(rewritten, optimize=True),
    }
    runners = {}
    for name, make in makers.items():
        try:
            runners[name] = make()
        except Exception as error:
            return name, f"{type(error).__name__}: {str(error)[:300]}"
    # kernels of attention multiply hidden values by 0, and the graph replaces their row by 0
    keeps_hidden = any(node.op_type.endswith("Attention") for node in rewritten.graph.node)
    has_nan_codes = _make_nan_check(graft.model)
    for special, feeds in draws:
        if special and keeps_hidden:
            continue
        try:
            if has_nan_codes(feeds):
                continue
            expected = _limit(run(feeds))
        except Exception:
            continue  # a size that the graph itself refuses
        for name, runner in runners.items():
            try:
                results = _limit(runner(feeds))
                difference = differing(results, expected)
                if difference and not special and _is_rounding(results, expected, run, feeds):
                    continue
            except Exception as error:
                if name == UPSTREAM[1]:
                    continue  # an operator that it does not have
                difference = f"{type(error).__name__}: {str(error)[:300]}"
            if difference:
                return name, difference
    outcome = ("rewritten" if record.fired else "unchanged") + " equal"
    if openvino is None or not record.fired or graft.target is not None:
        return outcome, ""
    return _compare_in_openvino(graft.model, rewritten, draws[0][1], openvino) or (outcome, "")


def _compare_in_openvino(
    drawn: onnx.ModelProto, rewritten: onnx.ModelProto, feeds: Tensors, server: RuntimeServer
) -> tuple[str, str] | None:
    """Compare both graphs in OpenVINO; None unless it runs the drawn one and agrees on it.

    Its kernels of attention have other numbers where values are not finite, so none may be.
    """
    try:
        expected = _run_in_server(drawn, feeds, server)
    except RuntimeFailure:
        return None
    is_finite = all(bool(x.isfinite().all()) for x in expected.values())
    if not is_finite or differing(expected, _make_runner(drawn, optimize=False)(feeds)):
        return None
    try:
        difference = differing(_run_in_server(rewritten, feeds, server), expected)
    except RuntimeFailure as error:
        difference = str(error)[:300]
    return "rewritten in OpenVINO" + (" equal" if not difference else ""), difference


def _run_in_server(model: onnx.ModelProto, feeds: Tensors, server: RuntimeServer) -> Tensors:
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder, "model.onnx"))
        arrays = {info.name: to_numpy(feeds[info.name]) for info in model.graph.input}
        results = server.run_model(Path(folder), arrays)
    return {o.name: to_torch(x) for o, x in zip(model.graph.output, results, strict=True)}


def _is_rounding(
    results: Tensors, expected: Tensors, run: Callable[[Tensors], Tensors], feeds: Tensors
) -> bool:
    """Return whether inputs that differ by a rounding change the results as much."""
    torch.manual_seed(0)
    noisy = {
        name: x * (1 + 1e-6 * torch.rand_like(x)) if x.is_floating_point() else x
        for name, x in feeds.items()
    }
    changed = _limit(run(noisy))
    return all(
        x.is_floating_point()
        and results[name].shape == x.shape
        and bool((results[name] - x).abs().max() <= 4 * (changed[name] - x).abs().max())
        for name, x in expected.items()
        if differing({name: results[name]}, {name: x})
    )


def _limit(results: Tensors) -> Tensors:
    """Return results in which an overflow is infinity: rewrites may change where it happens."""
    return {
        name: x.where(x.abs() < 1e30, x.sign() * torch.inf) if x.is_floating_point() else x
        for name, x in results.items()
    }


def _draw_feeds(graft: Graft, seed: int) -> Iterator[tuple[bool, Tensors]]:
    generator = torch.Generator().manual_seed(seed)
    for sizes in list_sizes(graft.symbols):
        for special in (False, False, True, True):
            feeds = {}
            for name, sample in graft.inputs.items():
                shape = concrete_shape(sample, sizes)
                is_special = special and is_free(sample)
                feeds[name] = draw_tensor(sample, shape, generator, is_special, zeros=False)
            yield special, feeds


def _make_nan_check(model: onnx.ModelProto) -> Callable[[Tensors], bool]:
    """Return a function that says whether a NaN becomes an integer, which ONNX leaves undefined."""
    inner = {name for node in model.graph.node for name in node.output}
    names = {node.input[0] for node in model.graph.node if _makes_integers(node)} & inner
    if not names:
        return lambda feeds: False
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    exposed.graph.output.extend(map(onnx.helper.make_empty_tensor_value_info, sorted(names)))
    run = _make_runner(exposed, optimize=False)
    return lambda feeds: any(bool(x.isnan().any()) for x in run(feeds).values())


def _makes_integers(node: onnx.NodeProto) -> bool:
    to = next((a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to"), None)
    return node.op_type == "QuantizeLinear" or to in INTEGERS


def _make_runner(model: onnx.ModelProto, optimize: bool) -> Callable[[Tensors], Tensors]:
    session = make_session(model.SerializeToString(), optimize=optimize)
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, run_session(session, feeds), strict=True))


def _make_reference(model: onnx.ModelProto) -> Callable[[Tensors], Tensors]:
    names = [output.name for output in model.graph.output]

    def run(feeds: Mapping[str, torch.Tensor]) -> Tensors:
        evaluator = ExtendedReferenceEvaluator(model)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            arrays = {name: to_numpy(tensor) for name, tensor in feeds.items()}
            return dict(zip(names, map(to_torch, evaluator.run(None, arrays)), strict=True))

    return run


# -- the command


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.grafts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first graft")
    parser.add_argument("--rotating", action="store_true", help="a first number of the commit")
    parser.add_argument("--openvino", action="store_true", help="run rewritten graphs there, too")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def _judge_all(
    seeds: Sequence[int], jobs: int, openvino: RuntimeServer | None
) -> Iterator[tuple[int, str, str]]:
    """Yield the number, the outcome and the difference of each graft."""
    for target in (None, "onnxruntime"):
        read_pieces(target)  # before the first fork

    def work(seed: int, send: Say) -> None:
        send(judge(seed, openvino))

    for seed, message in Pool(work, jobs, LIMIT_S).run(seeds):
        if isinstance(message, Died):
            yield seed, message.outcome, message.detail
        elif message is not None:
            yield seed, *message


def main(arguments: Sequence[str]) -> int:
    """Judge grafts, and save those in which a rewrite is at fault."""
    options = parse(arguments)
    first = rotation_seed() if options.rotating else options.seed
    seeds = range(first, first + options.count)
    openvino = RuntimeServer(RUNTIMES[0]) if options.openvino else None
    if openvino is not None:
        install(openvino.runtime)  # each worker starts a process of its own
    counts: Counter[str] = Counter()
    finds = []
    for seed, outcome, detail in tqdm(_judge_all(seeds, options.jobs, openvino), total=len(seeds)):
        counts[outcome] += 1
        if not outcome.endswith(("equal", "invalid")) and outcome not in UPSTREAM:
            graft, path = draw_graft(seed), BUILD / f"graft_{seed}.onnx"
            path.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(graft.model, path)
            finds.append(f"{seed} ({', '.join(graft.rules)}): {outcome}: {detail}")
    print("\n".join([*finds, f"{dict(counts.most_common())}"]))
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
