"""Run a program through a front door and compare it with eager.

An outcome is exact, refused, discarded (a failure of torch) or a find. ``export`` runs
torch.export, to_onnx and ONNX Runtime at the lowest and the newest opset with rewrites on and off;
``fx`` converts a traced graph and ``nodes`` a graph of the calls themselves; ``compile`` and
``gradient`` run torch.compile with the backend.
"""

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
# operators whose eager kernels do not check sizes, and read out of bounds
UNCHECKED = (
    "aten::_reshape_alias", "aten::_reshape_alias_copy",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_weight_norm_interface", "aten::_weight_norm_interface_backward", "aten::as_strided",
    "aten::as_strided_copy", "aten::as_strided_scatter",
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
# Refusals whose type is that of failures: a graph that cannot be captured again, a dtype that came
# with a later opset, a size (such as a stride) that only torch computes, and a dimension that
# decompositions make constant, which is a property of the program and the same at every opset.
REFUSED = (
    "this GraphModule cannot be converted as it is",
    "which ONNX has from opset",
    "No result of the graph has dimension",
)
MADE_CONSTANT = "once operators are decomposed"
# Messages of torch for prims whose results are views, losses with dynamic sizes, whose reduction is
# a string for torch's meta functions and an int for the operator, branches that return an operand,
# and nodes for which the program declares a wrong dtype.
TORCH_FAILURES = (
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
    """An outcome (exact, refused, discarded for a torch failure, or a find), and coverage."""

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
        """Return a key of the fault: the kind, and the text of an error without its names."""
        if self.kind == "mismatch":
            head = self.detail.split(":")[0]
            return head if head in ("dtype", "shape") else "mismatch"
        text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|[0-9]+|\[[^\]]*\]|\([^)]*\)", "", self.detail)
        return f"{self.kind} {text[:90]}"


class Difference(Exception):
    """A result differs from eager's."""


# -- eager


def reference(
    program: Program,
    shapes: Sequence[tuple[int, ...]] | None = None,
    gradient: bool = False,
    noise: Any = None,
    wide: bool = False,
) -> list[Any]:
    """Return outputs, the inputs after the call, and with ``gradient`` the gradients, in eager.

    ``noise`` perturbs the results of steps, ``wide`` computes in float64.
    """
    torch.manual_seed(1)
    tensors = program.tensors(shapes)
    if wide:
        tensors = [_widen(tensor) for tensor in tensors]
    if noise is not None:
        tensors = [noise.perturb(t) if t.is_floating_point() else t for t in tensors]
    if gradient:
        sources, tensors = _make_leaves(tensors)
    values = run_steps(program, tensors, noise)
    outputs = [values[index] for index in program.outputs]
    if gradient:
        return [*_detach(outputs), *_gradients(outputs, sources)]
    return [*_detach(outputs), *tensors]


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def _detach(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.detach() for tensor in tensors]


