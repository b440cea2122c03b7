"""Run the end-to-end programs of torch-mlir, from a checkout in build/torch-mlir.

Its modules of tests are imported as they are; stubs stand for torch_mlir's compiler. A program is a
module with annotated sizes and one or more calls. In mode ``export``, sizes that the annotations
leave open are dynamic; ``compile`` calls ``torch.compile(backend="ortable")``; ``torch.onnx``
exports by torch's own exporter, for comparison.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import logging
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import ortable
from tests.sweeps import torchvision_kernels

from .torch_check import classify_error, error_line, find_difference
from .workers import Record

CHECKOUT = Path("build/torch-mlir")
_PYTHON = CHECKOUT / "projects/pt1/python"
# TimeOut tests torch-mlir's own harness; scaled blocks have no kernel on the CPU. The kernel of the
# loss reads outside of its memory without classes, which ends the process when an export tries this
# size.
_NO_PROGRAMS = ("TimeOut", "AtenScaledMmBlockScaled", "NllLossModuleBackward1D")
# Tolerances of a result of 16 bits: eager rounds after each step.
HALF = {"rtol": 1e-2, "atol": 2e-3}


@functools.cache
def programs() -> dict[str, Any]:
    """Return the programs by name, in alphabetical order.

    Raises:
        SystemExit: there is no checkout.
    """
    if not _PYTHON.is_dir():
        sys.exit(f"git clone --depth 1 https://github.com/llvm/torch-mlir {CHECKOUT}")
    with contextlib.suppress(ImportError):
        torchvision_kernels.provide()
    version = importlib.import_module("packaging.version")
    stubs = {
        "torch_mlir": {"__path__": []},
        "torch_mlir._version": {
            "version": version,
            "torch_version_for_comparison": lambda: version.parse(torch.__version__.split("+")[0]),
        },
        "multiprocess": {"cpu_count": lambda: 1, "set_start_method": lambda *args, **kwargs: None},
    }
    for name, content in stubs.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)
    sys.path.insert(0, str(_PYTHON.resolve()))
    suite = _PYTHON / "torch_mlir_e2e_test/test_suite/__init__.py"
    for module in re.findall(r"from \. import (\w+)", suite.read_text()):
        with contextlib.suppress(ImportError):  # custom_op_example needs torch_mlir's C++ code
            importlib.import_module(f"torch_mlir_e2e_test.test_suite.{module}")
    registry = importlib.import_module("torch_mlir_e2e_test.registry").GLOBAL_TEST_REGISTRY
    found = {test.unique_name: test for test in registry}
    return {name: found[name] for name in sorted(found) if not name.startswith(_NO_PROGRAMS)}


def cases() -> list[str]:
    """Return the cases of ortable."""
    return [f"{name}/{mode}" for name in programs() for mode in ("export", "compile")]


def peer_cases() -> list[str]:
    """Return the cases of torch.onnx."""
    return [f"{name}/torch.onnx" for name in programs()]


def check_case(case: str) -> Record:
    """Run a case in eager and in its mode; return its record."""
    name, _, mode = case.partition("/")
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    framework = importlib.import_module("torch_mlir_e2e_test.framework")
    test = programs()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace = framework.generate_golden_trace(test)
        except Exception as error:
            return Record(case, "unrunnable", "eager", error_line(error))
        torch.manual_seed(0)
        module = test.program_factory()
        if mode != "compile" and any(call.symbol not in ("", "forward") for call in trace):
            return Record(case, "uncaptured", "torch.export", "other methods than forward")
        try:
            difference = _run(module, trace, mode)
        except Exception as error:
            outcome, detail = classify_error(error)
            is_ours = outcome == "error" and mode != "torch.onnx"
            if is_ours and not _is_captured(module, trace, mode):
                outcome = "uncaptured"
            return Record(case, outcome, mode, detail)
    return Record(case, "different", mode, difference) if difference else Record(case, "exact")


def _run(module: torch.nn.Module, trace: list[Any], mode: str) -> str:
    """Make all calls of the trace; return the first difference."""
    call: Any = None
    if mode != "compile":
        inputs, shapes = _example(module, trace)
        if mode == "export":
            call = ortable.export(module, inputs, dynamic_shapes=shapes, target_opset=21)
        else:
            call = torch.onnx.export(
                module, inputs, dynamic_shapes=shapes, dynamo=True, verbose=False
            )
    for item in trace:
        function = functools.reduce(getattr, filter(None, item.symbol.split(".")), module)
        if mode == "compile":
            call = torch.compile(function, backend="ortable", options={"fallback": "error"})
        results = pytree.tree_leaves(call(*copy.deepcopy(item.inputs)))
        expected = pytree.tree_leaves(item.output)
        if mode == "torch.onnx":  # it returns numbers as tensors
            results, expected = ([torch.as_tensor(x) for x in xs] for xs in (results, expected))
        is_half = any(getattr(x, "itemsize", 8) < 4 for x in expected)
        difference = find_difference(expected, results, **(HALF if is_half else {}))
        if difference:
            return difference
    return ""


def _example(module: Any, trace: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the inputs of the first call, and their dynamic sizes: those annotated by -1."""
    annotations = getattr(module.forward, "_torch_mlir_arg_annotations", None) or [None]
    inputs = tuple(copy.deepcopy(trace[0].inputs))
    shapes = []
    for index, x in enumerate(inputs, 1):
        annotation = annotations[index] if index < len(annotations) else None
        sizes = annotation[0] if annotation and isinstance(x, torch.Tensor) else ()
        rank = x.dim() if isinstance(x, torch.Tensor) else 0
        shapes.append({i: Dim.AUTO for i, size in enumerate(sizes) if size == -1 and i < rank})
    return inputs, tuple(shape or None for shape in shapes)


def _is_captured(module: Any, trace: list[Any], mode: str) -> bool:
    """Return whether torch itself runs the program in this mode."""
    try:
        if mode == "compile":
            torch._dynamo.reset()
            call: Any = torch.compile(module, backend="aot_eager")
        else:
            inputs, shapes = _example(module, trace)
            exported = torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)
            call = exported.run_decompositions({}).module()
        for item in trace:
            call(*copy.deepcopy(item.inputs))
    except Exception:
        return False
    return True
