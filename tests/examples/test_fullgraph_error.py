"""fullgraph=True turns the first graph break into torch's own error."""

from __future__ import annotations

import pytest
import torch

from ortable import onnx_custom_backend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_data_dependent_branch_is_refused():
    compiled = torch.compile(bar, backend=onnx_custom_backend, fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="Data-dependent branching"):
        compiled(torch.randn(10), torch.randn(10))


def test_cond_is_the_remedy_that_the_message_names():
    compiled = torch.compile(bar, backend=onnx_custom_backend, fullgraph=True)
    with pytest.raises(Exception, match=r"if b\.sum\(\) < 0") as error:
        compiled(torch.randn(10), torch.randn(10))
    assert "cond" in str(error.value)
