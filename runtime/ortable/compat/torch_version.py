"""The version of the installed torch, which selects the rows of generated tables.

Specs contain conditions such as `torch: "<2.15"`. The version is read once, when a table is loaded.
"""

from __future__ import annotations

import torch

_MAJOR, _MINOR = torch.__version__.split(".")[:2]
TORCH: tuple[int, int] = (int(_MAJOR), int(_MINOR))
