"""Search for the session settings that run a model fastest on this machine, by measuring."""

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

from ortable.backend.store import SETTINGS, Store, describe_processor, encode_as_json
from ortable.backend.timing import median_ratio, time_block, time_interleaved

_log = logging.getLogger("ortable.tune")

_BLOCK_SECONDS = 0.01  # duration of consecutive calls
_FEW_ROUNDS, _MANY_ROUNDS = 3, 9  # rounds for the first test of a candidate, and for the second
_MAX_RATIO = 0.97  # of the time of the best settings so far, for a candidate to replace them
_TOLERANCE = 1e-4  # relative to the largest value of an output

Make = Callable[[Mapping[str, Any]], Any]
Call = Callable[[], list[Any]]


@dataclass(frozen=True)
class SessionTuning:
    """The result of a search: ``settings`` to add, and their ``ratio`` of the usual time.

    ``tried`` counts candidates. ``found`` says where the settings come from: "searched", "memory",
    "disk", or the reason why nothing was tried.
    """

    settings: dict[str, int]
    ratio: float
    tried: int
    found: str


_warned = False  # whether `warn_not_tuned` has warned in this process


def tuned_settings(
    model: ModelProto,
    make: Make,
    user_settings: Mapping[str, Any],
    seconds: float,
    folder: str | None = None,
) -> SessionTuning:
    """Return the best settings for a model: stored settings, or those of a search.

    Args:
        model: the model of the sessions; its weights may be stored outside.
        make: creates a session with additional settings.
        user_settings: the user's own settings, which are not searched.
        seconds: the maximum duration of the search.
        folder: the folder where processes share results; None for none.
    """
    feeds = make_sample_inputs(model)
    if isinstance(feeds, str):
        return _log_tuning(SessionTuning({}, 1.0, 0, feeds))
    key = _tuning_key(model, user_settings)
    tuning = STORE.get(key) or STORE.load(folder, key)
    if tuning is None:
        tuning = _search_settings(make, feeds, set(user_settings), seconds)
        STORE.save(folder, key, tuning)
    STORE.put(key, replace(tuning, found="memory"))
    return _log_tuning(tuning)


def _log_tuning(tuning: SessionTuning) -> SessionTuning:
    _log.info(
        "settings %s take %.3f of the usual time (%s, %d tried)",
        tuning.settings, tuning.ratio, tuning.found, tuning.tried,
    )  # fmt: skip
    return tuning


