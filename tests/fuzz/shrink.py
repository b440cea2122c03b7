"""Makes a program that fails smaller, as long as it fails in the same way: fewer outputs, steps
that become inputs, fewer steps, plainer inputs. Works on the data of the program, so each try
is one run of the oracle. Called by `runner` for each new find."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from .program import Input, Program, Step, run_steps

SECONDS = 60.0
TRIES = 150


def shrunk(program: Program, fails: Callable[[Program], bool], seconds: float = SECONDS) -> Program:
    """The smallest program found of which ``fails`` still says True."""
    until = time.monotonic() + seconds
    tried = 0
    again = True
    while again:
        again = False
        for smaller in _smaller(program):
            tried += 1
            if tried > TRIES or time.monotonic() > until:
                return program
            if fails(smaller):
                program, again = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are smaller by one thing, the boldest first."""
    if program.dynamic:
        yield replace(program, dynamic=False)
    for number in range(len(program.steps)):
        bare = _bare(program, number)
        if bare is not None:
            yield bare
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield needed(replace(program, outputs=(output,)))
    for number in reversed(range(len(program.steps))):
        fed = _fed(program, number)
        if fed is not None:
            yield needed(fed)
    for number in range(len(program.steps)):
        cut = _cut(program, number)
        if cut is not None:
            yield needed(cut)
    if len(program.outputs) > 2:
        for place in range(len(program.outputs)):
            rest = program.outputs[:place] + program.outputs[place + 1 :]
            yield needed(replace(program, outputs=rest))
    for place, given in enumerate(program.inputs):
        if given.layout != "contiguous":
            yield _with_input(program, place, replace(given, layout="contiguous"))
        if given.special:
            yield _with_input(program, place, replace(given, special=False))


def _with_input(program: Program, place: int, given: Input) -> Program:
    inputs = list(program.inputs)
    inputs[place] = given
    return replace(program, inputs=tuple(inputs))


def needed(program: Program) -> Program:
    """The program without steps and inputs that no output depends on; steps that return nothing or
    write stay while what they read does."""
    starts = _starts(program)
    wanted = set(program.outputs)
    kept: set[int] = set()
    while True:
        before = len(kept)
        for number in reversed(range(len(program.steps))):
            step = program.steps[number]
            made = range(starts[number], starts[number] + len(step.results))
            writes = _writes(step) and wanted & set(step.operands)
            if number not in kept and (writes or wanted & set(made)):
                kept.add(number)
                wanted.update(step.operands)
        if len(kept) == before:
            break
    return _renumbered(program, wanted, kept)


def _writes(step: Step) -> bool:
    head = step.text.split("(")[0]
    return "_(" in step.text or "setitem" in head or "_." in head


def _starts(program: Program) -> list[int]:
    starts, at = [], len(program.inputs)
    for step in program.steps:
        starts.append(at)
        at += len(step.results)
    return starts


def _renumbered(program: Program, wanted: set[int], kept: set[int]) -> Program:
    starts = _starts(program)
    place: dict[int, int] = {}
    inputs = []
    for number, given in enumerate(program.inputs):
        if number in wanted:
            place[number] = len(inputs)
            inputs.append(given)
    steps = []
    at = len(inputs)
    for number, step in enumerate(program.steps):
        if number not in kept:
            continue
        steps.append(replace(step, operands=tuple(place[each] for each in step.operands)))
        for each in range(len(step.results)):
            place[starts[number] + each] = at
            at += 1
    outputs = tuple(place[each] for each in program.outputs)
    return replace(program, inputs=tuple(inputs), steps=tuple(steps), outputs=outputs)


def _fed(program: Program, number: int) -> Program | None:
    """The program with the results of a step as inputs, numbers and all."""
    step = program.steps[number]
    if not step.results:
        return None
    starts = _starts(program)
    try:
        with torch.no_grad():
            head = replace(program, steps=program.steps[: number + 1])
            values = run_steps(head, program.tensors())[starts[number] :]
    except Exception:
        return None
    if any(each.is_complex() or each.is_quantized or not each.numel() for each in values):
        return None
    made = [
        Input(str(each.dtype).removeprefix("torch."), tuple(each.shape), 0, values=each.tolist())
        for each in values
    ]
    count, before = len(made), len(program.inputs)

    def moved(each: int) -> int:
        if each < before:
            return each
        if each < starts[number]:
            return each + count
        return each - starts[number] + before if each < starts[number] + count else each

    steps = [
        replace(other, operands=tuple(map(moved, other.operands)))
        for place, other in enumerate(program.steps)
        if place != number
    ]
    outputs = tuple(map(moved, program.outputs))
    return replace(program, inputs=(*program.inputs, *made), steps=tuple(steps), outputs=outputs)


def _bare(program: Program, number: int) -> Program | None:
    """The program without a step and all that reads what it made."""
    starts = _starts(program)
    gone: set[int] = set()
    kept: set[int] = set()
    for place, step in enumerate(program.steps):
        if place == number or gone & set(step.operands):
            gone.update(range(starts[place], starts[place] + len(step.results)))
        else:
            kept.add(place)
    outputs = tuple(each for each in program.outputs if each not in gone)
    if not outputs and kept:
        last = max(kept)
        outputs = (starts[last],) if program.steps[last].results else ()
    if not outputs:
        return None
    read = {each for place in kept for each in program.steps[place].operands}
    return _renumbered(replace(program, outputs=outputs), read | set(outputs), kept)


def _cut(program: Program, number: int) -> Program | None:
    """The program without a step; readers of its result read its operand instead."""
    step = program.steps[number]
    if len(step.results) > 1 or (step.results and not step.operands):
        return None
    start = _starts(program)[number]

    def moved(each: int) -> int:
        if each < start or not step.results:
            return each
        return step.operands[0] if each == start else each - 1

    steps = [
        replace(other, operands=tuple(map(moved, other.operands)))
        for place, other in enumerate(program.steps)
        if place != number
    ]
    return replace(program, steps=tuple(steps), outputs=tuple(map(moved, program.outputs)))
