"""Pytest plugin (`-p tests.vision.operators`) that defines torchvision's operators first."""

from __future__ import annotations

from tests.sweeps import torchvision_kernels

torchvision_kernels.provide()
