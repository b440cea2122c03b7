"""What comes of a program under a front door: exact, refused by name, torch's own failure, or a
find.

`check` runs eager, then torch.export, to_onnx and ONNX Runtime at the lowest and the newest opset
with rewrites on and off (``export``), the converters on a traced graph as it is (``fx``) or on the
calls themselves as nodes (``nodes``), or torch.compile with the backend (``compile``,
``gradient``). Called by `runner` and `shrink`."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import onnx
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import ortable
from ortable.errors import FunctionNotFoundError, KernelError, OrtableError, UnsupportedCase
from ortable.exporter.capture import exported_program as capture
from ortable.exporter.capture import functionalize
from ortable.ir.versions import ORT_MAX_OPSET
from ortable.testing.entries import run_onnx
from tests.suites.model_check import causes_of

from .deviations import deviation
from .judge import Judge, close
from .nodes import NotNodes, graph_of
from .program import TRACED, Program, leaves, run_steps

MODES = ("export", "fx", "nodes", "compile", "gradient")
FLOOR = 18
# (opset, target, rewrites)
PLACES = (
    (FLOOR, None, "none"),
    (FLOOR, "onnxruntime", "all"),
    (ORT_MAX_OPSET, None, "all"),
    (ORT_MAX_OPSET, "onnxruntime", "none"),
)
REFUSALS = (FunctionNotFoundError, UnsupportedCase, KernelError)
# what eager itself does not check: with other sizes these read memory that is not theirs
UNCHECKED = (
    "aten::_reshape_alias", "aten::_reshape_alias_copy", "aten::_weight_norm_interface",
    "aten::_weight_norm_interface_backward", "aten::as_strided", "aten::as_strided_copy",
    "aten::as_strided_scatter",
    *(f"aten::reflection_pad{axes}d_backward" for axes in (1, 2, 3)),
    *(f"aten::replication_pad{axes}d_backward" for axes in (1, 2, 3)),
    "aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward",
    "aten::fractional_max_pool2d_backward", "aten::fractional_max_pool3d_backward",
    "aten::_pdist_backward", "aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward",
    "aten::mkldnn_rnn_layer", "aten::_weight_int8pack_mm", "aten::_weight_int4pack_mm_for_cpu",
    "aten::_cdist_backward", "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward", "aten::unfold_backward",
    "aten::value_selecting_reduction_backward", "aten::avg_pool2d_backward",
    "aten::avg_pool3d_backward", "aten::max_pool2d_with_indices_backward",
    "aten::max_pool3d_with_indices_backward", "onnx_symbolic::_symbolic",
    "onnx_symbolic::_symbolic_multi_out",
)  # fmt: skip
NO_GRADIENT = "eager: there is nothing to differentiate"
# Refusals that share the type of failures: of what cannot be captured again, of a size (a stride,
# say) that only torch knows, and of a dimension that decompositions make a constant, of the program
# itself: another try would find it so.
REFUSED = (
    "this GraphModule cannot be converted as it is",
    "No result of the graph has dimension",
)
MADE_CONSTANT = "once operators are decomposed"
# what torch says of prims whose results are views; of losses with dynamic sizes, whose reduction is
# a word for torch's own meta functions and an int for the operator; of branches that return what
# they are given; and of nodes whose dtype the program declares, whatever it is
TORCHS_OWN = (
    "We only support functionalizing operators whose outputs do not have alias annotations",
    "is not a valid value for reduction",
    "might be aliasing the input or the output",
    "onnx_symbolic::_symbolic_multi_out could not be converted: the ONNX graph computes",
    "onnx_symbolic::_symbolic could not be converted: the ONNX graph computes",
)
_MIXED_DTYPES = re.compile(r"bound to different types .* in node \(_symbolic\w*\)")
FINDS = ("mismatch", "error", "invalid", "crash", "timeout")


@dataclass
class Outcome:
    """``kind`` is "exact", "refused", "discarded" (torch's own failure, or no program), or one of
    FINDS; ``targets`` and ``rewrites`` are what a program without a find reached."""

    kind: str
    detail: str = ""
    where: str = ""
    targets: set[str] = field(default_factory=set)
    rewrites: Counter[str] = field(default_factory=Counter)

    @property
    def is_find(self) -> bool:
        return self.kind in FINDS

    @property
    def like(self) -> str:
        """What two outcomes of one fault share: the kind, and an error's text without its names."""
        if self.kind == "mismatch":
            head = self.detail.split(":")[0]
            return head if head in ("dtype", "shape") else "mismatch"
        plain = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[0-9]+|\[[^\]]*\]|\([^)]*\)", "", self.detail)
        return f"{self.kind} {plain[:90]}"


