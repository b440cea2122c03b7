"""The shell commands about torch.compile: `ortable explain`, `ortable bench`, `ortable debug`. Each
takes module:callable, whose callable returns a model and the arguments of a call."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortable.debug.rewrites_text import fired_lines, refused_lines, summary
from ortable.errors import OrtableError

from .export import load_target
from .rewrites import add_choice, chosen_names, named_rules

if TYPE_CHECKING:
    from ortable.backend.aot.records import CompileRecord

__all__ = ["add_compile_commands"]


def add_compile_commands(commands: Any) -> None:
    """Adds the three commands to the subparsers of argparse."""
    about = "module:callable, whose callable returns (model, args) or (model, args, kwargs)"
    explain = commands.add_parser("explain", help="what torch.compile makes of a model")
    explain.set_defaults(run=_explain)
    bench = commands.add_parser("bench", help="time eager against compiled, interleaved")
    bench.add_argument("--rounds", type=int, default=15, help="measured rounds, after a warm-up")
    bench.set_defaults(run=_bench)
    debug = commands.add_parser("debug", help="find the first node that differs from eager")
    debug.set_defaults(run=_debug)
    for command in (explain, bench, debug):
        add_choice(command)
        command.add_argument("target", metavar="module:callable", help=about)
        command.add_argument("--dynamic", action="store_true", help="free sizes from the start")


class _ModelCall:
    """A model in inference mode, and one call of it."""

    def __init__(self, target: str) -> None:
        import torch

        self.model, self.args, kwargs, _ = load_target(target)
        self.kwargs = dict(kwargs or {})
        if isinstance(self.model, torch.nn.Module):
            self.model.eval()

    def __call__(self, function: Any) -> Any:
        import torch

        with torch.no_grad():
            return function(*self.args, **self.kwargs)

    def run(self, function: Any) -> Any:
        """The first call, which compiles: an error of ours is taken out of what dynamo wraps."""
        try:
            return self(function)
        except OrtableError:
            raise
        except Exception as error:
            cause = getattr(error, "inner_exception", None) or error.__cause__
            if isinstance(cause, OrtableError):
                raise cause from error
            raise

    def compiled(self, backend: Any, dynamic: bool) -> Any:
        import torch

        torch.compiler.reset()
        return torch.compile(self.model, backend=backend, dynamic=True if dynamic else None)


def _explain(args: argparse.Namespace) -> int:
    import torch

    from ortable import onnx_custom_backend
    from ortable.compat.torch import explain_graphs

    call = _ModelCall(args.target)
    torch.compiler.reset()
    found = call(explain_graphs(call.model))
    print(f"{found.graph_count} graphs, {found.graph_break_count} graph breaks")
    for number, reason in enumerate(found.break_reasons, 1):
        place = reason.user_stack[-1] if reason.user_stack else None
        where = f"{place.filename}:{place.lineno}" if place is not None else "unknown place"
        print(f"  break {number} at {where}: {reason.reason.strip().splitlines()[0]}")
    storage: dict[str, Any] = {}
    named = named_rules(args)

    def backend(graph_module: Any, arguments: Any) -> Any:
        return onnx_custom_backend(
            graph_module, arguments, storage=storage, rewrites=chosen_names(args)
        )

    call.run(call.compiled(backend, args.dynamic))
    for number, record in enumerate(storage.get("instance", []), 1):
        _print_graph(number, record, named)
    return 0


def _print_graph(number: int, record: CompileRecord, named: Sequence[str]) -> None:
    """Operators, nodes, what ONNX Runtime fuses, and the seconds of one graph."""
    graph_module = record.graph_module
    assert graph_module is not None  # nothing is loaded from a cache of torch here
    operators = Counter(
        node.target.name() if hasattr(node.target, "name") else str(node.target)
        for node in graph_module.graph.nodes
        if node.op == "call_function"
    )
    model = record.onnx
    print(f"graph {number} ({record.kind}): {operators.total()} operators of torch")
    print(f"  {_counted(operators)}")
    if model is None:
        print("  all of it runs in torch")
        return
    nodes = Counter(node.op_type for node in model.graph.node)
    print(f"  {nodes.total()} ONNX nodes: {_counted(nodes)}")
    _print_rewrites(record, named)
    after = _after_fusion(model)
    fused = {name: count for name, count in after.items() if name not in nodes}
    print(f"  {after.total()} nodes in the session: {_counted(Counter(fused)) or 'none fused'}")
    phases = (f"{phase} {seconds:.3f}" for phase, seconds in record.timings.items())
    print(f"  seconds: {', '.join(phases)}")


def _print_rewrites(record: CompileRecord, named: Sequence[str]) -> None:
    """Rules that fired, with lines of the model, and why others did not."""
    counts, refused = record.rewrites, record.refused
    print(f"  {summary(counts)}")
    for line in fired_lines(counts, record.onnx):
        print(f"    {line}")
    absent = [rule for rule in named if rule not in counts]
    if absent:
        print(f"  named, and fired nowhere: {', '.join(absent)}")
    if refused:
        print("  rules that were refused somewhere, most often first:")
    for line in refused_lines(refused, named):
        print(f"    {line}")


def _counted(counts: Counter[str]) -> str:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} {count}" for name, count in pairs)


def _after_fusion(model: Any) -> Counter[str]:
    """Operators of the graph that ONNX Runtime makes of a model."""
    import onnx
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "optimized.onnx")
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = path
        options.log_severity_level = 3
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return Counter(node.op_type for node in onnx.load(path).graph.node)


def _bench(args: argparse.Namespace) -> int:
    from ortable import onnx_custom_backend

    call = _ModelCall(args.target)

    def backend(graph_module: Any, arguments: Any) -> Any:
        return onnx_custom_backend(graph_module, arguments, rewrites=chosen_names(args))

    compiled = call.compiled(backend, args.dynamic)
    begin = time.perf_counter()
    call.run(compiled)
    first = time.perf_counter() - begin
    call(compiled)
    eager, ours = _interleaved(
        lambda: call(call.model), lambda: call(compiled), max(1, args.rounds)
    )
    ratios = [b / a for a, b in zip(eager, ours, strict=True)]
    print(f"first call, with compilation: {first:.2f} s")
    for name, values in (("eager", eager), ("ortable", ours)):
        milliseconds = [1e3 * value for value in values]
        print(
            f"{name:8} {statistics.median(milliseconds):9.3f} ms a call  "
            f"[{min(milliseconds):.3f} .. {max(milliseconds):.3f}]"
        )
    print(f"ortable takes {statistics.median(ratios):.2f} of eager's time ({len(ratios)} rounds)")
    return 0


def _interleaved(
    first: Callable[[], Any], second: Callable[[], Any], rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds a call of both, measured in turns; each turn lasts about 20 ms."""
    once = min(_seconds(first, 1), _seconds(second, 1))
    count = max(1, min(1000, round(0.02 / max(once, 1e-7))))
    a: list[float] = []
    b: list[float] = []
    for number in range(rounds):
        order = ((first, a), (second, b)) if number % 2 else ((second, b), (first, a))
        for function, found in order:
            time.sleep(0.02)  # the threads of the one before go to sleep
            found.append(_seconds(function, count))
    return a, b


def _seconds(function: Callable[[], Any], count: int) -> float:
    function()
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count


def _debug(args: argparse.Namespace) -> int:
    from ortable import onnx_debug_backend

    call = _ModelCall(args.target)

    def backend(graph_module: Any, arguments: Any) -> Any:
        return onnx_debug_backend(
            graph_module, arguments, compare=True, rewrites=chosen_names(args)
        )

    call.run(call.compiled(backend, args.dynamic))
    print("no node differs from eager")
    return 0
