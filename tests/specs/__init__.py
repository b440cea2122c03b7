"""Tests of the entries of specs/aten; operators that only CUDA has get CPU kernels first."""

from __future__ import annotations

from . import cuda_only as cuda_only
