"""When operators of torch run: a mode of torch's dispatcher, whose class is in a private module,
the same in 2.13, 2.14 and 2.15. Called by `ortable.profile`."""

from __future__ import annotations

import time
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorClock(TorchDispatchMode):  # type: ignore[misc]
    """While it is on, each operator that torch runs adds its name, ``aten::sum.dim_IntList``, and
    when it began and ended, in nanoseconds of the system's clock, to `found`. Operators that one is
    made of are not told apart from it."""

    supports_higher_order_operators = True

    def __init__(self, found: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator."""
        begin = time.time_ns()
        result = func(*args, **(kwargs or {}))
        self.found.append((func.name(), begin, time.time_ns()))
        return result
