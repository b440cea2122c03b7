"""The table of CUDA's kernels: how it is read, what stands behind it, and the opset that it makes
the default on CUDA."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import yaml

from ortable import dtypes
from ortable.ir import versions
from ortable_generated.kernels import KERNELS_CPU
from ortable_generated.kernels_cuda import KERNELS_CUDA
from ortablegen.runtime_tables.kernels import emit_cuda_kernels, read_cuda_kernels

RUNTIME = Path(__file__).parents[3] / "specs" / "runtime"
CUDA = yaml.safe_load((RUNTIME / "kernels_cuda.yaml").read_text())
CPU = yaml.safe_load((RUNTIME / "kernels_cpu.yaml").read_text())


def types_of(table, op, opset=versions.ORT_CUDA_OPSET, parameter="T"):
    kernels = [entry for entry in table[op] if entry[0] <= opset][-1][-1]
    return {held for kernel in kernels for held in kernel[parameter]}


def kernel(op, start, end, provider="CUDAExecutionProvider", **types):
    constraints = {name: [f"tensor({each})" for each in listed] for name, listed in types.items()}
    return SimpleNamespace(
        provider=provider, domain="", op_name=op, version_range=(start, end),
        type_constraints=constraints,
    )  # fmt: skip


def test_a_table_is_read_from_the_list_of_kernels():
    found = [
        kernel("Relu", 14, 2147483647, T=["float"]),
        kernel("Relu", 14, 2147483647, T=["float16"]),
        kernel("MaxPool", 12, 21, T=["float"]),
        kernel("Abs", 13, 2147483647, provider="CPUExecutionProvider", T=["float"]),
    ]
    rows = yaml.safe_load(read_cuda_kernels(found))
    assert [(row["op"], row["since"], row["kernels"]) for row in rows] == [
        ("MaxPool", 12, [{"T": ["float32"]}]),
        ("Relu", 14, [{"T": ["float32", "float16"]}]),
    ]


def test_the_default_opset_on_cuda_is_the_newest_at_which_no_operator_loses_its_kernels():
    known, cuda = {}, {}
    for table, rows in ((known, (*CPU, *CUDA)), (cuda, CUDA)):
        for row in rows:
            if "domain" not in row:
                table.setdefault(row["op"], set()).add(row["since"])

    def lost(opset):
        held = {op: [v for v in known[op] if v <= opset] for op in cuda}
        return {op for op, v in held.items() if v and max(v) not in cuda[op]}

    opset = versions.ORT_CUDA_OPSET
    assert not lost(opset)
    assert "MaxPool" in lost(opset + 1)


def test_half_floats_without_a_kernel_on_cuda_are_cast_and_others_run_on_the_cpu():
    assert dtypes.bfloat16 not in types_of(KERNELS_CUDA, "Less")
    assert dtypes.float16 in types_of(KERNELS_CUDA, "Less")
    # int16 is compared by the CPU
    assert dtypes.int16 in types_of(KERNELS_CUDA, "Less")
    # float16 that the CPU's session casts itself is cast before, and stays on the device
    assert dtypes.float16 in types_of(KERNELS_CPU, "CumSum", parameter="T")
    assert types_of(KERNELS_CUDA, "Softmax") >= {dtypes.float16, dtypes.bfloat16}


def test_kernels_that_are_worse_than_torch_are_left_out():
    for row in yaml.safe_load((RUNTIME / "kernels_cuda_rounded.yaml").read_text()):
        held = types_of(KERNELS_CUDA, row["op"])
        assert not {dtypes.NAMES[each] for each in held} & set(row["types"]), row["op"]
        assert dtypes.float32 in held and row["why"]


def test_the_generated_table_is_that_of_the_specs():
    paths = [RUNTIME / f"kernels_{name}.yaml" for name in ("cuda", "cpu", "cuda_rounded")]
    [text] = emit_cuda_kernels(*paths).values()
    scope: dict = {}
    exec(text, scope)
    assert scope["KERNELS_CUDA"] == KERNELS_CUDA
