"""The numeric deviations in the kernel table, for every measured kernel (takes a minute)."""

from __future__ import annotations

from tests.codegen.runtime_tables.test_precision import compare, load_measured_rows


def test_the_table_says_what_all_kernels_do() -> None:
    compare(load_measured_rows())
