"""Minimize a program while it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from .program import Input, Program, Step, run_steps

TIME_LIMIT_S = 60.0
MAX_TRIES = 150


def shrunk(
    program: Program, fails: Callable[[Program], bool], seconds: float = TIME_LIMIT_S
) -> Program:
    """Return the smallest program for which ``fails`` still returns True."""
    deadline = time.monotonic() + seconds
    tries = 0
    has_changed = True
    while has_changed:
        has_changed = False
        for smaller in _smaller_programs(program):
            tries += 1
            if tries > MAX_TRIES or time.monotonic() > deadline:
                return program
            if fails(smaller):
                program, has_changed = smaller, True
                break
    return program


def _smaller_programs(program: Program) -> Iterator[Program]:
    """Yield programs with one change, those with the largest changes first."""
    if program.dynamic:
        yield replace(program, dynamic=False)
    for number in range(len(program.steps)):
        shorter = _without_dependents(program, number)
        if shorter is not None:
            yield shorter
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield needed(replace(program, outputs=(output,)))
    for number in reversed(range(len(program.steps))):
        replaced = _replace_by_inputs(program, number)
        if replaced is not None:
            yield needed(replaced)
    for number in range(len(program.steps)):
        spliced = _skip_step(program, number)
        if spliced is not None:
            yield needed(spliced)
    if len(program.outputs) > 2:
        for index in range(len(program.outputs)):
            rest = program.outputs[:index] + program.outputs[index + 1 :]
            yield needed(replace(program, outputs=rest))
    for index, tensor in enumerate(program.inputs):
        if tensor.layout != "contiguous":
            yield _replace_input(program, index, replace(tensor, layout="contiguous"))
        if tensor.special:
            yield _replace_input(program, index, replace(tensor, special=False))


def _replace_input(program: Program, index: int, tensor: Input) -> Program:
    inputs = list(program.inputs)
    inputs[index] = tensor
    return replace(program, inputs=tuple(inputs))


def needed(program: Program) -> Program:
    """Return the program without steps and inputs that no output depends on."""
    starts = _first_results(program)
    values = set(program.outputs)
    step_numbers: set[int] = set()
    while True:
        count = len(step_numbers)
        for number in reversed(range(len(program.steps))):
            step = program.steps[number]
            results = range(starts[number], starts[number] + len(step.results))
            writes = _is_write(step) and values & set(step.operands)
            if number not in step_numbers and (writes or values & set(results)):
                step_numbers.add(number)
                values.update(step.operands)
        if len(step_numbers) == count:
            break
    return _renumber(program, values, step_numbers)


def _is_write(step: Step) -> bool:
    head = step.text.split("(")[0]
    return "_(" in step.text or "setitem" in head or "_." in head


def _first_results(program: Program) -> list[int]:
    starts, number = [], len(program.inputs)
    for step in program.steps:
        starts.append(number)
        number += len(step.results)
    return starts


def _renumber(program: Program, values: set[int], step_numbers: set[int]) -> Program:
    starts = _first_results(program)
    new_number: dict[int, int] = {}
    inputs = []
    for number, tensor in enumerate(program.inputs):
        if number in values:
            new_number[number] = len(inputs)
            inputs.append(tensor)
    steps = []
    next_number = len(inputs)
    for number, step in enumerate(program.steps):
        if number not in step_numbers:
            continue
        steps.append(replace(step, operands=tuple(new_number[n] for n in step.operands)))
        for offset in range(len(step.results)):
            new_number[starts[number] + offset] = next_number
            next_number += 1
    outputs = tuple(new_number[n] for n in program.outputs)
    return replace(program, inputs=tuple(inputs), steps=tuple(steps), outputs=outputs)


def _replace_by_inputs(program: Program, number: int) -> Program | None:
    """Return the program with the results of a step as inputs with their values."""
    step = program.steps[number]
    if not step.results:
        return None
    starts = _first_results(program)
    try:
        with torch.no_grad():
            head = replace(program, steps=program.steps[: number + 1])
            values = run_steps(head, program.tensors())[starts[number] :]
    except Exception:
        return None
    if any(x.is_complex() or x.is_quantized or not x.numel() for x in values):
        return None
    inputs = [
        Input(str(value.dtype).removeprefix("torch."), tuple(value.shape), 0, values=value.tolist())
        for value in values
    ]
    count, first = len(inputs), len(program.inputs)

    def renumber(index: int) -> int:
        if index < first:
            return index
        if index < starts[number]:
            return index + count
        return index - starts[number] + first if index < starts[number] + count else index

    steps = [
        replace(other, operands=tuple(map(renumber, other.operands)))
        for position, other in enumerate(program.steps)
        if position != number
    ]
    outputs = tuple(map(renumber, program.outputs))
    return replace(program, inputs=(*program.inputs, *inputs), steps=tuple(steps), outputs=outputs)


def _without_dependents(program: Program, number: int) -> Program | None:
    """Return the program without a step and all steps that depend on it."""
    starts = _first_results(program)
    removed: set[int] = set()
    step_numbers: set[int] = set()
    for index, step in enumerate(program.steps):
        if index == number or removed & set(step.operands):
            removed.update(range(starts[index], starts[index] + len(step.results)))
        else:
            step_numbers.add(index)
    outputs = tuple(value for value in program.outputs if value not in removed)
    if not outputs and step_numbers:
        last = max(step_numbers)
        outputs = (starts[last],) if program.steps[last].results else ()
    if not outputs:
        return None
    values = {value for index in step_numbers for value in program.steps[index].operands}
    return _renumber(replace(program, outputs=outputs), values | set(outputs), step_numbers)


def _skip_step(program: Program, number: int) -> Program | None:
    """Return the program without a step; readers of its result read its operand."""
    step = program.steps[number]
    if len(step.results) > 1 or (step.results and not step.operands):
        return None
    start = _first_results(program)[number]

    def renumber(value: int) -> int:
        if value < start or not step.results:
            return value
        return step.operands[0] if value == start else value - 1

    steps = [
        replace(other, operands=tuple(map(renumber, other.operands)))
        for position, other in enumerate(program.steps)
        if position != number
    ]
    return replace(program, steps=tuple(steps), outputs=tuple(map(renumber, program.outputs)))
