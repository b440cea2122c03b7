"""The source text of one call: a straight line from a list of arguments to a list of results,
written from the roles. Loops, names and kinds are gone by the time a graph is called."""

from __future__ import annotations

import functools
import linecache
import operator
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
from onnx import ModelProto
from torch.autograd.graph import increment_version

from ortable import dtypes
from ortable.backend.roles import (
    CompiledGraph,
    Fetch,
    InputRole,
    InputRoleKind,
    OutputRole,
    OutputRoleKind,
    ViewStep,
    names_read,
)
from ortable.compat.onnxruntime import bound_session, dlpack_source, in_memory_of
from ortable.compat.torch import TensorBase
from ortable_generated.onnx.traits import IN_PLACE

from .feeds import as_bytes, as_pairs, float8_tensor, float8_value, number
from .results import SymbolValues, as_promised, own

_REAL = (int, bool, str, type(None))
_METHODS = {
    torch.ops.aten.permute.default: "permute",
    torch.ops.aten.view.default: "view",
    torch.ops.aten.alias.default: "",
}


@functools.lru_cache(maxsize=1024)
def code_of(text: str) -> CodeType:
    """The code of the function `call` in a source text, compiled once per text; tracebacks show its
    lines, for as long as it lives."""
    name = f"<ortable call {abs(hash(text)):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    code: CodeType = scope["call"].__code__
    weakref.finalize(code, linecache.cache.pop, name, None).atexit = False
    return code


