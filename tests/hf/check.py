"""One model of transformers, eager and exported: builds it, calls it, exports it through the
registry of transformers, runs it with ONNX Runtime, and compares every tensor that it returns. In
comes ``model_type/Class/mode``, out comes a record. Called in the workers of __main__.py."""

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
from .shrink import table

AUTO = torch.export.Dim.AUTO
# The second size: of a model that takes only spectra of one length, all but the length.
SECOND = (
    inputs.Sizes(batch=3, tokens=11, decoder=6, frames=96),
    inputs.Sizes(batch=3, tokens=11, decoder=6),
)
# Shorter than the sliding windows of tiny.yaml: of what a window has dropped, an exported step of
# transformers, which keeps whole caches, does not know that it was there.
PROMPT = inputs.Sizes(tokens=4)
# What a step returns and the next one takes: keys and values, or a state.
CACHES = ("past_key_values", "cache_params", "state", "mems", "past_buckets_states")


def check_case(case: str) -> Record:
    """What comes of one case: exact, or what failed and where."""
    return record_of(case, _check)


def _check(name: str, mode: str) -> None:
    model = tried("unrunnable", lambda: models.build(name))
    if mode == "decode":
        calls = [tried("unrunnable", lambda: decode_call(model, PROMPT))]
    else:
        calls = [tried("unrunnable", lambda: inputs.make(model, inputs.Sizes()))]
    for call in calls:
        tried("unrunnable", lambda c=call: eager(model, c))
    if mode == "dynamic":
        calls.append(tried("unrunnable", lambda: second_call(model)))
    calls = [tried("uncaptured", lambda c=call: prepared(model, c)) for call in calls]
    expected = [tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0], seed=1), expected[0]):
        raise Stop("unrunnable", "eager", "its results differ from call to call")
    shapes = dynamic_shapes(*calls) if mode == "dynamic" else None
    program, runner = exported(model, calls[0], shapes)
    for place, call, wanted in zip(("run", "second size"), calls, expected, strict=False):
        try:
            _compared(lambda c=call: runner(**copy.deepcopy(c)), wanted, place)
        except Stop:
            if fault := fault_of_torch(program, call, wanted):
                raise Stop("uncaptured", place, fault) from None
            raise


def second_call(model: Any) -> dict[str, Any]:
    """A call of other sizes, the first that the model takes in eager mode."""
    for sizes in SECOND[:-1]:
        call = inputs.make(model, sizes)
        with contextlib.suppress(Exception):
            eager(model, call)
            return call
    call = inputs.make(model, SECOND[-1])
    eager(model, call)
    return call


def _compared(made: Callable[[], Any], wanted: Mapping[str, torch.Tensor], place: str) -> None:
    got = tried("error", made, place)
    if difference := differing(leaves(got), wanted):
        raise Stop("mismatch", place, difference)


