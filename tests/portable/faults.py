"""Small files on which a runtime fails or differs, with the results that ONNX defines.

faults.yaml has, for each reason of samples.yaml, such files or why there is none (`limit`). A file
is a graph in the syntax of onnx.parser, of opset 18 unless it says another. `evaluator` is
`onnxruntime` where onnx.reference has no operator or another fault; `message` is a part of what a
failing runtime says.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import torch
import yaml
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortable.debug.arrays import to_numpy, to_torch
from ortable.ir.proto.tensor_proto import fill_tensor
from ortable.testing.entries import compare_tensor, make_session, run_session

from .runtimes import Runtime, RuntimeFailure, RuntimeServer
from .samples import LISTED

FAULTS = Path(__file__).parent / "faults.yaml"
OPSET = 18
Arrays = Mapping[str, np.ndarray]
Run = Callable[[onnx.ModelProto, Arrays], list[np.ndarray]]


@dataclass(frozen=True)
class Fault:
    """A file that shows a reason of samples.yaml; `outcome` is that of the reason's samples."""

    runtime: str
    reason: str
    outcome: str
    model: onnx.ModelProto
    inputs: Arrays
    results: Arrays
    message: str
    evaluator: str

    def __str__(self) -> str:
        ops = ", ".join(dict.fromkeys(node.op_type for node in self.model.graph.node))
        return f"{self.runtime}, {ops}: {self.reason}"


def parse_model(text: str, opset: int) -> onnx.ModelProto:
    """Parse a graph without a name: `(float[2] x) => (float[2] y) {y = Neg(x)}`."""
    header = f'<ir_version: {11 if opset > 22 else 10}, opset_import: ["" : {opset}]>'
    model = onnx.parser.parse_model(f"{header} fault {text}")
    for tensor in model.graph.initializer:  # in the form of exported files
        name, array = tensor.name, numpy_helper.to_array(tensor)
        tensor.Clear()
        fill_tensor(tensor, array, name)
    onnx.checker.check_model(model)
    return model


def make_arrays(values: Mapping[str, Any], infos: Sequence[onnx.ValueInfoProto]) -> Arrays:
    """Make arrays with the types and sizes that a graph declares; one size may be a name."""
    arrays = {}
    for info in infos:
        tensor = info.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        sizes = [-1 if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        # nested lists have the shape, flat ones need not
        array = np.array(values[info.name], dtype)
        arrays[info.name] = array if array.ndim == len(sizes) else array.reshape(sizes)
    if set(arrays) != set(values):
        raise ValueError(f"{sorted(values)} are stated, the graph has {sorted(arrays)}")
    return arrays


def read_reasons() -> dict[tuple[str, str], str]:
    """Return the outcome of each runtime and reason of samples.yaml."""
    content = yaml.safe_load(LISTED.read_text())
    del content["floors"]
    outcomes: dict[tuple[str, str], str] = {}
    for runtime, groups in content.items():
        for group in groups:
            key = runtime, group["reason"]
            if key in outcomes:
                raise ValueError(f"{LISTED.name}: two groups of {runtime} have one reason: {key}")
            outcomes[key] = group["outcome"]
    return outcomes


def load_limits() -> dict[tuple[str, str], str]:
    """Return why a runtime and reason have no file, for those that have none."""
    content = yaml.safe_load(FAULTS.read_text())
    return {
        (runtime, group["reason"]): group["limit"]
        for runtime, groups in content.items()
        for group in groups
        if "limit" in group
    }


def load_faults() -> list[Fault]:
    """Read the files of faults.yaml; raise KeyError for a reason that samples.yaml has not."""
    outcomes = read_reasons()
    faults = []
    for runtime, groups in yaml.safe_load(FAULTS.read_text()).items():
        for group in groups:
            reason = group["reason"]
            for file in group.get("files", ()):
                model = parse_model(file["graph"], file.get("opset", OPSET))
                faults.append(
                    Fault(
                        runtime,
                        reason,
                        outcomes[runtime, reason],
                        model,
                        make_arrays(file.get("inputs", {}), model.graph.input),
                        make_arrays(file["results"], model.graph.output),
                        file.get("message", ""),
                        file.get("evaluator", "reference"),
                    )
                )
    return faults


def evaluate_file(fault: Fault) -> list[np.ndarray]:
    """Return the results of onnx.reference, or those of ONNX Runtime without optimizers."""
    if fault.evaluator == "reference":
        with np.errstate(all="ignore"):
            return list(map(np.asarray, ReferenceEvaluator(fault.model).run(None, fault.inputs)))
    session = make_session(fault.model.SerializeToString(), optimize=False)
    feeds = {name: to_torch(array) for name, array in fault.inputs.items()}
    return list(map(to_numpy, run_session(session, feeds)))


def compare_results(results: Sequence[np.ndarray], fault: Fault) -> None:
    """Check values, types and shapes; raise AssertionError for results other than the stated."""
    for result, expected in zip(results, fault.results.values(), strict=True):
        compare_tensor(_as_tensor(result), _as_tensor(expected))


def _as_tensor(array: np.ndarray) -> torch.Tensor:
    return to_torch(np.array(array))


def find_problem(fault: Fault, run: Run) -> str | None:
    """Return what is not as stated when a runtime runs a file, None for the stated fault."""
    try:
        compare_results(run(fault.model, fault.inputs), fault)
    except RuntimeFailure as failure:
        outcome, text = "failing", str(failure)
    except (AssertionError, ValueError) as difference:
        outcome, text = "different", " ".join(str(difference).split())[:300]
    else:
        return "the fault is gone: correct its samples in samples.yaml"
    if outcome != fault.outcome or fault.message not in text:
        return f"{fault.outcome} expected ('{fault.message}'), {outcome}: {text}"
    return None


def check_faults(runtimes: Sequence[Runtime]) -> int:
    """Run the files of some runtimes, print what is not as stated, and return the exit status."""
    names = [runtime.name for runtime in runtimes]
    faults = [fault for fault in load_faults() if fault.runtime in names]
    servers = {runtime.name: RuntimeServer(runtime) for runtime in runtimes}
    problems = []
    for fault in faults:
        try:
            compare_results(evaluate_file(fault), fault)
        except AssertionError as difference:
            text = " ".join(str(difference).split())[:300]
            problems.append(f"{fault}: {fault.evaluator} differs from the stated results: {text}")

        def run(model: onnx.ModelProto, inputs: Arrays, name: str = fault.runtime) -> Any:
            with tempfile.TemporaryDirectory() as place:
                onnx.save(model, Path(place) / "model.onnx")
                return servers[name].run_model(Path(place), inputs)

        if problem := find_problem(fault, run):
            problems.append(f"{fault}: {problem}")
    for server in servers.values():
        server.close()
    counts = Counter(fault.runtime for fault in faults)
    print(f"{len(faults)} small files: {dict(counts)}, {len(problems)} not as stated")
    print("\n".join(problems))
    return 1 if problems else 0
