"""Rules of inference know what can be known: dtype, shape and content of each case, with static
sizes and with symbols. What they do not know, and why, stands in unknown.yaml, exactly: it only
shrinks. That what they know is right is the matter of `test_inference.py`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from ortable.inference.values import LIMIT
from ortable_generated.onnx.dispatch import INFER

from .answers import MODES, Symbols, content, dtype_of, infer, key_of, results, shape_of, static
from .nodes import CASES

LISTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("unknown.yaml").read_text())
PARTS = 10


def _missing(index: int, infos: list[Any]) -> set[str]:
    """What a rule leaves unknown of a case that has it: ``0 shape`` for the first output."""
    found = infer(CASES[index], infos)
    missing = set()
    told = all(info is None or not _is_content(info) or info.value is not None for info in infos)
    for place, ((dtype, shape, value), real) in enumerate(zip(found, results(index), strict=True)):
        if dtype is None and dtype_of(real) is not None:
            missing.add(f"{place} dtype")
        if shape is None and shape_of(real) is not None:
            missing.add(f"{place} shape")
        elif value is None and told and place in _with_content(index):
            missing.add(f"{place} value")
    return missing


def _is_content(info: Any) -> bool:
    return info.constant is not None and content(info.constant) is not None


@cache
def _with_content(index: int) -> frozenset[int]:
    """The outputs whose content a rule could know: small, of ints."""
    real = [content(each) for each in results(index)]
    small = {k for k, each in enumerate(real) if each is not None and _size(each) <= LIMIT}
    return frozenset(small)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, tuple) else 1


def _situations(index: int) -> Iterator[tuple[str, list[Any], bool]]:
    """How much is known of the inputs: everything, or symbols in place of sizes."""
    inputs = CASES[index].inputs
    yield "static", [static(each) for each in inputs], False
    for name, mode in MODES.items():
        symbols = Symbols(*mode)
        infos = [symbols.info(each, place) for place, each in enumerate(inputs)]
        if symbols.values:
            yield name, infos, True


@cache
def _unknown(index: int) -> dict[str, tuple[str, ...]]:
    """For each situation in which a rule does not know all of a case, what it leaves out."""
    missing = {name: tuple(sorted(_missing(index, infos))) for name, infos, _ in _situations(index)}
    return {name: what for name, what in missing.items() if what}


def _listed(case: str) -> dict[str, tuple[str, ...]]:
    """What unknown.yaml says of a case."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in LISTED["cases"].get(case, ()):
        for name in _names(entry["when"]):
            found[name] = tuple(sorted({*found.get(name, ()), *_texts(entry["what"])}))
    return found


def _names(when: str) -> list[str]:
    """``always``, ``symbols`` (each of the modes), or situations, with commas between them."""
    if when == "always":
        return ["static", *MODES]
    return list(MODES) if when == "symbols" else [each.strip() for each in when.split(",")]


def _texts(what: str) -> list[str]:
    return [each.strip() for each in what.split(",")]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_rule_leaves_unknown_what_is_listed(part: int) -> None:
    for index in range(part, len(CASES), PARTS):
        found, listed = _unknown(index), _listed(str(CASES[index]))
        reached = {name for name, _, _ in _situations(index)}
        assert found == {k: v for k, v in listed.items() if k in reached}, str(CASES[index])


def _is_known(index: int, symbolic: bool) -> bool:
    names = [name for name, _, is_symbolic in _situations(index) if is_symbolic == symbolic]
    return any(name not in _unknown(index) for name in names)


def test_each_operator_is_known_with_static_sizes_and_with_symbols() -> None:
    for symbolic in (False, True):
        known = {key_of(case) for index, case in enumerate(CASES) if _is_known(index, symbolic)}
        listed = LISTED["with symbols" if symbolic else "with static sizes"]
        assert set(INFER) - known == set(listed), f"symbolic: {symbolic}"
        assert all(listed.values())


def test_the_list_has_no_other_cases_and_each_has_a_reason() -> None:
    assert set(LISTED["cases"]) <= {str(case) for case in CASES}
    for entries in LISTED["cases"].values():
        assert all(entry["why"] and set(entry) == {"when", "what", "why"} for entry in entries)


def test_cases_have_names_of_their_own() -> None:
    assert len({str(case) for case in CASES}) == len(CASES)
