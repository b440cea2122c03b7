"""Helpers of the builder's tests: run a graph in ONNX Runtime and in the reference
implementation."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ortable import GraphBuilder


def run_ort(
    builder: GraphBuilder, feeds: dict[str, np.ndarray], **options: Any
) -> list[np.ndarray]:
    model = builder.to_onnx(**options)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def run_reference(builder: GraphBuilder, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ReferenceEvaluator(builder.to_onnx()).run(None, feeds)


@pytest.fixture
def ort():
    return run_ort


@pytest.fixture
def reference():
    return run_reference
