"""Read mutants.yaml, check the mutants against the sources, and compute the hash of the list."""

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
# Tables that codegen reads: a mutant of a table changes generated/, too.
TABLES = ("specs/aten/", "specs/onnx/", "specs/rewrites/")
_CALLS = "tests/specs/test_cases.py::test_sample_calls_equal_eager[{}]"
_RULE_SAMPLES = "tests/passes/rewrite/test_samples.py::test_samples_alone[{}]"


@dataclass(frozen=True)
class Mutant:
    """One mutant.

    Attributes:
        name: unique, for ``--only`` and the tables.
        kind: the part of the project, one of KINDS.
        file: relative to the repository.
        text: a text that the file contains exactly once.
        by: the replacement of the text.
        breaks: the effect, in a few words.
        run: arguments of pytest: the tests that must fail.
        survives: why no test can notice the mutant; empty for all others.
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
        """Return the table from which generated/ is generated again, or an empty text."""
        return self.file if self.file.startswith(TABLES) else ""


def read_mutants(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a file, in order.

    A line has ``run`` (arguments of pytest), or an abbreviation: ``entry`` (the sample calls of an
    operator) or ``rewrite`` (the cases of a rule).
    """
    mutants = []
    for row in yaml.load(path.read_text(), Loader=yaml.CSafeLoader):
        fields = dict(row)
        if "entry" in fields:
            run = [_CALLS.format(fields.pop("entry")), "--opsets", "all"]
        elif "rewrite" in fields:
            run = [_RULE_SAMPLES.format(fields.pop("rewrite"))]
        else:
            run = fields.pop("run").split() if isinstance(fields["run"], str) else fields.pop("run")
        mutants.append(Mutant(**fields, run=tuple(run)))
    return mutants


def problem(mutant: Mutant, root: Path = ROOT) -> str:
    """Return what is wrong with a line of the list, or an empty text."""
    if mutant.kind not in KINDS:
        return f"{mutant.name}: unknown kind {mutant.kind!r}; use one of {', '.join(KINDS)}"
    path = root / mutant.file
    if not path.is_file():
        return f"{mutant.name}: there is no {mutant.file}"
    count = path.read_text().count(mutant.text)
    if count != 1:
        return f"{mutant.name}: {mutant.text!r} occurs {count} times in {mutant.file}, not once"
    if mutant.by == mutant.text:
        return f"{mutant.name}: nothing is changed"
    tests = [arg.partition("::")[0] for arg in mutant.run if arg.startswith("tests/")]
    missing = [argument for argument in tests if not (root / argument).exists()]
    if missing or not tests:
        return f"{mutant.name}: there is no {missing or 'test to run'}"
    return ""


def mutated(mutant: Mutant, text: str) -> str:
    """Return the text of the file with the mutant applied."""
    assert text.count(mutant.text) == 1, problem(mutant)
    return text.replace(mutant.text, mutant.by)


def digest(mutants: Sequence[Mutant]) -> str:
    """Return a hash of the mutants that ignores their descriptions."""
    lines = [{**asdict(mutant), "breaks": "", "survives": ""} for mutant in mutants]
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16]
