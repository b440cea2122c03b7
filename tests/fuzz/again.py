"""Finds of earlier runs, judged again: the script of a find is read back into its program, which
runs through the front door that it was found at. In come scripts of build/fuzz, out goes what comes
of each today. Called by `__main__` (``--again``); graphs of ONNX are left out."""

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


def judged(path: Path) -> Outcome | None:
    """What comes of a script's program today; None for a graph of ONNX."""
    text = path.read_text()
    found = _TITLE.search(text)
    if found is None or found[1] not in oracle.MODES:
        return None
    return oracle.check(program_of(text), found[1])


def program_of(text: str) -> Program:
    """The program of a script: what `script` wrote."""
    for package in sorted(catalog().modules):
        __import__(package)
    functions = {f.name: f for f in ast.parse(text).body if isinstance(f, ast.FunctionDef)}
    forward = functions["forward"]
    steps, names = _steps(forward)
    returned = forward.body[-1]
    assert isinstance(returned, ast.Return) and isinstance(returned.value, ast.Tuple)
    outputs = tuple(names.index(ast.unparse(each)) for each in returned.value.elts)
    dynamic = any(word in text for word in ("dynamic_shapes=", "dynamic=True", "='symbolic'"))
    return Program(_inputs(text, functions["inputs"]), steps, outputs, dynamic)


def _inputs(text: str, function: ast.FunctionDef) -> tuple[Input, ...]:
    namespace: dict[str, Any] = {}
    exec(text.split("\ndef forward")[0], namespace)
    made = next(each for each in function.body if isinstance(each, ast.Assign)).value
    assert isinstance(made, ast.List)
    return tuple(_input(each, namespace) for each in made.elts)


def _input(made: ast.expr, namespace: dict[str, Any]) -> Input:
    tensor = eval(ast.unparse(made), namespace)
    name = made.func.id if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) else ""
    dtype = str(tensor.dtype).removeprefix("torch.")
    layout = name if name in ("transposed", "strided") else "contiguous"
    return Input(dtype, tuple(tensor.shape), 0, values=tensor.tolist(), layout=layout)


def _steps(forward: ast.FunctionDef) -> tuple[tuple[Step, ...], list[str]]:
    """The steps, and the names of all values in order."""
    names = [each.arg for each in forward.args.args]
    calls: list[tuple[str, str, list[int]]] = []  # name, text, places of the results
    for line in forward.body[:-1]:
        assert isinstance(line, ast.Assign)
        target, value = ast.unparse(line.targets[0]), line.value
        part = re.fullmatch(r"(r\d+)\[(\d+)\]", ast.unparse(value))
        if part is not None and part[1] == calls[-1][0]:
            calls[-1][2].append(int(part[2]))
        else:
            calls.append((target, ast.unparse(value), [-1] if target.startswith("v") else []))
    steps = []
    for target, text, places in calls:
        operands = list(dict.fromkeys(_NAME.findall(text)))
        escaped = text.replace("{", "{{").replace("}", "}}")
        form = _NAME.sub(lambda name, given=operands: f"{{{given.index(name[0])}}}", escaped)
        found = _CALL.search(text)
        key = "context: " + text if found is None else f"{found[1]}::{found[2]}"
        key += "" if found is None or found[3] == "default" else f".{found[3]}"
        read = tuple(names.index(each) for each in operands)
        steps.append(Step(form, read, tuple(places), key))
        first = len(names)
        names += [target] if places == [-1] else [f"v{first + at}" for at in range(len(places))]
    return tuple(steps), names


def report(paths: list[Path]) -> tuple[list[str], int]:
    """A line for each script that is a find still, and how many were judged."""
    torch.set_num_threads(1)
    lines, count = [], 0
    for path in paths:
        outcome = judged(path)
        count += outcome is not None
        if outcome is not None and outcome.is_find:
            lines.append(f"{path.name}: {outcome.kind}: {outcome.detail[:200]}")
    return lines, count
