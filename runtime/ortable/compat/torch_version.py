"""The version of the installed torch, by which generated tables select their entries.

Specs contain conditions such as `torch: "<2.15"`. The version is read once, when a table is loaded.
"""

from __future__ import annotations

import torch

_MAJOR, _MINOR = torch.__version__.split(".")[:2]
TORCH: tuple[int, int] = (int(_MAJOR), int(_MINOR))
