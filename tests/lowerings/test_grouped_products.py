"""Grouped matrix products with one group and with several."""

from __future__ import annotations

import pytest
import torch

import ortable


class GroupedMatMul(torch.nn.Module):
    def forward(self, rows, matrices, ends):
        return torch._grouped_mm(rows, matrices, offs=ends)


@pytest.mark.parametrize("ends", [[4], [1, 4], [2, 2, 4]])
def test_groups_of_any_number(ends) -> None:
    rows = torch.randn(4, 16, dtype=torch.bfloat16)
    matrices = torch.randn(len(ends), 16, 8, dtype=torch.bfloat16)
    args = rows, matrices, torch.tensor(ends, dtype=torch.int32)
    program = ortable.export(GroupedMatMul(), args)
    torch.testing.assert_close(program(*args), GroupedMatMul()(*args))
