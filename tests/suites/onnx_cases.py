"""The models of the onnx wheel for tests of a backend, with their inputs and outputs.

There is a model for each use of an operator (`onnx.backend.test.case.node`); others are from
torch's first exporters, or small and hand-made.
"""

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
    """A model with its data sets: inputs by name, and outputs."""

    name: str
    model: onnx.ModelProto
    data: tuple[tuple[Mapping[str, Any], tuple[Any, ...]], ...]
    rtol: float
    atol: float


@cache
def cases() -> Mapping[str, Case]:
    """Return every case of the wheel, by ``<kind>/<name>``."""
    from onnx.backend.test.loader import load_model_tests, load_node_model_tests

    by_name = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for test in load_node_model_tests():
            data = tuple(
                (_name_inputs(test.model, inputs), tuple(map(_as_value, outputs)))
                for inputs, outputs in test.data_sets
            )
            case = Case(f"node/{test.name}", test.model, data, test.rtol, test.atol)
            by_name[case.name] = case
    for kind in FOLDERS:
        for test in load_model_tests(kind=kind):
            folder = Path(test.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = sorted(folder.glob("test_data_set_*"))
            data = tuple((_read_inputs(model, path), _read_outputs(model, path)) for path in sets)
            case = Case(f"{kind}/{test.name}", model, data, test.rtol, test.atol)
            by_name[case.name] = case
    return dict(sorted(by_name.items()))


def _name_inputs(model: onnx.ModelProto, inputs: Any) -> dict[str, Any]:
    names = [info.name for info in model.graph.input]
    return dict(zip(names, map(_as_value, inputs), strict=False))


def _as_value(value: Any) -> Any:
    """Return an array, a list of arrays, or None for an empty optional."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)):
        return [_as_value(item) for item in value]
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
