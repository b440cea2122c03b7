"""Fixtures of the tests of rewriting."""

from __future__ import annotations

import pytest

from ortable import dtypes
from ortable.builder import GraphBuilder


@pytest.fixture
def gr() -> GraphBuilder:
    """Return a graph with the input x: float32[n]."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    return builder
