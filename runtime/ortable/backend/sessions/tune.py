"""Settings of a session that are best for one model on this machine, found by trying."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from ortable.backend.store import SETTINGS, Store, describe_processor, encode_measured
from ortable.backend.timing import median_ratio, time_block, time_interleaved

_log = logging.getLogger("ortable.tune")

_BLOCK = 0.01  # seconds that calls in a row take
_FEW, _MANY = 3, 9  # rounds that a candidate needs to go on, and to be taken
_BETTER = 0.97  # of the time of what is best so far
_TOLERANCE = 1e-4  # of the largest value of an output

Make = Callable[[Mapping[str, Any]], Any]
Call = Callable[[], list[Any]]


@dataclass(frozen=True)
class Tuned:
    """What a search found: ``settings`` beside the usual ones, ``ratio`` of the time of the usual
    session, ``tried`` candidates, ``found`` as said in a record: searched, memory, disk, or why
    nothing was tried."""

    settings: dict[str, int]
    ratio: float
    tried: int
    found: str


_warned = False  # in this process


def tuned_settings(
    model: ModelProto,
    make: Make,
    given: Mapping[str, Any],
    seconds: float,
    folder: str | None = None,
) -> Tuned:
    """The best settings for a model that so many seconds find.

    Args:
        model: what the sessions run; its weights may be outside.
        make: a session with these settings beside the usual ones.
        given: the user's own settings, which stay as they are.
        seconds: how long to search.
        folder: where results of other processes are, and this one goes.
    """
    feeds = made_up_inputs(model)
    if isinstance(feeds, str):
        return _said(Tuned({}, 1.0, 0, feeds))
    key = _key(model, given)
    kept = STORE.get(key) or STORE.load(folder, key)
    if kept is None:
        kept = _search(make, feeds, set(given), seconds)
        STORE.save(folder, key, kept)
    STORE.put(key, replace(kept, found="memory"))
    return _said(kept)


def _said(found: Tuned) -> Tuned:
    _log.info(
        "settings %s take %.3f of the usual time (%s, %d tried)",
        found.settings, found.ratio, found.found, found.tried,
    )  # fmt: skip
    return found


def warn_not_tuned(label: str, why: str) -> None:
    """Warn, once in a process, that a graph for which option `tune` was given was not searched."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"Option 'tune' has no effect on {label or 'a graph'}, which is {why}. Sizes are fixed "
        "with torch.compile(..., dynamic=False); options={'hints': False} silences this.",
        UserWarning,
        stacklevel=2,
    )


def made_up_inputs(model: ModelProto) -> dict[str, np.ndarray] | str:
    """Inputs of the sizes that the model says: random floats, zeros that are indices everywhere,
    True; or why there are none."""
    inner = {each.name for each in model.graph.initializer}
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in inner:
            continue
        tensor = value.type.tensor_type
        if not tensor.HasField("shape") or any(
            d.WhichOneof("value") != "dim_value" for d in tensor.shape.dim
        ):
            return f"not tuned: {value.name} has a size that is not fixed"
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "f":
            found[value.name] = random.standard_normal(shape).astype(dtype)
        elif dtype.kind in "iu":
            found[value.name] = np.zeros(shape, dtype)
        elif dtype.kind == "b":
            found[value.name] = np.ones(shape, dtype)
        else:
            return f"not tuned: {value.name} is of {dtype}"
    return found


# -- the search


def _search(make: Make, feeds: Mapping[str, Any], fixed: set[str], seconds: float) -> Tuned:
    """Setting by setting, again and again in another order, until the time is up; what is not
    clearly faster after a few rounds is dropped."""
    from ortable_generated.sessions import SEARCHED

    end = time.monotonic() + seconds
    usual = _call(make, {}, feeds)
    wanted = usual()
    best, tried = usual, 0
    settings: dict[str, int] = {}
    steps = [(name, each) for name in SEARCHED if name not in fixed for each in SEARCHED[name]]
    order = np.random.default_rng(0)
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for place in order.permutation(len(steps)):
            name, value = steps[place]
            if time.monotonic() >= end:
                break
            if settings.get(name) == value:
                continue
            tried += 1
            with contextlib.suppress(Exception):  # a value that this ONNX Runtime does not take
                other = _call(make, {**settings, name: value}, feeds)
                better = _equal(other(), wanted) and _ratio(other, best, _FEW) <= _BETTER
                if better and time.monotonic() < end and _ratio(other, best, _MANY) < _BETTER:
                    best, settings, improved = other, {**settings, name: value}, True
    ratio = _ratio(best, usual, _MANY) if settings else 1.0
    if ratio > _BETTER:  # chance, or gains that do not add up
        return Tuned({}, 1.0, tried, "searched")
    return Tuned(settings, ratio, tried, "searched")


def _call(make: Make, settings: Mapping[str, int], feeds: Mapping[str, Any]) -> Call:
    session = make(settings)
    names = [value.name for value in session.get_inputs()]
    return functools.partial(session.run, None, {name: feeds[name] for name in names})


def _ratio(other: Call, base: Call, rounds: int) -> float:
    """Median over rounds in which both take turns at the first place."""
    once = dict.fromkeys(("base", "other"), time_block(base, 1))
    found = time_interleaved({"base": base, "other": other}, rounds, _BLOCK, once)
    return median_ratio(found, "other", "base")


def _equal(values: list[Any], wanted: list[Any]) -> bool:
    """Whether outputs are within tolerance of those of the usual session."""
    for value, base in zip(values, wanted, strict=True):
        if not isinstance(base, np.ndarray):
            return False
        if base.dtype.kind != "f":
            if not np.array_equal(value, base):
                return False
            continue
        finite = np.abs(base[np.isfinite(base)])
        allowed = _TOLERANCE * (float(finite.max()) if finite.size else 1.0)
        if value.shape != base.shape or not np.allclose(value, base, 0, allowed, equal_nan=True):
            return False
    return True


# -- results of other times


def _key(model: ModelProto, given: Mapping[str, Any]) -> str:
    import onnxruntime
    import torch

    from ortable_generated.sessions import INFERENCE, SEARCHED, TRAINING

    digest = hashlib.sha256()
    for each in (*model.graph.node, *model.graph.input, *model.opset_import):
        digest.update(each.SerializeToString(deterministic=True))
    for weight in model.graph.initializer:  # where they lie is another place in each process
        digest.update(repr((weight.name, list(weight.dims), weight.data_type)).encode())
    versions = (onnxruntime.__version__, torch.get_num_threads(), describe_processor())
    tables = (sorted(SEARCHED.items()), sorted(INFERENCE.items()), sorted(TRAINING.items()))
    digest.update(repr((versions, tables, sorted(given.items()))).encode())
    return digest.hexdigest()


def _decode(_: str, file: bytes) -> Tuned:
    from ortable_generated.sessions import RANGES

    content = json.loads(file)
    settings = {str(name): int(value) for name, value in content["settings"].items()}
    for name, value in settings.items():
        if not RANGES[name][0] <= value <= RANGES[name][1]:
            raise ValueError(f"{name} is {value}")
    return Tuned(settings, float(content["ratio"]), int(content["tried"]), "disk")


STORE: Store[Tuned] = Store(SETTINGS, encode_measured, _decode)
