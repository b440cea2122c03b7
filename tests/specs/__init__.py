"""Tests of the entries of specs/aten. What torch computes on CUDA alone gets kernels first."""

from __future__ import annotations

from . import cuda_only as cuda_only
