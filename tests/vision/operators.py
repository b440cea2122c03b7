"""A plugin of pytest, for `-p tests.vision.operators`: torchvision's operators are there before
tests/specs decides which entries have theirs. `test_operators.py` starts a process with it."""

from __future__ import annotations

from tests.sweeps import torchvision_kernels

torchvision_kernels.provide()
