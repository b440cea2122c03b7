"""The list of mutants as data: read from mutants.yaml, checked against the sources, hashed.

In comes a file, out come Mutants; called by the command line and by the tests of the list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.yaml")
KINDS = (
    "spec",
    "rule",
    "rewrite",
    "codegen",
    "builder",
    "backend",
    "export",
    "interpreter",
    "lowering",
    "weights",
    "language-model",
    "cli",
    "debug",
)
# What codegen reads: a mutant there changes generated/ too.
TABLES = ("specs/aten/", "specs/onnx/", "specs/rewrites/")
_CALLS = "tests/specs/test_cases.py::test_sample_calls_equal_eager[{}]"
_CASES = "tests/passes/rewrite/test_cases.py::test_cases_alone[{}]"


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        name: unique, for ``--only`` and the tables.
        kind: one of KINDS, what part of the project it is in.
        file: relative to the repository.
        text: what stands in the file exactly once.
        by: what it is replaced by.
        breaks: what goes wrong, in a few words.
        run: arguments of pytest: the tests that must fail.
        survives: why no test notices it; empty for all others.
    """

    name: str
    kind: str
    file: str
    text: str
    by: str
    breaks: str
    run: tuple[str, ...]
    survives: str = ""

    @property
    def generates(self) -> str:
        """The table of which generated/ is made again; empty when the file is none."""
        return self.file if self.file.startswith(TABLES) else ""


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """The mutants of a file, in order.

    A line has ``run`` (arguments of pytest), or for short ``entry`` (the sample calls of an
    operator) or ``rewrite`` (the cases of a rule).
    """
    found = []
    for line in yaml.load(path.read_text(), Loader=yaml.CSafeLoader):
        given = dict(line)
        if "entry" in given:
            run = [_CALLS.format(given.pop("entry")), "--opsets", "all"]
        elif "rewrite" in given:
            run = [_CASES.format(given.pop("rewrite"))]
        else:
            run = given.pop("run").split() if isinstance(given["run"], str) else given.pop("run")
        found.append(Mutant(**given, run=tuple(run)))
    return found


def problem(mutant: Mutant, root: Path = ROOT) -> str:
    """What is wrong with a line of the list; empty when nothing is."""
    if mutant.kind not in KINDS:
        return f"{mutant.name}: no kind {mutant.kind!r}; there are {', '.join(KINDS)}"
    path = root / mutant.file
    if not path.is_file():
        return f"{mutant.name}: there is no {mutant.file}"
    count = path.read_text().count(mutant.text)
    if count != 1:
        return f"{mutant.name}: {mutant.text!r} stands {count} times in {mutant.file}, not once"
    if mutant.by == mutant.text:
        return f"{mutant.name}: nothing is changed"
    tests = [each.partition("::")[0] for each in mutant.run if each.startswith("tests/")]
    missing = [each for each in tests if not (root / each).exists()]
    if missing or not tests:
        return f"{mutant.name}: there is no {missing or 'test to run'}"
    return ""


def mutated(mutant: Mutant, text: str) -> str:
    """The text of the file with the fault in it."""
    assert text.count(mutant.text) == 1, problem(mutant)
    return text.replace(mutant.text, mutant.by)


def digest(mutants: Sequence[Mutant]) -> str:
    """Tells lists of mutants apart, whatever is said about them."""
    lines = [{**asdict(each), "breaks": "", "survives": ""} for each in mutants]
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16]
