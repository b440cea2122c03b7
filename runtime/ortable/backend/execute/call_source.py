"""Generate the source text of a call from the roles of a graph.

The generated function has no loops and no lookups by name or kind: it is straight-line code from a
list of arguments to a list of results.
"""

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
from ortable.compat.onnxruntime import bound_session, dlpack_source, run_in_place
from ortable.compat.torch import TensorBase
from ortable_generated.onnx.traits import IN_PLACE

from .feeds import as_bytes, as_pairs, float8_tensor, float8_value, number_value
from .results import SymbolValues, as_non_view, with_declared_layout

_LITERAL_TYPES = (int, bool, str, type(None))
_VIEW_METHODS = {
    torch.ops.aten.permute.default: "permute",
    torch.ops.aten.view.default: "view",
    torch.ops.aten.alias.default: "",
}


@functools.lru_cache(maxsize=1024)
def code_of(text: str) -> CodeType:
    """Compile the function `call` of a source text, once per text.

    Tracebacks show its lines while the code object lives.
    """
    name = f"<ortable call {abs(hash(text)):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(text, name, "exec"), scope)
    code: CodeType = scope["call"].__code__
    weakref.finalize(code, linecache.cache.pop, name, None).atexit = False
    return code


class CallSource:
    """Source text and globals of the call of one graph.

    `values` are the globals that depend only on the graph. `OrtBackend._make_function` adds those
    that depend on the session and the weights.

    Args:
        compiled: the graph.
        constants: positions of arguments that are constants of the session.
        bound: positions of arguments whose OrtValues are kept between calls.
        resizable: outputs are copied into torch's memory.
        fixed: the number of leading arguments that are always the same tensors; the call does not
            receive them; it reads only those that are also in `constants`.
        trusted: the call does not check whether the constants were written.
        in_place: maps a mutation, by position, to the name of its output, if the session writes
            the output into the argument's memory.
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
        self._list_names: dict[tuple[Any, ...], str] = {}  # names of shared lists of views
        self._returned_pieces: Counter[tuple[Any, ...]] = Counter()  # items that are results
        self._list_lines: list[str] = []  # lines that assign these lists
        self.symbolic = False
        self.text = self._make_text()

    def _make_text(self) -> str:
        count = len(self.compiled.inputs) - self.fixed
        unpacked = ", ".join(f"a{i + self.fixed}" for i in range(count))
        feeds, fetches, results = self._feed_lines(), self._fetch_lines(), self._result_lines()
        head = [f"    {unpacked}{',' if count == 1 else ''} = args"] if count else []
        if self.constants:
            head += self._check_lines()
        head.append("    args.clear()")
        if self.symbolic:
            self.values["symbols"] = SymbolValues
            self.values["sources"] = tuple(self.compiled.sources.values())
            arguments = f"({unpacked},)" if count else "()"
            head.append(f"    values = symbols({arguments}, sources)")
        return "\n".join(["def call(args):", *head, *feeds, *fetches, *results, ""])

    def _check_lines(self) -> list[str]:
        """Generate the check that the weights are unchanged: objects, memory, versions and values.

        The check compares small weights completely, large weights by samples. It misses a write
        outside the samples if torch does not count it (see `weights.refresh`). With `trusted`, it
        compares objects only. `map` is the fastest way to read pointers, a list to read versions.
        """
        passed = [i for i in self.constants if i >= self.fixed]
        lines = [f"        {' and '.join(['valid[0]', *(f'a{i} is w{i}' for i in passed)])}"]
        if not self.trusted:
            names = [f"{'a' if i in passed else 'w'}{i}" for i in self.constants]
            versions = ", ".join(f"{weight}._version" for weight in names)
            self.values["address"] = TensorBase.data_ptr
            lines += [
                "        and list(map(address, weights)) == pointers",
                f"        and [{versions}] == versions",
                "        and join(windows) == sample",
            ]
        return ["    if not (", *lines, "    ):", "        return changed(args)"]

    def _feed_lines(self) -> list[str]:
        """Generate `feeds = {...}`, with a fallback for layouts that torch did not trace."""
        if not self.compiled.fetches:
            return []
        lines, feeds, fast_entries, general_entries = [], [], [], []
        for role in self.compiled.inputs:
            index = role.index
            if not role.name or role.name not in self.compiled.fed or index in self.constants:
                continue
            if role.kind is InputRoleKind.DIMENSION:
                feeds.append(f"{role.name!r}: dimension(a{index})")
            elif role.kind is InputRoleKind.NUMBER:
                self.values["number"] = number_value
                feeds.append(f"{role.name!r}: number(a{index}, {role.elem_type == dtypes.boolean})")
            elif index not in self.bound:
                setup, entry = self._tensor_feed(role)
                lines += setup
                fast_entries.append(entry)
                self.values[f"role{index}"] = role
                general_entries.append(f"{role.name!r}: feed_any(role{index}, a{index})")
        if self.bound:
            arguments = ", ".join(f"a{i}" for i in self.bound)
            pointers = ", ".join(f"a{i}.data_ptr()" for i in self.bound)
            lines.append("    kept, base = bound.now")
            lines.append(f"    if [{pointers}] != kept:")
            lines.append(f"        base = bound.bind(({arguments},))")
            feeds.insert(0, "**base")
        if not fast_entries:
            return [*lines, f"    feeds = {{{', '.join(feeds)}}}"]
        return [
            *lines,
            "    try:",
            f"        feeds = {{{', '.join(feeds + fast_entries)}}}",
            "    except RuntimeError:  # a layout that torch did not trace",
            f"        feeds = {{{', '.join(feeds + general_entries)}}}",
        ]

    def _tensor_feed(self, role: InputRole) -> tuple[list[str], str]:
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

    def _fetch_lines(self) -> list[str]:
        """Generate the run and `f0`, `f1`, ...: torch tensors over the memory of the outputs."""
        fetches = self.compiled.fetches
        if not fetches:
            return []
        arguments = f", ({self._all_arguments()})" if self.compiled.is_checked else ""
        lines = [
            "    try:",
            "        out = run(feeds, names, options)",
            "    except Exception as error:",
            f"        raise failed(error{arguments}) from error",
        ]
        if self._returns_outputs_unchanged():
            if self.resizable:
                return [*lines, "    return [f.clone() for f in out.to_dlpacks(take)]"]
            return [*lines, "    return out.to_dlpacks(take)"]
        if len(fetches) < 3 or any(fetch.float8 for fetch in fetches):
            lines += [
                f"    f{i} = {self._output_text(i, fetch)}" for i, fetch in enumerate(fetches)
            ]
        else:
            names = ", ".join(f"f{i}" for i in range(len(fetches)))
            lines.append(f"    {names} = out.to_dlpacks(take)")
        for number, check in enumerate(self.compiled.checks):
            self.values[f"check{number}"] = check
            lines.append(f"    if not check{number}.is_satisfied(f{check.fetch}):")
            lines.append(f"        raise RuntimeError(check{number}.message)")
        returned = self._returned_outputs() if self.resizable else set()
        for index, fetch in enumerate(fetches):
            if index in returned:
                lines.append(f"    f{index} = f{index}.clone()")
            converted = self._layout_text(index, fetch)
            if converted:
                lines.append(f"    f{index} = {converted}")
        return lines

    def _all_arguments(self) -> str:
        """Return all arguments as the text of a tuple, to find the cause of an error.

        Of the arguments that the call does not receive, those that are no constants are None,
        because no node reads them.
        """
        fixed = [f"w{i}" if i in self.constants else "None" for i in range(self.fixed)]
        passed = [f"a{i}" for i in range(self.fixed, len(self.compiled.inputs))]
        return "".join(f"{name}, " for name in (*fixed, *passed))

    def _output_text(self, index: int, fetch: Fetch) -> str:
        if fetch.float8 is None:
            return f"take(out.dlpack_at({index}))"
        self.values["float8_tensor"] = float8_tensor
        self.values[f"dtype{index}"] = dtypes.to_torch(fetch.float8)
        self.values["as_non_view"] = as_non_view
        return f"as_non_view(float8_tensor(out[{index}], dtype{index}))"

    def _returned_outputs(self) -> set[int]:
        """Return the outputs whose memory results of the call use, by position."""
        tensors = (OutputRoleKind.TENSOR, OutputRoleKind.VIEW)
        results = self.compiled.outputs[: self.compiled.n_results]
        return {role.fetch for role in results if role.kind in tensors and role.fetch >= 0}

    def _layout_text(self, index: int, fetch: Fetch) -> str:
        name = f"f{index}"
        if fetch.is_bool:
            self.values["torch_bool"] = torch.bool
            name += ".view(torch_bool)"
        if fetch.is_complex or fetch.strides is not None:
            self.values["with_layout"] = with_declared_layout
            self.values[f"fetch{index}"] = fetch
            self.symbolic = True
            return f"with_layout({name}, fetch{index}, values)"
        if fetch.permutation is not None:
            self.values["as_non_view"] = as_non_view
            return f"as_non_view({name}.permute({', '.join(map(str, fetch.permutation))}))"
        return name if fetch.is_bool else ""

    def _returns_outputs_unchanged(self) -> bool:
        """Whether the outputs of the session, unchanged and in order, are the results."""
        fetches, roles = self.compiled.fetches, self.compiled.outputs
        all_unchanged = all(
            not (
                fetch.is_bool
                or fetch.is_complex
                or fetch.float8
                or fetch.permutation
                or fetch.strides is not None
            )
            for fetch in fetches
        )
        return (
            all_unchanged
            and not self.compiled.mutations
            and not self.compiled.checks
            and [(role.kind, role.fetch) for role in roles]
            == [(OutputRoleKind.TENSOR, i) for i in range(len(fetches))]
        )

    def _result_lines(self) -> list[str]:
        if self.compiled.fetches and self._returns_outputs_unchanged():
            return []
        lines = [f"    r{role.index} = {self._result_text(role)}" for role in self.compiled.outputs]
        for index, mutation in enumerate(self.compiled.mutations):
            argument, result = f"a{mutation.source}", f"r{mutation.result}"
            if index not in self.in_place:
                lines.append(f"    {argument}.copy_({result})")
                continue
            self.values["increment_version"] = increment_version
            lines += [
                f"    if {result}.data_ptr() == {argument}.data_ptr():",
                f"        if not {argument}.is_inference():",
                f"            increment_version({argument})",
                "    else:  # the argument had to be copied",
                f"        {argument}.copy_({result})",
            ]
        names = ", ".join(f"r{i}" for i in range(self.compiled.n_results))
        return [*self._list_lines, *lines, f"    return [{names}]"]

    def _result_text(self, role: OutputRole) -> str:
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
                text = self._view_text(text, f"{role.index}_{number}", step)
                if role.steps[number + 1 : number + 2] and _is_getitem(role.steps[number + 1]):
                    text = self._share_pieces(text, role, number + 1)
            if role.alone:
                self.values["as_non_view"] = as_non_view
                text = f"as_non_view({text})"
            return text
        if kind is OutputRoleKind.NUMBER:
            return f"f{role.fetch}.item()"
        if kind is OutputRoleKind.CONSTANT and type(role.value) in _LITERAL_TYPES:
            return repr(role.value)
        name = f"value{role.index}"
        self.values[name] = role.value
        if kind is OutputRoleKind.CONSTANT:
            return name
        self.symbolic = True
        return f"values({name})"

    def _share_pieces(self, text: str, role: OutputRole, count: int) -> str:
        """Return a name for a list of views, assigned once for all results that take an item of it.

        Two results that are the same item take it from two lists: they are two tensors, as in
        eager. `count` is the number of view steps that make the list.
        """
        list_key, copy = (role.fetch, role.source, repr(role.steps[:count])), 0
        if len(role.steps) == count + 1:
            piece = (*list_key, role.steps[count].args)
            copy = self._returned_pieces[piece]
            self._returned_pieces[piece] += 1
        key = (*list_key, copy)
        if key not in self._list_names:
            self._list_names[key] = f"pieces{len(self._list_names)}"
            self._list_lines.append(f"    {self._list_names[key]} = {text}")
        return self._list_names[key]

    def _view_text(self, text: str, suffix: str, step: ViewStep) -> str:
        if _is_getitem(step):
            return f"{text}[{step.args[0]}]"
        method = _VIEW_METHODS.get(step.op)
        if method and not step.symbolic and not step.kwargs:
            return f"{text}.{method}({tuple(step.args[0])!r})"
        args = f"args{suffix}"
        self.values[f"view{suffix}"] = step.op
        self.values[args] = step.args
        operands = f"*values({args})" if step.symbolic else f"*{args}"
        if step.kwargs:
            self.values[f"kwargs{suffix}"] = step.kwargs
            kwargs_name = f"kwargs{suffix}"
            operands += f", **values({kwargs_name})" if step.symbolic else f", **{kwargs_name}"
        self.symbolic = self.symbolic or step.symbolic
        return f"view{suffix}({text}, {operands})"


def _is_getitem(step: ViewStep) -> bool:
    return step.op is operator.getitem


def find_in_place_writes(compiled: CompiledGraph) -> dict[int, str]:
    """Find the mutations whose result may use the argument's memory, and map them to output names.

    No mutation may if the graph has assertions, which must be checked before any write.

    A KV cache then gains rows without a copy: ONNX Runtime accepts the caller's memory for an
    output, and a kernel with the trait `in_place` copies nothing if its first input is in the same
    memory. The argument may have no other reader, which could see a partial write.
    """
    if not compiled.mutations or compiled.checks or compiled.device != "cpu":
        return {}
    writers = _sole_writers(compiled.model)
    outputs: dict[int, str] = {}
    for index, mutation in enumerate(compiled.mutations):
        result, role = compiled.outputs[mutation.result], compiled.inputs[mutation.source]
        if result.kind is not OutputRoleKind.TENSOR or not role.dense or role.permutation:
            continue
        fetch = compiled.fetches[result.fetch]
        is_plain = not (fetch.permutation or fetch.strides or fetch.is_complex or fetch.float8)
        if is_plain and writers.get(role.name) == fetch.name:
            outputs[index] = fetch.name
    return outputs


def _sole_writers(model: ModelProto) -> Mapping[str, str]:
    """Map each input that a single, in-place node reads to the result of that node."""
    readers = Counter(
        [*names_read(model.graph.node), *(output.name for output in model.graph.output)]
    )
    inputs = {value.name for value in model.graph.input}
    writers = {}
    for node in model.graph.node:
        key = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        source = node.input[0] if node.input else ""
        if key in IN_PLACE and source in inputs and readers[source] == 1:
            writers[source] = node.output[0]
    return writers


def in_place_runner(session: Any, sources: Mapping[str, str]) -> Callable[..., Any]:
    """Return the function `run(feeds, names, options)` of a session that writes into arguments.

    `sources` maps outputs to the inputs whose memory they use.
    """
    bound = bound_session(session)

    def run_session(feeds: Mapping[str, Any], names: Sequence[str], options: Any) -> Any:
        return run_in_place(bound, feeds, names, sources, options)

    return run_session
