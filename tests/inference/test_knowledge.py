"""Inference rules infer all facts of a case except those that unknown.yaml lists with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ortable.inference.values import LIMIT
from ortable_generated.onnx.dispatch import INFER

from .answers import MODES, Symbols, content, dtype_of, infer, key_of, run_case, shape_of, to_info
from .nodes import CASES

EXCEPTIONS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("unknown.yaml").read_text())
PART_COUNT = 10


def _find_missing(index: int, infos: list[Any]) -> set[str]:
    """Return the facts of a case that a rule does not infer, e.g. `0 shape` for output 0."""
    facts = infer(CASES[index], infos)
    missing = set()
    complete = all(i is None or not _has_content(i) or i.value is not None for i in infos)
    for k, ((dtype, shape, value), real) in enumerate(zip(facts, run_case(index), strict=True)):
        if dtype is None and dtype_of(real) is not None:
            missing.add(f"{k} dtype")
        if shape is None and shape_of(real) is not None:
            missing.add(f"{k} shape")
        elif value is None and complete and k in _outputs_with_content(index):
            missing.add(f"{k} value")
    return missing


def _has_content(info: Any) -> bool:
    return info.constant is not None and content(info.constant) is not None


@cache
def _outputs_with_content(index: int) -> frozenset[int]:
    """Return the outputs whose content a rule could infer: few integers."""
    contents = [content(output) for output in run_case(index)]
    small = {
        output_index
        for output_index, value in enumerate(contents)
        if value is not None and _size(value) <= LIMIT
    }
    return frozenset(small)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else 1


def _input_modes(index: int) -> Iterator[tuple[str, list[Any], bool]]:
    """Yield each mode, its input information, and whether it is symbolic."""
    inputs = CASES[index].inputs
    yield "static", [to_info(array) for array in inputs], False
    for name, mode in MODES.items():
        symbols = Symbols(*mode)
        infos = [symbols.info(array, position) for position, array in enumerate(inputs)]
        if symbols.values:
            yield name, infos, True


@cache
def _find_unknown(index: int) -> dict[str, tuple[str, ...]]:
    """Return the missing facts per mode, without the modes that infer everything."""
    missing = {
        name: tuple(sorted(_find_missing(index, infos))) for name, infos, _ in _input_modes(index)
    }
    return {name: facts for name, facts in missing.items() if facts}


def _load_exceptions(case: str) -> dict[str, tuple[str, ...]]:
    """Return the missing facts of a case that unknown.yaml lists, per mode."""
    exceptions: dict[str, tuple[str, ...]] = {}
    for entry in EXCEPTIONS["cases"].get(case, ()):
        for name in _parse_modes(entry["when"]):
            exceptions[name] = tuple(
                sorted({*exceptions.get(name, ()), *_parse_facts(entry["what"])})
            )
    return exceptions


def _parse_modes(when: str) -> list[str]:
    """Return the modes of `always`, `symbols` (all symbolic ones), or a comma-separated list."""
    if when == "always":
        return ["static", *MODES]
    return list(MODES) if when == "symbols" else [mode.strip() for mode in when.split(",")]


def _parse_facts(what: str) -> list[str]:
    return [fact.strip() for fact in what.split(",")]


@pytest.mark.parametrize("part", range(PART_COUNT))
def test_a_rule_leaves_unknown_what_is_listed(part: int) -> None:
    for index in range(part, len(CASES), PART_COUNT):
        unknown, listed = _find_unknown(index), _load_exceptions(str(CASES[index]))
        modes = {name for name, _, _ in _input_modes(index)}
        assert unknown == {k: v for k, v in listed.items() if k in modes}, str(CASES[index])


def _is_known(index: int, symbolic: bool) -> bool:
    names = [name for name, _, is_symbolic in _input_modes(index) if is_symbolic == symbolic]
    return any(name not in _find_unknown(index) for name in names)


def test_each_operator_is_known_with_static_sizes_and_with_symbols() -> None:
    for symbolic in (False, True):
        inferred = {key_of(case) for index, case in enumerate(CASES) if _is_known(index, symbolic)}
        exceptions = EXCEPTIONS["with symbols" if symbolic else "with static sizes"]
        assert set(INFER) - inferred == set(exceptions), f"symbolic: {symbolic}"
        assert all(exceptions.values())


def test_the_list_has_no_other_cases_and_each_has_a_reason() -> None:
    assert set(EXCEPTIONS["cases"]) <= {str(case) for case in CASES}
    for entries in EXCEPTIONS["cases"].values():
        assert all(entry["why"] and set(entry) == {"when", "what", "why"} for entry in entries)


def test_cases_have_names_of_their_own() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)
