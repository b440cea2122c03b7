"""Serve a runtime: ``python run_python.py RUNTIME`` reads folders, one a line.

A folder has model.onnx, and inputs.json with the name, type, dims and file of each input. Results
are written in the same form; the answer to a folder is a JSON string, empty or an error.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Arrays = Mapping[str, np.ndarray]
TRACT_TYPES = {"float": "f", "int": "i", "uint": "u"}


@functools.cache
def openvino_core() -> Any:
    import openvino

    return openvino.Core()


def run_openvino(path: Path, inputs: Arrays) -> list[np.ndarray]:
    import openvino

    compiled = openvino_core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    in_order = list(inputs.values())
    for index, port in enumerate(compiled.inputs):
        # it drops an input that no node reads, and the names of inputs of an Attention
        array = next((inputs[name] for name in port.names if name in inputs), in_order[index])
        is_own = array.dtype.isbuiltin != 1
        dtype = _own_type(array.dtype.name) if is_own else openvino.Type(array.dtype)
        data = array.ravel().view(np.uint8) if is_own else array
        tensor = openvino.Tensor(data, array.shape, dtype)
        request.set_input_tensor(index, tensor)
    request.infer()
    results = [request.get_tensor(port) for port in compiled.outputs]
    names = [tensor.element_type.get_type_name() for tensor in results]
    return [
        tensor.data.copy().view("bfloat16") if name == "bf16" else tensor.data.copy()
        for tensor, name in zip(results, names, strict=True)
    ]


def _own_type(name: str) -> object:
    import openvino

    names = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}
    return getattr(openvino.Type, names[name])


def run_tract(path: Path, inputs: Arrays) -> list[np.ndarray]:
    import tract

    model = tract.onnx().load(path)
    names = [model.input_name(index) for index in range(model.input_count())]
    for index, name in enumerate(names):  # tract wants the sizes of a call before it infers
        array = inputs[name]
        kind = array.dtype.name.rstrip("0123456789")
        dtype = TRACT_TYPES.get(kind, kind) + array.dtype.name[len(kind) :]
        model.set_input_fact(index, ",".join(map(str, [*array.shape, dtype])))
    results = model.into_model().into_runnable().run([inputs[name] for name in names])
    arrays = []
    for result in results:
        try:
            arrays.append(result.to_numpy())
        except tract.TractError:  # its own type of sizes
            arrays.append(result.convert_to(tract.DatumType.I64).to_numpy())
    return arrays


def run_tvm(path: Path, inputs: Arrays) -> list[np.ndarray]:
    import onnx
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = onnx.load(path)
    module = relax.transform.DecomposeOpsForInference()(from_onnx(model))
    program = tvm.compile(relax.get_pipeline("zero")(module), target=tvm.target.Target("llvm"))
    names = [value.name for value in model.graph.input]
    machine = relax.VirtualMachine(program, tvm.cpu())
    results = machine["main"](*(tvm.runtime.tensor(inputs[name]) for name in names))
    return [result.numpy() for result in (results if len(model.graph.output) > 1 else [results])]


def run_onnx2tf(path: Path, inputs: Arrays) -> list[np.ndarray]:
    """Convert to TensorFlow Lite and run that; inputs keep their layout."""
    import onnx
    import onnx2tf
    from ai_edge_litert.interpreter import Interpreter

    folder = path.parent / "tensorflow"
    try:
        onnx2tf.convert(
            input_onnx_file_path=str(path),
            output_folder_path=str(folder),
            keep_shape_absolutely_input_names=list(inputs),
            output_signaturedefs=True,
            verbosity="error",
        )
    except SystemExit:  # its way to say that it refuses a model
        raise ValueError("it refuses the model") from None
    runner = Interpreter(str(folder / "model_float32.tflite")).get_signature_runner()
    results = runner(**inputs)
    return [results[value.name] for value in onnx.load(path).graph.output]


RUNS: dict[str, Callable[[Path, Arrays], list[np.ndarray]]] = {
    "openvino": run_openvino,
    "tract": run_tract,
    "tvm": run_tvm,
    "onnx2tf": run_onnx2tf,
}


def read_inputs(folder: Path) -> dict[str, np.ndarray]:
    return {
        item["name"]: np.frombuffer(
            (folder / item["file"]).read_bytes(), np.dtype(item["type"])
        ).reshape(item["dims"]).copy()
        for item in json.loads((folder / "inputs.json").read_text())
    }  # fmt: skip


def write_arrays(folder: Path, kind: str, arrays: Arrays) -> None:
    """Write arrays as JSON, with a file of bytes for each."""
    listed = []
    for index, (name, array) in enumerate(arrays.items()):
        file = f"{kind}{index}.bin"
        (folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
        listed.append({"name": name, "type": array.dtype.name, "dims": array.shape, "file": file})
    (folder / f"{kind}s.json").write_text(json.dumps(listed))


def serve(name: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        folder, error = Path(line.rstrip("\n")), ""
        try:
            results = RUNS[name](folder / "model.onnx", read_inputs(folder))
            write_arrays(folder, "result", {str(i): array for i, array in enumerate(results)})
        except Exception as problem:
            error = str(problem) or type(problem).__name__
        print(json.dumps(error), file=answers, flush=True)


if __name__ == "__main__":
    assert ml_dtypes.bfloat16  # numpy then knows the type by name
    serve(sys.argv[1])
