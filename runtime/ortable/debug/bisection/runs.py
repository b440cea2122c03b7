"""One run of a model, in eager or compiled, with parts switched off: what differs from eager. In
come a model, the arguments of a call and options, out comes an `Outcome`; called by `search`."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.bisector import judged_by
from ortable.compat.torch_explain import compiled_apart, own_profile
from ortable.debug.explain_state import copied_arguments, model_untouched, modules_of, run_call

from .judge import Switches
from .values import Tolerances, Values, collected, differing

Compile = Callable[[Any, OrtOptions, Any], Any]  # what `compile_aot_graph` is
_SEED = 0
_SECOND = "call 2: "


@dataclass(frozen=True)
class Outcome:
    """What a run showed: `difference` from eager in words, empty where it agrees; `error` where it
    was not run to its end; the graphs that were converted."""

    difference: str = ""
    error: Exception | None = None
    graphs: tuple[CompiledGraph, ...] = ()

    @property
    def kind(self) -> str:
        """What two runs have in common: that they agree, that they differ, or their error."""
        if self.error is not None:
            return type(self.error).__name__
        return "differs" if self.difference else "agrees"

    @property
    def text(self) -> str:
        """The difference, or the error."""
        if self.error is not None:
            first = str(self.error).strip().partition("\n")[0]
            return f"raises {type(self.error).__name__}: {first}"
        return self.difference


@dataclass
class Runs:
    """The runs of one call of a model.

    ``function``: a module or a function; ``args`` and ``kwargs``: of the call; ``train``: with
    gradients; ``dynamic``: as torch.compile has it; ``export``: through `ortable.export` in place
    of torch.compile; ``count``: how many runs there were; ``calls``: of the model in one.
    """

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    train: bool = False
    dynamic: bool | None = None
    export: bool = False
    tolerances: Tolerances = field(default_factory=Tolerances)
    count: int = 0
    calls: int = 2  # the second finds weights that should have been read again
    _expected: Values | None = None

    @property
    def expected(self) -> Values:
        """What eager leaves behind."""
        if self._expected is None:
            with self._untouched():
                self._expected = self._values(self.function)
        return self._expected

    def compiled(
        self,
        options: Mapping[str, Any],
        switches: Switches | None = None,
        runner: Any = None,
    ) -> Outcome:
        """A run by ortable; without switches as the user runs it, caches included."""
        run = self._export if self.export else self._compile
        return self._outcome(lambda graphs: run(options, graphs, runner), switches)

    def shortened(self, outcome: Outcome) -> None:
        """From now on one call in a run, where that shows what a run of two showed."""
        if outcome.difference and not outcome.difference.startswith(_SECOND):
            self.calls, self._expected = 1, None

    def by_torch(self, backend: str) -> Outcome:
        """A run by one of torch's own backends."""
        name: Any = backend
        return self._outcome(lambda _: compiled_apart(self.function, name, self.dynamic), None)

    def _outcome(
        self, make: Callable[[list[CompiledGraph]], Any], switches: Switches | None
    ) -> Outcome:
        expected = self.expected
        graphs: list[CompiledGraph] = []
        self.count += 1
        try:
            with self._untouched() as stack:
                if switches is not None:
                    stack.enter_context(judged_by(switches))
                got = self._values(make(graphs))
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            return Outcome(error=error, graphs=tuple(graphs))
        what = differing(expected, got, self.tolerances)
        return Outcome(what or "", graphs=tuple(graphs))

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[ExitStack]:
        """The model and torch's state as they were, when the block ends."""
        with ExitStack() as stack:
            stack.enter_context(
                model_untouched(self.function, (self.args, self.kwargs), self.train)
            )
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(own_profile())
            stack.enter_context(torch.compiler.set_stance("default"))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.set_grad_enabled(self.train))
            yield stack

    def _compile(
        self, options: Mapping[str, Any], graphs: list[CompiledGraph], runner: Any
    ) -> Callable[..., Any]:
        chosen = replace(
            OrtOptions.from_mapping(options), hints=False, verbose=0, dump_prefix=None, storage=None
        )

        def compile_graph(graph: Any, given: OrtOptions, run: Any) -> Any:
            made = compile_aot_graph(graph, given, run)
            parts = getattr(made, "partitions", None) or {"": made}
            each = parts.values() if isinstance(parts, Mapping) else parts
            graphs.extend(one.compiled for one in each if hasattr(one, "compiled"))
            return made

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            return compile_with_autograd(
                graph_module, example_inputs, chosen, runner, compile_graph
            )

        return compiled_apart(self.function, backend, self.dynamic)

    def _export(
        self, options: Mapping[str, Any], graphs: list[CompiledGraph], runner: Any
    ) -> Callable[..., Any]:
        return self.exported(options)

    def exported(self, options: Mapping[str, Any]) -> Any:
        """The exported model."""
        from ortable.exporter.export import export

        args, kwargs = copied_arguments(self.args, self.kwargs)
        return export(self.function, args, kwargs, **options)

    def _values(self, function: Callable[..., Any]) -> Values:
        """What the calls leave behind: results, arguments, gradients, buffers."""
        torch.manual_seed(_SEED)
        random.seed(_SEED)
        found: dict[str, Any] = {}
        for number in range(1 if self.export else self.calls):
            call = copied_arguments(self.args, self.kwargs)
            mark = "" if number == 0 else _SECOND
            kept: dict[str, Any] = {}

            def keeping(*args: Any, _kept: dict[str, Any] = kept, **kwargs: Any) -> Any:
                result = function(*args, **kwargs)
                _kept["result"] = result
                return result

            run_call(keeping, call, self.train)
            found |= collected(f"{mark}result", kept["result"])
            found |= collected(f"{mark}argument ", [*call[0], *call[1].values()])
            if self.train:
                found |= {f"{mark}{k}": v for k, v in self._gradients(call).items()}
        if not self.export:
            found |= self._written()
        return found

    def _gradients(self, call: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for index, value in enumerate(call[0]):
            if isinstance(value, torch.Tensor) and value.grad is not None:
                found[f"gradient of argument {index}"] = value.grad.clone()
        for module in modules_of(self.function):
            for name, parameter in module.named_parameters():
                if parameter.grad is not None:
                    found[f"gradient of {name}"] = parameter.grad.clone()
        return found

    def _written(self) -> dict[str, Any]:
        return {
            f"buffer {name}": buffer.clone()
            for module in modules_of(self.function)
            for name, buffer in module.named_buffers()
        }
