"""The programs of the zoo have names and packages, and its check tells whose fault a failure is."""

from __future__ import annotations

import pytest
import torch

from tests.suites.expected import load
from tests.suites.model_check import Stop, mode_of

from . import check
from .__main__ import PACKAGES, collect, counts
from .program import LEFT_OUT, MODES, Program, read_builders

X = torch.ones(2, 3)


def test_cases_and_exceptions_fit() -> None:
    cases = collect()
    assert len(cases) == len(set(cases)) == len(MODES) * len(read_builders())
    assert set(load("zoo").listed) <= set(cases)
    assert len({case.partition("/")[0] for case in cases}) >= 60
    assert all("==" in package for package in PACKAGES)


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return sum(others, x) * self.weight


def make_tensors(n: int) -> tuple[torch.Tensor, ...]:
    return torch.ones(n, 3), torch.rand(3), torch.rand(n, 3)


def test_other_positional_arguments_have_shapes_of_their_own() -> None:
    shapes = check._find_dynamic_shapes(Program(Scale(), make_tensors))
    dynamic = torch.export.Dim.DYNAMIC
    assert shapes == ({0: dynamic}, ({}, {0: dynamic}))


@pytest.mark.parametrize("mode", MODES)
def test_a_program_runs_in_every_mode(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "read_builders", lambda: {"a/scale": build_scale})
    record = check.check_case(f"a/scale/{mode}")
    assert (record.outcome, record.where) == ("exact", ""), record.detail


def build_scale() -> Program:
    return Program(Scale(), make_tensors)


def test_a_mode_that_is_left_out_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(Scale(), make_tensors, modes=("export",))
    monkeypatch.setattr(check, "read_builders", lambda: {"a/scale": lambda: program})
    record = check.check_case("a/scale/train")
    assert (record.outcome, record.where) == ("exact", LEFT_OUT)
    assert counts([record])[f"{mode_of(record.case)} exact"] == 0


def fail() -> None:
    raise ValueError("torch's")


def test_a_failure_is_torchs_where_torch_fails_too() -> None:
    stop = Stop("error", "here", "ours")
    with pytest.raises(Stop, match="ours") as ours:
        check._blame_torch(stop, lambda: None)
    assert ours.value.outcome == "error"
    with pytest.raises(Stop, match="torch's") as theirs:
        check._blame_torch(stop, fail)
    assert theirs.value.outcome == "uncaptured"
