"""What the kernel table says about numbers, for every kernel that is measured (a minute)."""

from __future__ import annotations

from tests.codegen.runtime_tables.test_precision import compare, measured


def test_the_table_says_what_all_kernels_do() -> None:
    compare(measured())