class Difference(Exception):
    """A result that is not eager's."""


# -- eager


def reference(
    program: Program,
    shapes: Sequence[tuple[int, ...]] | None = None,
    gradient: bool = False,
    noise: Any = None,
    wide: bool = False,
) -> list[Any]:
    """Outputs, the inputs as the call leaves them, and with ``gradient`` the gradients, in eager.
    ``noise`` moves the results of steps, ``wide`` computes in float64."""
    torch.manual_seed(1)
    tensors = program.tensors(shapes)
    if wide:
        tensors = [_widened(each) for each in tensors]
    if noise is not None:
        tensors = [noise.moved(each) if each.is_floating_point() else each for each in tensors]
    if gradient:
        given, tensors = _tracked(tensors)
    values = run_steps(program, tensors, noise)
    outputs = [values[each] for each in program.outputs]
    if gradient:
        return [*_detached(outputs), *_gradients(outputs, given)]
    return [*_detached(outputs), *tensors]


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def _detached(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [each.detach() for each in tensors]


def _tracked(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Leaves that need a gradient, and what the program is given: products of them, which it may
    write into."""
    given = [each.detach().requires_grad_(each.is_floating_point()) for each in tensors]
    return given, [each * 1 if each.requires_grad else each for each in given]


def _gradients(outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> list[Any]:
    chosen = [each for each in outputs if each.requires_grad]
    wanted = [each for each in given if each.requires_grad]
    if not chosen or not wanted:
        raise _NoGradient
    cotangents = [_cotangent(each) for each in chosen]
    return list(torch.autograd.grad(chosen, wanted, cotangents, allow_unused=True))


def _cotangent(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(tensor.numel())
    drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5
    return drawn.to(tensor.dtype)


class _NoGradient(Exception):
    """There is nothing to differentiate."""


# -- comparison


def _compare(wanted: Sequence[Any], found: Sequence[Any], judge: Judge, random: bool) -> None:
    if len(wanted) != len(found):
        raise Difference(f"{len(found)} results, eager has {len(wanted)}")
    for place, (want, have) in enumerate(zip(wanted, found, strict=True)):
        _compare_one(want, have, place, judge, random, f"output {place}")


def _compare_one(want: Any, have: Any, place: int, judge: Judge, random: bool, what: str) -> None:
    """One result; ``place`` is its place among those of `reference`."""
    if want is None or have is None:
        other = want if have is None else have
        if other is not None and other.count_nonzero():
            raise Difference(f"{what}: no gradient on one side")
        return
    if want.is_complex() and not have.is_complex():
        want = torch.view_as_real(want.resolve_conj())
    if have.dtype != want.dtype:
        raise Difference(f"dtype: {what} is {have.dtype}, eager has {want.dtype}")
    if have.shape != want.shape:
        raise Difference(f"shape: {what} is {tuple(have.shape)}, eager has {tuple(want.shape)}")
    if random or close(have, want, judge.program.tolerance):
        return
    if not judge.accepts(place, have, want):
        raise Difference(f"{what}: {_worst(have, want)}")


def _worst(have: torch.Tensor, want: torch.Tensor) -> str:
    ours, theirs = have.detach().reshape(-1), want.detach().reshape(-1)
    if ours.dtype.is_floating_point:
        gap = (ours.double() - theirs.double()).abs().nan_to_num(nan=float("inf"))
        gap = gap.masked_fill(ours.isnan() & theirs.isnan() | (ours == theirs), -1)
        at = int(gap.argmax())
    else:
        at = int((ours != theirs).int().argmax())
    count = int((ours != theirs).sum())
    return (
        f"{ours[at].item()} where eager has {theirs[at].item()} ({count} of {ours.numel()} differ)"
    )


# -- the front doors


def check(program: Program, mode: str) -> Outcome:
    """What comes of the program through one front door."""
    outcome = _checked(program, mode)
    differs = outcome.kind == "mismatch"
    reason = deviation(program, mode == "gradient") if differs else None
    return outcome if reason is None else Outcome("discarded", reason)


def _checked(program: Program, mode: str) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            wanted = reference(program, None, mode == "gradient")
        except _NoGradient:
            return Outcome("discarded", NO_GRADIENT)
        except Exception as error:
            return Outcome("discarded", f"eager: {_line(error)}")
        try:
            if mode == "export":
                return _exported(program, wanted)
            if mode == "nodes":
                return _as_nodes(program, wanted)
            if mode == "fx":
                return _interpreted(program, wanted)
            return _compiled(program, wanted, mode == "gradient")
        except Difference as difference:
            return Outcome("mismatch", str(difference))


def _exported(program: Program, wanted: list[Any]) -> Outcome:
    tensors = program.tensors()
    dynamic = tuple(tuple(torch.export.Dim.AUTO for _ in each.shape) for each in tensors)
    shapes = (dynamic,) if program.dynamic else None
    try:
        torch.manual_seed(1)
        exported = torch.export.export(program.module(), tuple(tensors), dynamic_shapes=shapes)
    except Exception as error:
        return Outcome("discarded", f"torch.export: {_line(error)}")
    sizes = [None, *_other_sizes(program, exported)] if program.dynamic else [None]
    expected = [(None, wanted, Judge(program, None, False))]
    for other in sizes[1:]:
        try:
            expected.append((other, reference(program, other), Judge(program, other, False)))
        except Exception:
            continue  # eager does not take these sizes
    names = list(exported.graph_signature.user_inputs)
    return _at_places(program, exported, names, expected)


def _interpreted(program: Program, wanted: list[Any]) -> Outcome:
    """The converters on the graph that tracing gives, without torch.export."""
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors = program.tensors()
    try:
        torch.manual_seed(1)
        graph = make_fx(
            torch.func.functionalize(program.function(**TRACED)),
            tracing_mode="symbolic" if program.dynamic else "fake",
        )(*tensors)
    except Exception as error:
        return Outcome("discarded", f"make_fx: {_line(error)}")
    if any("copy_" in str(node.target) for node in graph.graph.nodes if node.op == "call_function"):
        return Outcome("discarded", "make_fx: the graph writes into an input")
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    return _at_places(program, graph, names, [(None, wanted, Judge(program, None, False))])


def _as_nodes(program: Program, wanted: list[Any]) -> Outcome:
    """The converters on the calls of the program: torch decomposes and replaces none."""
    try:
        graph = graph_of(program.function(), program.tensors())
    except NotNodes as error:
        return Outcome("discarded", f"nodes: {error}")
    except Exception as error:
        return Outcome("discarded", f"nodes: torch: {_line(error)}")
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    return _at_places(program, graph, names, [(None, wanted, Judge(program, None, False))])


Expected = tuple[Sequence[tuple[int, ...]] | None, list[Any], Judge]


def _at_places(
    program: Program, graph: Any, names: Sequence[str], expected: Sequence[Expected]
) -> Outcome:
    """Every opset, target and choice of rewrites."""
    results = expected[0][1][: len(program.outputs)]
    if not _foretold(graph, results):
        return Outcome("discarded", "torch foretells other dtypes or shapes than eager has")
    reached = Outcome("exact", targets=_targets(graph))
    with _prepared_once() as rewritten:
        found = _each_place(program, graph, names, expected, reached)
    failed = found is not None and found.kind == "error"
    if failed and not all(_foretold(each, results) for each in rewritten):
        return Outcome("discarded", "torch foretells other dtypes or shapes once it has rewritten")
    wrong = found is not None and found.kind == "mismatch"
    if wrong and any(_differs_in_torch(program, each, expected) for each in [graph, *rewritten]):
        return Outcome("discarded", "torch: the program that it captured differs")
    return reached if found is None else found


def _differs_in_torch(program: Program, rewritten: Any, expected: Sequence[Expected]) -> bool:
    """Whether the program that torch has captured, or rewritten with its own decompositions, is not
    eager's when torch runs it: some are wrong, and every backend gets them."""
    count = len(program.outputs)
    for shapes, wanted, judge in expected:
        try:
            module = (
                rewritten if isinstance(rewritten, torch.fx.GraphModule) else rewritten.module()
            )
            with torch.no_grad():
                found = leaves(module(*program.tensors(shapes)))
            _compare(wanted[:count], found[:count], judge, program.random)
        except Difference:
            return True
        except Exception:
            continue
    return False


def _each_place(
    program: Program,
    graph: Any,
    names: Sequence[str],
    expected: Sequence[Expected],
    reached: Outcome,
) -> Outcome | None:
    """The first find, or a refusal where every place refuses; None where a place is exact."""
    refused = []
    for opset, target, rewrites in PLACES:
        where = f"opset {opset}, target {target}, rewrites {rewrites}"
        try:
            model, builder = ortable.to_onnx(
                graph, target_opset=opset, target=target, rewrites=rewrites, return_builder=True
            )
        except REFUSALS as error:
            refused.append(Outcome("refused", _line(error), where))
            continue
        except Exception as error:
            own = any(words in str(error) for words in TORCHS_OWN)
            if own or (
                isinstance(error, functionalize.FunctionalizationError) and _torch_fails(graph)
            ):
                return Outcome("discarded", f"torch: {_line(error)}")
            if MADE_CONSTANT in str(error):
                return Outcome("refused", _line(error), where)
            if any(words in str(error) for words in REFUSED):
                refused.append(Outcome("refused", _line(error), where))
                continue
            return Outcome("error", _reason(error), where)
        reached.rewrites.update(builder.record.rewrites.counts())
        for shapes, wanted, judge in expected:
            outcome = _in_onnx_runtime(program, model, names, shapes, wanted, judge)
            if outcome is not None:
                outcome.where = where + (f", sizes {shapes}" if shapes else "")
                return outcome
    return refused[0] if len(refused) == len(PLACES) else None


def _torch_fails(program: Any) -> bool:
    """Whether torch cannot take the writes out of a program that it captured, for whomever."""
    for table in ({}, None):
        try:
            program.run_decompositions(table)
        except Exception:
            return True
    return False


@contextmanager
def _prepared_once() -> Iterator[list[Any]]:
    """In the block torch rewrites a program once for each table of decompositions, and its guards
    are read once: most of a conversion's time, and the same for every opset and target. The list
    has what torch made."""
    rewrite, guards = functionalize.decompose_program, capture.find_guards
    known: dict[Any, Any] = {}
    made: list[Any] = []

    def rewritten(program: Any, table: Any) -> Any:
        key = id(program), tuple(sorted(str(each) for each in table))
        if key not in known:
            made.append(rewrite(program, table))
            known[key] = program, made[-1]  # the program too: its id stays its own
        return known[key][1]

    def found(program: Any, asked: Any) -> Any:
        key = id(program), str(asked)
        if key not in known:
            known[key] = program, guards(program, asked)
        return list(known[key][1])

    functionalize.decompose_program, capture.find_guards = rewritten, found
    try:
        yield made
    finally:
        functionalize.decompose_program, capture.find_guards = rewrite, guards


def _in_onnx_runtime(
    program: Program, model: Any, names: Sequence[str], shapes: Any, wanted: list[Any], judge: Judge
) -> Outcome | None:
    tensors = dict(zip(names, program.tensors(shapes), strict=True))
    try:
        onnx.checker.check_model(model)
        feeds = {}
        for value in model.graph.input:
            tensor = tensors[value.name].resolve_conj().resolve_neg()
            feeds[value.name] = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        found = run_onnx(model, feeds)
    except Exception as error:
        # the program names the ONNX operator itself, and gives it what it does not take
        own = _MIXED_DTYPES.search(str(error)) is not None
        return Outcome("discarded" if own else "invalid", _reason(error))
    outputs = [value.name for value in model.graph.output]
    after = dict(zip(names, wanted[len(program.outputs) :], strict=True))
    try:
        count = len(program.outputs)
        _compare(wanted[:count], found[:count], judge, program.random)
        for name, value in zip(outputs[count:], found[count:], strict=True):
            source = name.removesuffix("_mutated")
            if source not in after:
                raise Difference(f"an output {name} that eager has not")
            place = count + list(names).index(source)
            _compare_one(
                after[source], value, place, judge, program.random, f"input {source} afterwards"
            )
    except Difference as difference:
        return Outcome("mismatch", str(difference))
    return None


def _other_sizes(program: Program, exported: Any) -> list[list[tuple[int, ...]]]:
    """Shapes of the inputs with every symbol larger, in a way that the program is for."""
    if any(step.key in UNCHECKED for step in program.steps):
        return []
    by_name = {
        node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"
    }
    sizes: list[tuple[Any, int]] = []
    for name, given in zip(exported.graph_signature.user_inputs, program.inputs, strict=True):
        shape = by_name[name].shape
        sizes += [(_expression(size), own) for size, own in zip(shape, given.shape, strict=True)]
        if given.values is not None and any(_expression(size) is not None for size in shape):
            return []  # numbers that were chosen, sorted ones or indices, are for one size
    symbols = {each: own for each, own in sizes if getattr(each, "is_Symbol", False)}
    if not symbols:
        return []
    for grown in (lambda size: size + 2, lambda size: size * 2, lambda size: size + 1):
        larger = {each: grown(own) for each, own in symbols.items()}
        flat = iter(own if each is None else int(each.subs(larger)) for each, own in sizes)
        found = [tuple(next(flat) for _ in given.shape) for given in program.inputs]
        if _guarded(program, exported, found):
            return [found]
    return []


def _guarded(program: Program, exported: Any, shapes: list[tuple[int, ...]]) -> bool:
    """Whether torch's guards let these sizes in: a number of chunks, say, is part of a graph."""
    try:
        with torch.no_grad():
            exported.module()(*program.tensors(shapes))
    except Exception:
        return False
    return True


def _expression(size: Any) -> Any:
    """What a size is computed from; None for a known one."""
    found = getattr(getattr(size, "node", None), "expr", None)
    return None if found is None or found.is_number else found


def _foretold(graph: Any, wanted: Sequence[torch.Tensor]) -> bool:
    """Whether the graph's metadata says of its outputs what eager returned."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    values = leaves(output.args[0])
    for node, want in zip(values[len(values) - len(wanted) :], wanted, strict=True):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            continue
        sizes = zip(value.shape, want.shape, strict=False)
        known = all(a == b for a, b in sizes if isinstance(a, int))
        if value.dtype != want.dtype or value.dim() != want.dim() or not known:
            return False
    return True


def _targets(graph: Any) -> set[str]:
    """The operators of a graph and of the graphs inside it."""
    module = getattr(graph, "graph_module", graph)
    found = set()
    for inner in module.modules():
        for node in getattr(getattr(inner, "graph", None), "nodes", ()):
            if node.op == "call_function":
                name = getattr(node.target, "name", None)
                found.add(name() if callable(name) else str(getattr(node.target, "__name__", "")))
    return found


def _compiled(program: Program, wanted: list[Any], gradient: bool) -> Outcome:
    """torch.compile with our backend; what differs with torch's own backend, too, is torch's."""
    judge = Judge(program, None, gradient)
    storage: dict[str, Any] = {}
    rewrites = ("default", "none", "all")[len(program.steps) % 3]
    options = {"rewrites": rewrites, "storage": storage, "fallback": "error"}
    kind, detail = "exact", ""
    try:
        found = _run_compiled(program, gradient, "ortable", options)
        _compare(wanted, found, judge, program.random)
    except Difference as difference:
        kind, detail = "mismatch", str(difference)
    except Exception as error:
        causes = list(causes_of(error))
        if any(isinstance(each, REFUSALS) for each in causes):
            return Outcome("refused", _line(causes[-1]))
        kind, detail = "error", _reason(causes[-1])
        ours = next((each for each in causes if isinstance(each, OrtableError)), None)
        detail = _reason(ours) if ours is not None else detail
    if kind == "exact":
        reached = Outcome("exact")
        for record in storage.get("instance", ()):
            reached.rewrites.update(getattr(record, "rewrites", None) or {})
            if getattr(record, "graph_module", None) is not None:
                reached.targets |= _targets(record.graph_module)
        return reached
    try:
        found = _run_compiled(program, gradient, "aot_eager", {})
        _compare(wanted, found, judge, program.random)
    except Exception as error:
        return Outcome("discarded", f"aot_eager: {_line(error)}")
    of_dtypes = detail.startswith(("dtype: ", "shape: ")) or "torch computes" in detail
    if of_dtypes and not _fakes_agree(program, wanted):
        return Outcome("discarded", "torch foretells other dtypes or shapes than eager has")
    return Outcome(kind, detail, f"rewrites {rewrites}")


def _fakes_agree(program: Program, wanted: Sequence[torch.Tensor]) -> bool:
    """Whether torch's fake tensors, which tell every backend what to return, are of eager's dtypes
    and shapes."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
            tensors = [mode.from_tensor(each) for each in program.tensors()]
            values = run_steps(program, tensors)
    except Exception:
        return True
    made = [values[each] for each in program.outputs]
    return all(
        (each.dtype, each.shape) == (want.dtype, want.shape)
        for each, want in zip(made, wanted, strict=False)
    )


def _run_compiled(
    program: Program, gradient: bool, backend: str, options: dict[str, Any]
) -> list[Any]:
    torch._dynamo.reset()
    torch.manual_seed(1)
    compiled = torch.compile(
        program.function(**TRACED), backend=backend, dynamic=program.dynamic,
        **({"options": options} if options else {}),
    )  # fmt: skip
    tensors = program.tensors()
    if gradient:
        given, tensors = _tracked(tensors)
        outputs = compiled(*tensors)
        return [*_detached(outputs), *_gradients(outputs, given)]
    with torch.no_grad():
        return [*_detached(compiled(*tensors)), *tensors]


# -- errors


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines[0] if lines else '')[:300]}"


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    more = f" <- {_line(cause)}" if cause is not None else ""
    return f"{_line(error)}{more}"