class CallSource:
    """Text and globals of the call of one graph.

    :param constants: positions of arguments that the session holds as constants
    :param bound: positions of arguments whose OrtValues are kept from call to call
    :param resizable: outputs are copied into memory of torch
    :param fixed: how many arguments in front are always the same tensors, which the call is not
        given; all that are not among `constants` are not read
    :param trusted: what is written into the constants is not looked for
    :param in_place: positions of mutations whose results the session writes where arguments lie

    `values` are the globals that depend on the graph only; `run`, `failed`, `names`, `options`,
    `take`, `dlpack`, `feed` and what checks the weights come from the caller.
    """

    def __init__(
        self,
        compiled: CompiledGraph,
        constants: Collection[int] = (),
        bound: Collection[int] = (),
        resizable: bool = False,
        *,
        fixed: int = 0,
        trusted: bool = False,
        in_place: Mapping[int, str] | None = None,
    ) -> None:
        self.compiled = compiled
        self.in_place = dict(in_place or {})
        self.fixed, self.trusted = fixed, trusted
        self.constants = tuple(constants)
        self.bound = tuple(bound)
        self.resizable = resizable
        self.values: dict[str, Any] = {}
        self._pieces: dict[tuple[Any, ...], str] = {}  # names of lists of views
        self._lists: list[str] = []  # lines that make them
        self.symbolic = False
        self.text = self._written()

    def _written(self) -> str:
        count = len(self.compiled.inputs) - self.fixed
        unpacked = ", ".join(f"a{i + self.fixed}" for i in range(count))
        feeds, fetches, results = self._feeds(), self._fetches(), self._results()
        head = [f"    {unpacked}{',' if count == 1 else ''} = args"] if count else []
        if self.constants:
            head += self._checks()
        head.append("    args.clear()")
        if self.symbolic:
            self.values["symbols"] = SymbolValues
            self.values["sources"] = tuple(self.compiled.sources.values())
            known = f"({unpacked},)" if count else "()"
            head.append(f"    values = symbols({known}, sources)")
        return "\n".join(["def call(args):", *head, *feeds, *fetches, *results, ""])

    def _checks(self) -> list[str]:
        """The weights are the objects, in the memory, with the versions that the session has, and
        what is compared of their values is what it was: small weights whole, of large ones samples,
        which miss a write elsewhere that torch does not count (`weights.refresh` is for that).

        One loop in C reads all pointers; versions are read faster one by one."""
        given = [i for i in self.constants if i >= self.fixed]
        lines = [f"        {' and '.join(['valid[0]', *(f'a{i} is w{i}' for i in given)])}"]
        if not self.trusted:
            each = [f"{'a' if i in given else 'w'}{i}" for i in self.constants]
            versions = ", ".join(f"{weight}._version" for weight in each)
            self.values["address"] = TensorBase.data_ptr
            lines += [
                "        and list(map(address, weights)) == pointers",
                f"        and [{versions}] == versions",
                "        and join(windows) == sample",
            ]
        return ["    if not (", *lines, "    ):", "        return changed(args)"]

    def _feeds(self) -> list[str]:
        """`feeds = {...}`, through the general path where the memory is not what torch traced."""
        if not self.compiled.fetches:
            return []
        lines, fixed, fast, general = [], [], [], []
        for role in self.compiled.inputs:
            at = role.index
            if not role.name or role.name not in self.compiled.fed or at in self.constants:
                continue
            if role.kind is InputRoleKind.DIMENSION:
                fixed.append(f"{role.name!r}: dimension(a{at})")
            elif role.kind is InputRoleKind.NUMBER:
                self.values["number"] = number
                fixed.append(f"{role.name!r}: number(a{at}, {role.elem_type == dtypes.boolean})")
            elif at not in self.bound:
                before, entry = self._feed(role)
                lines += before
                fast.append(entry)
                self.values[f"role{at}"] = role
                general.append(f"{role.name!r}: feed_any(role{at}, a{at})")
        if self.bound:
            given = ", ".join(f"a{i}" for i in self.bound)
            pointers = ", ".join(f"a{i}.data_ptr()" for i in self.bound)
            lines.append("    kept, base = bound.now")
            lines.append(f"    if [{pointers}] != kept:")
            lines.append(f"        base = bound.bind(({given},))")
            fixed.insert(0, "**base")
        if not fast:
            return [*lines, f"    feeds = {{{', '.join(fixed)}}}"]
        return [
            *lines,
            "    try:",
            f"        feeds = {{{', '.join(fixed + fast)}}}",
            "    except RuntimeError:  # a layout that torch did not trace",
            f"        feeds = {{{', '.join(fixed + general)}}}",
        ]

    def _feed(self, role: InputRole) -> tuple[list[str], str]:
        """Lines that prepare one tensor, and its entry among the feeds."""
        name = f"a{role.index}"
        lines = []
        if dtypes.is_float_type(role.elem_type):
            lines = [f"    if {name}.is_neg():", f"        {name} = {name}.resolve_neg()"]
        value, is_bool = name, role.elem_type == dtypes.boolean
        if role.permutation is not None:
            value = f"{value}.permute({', '.join(map(str, role.permutation))})"
        if not role.dense:
            value += ".contiguous()"
        if is_bool:
            self.values["as_bytes"] = as_bytes
        elif dtypes.is_complex_type(role.elem_type):
            self.values["as_pairs"] = as_pairs
            value = f"as_pairs({value})"
        elif role.elem_type in dtypes.FLOAT8_TYPES:
            self.values["float8_value"] = float8_value
            return lines, f"{role.name!r}: float8_value({value}, {role.elem_type})"
        return lines, f"{role.name!r}: {dlpack_source(value, is_bool)}"

    def _fetches(self) -> list[str]:
        """`f0`, `f1`, ...: tensors of torch over the memory of ONNX Runtime's outputs."""
        fetches = self.compiled.fetches
        if not fetches:
            return []
        known = f", ({self._given()})" if self.compiled.is_checked else ""
        lines = [
            "    try:",
            "        out = run(feeds, names, options)",
            "    except Exception as error:",
            f"        raise failed(error{known}) from error",
        ]
        if self._are_the_results():
            if self.resizable:
                return [*lines, "    return [f.clone() for f in out.to_dlpacks(take)]"]
            return [*lines, "    return out.to_dlpacks(take)"]
        if len(fetches) < 3 or any(fetch.float8 for fetch in fetches):
            lines += [f"    f{i} = {self._taken(i, fetch)}" for i, fetch in enumerate(fetches)]
        else:
            listed = ", ".join(f"f{i}" for i in range(len(fetches)))
            lines.append(f"    {listed} = out.to_dlpacks(take)")
        for check in self.compiled.checks:
            lines.append(f"    if not f{check.fetch}.item():")
            lines.append(f"        raise RuntimeError({check.message!r})")
        handed_out = self._handed_out() if self.resizable else set()
        for index, fetch in enumerate(fetches):
            if index in handed_out:
                lines.append(f"    f{index} = f{index}.clone()")
            changed = self._promised(index, fetch)
            if changed:
                lines.append(f"    f{index} = {changed}")
        return lines

    def _given(self) -> str:
        """All arguments as a tuple, for what looks for the reason of an error: those that the call
        is not given are constants, or are not read."""
        fixed = [f"w{i}" if i in self.constants else "None" for i in range(self.fixed)]
        rest = [f"a{i}" for i in range(self.fixed, len(self.compiled.inputs))]
        return "".join(f"{name}, " for name in (*fixed, *rest))

    def _taken(self, index: int, fetch: Fetch) -> str:
        """One output as a tensor over its memory."""
        if fetch.float8 is None:
            return f"take(out.dlpack_at({index}))"
        self.values["float8_tensor"] = float8_tensor
        self.values[f"dtype{index}"] = dtypes.to_torch(fetch.float8)
        self.values["own"] = own
        return f"own(float8_tensor(out[{index}], dtype{index}))"

    def _handed_out(self) -> set[int]:
        """Outputs whose memory a caller gets; others are conditions of assertions, numbers, and
        what is written into arguments."""
        tensors = (OutputRoleKind.TENSOR, OutputRoleKind.VIEW)
        results = self.compiled.outputs[: self.compiled.n_results]
        return {role.fetch for role in results if role.kind in tensors and role.fetch >= 0}

    def _promised(self, index: int, fetch: Fetch) -> str:
        name = f"f{index}"
        if fetch.is_bool:
            self.values["torch_bool"] = torch.bool
            name += ".view(torch_bool)"
        if fetch.is_complex or fetch.strides is not None:
            self.values["promised"] = as_promised
            self.values[f"fetch{index}"] = fetch
            self.symbolic = True
            return f"promised({name}, fetch{index}, values)"
        if fetch.permutation is not None:
            self.values["own"] = own
            return f"own({name}.permute({', '.join(map(str, fetch.permutation))}))"
        return name if fetch.is_bool else ""

    def _are_the_results(self) -> bool:
        """Whether the outputs of the session, as they are and in order, are the results."""
        fetches, roles = self.compiled.fetches, self.compiled.outputs
        plain = all(
            not (f.is_bool or f.is_complex or f.float8 or f.permutation or f.strides is not None)
            for f in fetches
        )
        return (
            plain
            and not self.compiled.mutations
            and not self.compiled.checks
            and [(r.kind, r.fetch) for r in roles]
            == [(OutputRoleKind.TENSOR, i) for i in range(len(fetches))]
        )

    def _results(self) -> list[str]:
        if self.compiled.fetches and self._are_the_results():
            return []
        lines = [f"    r{r.index} = {self._result(r)}" for r in self.compiled.outputs]
        for place, mutation in enumerate(self.compiled.mutations):
            written, result = f"a{mutation.source}", f"r{mutation.result}"
            if place not in self.in_place:
                lines.append(f"    {written}.copy_({result})")
                continue
            self.values["increment_version"] = increment_version
            lines += [
                f"    if {result}.data_ptr() == {written}.data_ptr():",
                f"        if not {written}.is_inference():",
                f"            increment_version({written})",
                "    else:  # the argument had to be copied",
                f"        {written}.copy_({result})",
            ]
        listed = ", ".join(f"r{i}" for i in range(self.compiled.n_results))
        return [*self._lists, *lines, f"    return [{listed}]"]

    def _result(self, role: OutputRole) -> str:
        kind = role.kind
        if kind is OutputRoleKind.TENSOR:
            return f"f{role.fetch}"
        if kind is OutputRoleKind.INPUT:
            return f"a{role.source}"
        if kind is OutputRoleKind.DUPLICATE:
            return f"r{role.source}"
        if kind is OutputRoleKind.NONE:
            return "None"
        if kind is OutputRoleKind.DIMENSION and role.fetch >= 0:
            return f"int(f{role.fetch})"
        if kind is OutputRoleKind.VIEW:
            text = f"f{role.fetch}" if role.fetch >= 0 else f"a{role.source}"
            for number, step in enumerate(role.steps):
                text = self._step(text, f"{role.index}_{number}", step)
                if role.steps[number + 1 : number + 2] and _takes_piece(role.steps[number + 1]):
                    text = self._share_pieces(text, role, number + 1)
            if role.alone:
                self.values["own"] = own
                text = f"own({text})"
            return text
        if kind is OutputRoleKind.NUMBER:
            return f"f{role.fetch}.item()"
        if kind is OutputRoleKind.CONSTANT and type(role.value) in _REAL:
            return repr(role.value)
        name = f"value{role.index}"
        self.values[name] = role.value
        if kind is OutputRoleKind.CONSTANT:
            return name
        self.symbolic = True
        return f"values({name})"

    def _share_pieces(self, text: str, role: OutputRole, count: int) -> str:
        """The name of a list of views that `text` makes, once for all results that take a piece."""
        key = (role.fetch, role.source, repr(role.steps[:count]))
        if key not in self._pieces:
            self._pieces[key] = f"pieces{len(self._pieces)}"
            self._lists.append(f"    {self._pieces[key]} = {text}")
        return self._pieces[key]

    def _step(self, text: str, suffix: str, step: ViewStep) -> str:
        """One torch view of what `text` computes."""
        if _takes_piece(step):
            return f"{text}[{step.args[0]}]"
        method = _METHODS.get(step.op)
        if method and not step.symbolic and not step.kwargs:
            return f"{text}.{method}({tuple(step.args[0])!r})"
        args = f"args{suffix}"
        self.values[f"view{suffix}"] = step.op
        self.values[args] = step.args
        given = f"*values({args})" if step.symbolic else f"*{args}"
        if step.kwargs:
            self.values[f"kwargs{suffix}"] = step.kwargs
            named = f"kwargs{suffix}"
            given += f", **values({named})" if step.symbolic else f", **{named}"
        self.symbolic = self.symbolic or step.symbolic
        return f"view{suffix}({text}, {given})"


