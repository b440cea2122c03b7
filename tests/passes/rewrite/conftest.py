"""Fixtures of the tests of rewriting."""

from __future__ import annotations

import pytest

from ortable import dtypes
from ortable.builder import GraphBuilder


@pytest.fixture
def gr() -> GraphBuilder:
    """A graph with one input x, float32, of n elements."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    return builder