def fault_of_torch(program: Any, call: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What the program of torch.export, run by torch, does wrong with a call; empty when it is
    right, and the fault is ours."""
    try:
        with torch.no_grad():
            got = program.exported_program.module()(**copy.deepcopy(dict(call)))
    except Exception as error:
        return f"torch's own program refuses this call: {described(error)[1]}"
    difference = differing(leaves(got), wanted)
    return f"torch's own program gives another result: {difference}" if difference else ""


def prepared(model: Any, call: dict[str, Any]) -> dict[str, Any]:
    """The call with what transformers computes of it before an export: sizes and places of patches,
    for which torch would have to read tensors."""
    from transformers.exporters.utils import precompute_export_inputs

    with torch.no_grad():
        precompute_export_inputs(model, call)
    return call


def exported(model: Any, call: Mapping[str, Any], shapes: Any) -> tuple[Any, Any]:
    """The model's OnnxProgram, and its runner, through the registry of transformers."""
    config = OrtableConfig(dynamic_shapes=shapes)
    try:
        program, metadata = OrtableExporter().export_program(
            model, copy.deepcopy(dict(call)), config
        )
    except FunctionNotFoundError as error:
        raise Stop("missing", *described(error)) from error
    except OrtableError as error:
        torchs = isinstance(error.__cause__, Exception) and not _ours(error.__cause__)
        raise Stop("uncaptured" if torchs else "refused", *described(error)) from error
    except Exception as error:
        ours = any(
            "ortable" in frame.filename
            for frame in frames(error)[-12:]
            if "exporter/transformers_backend" not in frame.filename
        )
        raise Stop("error" if ours else "uncaptured", *described(error)) from error
    if fixed := specialised(program, shapes or {}):
        if AUTO in pytree.tree_leaves(shapes):
            return exported(model, call, _demanded(shapes))
        raise Stop("uncaptured", "torch.export", fixed)
    runner = tried("error", lambda: OrtableRunner.from_program(program, metadata), "session")
    return program, runner


def _demanded(shapes: Mapping[str, Any]) -> dict[str, Any]:
    """The same dimensions, of which torch may fix none: where its first way would, another is
    taken."""
    return pytree.tree_map(lambda dim: dim and torch.export.Dim.DYNAMIC, shapes)


def specialised(program: Any, shapes: Mapping[str, Any]) -> str:
    """The dynamic dimension that the model's code has fixed to its example, if there is one."""
    graph = program.model_proto.graph
    known = {value.name: value.type.tensor_type.shape.dim for value in graph.input}
    for name, axes in shapes.items():
        for axis in axes or ():
            dims = known.get(name) or known.get(f"input.{name}")
            if dims and not dims[axis].dim_param:
                return f"the model fixes dimension {axis} of {name} to {dims[axis].dim_value}"
    return ""


def decode_call(model: Any, sizes: inputs.Sizes) -> dict[str, Any]:
    """One step of generation after a prompt: a token, and the cache that the prompt has filled."""
    prompt = inputs.make(model, sizes)
    prompt["attention_mask"] = torch.ones_like(prompt.get("attention_mask", prompt["input_ids"]))
    with torch.no_grad():
        first = model(**prompt, use_cache=True)
    taken = inspect.signature(model.forward).parameters
    name = next((name for name in CACHES if name in taken and name in first), None)
    if name is None or first[name] is None:
        raise models.Unbuilt("it returns nothing that it takes back: " + ", ".join(CACHES))
    tokens = prompt["input_ids"]
    new = tokens[:, :1]
    if model.config.model_type in table()["again"]:
        new = torch.cat([tokens, new], 1)
    step = {"input_ids": new, name: first[name]}
    if name == CACHES[0]:  # of states that are no keys, a mask has nothing to hide
        batch, length = prompt["attention_mask"].shape
        step["attention_mask"] = torch.ones(batch, length + 1, dtype=torch.int64)
    return step


def dynamic_shapes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Dimensions that differ between two calls are dynamic."""
    return {name: _dynamic(value, second[name]) for name, value in first.items()}


def _dynamic(first: Any, second: Any) -> Any:
    if isinstance(first, (tuple, list)):
        return type(first)(_dynamic(*each) for each in zip(first, second, strict=True))
    if not isinstance(first, torch.Tensor):
        return None
    pairs = enumerate(zip(first.shape, second.shape, strict=True))
    return {axis: AUTO for axis, (one, other) in pairs if one != other}


# -- eager, and comparing with it


def eager(model: Any, call: Mapping[str, Any], seed: int = 0) -> dict[str, torch.Tensor]:
    """Every tensor that the model returns."""
    torch.manual_seed(seed)
    with torch.no_grad():
        return leaves(model(**copy.deepcopy(dict(call))))


def leaves(value: Any) -> dict[str, torch.Tensor]:
    """Tensors by the way to them."""
    from transformers.exporters.utils import get_leaf_tensors

    return {name: tensor.clone() for name, tensor in get_leaf_tensors(value).items()}


def differing(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What differs first, empty when nothing does; a cache may keep more."""
    pairs = {name: _kept(found, wanted.get(name, found)) for name, found in got.items()}
    return model_check.differing(pairs, wanted)


def _kept(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The last keys or values of a cache: transformers' exporters keep all of them in layers with
    a sliding window, the model only those in the window."""
    if found.dim() != 4 or wanted.dim() != 4 or found.shape[-2] <= wanted.shape[-2]:
        return found
    return found[..., -wanted.shape[-2] :, :]


# -- what is said of a failure


def _ours(error: BaseException) -> bool:
    """True when the converter was at work, and not torch on behalf of transformers."""
    ours = Path(ortable.__file__).parent
    files = [Path(frame.filename) for frame in frames(error)]
    return any(ours in file.parents and file.name != "transformers_backend.py" for file in files)
