"""The calls of PyTorch's operator database that eager refuses (`error_inputs`), made in eager and
through the backend. Called by the command line and by tests."""

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
    """One call that eager refuses: its operator and its position among the operator's calls."""

    operator: str
    position: int
    info: Any
    sample: Any

    @property
    def name(self) -> str:
        """`gather/2` for the third call."""
        return f"{self.operator}/{self.position}"


@cache
def operators() -> dict[str, Any]:
    """The operators that have such calls, by name."""
    return {info.formatted_name: info for info in op_db if info.error_inputs_func is not None}


def bad_calls(operator: str) -> Iterator[BadCall]:
    """Calls of one operator on the CPU that eager refuses."""
    info = operators()[operator]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for position, bad in enumerate(info.error_inputs("cpu")):
            yield BadCall(operator, position, info, bad.sample_input)


def run_call(call: BadCall, backend: str | None) -> Outcome:
    """What a call raises: in eager (None), or compiled by a backend."""
    sample = copy.deepcopy(call.sample)
    function = compiled(call.info.op, backend, whole=False)  # `out=` runs in eager
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome_of(function, sample.input, *sample.args, **sample.kwargs)
