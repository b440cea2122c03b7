"""Parse the scripts of earlier finds back to programs, and check them again."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import torch

from . import oracle
from .catalog import catalog
from .oracle import Outcome
from .program import Input, Program, Step

_NAME = re.compile(r"\b[xv]\d+\b")
_CALL = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)")
_TITLE = re.compile(r"Found by make fuzz: \w+ \((\w+);")


def check_script(path: Path) -> Outcome | None:
    """Return today's outcome of a script's program; None for an ONNX graph."""
    text = path.read_text()
    title = _TITLE.search(text)
    if title is None or title[1] not in oracle.MODES:
        return None
    return oracle.check(program_of(text), title[1])


def program_of(text: str) -> Program:
    """Parse a script that `script` wrote."""
    for package in sorted(catalog().modules):
        __import__(package)
    functions = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
    forward = functions["forward"]
    steps, names = _parse_steps(forward)
    returned = forward.body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    outputs = tuple(names.index(ast.unparse(element)) for element in returned.value.elts)
    dynamic = any(marker in text for marker in ("dynamic_shapes=", "dynamic=True", "='symbolic'"))
    return Program(_parse_inputs(text, functions["inputs"]), steps, outputs, dynamic)


def _parse_inputs(text: str, function: ast.FunctionDef) -> tuple[Input, ...]:
    namespace: dict[str, Any] = {}
    exec(text.split("\ndef forward")[0], namespace)
    tensors = next(line for line in function.body if isinstance(line, ast.Assign)).value
    assert isinstance(tensors, ast.List)
    return tuple(_parse_input(element, namespace) for element in tensors.elts)


def _parse_input(call: ast.expr, namespace: dict[str, Any]) -> Input:
    tensor = eval(ast.unparse(call), namespace)
    name = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
    dtype = str(tensor.dtype).removeprefix("torch.")
    layout = name if name in ("transposed", "strided") else "contiguous"
    return Input(dtype, tuple(tensor.shape), 0, values=tensor.tolist(), layout=layout)


def _parse_steps(forward: ast.FunctionDef) -> tuple[tuple[Step, ...], list[str]]:
    """Return the steps, and the names of all values in order."""
    names = [argument.arg for argument in forward.args.args]
    calls: list[tuple[str, str, list[int]]] = []  # name, text, indices of the results
    for line in forward.body[:-1]:
        assert isinstance(line, ast.Assign)
        target, value = ast.unparse(line.targets[0]), line.value
        item = re.fullmatch(r"(r\d+)\[(\d+)\]", ast.unparse(value))
        if item is not None and item[1] == calls[-1][0]:
            calls[-1][2].append(int(item[2]))
        else:
            calls.append((target, ast.unparse(value), [-1] if target.startswith("v") else []))
    steps = []
    for target, text, indices in calls:
        operands = list(dict.fromkeys(_NAME.findall(text)))
        escaped = text.replace("{", "{{").replace("}", "}}")
        pattern = _NAME.sub(lambda name, values=operands: f"{{{values.index(name[0])}}}", escaped)
        call = _CALL.search(text)
        key = "context: " + text if call is None else f"{call[1]}::{call[2]}"
        key += "" if call is None or call[3] == "default" else f".{call[3]}"
        read = tuple(names.index(operand) for operand in operands)
        steps.append(Step(pattern, read, tuple(indices), key))
        first = len(names)
        names += [target] if indices == [-1] else [f"v{first + i}" for i in range(len(indices))]
    return tuple(steps), names


def report(paths: list[Path]) -> tuple[list[str], int]:
    """Return a line for each script that is still a find, and the number of scripts checked."""
    torch.set_num_threads(1)
    lines, count = [], 0
    for path in paths:
        outcome = check_script(path)
        count += outcome is not None
        if outcome is not None and outcome.is_find:
            lines.append(f"{path.name}: {outcome.kind}: {outcome.detail[:200]}")
    return lines, count
