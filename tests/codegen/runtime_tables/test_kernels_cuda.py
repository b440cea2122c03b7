"""The table of CUDA kernels: parsing, fallbacks, and the default opset on CUDA."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import yaml

from ortable import dtypes
from ortable.ir import versions
from ortable_generated.kernels import KERNELS_CPU
from ortable_generated.kernels_cuda import KERNELS_CUDA
from ortablegen.runtime_tables.kernels import (
    emit_cuda_kernels,
    emit_kernels,
    read_cuda_kernels,
)

RUNTIME = Path(__file__).parents[3] / "specs" / "runtime"
CUDA = yaml.safe_load((RUNTIME / "kernels_cuda.yaml").read_text())
CPU = yaml.safe_load((RUNTIME / "kernels_cpu.yaml").read_text())


def list_types(table, op, opset=versions.ORT_CUDA_OPSET, parameter="T"):
    kernels = [entry for entry in table[op] if entry[0] <= opset][-1][-1]
    return {dtype for kernel in kernels for dtype in kernel[parameter]}


def make_kernel(op, start, end, provider="CUDAExecutionProvider", **types):
    constraints = {name: [f"tensor({dtype})" for dtype in names] for name, names in types.items()}
    return SimpleNamespace(
        provider=provider, domain="", op_name=op, version_range=(start, end),
        type_constraints=constraints,
    )  # fmt: skip


def test_a_table_is_read_from_the_list_of_kernels():
    kernels = [
        make_kernel("Relu", 14, 2147483647, T=["float"]),
        make_kernel("Relu", 14, 2147483647, T=["float16"]),
        make_kernel("MaxPool", 12, 21, T=["float"]),
        make_kernel("Abs", 13, 2147483647, provider="CPUExecutionProvider", T=["float"]),
    ]
    rows = yaml.safe_load(read_cuda_kernels(kernels))
    assert [(row["op"], row["since"], row["kernels"]) for row in rows] == [
        ("MaxPool", 12, [{"T": ["float32"]}]),
        ("Relu", 14, [{"T": ["float32", "float16"]}]),
    ]


def test_the_default_opset_on_cuda_is_the_newest_at_which_no_operator_loses_its_kernels():
    all_versions, cuda_versions = {}, {}
    for table, rows in ((all_versions, (*CPU, *CUDA)), (cuda_versions, CUDA)):
        for row in rows:
            if "domain" not in row:
                table.setdefault(row["op"], set()).add(row["since"])

    def find_lost(opset):
        available = {op: [v for v in all_versions[op] if v <= opset] for op in cuda_versions}
        return {op for op, v in available.items() if v and max(v) not in cuda_versions[op]}

    opset = versions.ORT_CUDA_OPSET
    assert not find_lost(opset)
    assert "MaxPool" in find_lost(opset + 1)


def test_half_floats_without_a_kernel_on_cuda_are_cast_and_others_run_on_the_cpu():
    assert dtypes.bfloat16 not in list_types(KERNELS_CUDA, "Less")
    assert dtypes.float16 in list_types(KERNELS_CUDA, "Less")
    # ONNX Runtime runs int16 comparisons on the CPU
    assert dtypes.int16 in list_types(KERNELS_CUDA, "Less")
    # CPU sessions cast float16 for CumSum themselves; on CUDA the graph casts it, on the device
    assert dtypes.float16 in list_types(KERNELS_CPU, "CumSum", parameter="T")
    assert list_types(KERNELS_CUDA, "Softmax") >= {dtypes.float16, dtypes.bfloat16}


def test_kernels_that_are_worse_than_torch_are_left_out():
    for row in yaml.safe_load((RUNTIME / "kernels_cuda_rounded.yaml").read_text()):
        listed = list_types(KERNELS_CUDA, row["op"])
        assert not {dtypes.NAMES[dtype] for dtype in listed} & set(row["types"]), row["op"]
        assert dtypes.float32 in listed and row["why"]


def test_operators_that_the_installed_onnx_lacks_are_left_out(tmp_path):
    path, none = tmp_path / "rows.yaml", tmp_path / "none.yaml"
    path.write_text(yaml.safe_dump([{**CPU[0], "op": "NotYet"}, {**CPU[0], "since": 99}, CPU[0]]))
    none.touch()
    for files in (emit_kernels(path), emit_cuda_kernels(path, path, none)):
        [text] = files.values()
        scope: dict = {}
        exec(text, scope)
        [table] = [value for name, value in scope.items() if name.startswith("KERNELS")]
        assert list(table) == [CPU[0]["op"]]


def test_the_generated_table_is_that_of_the_specs():
    paths = [RUNTIME / f"kernels_{name}.yaml" for name in ("cuda", "cpu", "cuda_rounded")]
    [text] = emit_cuda_kernels(*paths).values()
    scope: dict = {}
    exec(text, scope)
    assert scope["KERNELS_CUDA"] == KERNELS_CUDA
