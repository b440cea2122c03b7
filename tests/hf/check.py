"""Compare a model of transformers with its export by transformers' registry, in ONNX Runtime.

A case is ``model_type/Class/mode``. Every tensor that the model returns is compared.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import FunctionNotFoundError, OrtableError
from ortable.exporter.transformers_backend import OrtableConfig, OrtableExporter, OrtableRunner
from tests.suites import model_check
from tests.suites.model_check import Stop, described, frames, record_of, tried
from tests.suites.workers import Record

from . import inputs, models
from .generation import check_generation
from .shrink import table

AUTO = torch.export.Dim.AUTO
# Second sizes; the last one keeps the length, for models with a fixed length of spectra.
SECOND = (
    inputs.Sizes(batch=3, tokens=11, decoder=6, frames=96),
    inputs.Sizes(batch=3, tokens=11, decoder=6),
)
# Shorter than the sliding windows of tiny.yaml: an exported step of transformers keeps whole
# caches, and has no record of the entries that a window has dropped.
PROMPT = inputs.Sizes(tokens=4)
# Results of a step that the next step takes: keys and values, or a state.
CACHES = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states")


def check_case(case: str) -> Record:
    """Return the record of a case: exact, or the failure and its place."""
    return record_of(case, _check)


def _check(name: str, mode: str) -> None:
    model = tried("unrunnable", lambda: models.build(name))
    if mode == "generate":
        check_generation(model, classify_errors)
        return
    if mode == "decode":
        calls = [tried("unrunnable", lambda: decode_call(model, PROMPT))]
    else:
        calls = [tried("unrunnable", lambda: inputs.make(model, inputs.Sizes()))]
    for call in calls:
        tried("unrunnable", lambda c=call: eager(model, c))
    if mode == "dynamic":
        calls.append(tried("unrunnable", lambda: second_call(model)))
    calls = [tried("uncaptured", lambda c=call: precompute_inputs(model, c)) for call in calls]
    expected = [tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0], seed=1), expected[0]):
        raise Stop("unrunnable", "eager", "its results differ from call to call")
    shapes = dynamic_shapes(*calls) if mode == "dynamic" else None
    program, runner = export_model(model, calls[0], shapes)
    for where, call, results in zip(("run", "second size"), calls, expected, strict=False):
        try:
            _check_call(lambda c=call: runner(**copy.deepcopy(c)), results, where)
        except Stop:
            if fault := find_torch_fault(program, call, results):
                raise Stop("uncaptured", where, fault) from None
            raise


def second_call(model: Any) -> dict[str, Any]:
    """Return a call of other sizes, the first that the model accepts in eager."""
    for sizes in SECOND[:-1]:
        call = inputs.make(model, sizes)
        with contextlib.suppress(Exception):
            eager(model, call)
            return call
    call = inputs.make(model, SECOND[-1])
    eager(model, call)
    return call


def _check_call(call: Callable[[], Any], expected: Mapping[str, torch.Tensor], where: str) -> None:
    result = tried("error", call, where)
    if difference := differing(leaves(result), expected):
        raise Stop("mismatch", where, difference)


def find_torch_fault(program: Any, call: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Describe how the program of torch.export fails in torch; empty if it is correct."""
    try:
        with torch.no_grad():
            result = program.exported_program.module()(**copy.deepcopy(dict(call)))
    except Exception as error:
        return f"torch's program refuses this call: {described(error)[1]}"
    difference = differing(leaves(result), expected)
    return f"torch's program differs from eager: {difference}" if difference else ""


def precompute_inputs(model: Any, call: dict[str, Any]) -> dict[str, Any]:
    """Add inputs that transformers computes before an export, as they depend on tensor values."""
    from transformers.exporters.utils import precompute_export_inputs

    with torch.no_grad():
        precompute_export_inputs(model, call)
    return call


def export_model(model: Any, call: Mapping[str, Any], shapes: Any) -> tuple[Any, Any]:
    """Return the model's OnnxProgram and its runner, by the registry of transformers."""
    config = OrtableConfig(dynamic_shapes=shapes)
    program, metadata = classify_errors(
        lambda: OrtableExporter().export_program(model, copy.deepcopy(dict(call)), config)
    )
    if fixed_dimension := find_fixed_dimension(program, shapes or {}):
        if AUTO in pytree.tree_leaves(shapes):
            return export_model(model, call, _require_dynamic(shapes))
        raise Stop("uncaptured", "torch.export", fixed_dimension)
    runner = tried("error", lambda: OrtableRunner.from_program(program, metadata), "session")
    return program, runner


