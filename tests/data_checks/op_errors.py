"""Run the calls of PyTorch's operator database that eager refuses (`error_inputs`)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch.testing._internal.common_methods_invocations import op_db

from .rows import Outcome, compiled, outcome_of


@dataclass(frozen=True)
class BadCall:
    """A call that eager refuses: its operator and its position among the operator's calls."""

    operator: str
    position: int
    info: Any
    sample: Any

    @property
    def name(self) -> str:
        """Return `gather/2` for the third call."""
        return f"{self.operator}/{self.position}"


@cache
def operators() -> dict[str, Any]:
    """Return the operators that have such calls, by name."""
    return {info.formatted_name: info for info in op_db if info.error_inputs_func is not None}


def bad_calls(operator: str) -> Iterator[BadCall]:
    """Yield the calls of an operator on the CPU that eager refuses."""
    info = operators()[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for position, error_input in enumerate(info.error_inputs("cpu")):
            yield BadCall(operator, position, info, error_input.sample_input)


def run_call(call: BadCall, backend: str | None) -> Outcome:
    """Return the error of a call: in eager (None), or compiled by a backend."""
    sample = copy.deepcopy(call.sample)
    function = compiled(call.info.op, backend, fullgraph=False)  # `out=` runs in eager
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome_of(function, sample.input, *sample.args, **sample.kwargs)