def _make_leaves(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Return leaves that require a gradient, and products of them, which allow in-place writes."""
    sources = [t.detach().requires_grad_(t.is_floating_point()) for t in tensors]
    return sources, [t * 1 if t.requires_grad else t for t in sources]


def _gradients(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[Any]:
    roots = [t for t in outputs if t.requires_grad]
    sources = [t for t in inputs if t.requires_grad]
    if not roots or not sources:
        raise _NoGradientError
    cotangents = [_cotangent(t) for t in roots]
    return list(torch.autograd.grad(roots, sources, cotangents, allow_unused=True))


def _cotangent(tensor: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(tensor.numel())
    numbers = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5
    return numbers.to(tensor.dtype)


class _NoGradientError(Exception):
    """No output requires a gradient, or no input is a float."""


# -- comparison


def _compare(expected: Sequence[Any], results: Sequence[Any], judge: Judge, random: bool) -> None:
    if len(expected) != len(results):
        raise Difference(f"{len(results)} results, eager has {len(expected)}")
    for index, (eager, result) in enumerate(zip(expected, results, strict=True)):
        _compare_result(eager, result, index, judge, random, f"output {index}")


def _compare_result(
    eager: Any, result: Any, index: int, judge: Judge, random: bool, name: str
) -> None:
    """Compare one result; ``index`` is its position among those of `reference`."""
    if eager is None or result is None:
        other = eager if result is None else result
        if other is not None and other.count_nonzero():
            raise Difference(f"{name}: no gradient on one side")
        return
    if eager.is_complex() and not result.is_complex():
        eager = torch.view_as_real(eager.resolve_conj())
    if result.dtype != eager.dtype:
        raise Difference(f"dtype: {name} is {result.dtype}, eager has {eager.dtype}")
    if result.shape != eager.shape:
        raise Difference(f"shape: {name} is {tuple(result.shape)}, eager has {tuple(eager.shape)}")
    if random or close(result, eager, judge.program.tolerance):
        return
    if not judge.accepts(index, result, eager):
        raise Difference(f"{name}: {_describe_worst(result, eager)}")


def _describe_worst(result: torch.Tensor, eager: torch.Tensor) -> str:
    ours, theirs = result.detach().reshape(-1), eager.detach().reshape(-1)
    if ours.dtype.is_floating_point:
        gap = (ours.double() - theirs.double()).abs().nan_to_num(nan=float("inf"))
        gap = gap.masked_fill(ours.isnan() & theirs.isnan() | (ours == theirs), -1)
        i = int(gap.argmax())
    else:
        i = int((ours != theirs).int().argmax())
    count = int((ours != theirs).sum())
    return f"{ours[i].item()} where eager has {theirs[i].item()} ({count} of {ours.numel()} differ)"


# -- the front doors


def check(program: Program, mode: str) -> Outcome:
    """Return the outcome of the program through one front door."""
    outcome = _check(program, mode)
    is_mismatch = outcome.kind == "mismatch"
    reason = deviation(program, mode == "gradient") if is_mismatch else None
    return outcome if reason is None else Outcome("discarded", reason)


def _check(program: Program, mode: str) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results = reference(program, None, mode == "gradient")
        except _NoGradientError:
            return Outcome("discarded", NO_GRADIENT)
        except Exception as error:
            return Outcome("discarded", f"eager: {_error_line(error)}")
        try:
            if mode == "export":
                return _check_exported(program, results)
            if mode == "nodes":
                return _check_nodes(program, results)
            if mode == "fx":
                return _check_traced(program, results)
            return _check_compiled(program, results, mode == "gradient")
        except Difference as difference:
            return Outcome("mismatch", str(difference))


def _check_exported(program: Program, results: list[Any]) -> Outcome:
    tensors = program.tensors()
    dynamic = tuple(tuple(torch.export.Dim.AUTO for _ in tensor.shape) for tensor in tensors)
    shapes = (dynamic,) if program.dynamic else None
    try:
        torch.manual_seed(1)
        exported = torch.export.export(program.module(), tuple(tensors), dynamic_shapes=shapes)
    except Exception as error:
        return Outcome("discarded", f"torch.export: {_error_line(error)}")
    sizes = [None, *_other_sizes(program, exported)] if program.dynamic else [None]
    expected = [(None, results, Judge(program, None, False))]
    for resized in sizes[1:]:
        try:
            expected.append((resized, reference(program, resized), Judge(program, resized, False)))
        except Exception:
            continue  # eager refuses these sizes
    names = list(exported.graph_signature.user_inputs)
    return _check_all_places(program, exported, names, expected)


def _check_traced(program: Program, results: list[Any]) -> Outcome:
    """Check the converters on a traced graph, without torch.export."""
    from torch.fx.experimental.proxy_tensor import make_fx

    tensors = program.tensors()
    try:
        torch.manual_seed(1)
        graph = make_fx(
            torch.func.functionalize(program.function(**TRACED)),
            tracing_mode="symbolic" if program.dynamic else "fake",
        )(*tensors)
    except Exception as error:
        return Outcome("discarded", f"make_fx: {_error_line(error)}")
    if any("copy_" in str(node.target) for node in graph.graph.nodes if node.op == "call_function"):
        return Outcome("discarded", "make_fx: the graph writes into an input")
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    return _check_all_places(program, graph, names, [(None, results, Judge(program, None, False))])


def _check_nodes(program: Program, results: list[Any]) -> Outcome:
    """Check the converters on the calls of the program, which torch does not decompose."""
    try:
        graph = graph_of(program.function(), program.tensors())
    except NotNodes as error:
        return Outcome("discarded", f"nodes: {error}")
    except Exception as error:
        return Outcome("discarded", f"nodes: torch: {_error_line(error)}")
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    return _check_all_places(program, graph, names, [(None, results, Judge(program, None, False))])


Expected = tuple[Sequence[tuple[int, ...]] | None, list[Any], Judge]


def _check_all_places(
    program: Program, graph: Any, names: Sequence[str], expected: Sequence[Expected]
) -> Outcome:
    """Check every opset, target and choice of rewrites."""
    results = expected[0][1][: len(program.outputs)]
    if not _has_metadata_of(graph, results):
        return Outcome("discarded", "torch: the metadata differs from eager's dtypes or shapes")
    exact = Outcome("exact", targets=_targets(graph))
    with _cache_preparation() as prepared:
        find = _run_places(program, graph, names, expected, exact)
    is_error = find is not None and find.kind == "error"
    if is_error and not all(_has_metadata_of(p, results) for p in prepared):
        return Outcome("discarded", "torch: the metadata differs after decomposition")
    is_mismatch = find is not None and find.kind == "mismatch"
    if is_mismatch and any(_differs_in_torch(program, p, expected) for p in [graph, *prepared]):
        return Outcome("discarded", "torch: the program that it captured differs")
    return exact if find is None else find


def _differs_in_torch(program: Program, rewritten: Any, expected: Sequence[Expected]) -> bool:
    """Return whether a program that torch captured or decomposed is wrong in torch, too."""
    count = len(program.outputs)
    for shapes, eager, judge in expected:
        try:
            module = (
                rewritten if isinstance(rewritten, torch.fx.GraphModule) else rewritten.module()
            )
            with torch.no_grad():
                results = leaves(module(*program.tensors(shapes)))
            _compare(eager[:count], results[:count], judge, program.random)
        except Difference:
            return True
        except Exception:
            continue
    return False


def _run_places(
    program: Program,
    graph: Any,
    names: Sequence[str],
    expected: Sequence[Expected],
    reached: Outcome,
) -> Outcome | None:
    """Return the first find, or a refusal where all places refuse; None if a place is exact."""
    refusals = []
    for opset, target, rewrites in PLACES:
        where = f"opset {opset}, target {target}, rewrites {rewrites}"
        try:
            model, builder = ortable.to_onnx(
                graph, target_opset=opset, target=target, rewrites=rewrites, return_builder=True
            )
        except REFUSALS as error:
            refusals.append(Outcome("refused", _error_line(error), where))
            continue
        except Exception as error:
            is_torch_failure = any(message in str(error) for message in TORCH_FAILURES)
            if is_torch_failure or (
                isinstance(error, functionalize.FunctionalizationError) and _torch_fails(graph)
            ):
                return Outcome("discarded", f"torch: {_error_line(error)}")
            if MADE_CONSTANT in str(error):
                return Outcome("refused", _error_line(error), where)
            if any(message in str(error) for message in REFUSED):
                refusals.append(Outcome("refused", _error_line(error), where))
                continue
            return Outcome("error", _error_chain(error), where)
        reached.rewrites.update(builder.record.rewrites.counts())
        for shapes, eager, judge in expected:
            outcome = _run_onnxruntime(program, model, names, shapes, eager, judge)
            if outcome is not None:
                outcome.where = where + (f", sizes {shapes}" if shapes else "")
                return outcome
    return refusals[0] if len(refusals) == len(PLACES) else None


def _torch_fails(program: Any) -> bool:
    """Return whether torch cannot functionalize a program that it captured."""
    for table in ({}, None):
        try:
            program.run_decompositions(table)
        except Exception:
            return True
    return False


@contextmanager
def _cache_preparation() -> Iterator[list[Any]]:
    """Cache torch's decompositions and guards, which are equal for all places and slow."""
    decompose, find_guards = functionalize.decompose_program, capture.find_guards
    cache: dict[Any, Any] = {}
    programs: list[Any] = []

    def cached_decompose(program: Any, table: Any) -> Any:
        key = id(program), tuple(sorted(str(operator) for operator in table))
        if key not in cache:
            programs.append(decompose(program, table))
            cache[key] = program, programs[-1]  # a reference to the program keeps its id unique
        return cache[key][1]

    def cached_guards(program: Any, shapes: Any, assumptions: Any = ()) -> Any:
        key = id(program), str((shapes, assumptions))
        if key not in cache:
            cache[key] = program, find_guards(program, shapes, assumptions)
        return list(cache[key][1])

    functionalize.decompose_program, capture.find_guards = cached_decompose, cached_guards
    try:
        yield programs
    finally:
        functionalize.decompose_program, capture.find_guards = decompose, find_guards


def _run_onnxruntime(
    program: Program, model: Any, names: Sequence[str], shapes: Any, eager: list[Any], judge: Judge
) -> Outcome | None:
    tensors = dict(zip(names, program.tensors(shapes), strict=True))
    try:
        onnx.checker.check_model(model)
        feeds = {}
        for value in model.graph.input:
            tensor = tensors[value.name].resolve_conj().resolve_neg()
            feeds[value.name] = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        results = run_onnx(model, feeds)
    except Exception as error:
        # the program names an ONNX operator and passes dtypes that it does not support
        is_declared = _MIXED_DTYPES.search(str(error)) is not None
        return Outcome("discarded" if is_declared else "invalid", _error_chain(error))
    outputs = [value.name for value in model.graph.output]
    inputs = dict(zip(names, eager[len(program.outputs) :], strict=True))
    try:
        count = len(program.outputs)
        _compare(eager[:count], results[:count], judge, program.random)
        for name, value in zip(outputs[count:], results[count:], strict=True):
            source = name.removesuffix("_mutated")
            if source not in inputs:
                raise Difference(f"eager has no output {name}")
            index = count + list(names).index(source)
            _compare_result(
                inputs[source], value, index, judge, program.random, f"input {source} afterwards"
            )
    except Difference as difference:
        return Outcome("mismatch", str(difference))
    return None


def _other_sizes(program: Program, exported: Any) -> list[list[tuple[int, ...]]]:
    """Return shapes of the inputs with every symbol larger, that the program accepts."""
    if any(step.key in UNCHECKED for step in program.steps):
        return []
    by_name = {
        node.name: node.meta.get("val") for node in exported.graph.nodes if node.op == "placeholder"
    }
    sizes: list[tuple[Any, int]] = []
    for name, feed in zip(exported.graph_signature.user_inputs, program.inputs, strict=True):
        shape = by_name[name].shape
        sizes += [(_expression(size), old) for size, old in zip(shape, feed.shape, strict=True)]
        if feed.values is not None and any(_expression(size) is not None for size in shape):
            return []  # fixed values, such as indices, are only valid at one size
    symbols = {expr: old for expr, old in sizes if getattr(expr, "is_Symbol", False)}
    if not symbols:
        return []
    for grow in (lambda size: size + 2, lambda size: size * 2, lambda size: size + 1):
        larger = {expr: grow(old) for expr, old in symbols.items()}
        flat = iter(old if expr is None else int(expr.subs(larger)) for expr, old in sizes)
        shapes = [tuple(next(flat) for _ in feed.shape) for feed in program.inputs]
        if _passes_guards(program, exported, shapes):
            return [shapes]
    return []


def _passes_guards(program: Program, exported: Any, shapes: list[tuple[int, ...]]) -> bool:
    """Return whether torch's guards accept these sizes."""
    try:
        with torch.no_grad():
            exported.module()(*program.tensors(shapes))
    except Exception:
        return False
    return True


def _expression(size: Any) -> Any:
    """Return the expression of a size, None for a known size."""
    expression = getattr(getattr(size, "node", None), "expr", None)
    return None if expression is None or expression.is_number else expression


def _has_metadata_of(graph: Any, results: Sequence[torch.Tensor]) -> bool:
    """Return whether the graph's metadata has the dtypes and shapes of eager's results."""
    output = next(node for node in graph.graph.nodes if node.op == "output")
    values = leaves(output.args[0])
    for node, result in zip(values[len(values) - len(results) :], results, strict=True):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(value, torch.Tensor):
            continue
        sizes = zip(value.shape, result.shape, strict=False)
        is_known = all(a == b for a, b in sizes if isinstance(a, int))
        if value.dtype != result.dtype or value.dim() != result.dim() or not is_known:
            return False
    return True


def _targets(graph: Any) -> set[str]:
    """Return the operators of a graph and of its subgraphs."""
    module = getattr(graph, "graph_module", graph)
    names = set()
    for inner in module.modules():
        for node in getattr(getattr(inner, "graph", None), "nodes", ()):
            if node.op == "call_function":
                name = getattr(node.target, "name", None)
                names.add(name() if callable(name) else str(getattr(node.target, "__name__", "")))
    return names


def _check_compiled(program: Program, eager: list[Any], gradient: bool) -> Outcome:
    """Compare torch.compile with eager; a difference of torch's own backend is discarded."""
    judge = Judge(program, None, gradient)
    storage: dict[str, Any] = {}
    rewrites = ("default", "none", "all")[len(program.steps) % 3]
    options = {"rewrites": rewrites, "storage": storage, "fallback": "error"}
    kind, detail = "exact", ""
    try:
        results = _run_compiled(program, gradient, "ortable", options)
        _compare(eager, results, judge, program.random)
    except Difference as difference:
        kind, detail = "mismatch", str(difference)
    except Exception as error:
        causes = list(causes_of(error))
        if any(isinstance(cause, REFUSALS) for cause in causes):
            return Outcome("refused", _error_line(causes[-1]))
        kind, detail = "error", _error_chain(causes[-1])
        own_error = next((cause for cause in causes if isinstance(cause, OrtableError)), None)
        detail = _error_chain(own_error) if own_error is not None else detail
    if kind == "exact":
        exact = Outcome("exact")
        for record in storage.get("instance", ()):
            exact.rewrites.update(getattr(record, "rewrites", None) or {})
            if getattr(record, "graph_module", None) is not None:
                exact.targets |= _targets(record.graph_module)
        return exact
    try:
        results = _run_compiled(program, gradient, "aot_eager", {})
        _compare(eager, results, judge, program.random)
    except Exception as error:
        return Outcome("discarded", f"aot_eager: {_error_line(error)}")
    is_of_metadata = detail.startswith(("dtype: ", "shape: ")) or "torch computes" in detail
    if is_of_metadata and not _has_right_fakes(program, eager):
        return Outcome("discarded", "torch: the metadata differs from eager's dtypes or shapes")
    return Outcome(kind, detail, f"rewrites {rewrites}")


def _has_right_fakes(program: Program, eager: Sequence[torch.Tensor]) -> bool:
    """Return whether torch's fake tensors have eager's dtypes and shapes."""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
            tensors = [mode.from_tensor(tensor) for tensor in program.tensors()]
            values = run_steps(program, tensors)
    except Exception:
        return True
    fakes = [values[index] for index in program.outputs]
    return all(
        (fake.dtype, fake.shape) == (result.dtype, result.shape)
        for fake, result in zip(fakes, eager, strict=False)
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
        sources, tensors = _make_leaves(tensors)
        outputs = compiled(*tensors)
        return [*_detach(outputs), *_gradients(outputs, sources)]
    with torch.no_grad():
        return [*_detach(compiled(*tensors)), *tensors]


# -- errors


def _error_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines[0] if lines else '')[:300]}"


def _error_chain(error: BaseException) -> str:
    cause = error.__cause__
    suffix = f" <- {_error_line(cause)}" if cause is not None else ""
    return f"{_error_line(error)}{suffix}"