def warn_not_tuned(label: str, reason: str) -> None:
    """Warn once per process that a graph with option `tune` was not searched."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"Option 'tune' has no effect on {label or 'a graph'}, which is {reason}. "
        "torch.compile(..., dynamic=False) fixes sizes; options={'hints': False} silences this.",
        UserWarning,
        stacklevel=2,
    )


def make_sample_inputs(model: ModelProto) -> dict[str, np.ndarray] | str:
    """Return inputs of the model's sizes, or the reason why there are none.

    Floats are random, integers 0 (a valid index everywhere), bools True.
    """
    initializer_names = {initializer.name for initializer in model.graph.initializer}
    random = np.random.default_rng(0)
    inputs: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        if value.name in initializer_names:
            continue
        tensor = value.type.tensor_type
        if not tensor.HasField("shape") or any(
            axis.WhichOneof("value") != "dim_value" for axis in tensor.shape.dim
        ):
            return f"not tuned: {value.name} has a size that is not fixed"
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype.kind == "f":
            inputs[value.name] = random.standard_normal(shape).astype(dtype)
        elif dtype.kind in "iu":
            inputs[value.name] = np.zeros(shape, dtype)
        elif dtype.kind == "b":
            inputs[value.name] = np.ones(shape, dtype)
        else:
            return f"not tuned: {value.name} has dtype {dtype}"
    return inputs


# -- the search


def _search_settings(
    make: Make, feeds: Mapping[str, Any], fixed: set[str], seconds: float
) -> SessionTuning:
    """Change one setting at a time, in random order, until no change helps or the time is up.

    A change is adopted if it is clearly faster in a few rounds and again in many rounds.
    """
    from ortable_generated.sessions import SEARCHED

    deadline = time.monotonic() + seconds
    baseline = _bind_session(make, {}, feeds)
    expected = baseline()
    best, tried = baseline, 0
    settings: dict[str, int] = {}
    steps = [
        (name, candidate) for name in SEARCHED if name not in fixed for candidate in SEARCHED[name]
    ]
    order = np.random.default_rng(0)
    improved = True
    while improved and time.monotonic() < deadline:
        improved = False
        for index in order.permutation(len(steps)):
            name, value = steps[index]
            if time.monotonic() >= deadline:
                break
            if settings.get(name) == value:
                continue
            tried += 1
            with contextlib.suppress(Exception):  # this ONNX Runtime may refuse a value
                candidate_call = _bind_session(make, {**settings, name: value}, feeds)
                is_better = (
                    _are_close(candidate_call(), expected)
                    and _time_ratio(candidate_call, best, _FEW_ROUNDS) <= _MAX_RATIO
                )
                if (
                    is_better
                    and time.monotonic() < deadline
                    and _time_ratio(candidate_call, best, _MANY_ROUNDS) < _MAX_RATIO
                ):
                    best, settings, improved = candidate_call, {**settings, name: value}, True
    ratio = _time_ratio(best, baseline, _MANY_ROUNDS) if settings else 1.0
    if ratio > _MAX_RATIO:  # gains by chance, or gains that do not add up
        return SessionTuning({}, 1.0, tried, "searched")
    return SessionTuning(settings, ratio, tried, "searched")


def _bind_session(make: Make, settings: Mapping[str, int], feeds: Mapping[str, Any]) -> Call:
    session = make(settings)
    names = [value.name for value in session.get_inputs()]
    return functools.partial(session.run, None, {name: feeds[name] for name in names})


def _time_ratio(candidate: Call, base: Call, rounds: int) -> float:
    """Return the median over the rounds of the ratio of times, candidate by base."""
    once = dict.fromkeys(("base", "other"), time_block(base, 1))
    times = time_interleaved({"base": base, "other": candidate}, rounds, _BLOCK_SECONDS, once)
    return median_ratio(times, "other", "base")


def _are_close(values: list[Any], expected: list[Any]) -> bool:
    for value, base in zip(values, expected, strict=True):
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


# -- stored results


def _tuning_key(model: ModelProto, user_settings: Mapping[str, Any]) -> str:
    import onnxruntime
    import torch

    from ortable_generated.sessions import INFERENCE, SEARCHED, TRAINING

    digest = hashlib.sha256()
    for proto in (*model.graph.node, *model.graph.input, *model.opset_import):
        digest.update(proto.SerializeToString(deterministic=True))
    for weight in model.graph.initializer:  # skip the location, which differs between processes
        digest.update(repr((weight.name, list(weight.dims), weight.data_type)).encode())
    versions = (onnxruntime.__version__, torch.get_num_threads(), describe_processor())
    tables = (sorted(SEARCHED.items()), sorted(INFERENCE.items()), sorted(TRAINING.items()))
    digest.update(repr((versions, tables, sorted(user_settings.items()))).encode())
    return digest.hexdigest()


def _decode_tuning(_: str, content: bytes) -> SessionTuning:
    from ortable_generated.sessions import RANGES

    fields = json.loads(content)
    settings = {str(name): int(value) for name, value in fields["settings"].items()}
    for name, value in settings.items():
        if not RANGES[name][0] <= value <= RANGES[name][1]:
            raise ValueError(f"{name} is {value}")
    return SessionTuning(settings, float(fields["ratio"]), int(fields["tried"]), "disk")


STORE: Store[SessionTuning] = Store(SETTINGS, encode_as_json, _decode_tuning)