def classify_errors(export: Callable[[], Any]) -> Any:
    """Return the result of an export; its error ends the check with an outcome."""
    try:
        return export()
    except FunctionNotFoundError as error:
        raise Stop("missing", *described(error)) from error
    except OrtableError as error:
        is_torch_error = isinstance(error.__cause__, Exception) and not _is_in_ortable(
            error.__cause__
        )
        raise Stop("uncaptured" if is_torch_error else "refused", *described(error)) from error
    except Exception as error:
        is_ortable_error = any(
            "ortable" in frame.filename
            for frame in frames(error)[-12:]
            if "exporter/transformers_backend" not in frame.filename
        )
        raise Stop("error" if is_ortable_error else "uncaptured", *described(error)) from error


def _require_dynamic(shapes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shapes with dimensions that torch must not specialize."""
    return pytree.tree_map(lambda dim: dim and torch.export.Dim.DYNAMIC, shapes)


def find_fixed_dimension(program: Any, shapes: Mapping[str, Any]) -> str:
    """Describe a dynamic dimension that the model's code fixes to its example, or return ""."""
    graph = program.model_proto.graph
    dims_by_name = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    for name, axes in shapes.items():
        for axis in axes or ():
            dims = dims_by_name.get(name) or dims_by_name.get(f"input.{name}")
            if dims and not dims[axis].dim_param:
                return f"the model fixes dimension {axis} of {name} to {dims[axis].dim_value}"
    return ""


def decode_call(model: Any, sizes: inputs.Sizes) -> dict[str, Any]:
    """Return one step of generation after a prompt: a token, and the cache of the prompt."""
    prompt = inputs.make(model, sizes)
    prompt["attention_mask"] = torch.ones_like(prompt.get("attention_mask", prompt["input_ids"]))
    with torch.no_grad():
        first = model(**prompt, use_cache=True)
    parameters = inspect.signature(model.forward).parameters
    name = next((name for name in CACHES if name in parameters and name in first), None)
    if name is None or first[name] is None:
        raise models.Unbuilt("it returns nothing that it takes back: " + ", ".join(CACHES))
    tokens = prompt["input_ids"]
    step_tokens = tokens[:, :1]
    if model.config.model_type in table()["again"]:
        step_tokens = torch.cat([tokens, step_tokens], 1)
    step = {"input_ids": step_tokens, name: first[name]}
    if name == CACHES[0]:  # other states need no mask
        batch, length = prompt["attention_mask"].shape
        step["attention_mask"] = torch.ones(batch, length + 1, dtype=torch.int64)
    return step


def dynamic_shapes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return shapes in which dimensions that differ between two calls are dynamic."""
    return {name: _dynamic(value, second[name]) for name, value in first.items()}


def _dynamic(first: Any, second: Any) -> Any:
    if isinstance(first, (tuple, list)):
        return type(first)(_dynamic(*pair) for pair in zip(first, second, strict=True))
    if not isinstance(first, torch.Tensor):
        return None
    pairs = enumerate(zip(first.shape, second.shape, strict=True))
    return {axis: AUTO for axis, (size, second_size) in pairs if size != second_size}


# -- comparison with eager


def eager(model: Any, call: Mapping[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Return every tensor that the model returns."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return leaves(model(**copy.deepcopy(dict(call))))


def leaves(value: Any) -> dict[str, torch.Tensor]:
    """Return tensors by their paths."""
    from transformers.exporters.utils import get_leaf_tensors

    return {name: tensor.clone() for name, tensor in get_leaf_tensors(value).items()}


def differing(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Describe the first difference, or return ""; a cache may have more entries."""
    pairs = {
        name: _last_entries(result, expected.get(name, result)) for name, result in results.items()
    }
    return model_check.differing(pairs, expected)


def _last_entries(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return the cache entries that eager has; exporters keep those outside a sliding window."""
    if result.dim() != 4 or expected.dim() != 4 or result.shape[-2] <= expected.shape[-2]:
        return result
    return result[..., -expected.shape[-2] :, :]


# -- errors


def _is_in_ortable(error: BaseException) -> bool:
    """Return whether the error is from the converter, and not from torch or transformers."""
    package = Path(ortable.__file__).parent
    files = [Path(frame.filename) for frame in frames(error)]
    return any(package in file.parents and file.name != "transformers_backend.py" for file in files)
