"""The models that the onnx wheel ships for those who write a backend, with what to feed and what to
expect: one model for each operator and use of it (`onnx.backend.test.case.node`), models of torch's
first exporters, and small models by hand. Out come `Case`s by name; called by `node_tests`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

FOLDERS = ("pytorch-operator", "pytorch-converted", "simple")


@dataclass(frozen=True)
class Case:
    """A model with its sets of data: what to feed, by the names of inputs, and what comes out."""

    name: str
    model: onnx.ModelProto
    data: tuple[tuple[Mapping[str, Any], tuple[Any, ...]], ...]
    rtol: float
    atol: float


@cache
def cases() -> Mapping[str, Case]:
    """Every case of the wheel, by ``<kind>/<name>``."""
    from onnx.backend.test.loader import load_model_tests, load_node_model_tests

    found = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for test in load_node_model_tests():
            data = tuple(
                (_named(test.model, inputs), tuple(map(_as_value, outputs)))
                for inputs, outputs in test.data_sets
            )
            case = Case(f"node/{test.name}", test.model, data, test.rtol, test.atol)
            found[case.name] = case
    for kind in FOLDERS:
        for test in load_model_tests(kind=kind):
            folder = Path(test.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = sorted(folder.glob("test_data_set_*"))
            data = tuple((_read_inputs(model, each), _read_outputs(model, each)) for each in sets)
            case = Case(f"{kind}/{test.name}", model, data, test.rtol, test.atol)
            found[case.name] = case
    return dict(sorted(found.items()))


def _named(model: onnx.ModelProto, inputs: Any) -> dict[str, Any]:
    names = [info.name for info in model.graph.input]
    return dict(zip(names, map(_as_value, inputs), strict=False))


def _as_value(value: Any) -> Any:
    """An array, a list of arrays, or None for an optional that is empty."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_as_value(each) for each in value]
    return value if value is None else np.asarray(value)


def _read_inputs(model: onnx.ModelProto, folder: Path) -> dict[str, Any]:
    files = [folder / f"input_{n}.pb" for n in range(len(list(folder.glob("input_*.pb"))))]
    return {
        info.name: _read(info.type, file)
        for info, file in zip(model.graph.input, files, strict=False)
    }


def _read_outputs(model: onnx.ModelProto, folder: Path) -> tuple[Any, ...]:
    files = [folder / f"output_{n}.pb" for n in range(len(list(folder.glob("output_*.pb"))))]
    return tuple(
        _read(info.type, file) for info, file in zip(model.graph.output, files, strict=True)
    )


def _read(declared: onnx.TypeProto, file: Path) -> Any:
    content = file.read_bytes()
    if declared.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if declared.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))