def _takes_piece(step: ViewStep) -> bool:
    return step.op is operator.getitem


def written_in_place(compiled: CompiledGraph) -> dict[int, str]:
    """Positions of mutations whose result may lie in the memory of the argument, each with the name
    of the output of the model. None where the graph asserts something: what does not hold is told
    before anything is written.

    A cache of keys gets new rows without a copy: ONNX Runtime takes memory for a result from the
    caller, and a kernel with the trait `in_place` that finds its first input there copies nothing.
    That is right where this kernel alone reads the argument: no other sees it half written.
    """
    if not compiled.mutations or compiled.checks or compiled.device != "cpu":
        return {}
    writers = _sole_writers(compiled.model)
    found: dict[int, str] = {}
    for place, mutation in enumerate(compiled.mutations):
        result, role = compiled.outputs[mutation.result], compiled.inputs[mutation.source]
        if result.kind is not OutputRoleKind.TENSOR or not role.dense or role.permutation:
            continue
        fetch = compiled.fetches[result.fetch]
        plain = not (fetch.permutation or fetch.strides or fetch.is_complex or fetch.float8)
        if plain and writers.get(role.name) == fetch.name:
            found[place] = fetch.name
    return found


def _sole_writers(model: ModelProto) -> Mapping[str, str]:
    """Inputs of the model that one node alone reads, one that writes over it, with its result."""
    readers = Counter([*names_read(model.graph.node), *(v.name for v in model.graph.output)])
    inputs = {value.name for value in model.graph.input}
    found = {}
    for node in model.graph.node:
        key = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        first = node.input[0] if node.input else ""
        if key in IN_PLACE and first in inputs and readers[first] == 1:
            found[first] = node.output[0]
    return found


def running_in_place(session: Any, sources: Mapping[str, str]) -> Callable[..., Any]:
    """What runs a session: `run(feeds, names, options)`.

    :param sources: outputs by name, each with the input whose memory it gets
    """
    bound = bound_session(session)

    def run(feeds: Mapping[str, Any], names: Sequence[str], options: Any) -> Any:
        return in_memory_of(bound, feeds, names, sources, options)

    return run
