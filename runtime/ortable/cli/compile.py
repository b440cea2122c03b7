"""The shell commands about torch.compile: `ortable explain`, `bench` and `tune`. Each
takes module:callable, whose callable returns a model and the arguments of a call."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from .export import load_target
from .rewrites import ERRORS_INTO_A_FILE, add_choice, chosen_names, named_rules

__all__ = ["add_compile_commands"]


def add_compile_commands(commands: Any) -> None:
    """Adds the commands to the subparsers of argparse."""
    about = "module:callable, whose callable returns (model, args) or (model, args, kwargs)"
    explain = commands.add_parser("explain", help="what torch.compile makes of a model")
    explain.add_argument("--train", action="store_true", help="with gradients, in training mode")
    form = explain.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    explain.set_defaults(run=_explain)
    bench = commands.add_parser("bench", help="time eager against compiled, interleaved")
    bench.add_argument("--rounds", type=int, default=15, help="measured rounds, after a warm-up")
    bench.set_defaults(run=_bench)
    tune = commands.add_parser("tune", help="find the session settings that are fastest here")
    tune.add_argument("--seconds", type=float, default=20.0, help="how long to search a graph")
    tune.add_argument("--cache-dir", metavar="FOLDER", help="keep the result for torch.compile")
    tune.add_argument("--json", action="store_true", help="print JSON")
    tune.set_defaults(run=_tune)
    for command in (explain, bench, tune):
        add_choice(command)
        command.add_argument("target", metavar="module:callable", help=about)
        command.add_argument("--dynamic", action="store_true", help="free sizes from the start")
        command.add_argument("--verbose", action="store_true", help=ERRORS_INTO_A_FILE)


class _ModelCall:
    """A model in inference mode, or in training mode, and one call of it."""

    def __init__(self, target: str, train: bool = False) -> None:
        import torch

        self.model, self.args, kwargs, _ = load_target(target)
        self.kwargs = dict(kwargs or {})
        if isinstance(self.model, torch.nn.Module):
            self.model.train(train)

    def __call__(self, function: Any) -> Any:
        import torch

        with torch.no_grad():
            return function(*self.args, **self.kwargs)

    def run(self, function: Any) -> Any:
        """The first call, which compiles: an error of ours is taken out of what dynamo wraps."""
        from ortable.compat.torch_explain import unwrapped

        with unwrapped():
            return self(function)

    def compiled(self, backend: Any, dynamic: bool) -> Any:
        import torch

        torch.compiler.reset()
        return torch.compile(self.model, backend=backend, dynamic=True if dynamic else None)


def _explain(args: argparse.Namespace) -> int:
    from ortable.debug.explain_call import explain
    from ortable.debug.explain_records import as_markdown, as_text

    call = _ModelCall(args.target, args.train)
    named = named_rules(args)
    found = explain(
        call.model,
        *call.args,
        **call.kwargs,
        options={"rewrites": chosen_names(args)},
        train=args.train,
        dynamic=True if args.dynamic else None,
    )
    if args.json:
        print(found.to_json())
    else:
        print((as_markdown if args.markdown else as_text)(found, named))
    return 0


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


def _tune(args: argparse.Namespace) -> int:
    from ortable import onnx_custom_backend

    call = _ModelCall(args.target)
    storage: dict[str, Any] = {}
    options = {"tune": args.seconds, "storage": storage, "rewrites": chosen_names(args)}
    if args.cache_dir:
        options["cache_dir"] = args.cache_dir

    def backend(graph_module: Any, arguments: Any) -> Any:
        return onnx_custom_backend(graph_module, arguments, options=options)

    call.run(call.compiled(backend, args.dynamic))
    found = [dict(record.tuned) for record in storage.get("instance", ())]
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    for number, each in enumerate(found):
        said = ", ".join(f"{name}={value}" for name, value in each.get("settings", {}).items())
        print(
            f"graph {number}: {said or 'the usual settings'}, {each.get('ratio', 1.0):.2f} of the "
            f"usual time ({each.get('found', 'torch runs it')}, {each.get('tried', 0)} tried)"
        )
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
