"""Trace reads of ``tensor.data``, and refuse writes of it: torch.export sees neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ortable.errors import ExportError

from .export_failures import find_calling_line


class DataAccessMode(TorchFunctionMode):
    """Makes ``x.data`` an ``x.detach()``, and refuses ``x.data = y``.

    torch.export loses both without an error: the value that is read becomes a constant without
    data, and later calls read what was there before the write.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func == torch.Tensor.data.__get__:  # type: ignore[attr-defined]
            return args[0].detach()
        if func == torch.Tensor.data.__set__ and args[1] is not args[0]:  # type: ignore[attr-defined]
            raise ExportError(
                f"at {find_calling_line()}, forward replaces the memory of a tensor (x.data = y), "
                "which torch.export does not see. Write the values with x.copy_(y), or use y."
            )
        return func(*args, **(kwargs or {}))
