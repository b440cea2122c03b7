"""The kernel table equals the installed runtime's list and holds for sessions of one node."""

from __future__ import annotations

import itertools
from pathlib import Path

import onnx
import onnxruntime
import pytest
import yaml
from onnx import helper

from ortable import dtypes
from ortable.ir.casts import HALF_DTYPES, choose_casts
from ortable_generated.kernels import KERNELS_CPU, WIDER
from ortablegen.runtime_tables.kernels import (
    emit_kernels,
    is_match,
    kernel_matches,
    merge_kernels,
    read_kernels,
)
from ortablegen.schemas.onnx import Formal, OnnxSchema, recorded_versions, schema_at

_ROOT = Path(__file__).parents[3]
_TABLE = _ROOT / "specs" / "runtime" / "kernels_cpu.yaml"
_OPERATORS = [
    ("Abs", 1), ("Add", 2), ("And", 2), ("Acos", 1), ("Clip", 3), ("Concat", 2), ("Cos", 1),
    ("CumSum", 2), ("Div", 2), ("Elu", 1), ("Equal", 2), ("Erf", 1), ("Exp", 1), ("Gemm", 2),
    ("GatherElements", 2), ("Greater", 2), ("HardSwish", 1), ("Identity", 1),
    ("LayerNormalization", 2), ("LeakyRelu", 1), ("LessOrEqual", 2), ("MatMul", 2), ("Max", 2),
    ("Min", 2), ("Mish", 1), ("Mod", 2), ("Mul", 2), ("Neg", 1), ("NonZero", 1), ("Not", 1),
    ("Pow", 2), ("ReduceMax", 1), ("ReduceMean", 1), ("ReduceProd", 1), ("ReduceSum", 1),
    ("Relu", 1), ("Round", 1), ("Sigmoid", 1), ("Sign", 1), ("Softmax", 1), ("Sqrt", 1),
    ("Sub", 2), ("Sum", 2), ("Tanh", 1), ("Tile", 2), ("Trilu", 1), ("Where", 3), ("Xor", 2),
    ("BitwiseNot", 1), ("Transpose", 1), ("ScatterND", 3), ("GlobalLpPool", 1), ("PRelu", 2),
]  # fmt: skip


# Rows whose types a newer ONNX Runtime no longer lists but still runs: the reason, and inputs with
# which a session of one node loads (see `test_what_is_listed_no_more_still_runs`).
_UNLISTED_BUT_RUNS = {
    ("Attention", "", 25): (
        "its function body was measured with all inputs, but 1.32 rejects a key cache"
        " together with nonpad_kv_seqlen",
        (("Q", "T1"), ("K", "T1"), ("V", "T2"), ("attn_mask", "U")),
    ),
}


def _is_recorded() -> bool:
    """Whether the table was read from the installed version of ONNX Runtime."""
    recorded = recorded_versions()["onnxruntime"]
    return onnxruntime.__version__.split(".")[:2] == recorded.split(".")[:2]


def test_table_is_what_the_installed_runtime_lists() -> None:
    """The table equals the list of the recorded version, and newer versions have these kernels."""
    installed_table = read_kernels(numbers=False)  # `test_precision.py` tests the numbers
    recorded, installed = yaml.safe_load(_TABLE.read_text()), yaml.safe_load(installed_table)
    if _is_recorded():
        rows = [{key: value for key, value in row.items() if key != "numbers"} for row in recorded]
        assert rows == installed, "run `python -m ortablegen kernels`"
    lost = _find_missing(recorded, installed)
    assert lost.keys() <= (set() if _is_recorded() else _UNLISTED_BUT_RUNS.keys()), lost


def _find_missing(
    recorded: list[dict], installed: list[dict]
) -> dict[tuple[str, str, int], list[dict]]:
    """Return the types that the table lists and the installed runtime does not, by row."""
    rows: dict[tuple[str, str, int], list[dict]] = {}
    for row in installed:
        rows.setdefault((row["op"], row.get("domain", ""), row["since"]), []).append(row)
    missing: dict[tuple[str, str, int], list[dict]] = {}
    for row in recorded:
        key = (row["op"], row.get("domain", ""), row["since"])
        opset = row.get("opset", row["since"])
        newer = [new for new in rows.get(key, []) if new.get("opset", new["since"]) <= opset]
        kernels = [] if not newer else newer[-1]["kernels"] + newer[-1].get("functions", [])
        for kernel in row["kernels"] + row.get("functions", []):
            for types in itertools.product(*kernel.values()):
                binding = dict(zip(kernel, types, strict=True))
                if not any(_accepts_types(candidate, binding) for candidate in kernels):
                    missing.setdefault(key, []).append(binding)
    return missing


def _accepts_types(kernel: dict[str, list[str]], binding: dict[str, str]) -> bool:
    """Whether a kernel takes these types; a parameter that it does not name takes any type."""
    return all(binding.get(name, types[0]) in types for name, types in kernel.items())


@pytest.mark.parametrize(("op", "domain", "since"), _UNLISTED_BUT_RUNS)
@pytest.mark.parametrize("opset", [25, 26])
def test_what_is_listed_no_more_still_runs(op: str, domain: str, since: int, opset: int) -> None:
    """Sessions load with each listed type, with and without the optional inputs."""
    _, formals = _UNLISTED_BUT_RUNS[op, domain, since]
    schema = schema_at(op, domain, since)
    assert schema is not None and schema.since == since
    required = [pair for pair in formals if not _find_input(schema, pair[0]).optional]
    numbers = {name: number for number, name in dtypes.NAMES.items()}
    row = next(
        row
        for row in yaml.safe_load(_TABLE.read_text())
        if (row["op"], row.get("domain", ""), row["since"]) == (op, domain, since)
    )
    for kernel in row["kernels"] + row.get("functions", []):
        for types in itertools.product(*kernel.values()):
            binding = dict(zip(kernel, (numbers[type_name] for type_name in types), strict=True))
            for inputs in (required, formals):
                assert _session_loads(op, [binding[kind] for _, kind in inputs], opset), binding


def _find_input(schema: OnnxSchema, name: str) -> Formal:
    index = schema.input_index(name)
    assert index is not None
    return schema.inputs[index]


def test_generated_look_up_is_fresh() -> None:
    ((name, text),) = emit_kernels(_TABLE).items()
    assert (_ROOT / "generated" / name).read_text() == text, "run `make codegen`"


def _session_loads(op: str, types: list[int], opset: int) -> bool:
    names = [f"x{k}" for k in range(len(types))]
    infos = [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, types, strict=True)]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **_ATTRS.get(op, {}))],
        "g",
        infos,
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception:  # each failure of the runtime has its own class
        return False
    return True


_ATTRS: dict[str, dict[str, object]] = {"Concat": {"axis": 0}, "Mod": {"fmod": 1}}


def _kernel_entry(op: str, opset: int) -> tuple:
    return [e for e in KERNELS_CPU[op] if e[0] <= opset][-1]


@pytest.mark.parametrize("opset", [18, 22, 26])
@pytest.mark.parametrize(("op", "count"), _OPERATORS, ids=lambda v: str(v))
def test_table_says_what_a_session_does(op: str, count: int, opset: int) -> None:
    _, inputs, _, legal, kernels = _kernel_entry(op, opset)
    formals = [inputs[min(k, len(inputs) - 1)] for k in range(count)]
    params = sorted({p.rstrip("*") for p in formals if isinstance(p, str)})
    for dtype in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16):
        # the first type parameter is `dtype`, the others a type that a kernel and the schema allow
        binding = {
            p: (dtype if k == 0 else _select_type(p, legal, kernels)) for k, p in enumerate(params)
        }
        if any(t not in legal[p] for p, t in binding.items()):
            continue
        types = [binding[p.rstrip("*")] if isinstance(p, str) else p for p in formals]
        expected = any(is_match(k, binding) for k in kernels)
        loads = _session_loads(op, types, opset)
        if loads and dtype in HALF_DTYPES and _has_function_body(op, opset):
            continue  # the session may run a function body that the table rejects because it rounds
        assert loads == expected, (op, opset, dtypes.name(dtype))


def _has_function_body(op: str, opset: int) -> bool:
    schema = onnx.defs.get_schema(op, opset)
    return schema.has_function or schema.has_context_dependent_function


@pytest.mark.parametrize("opset", [18, 26])
@pytest.mark.parametrize("op", ["Softplus", "Mish", "HardSwish", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_a_half_float_goes_through_no_body_that_rounds(op: str, dtype: int, opset: int) -> None:
    *_, kernels = _kernel_entry(op, opset)
    listed = any(is_match(k, {"T": dtype}) for k in kernels)
    assert not listed or opset > 18
    wide = dtypes.float32
    assert choose_casts(KERNELS_CPU, op, opset, [dtype], [dtype]) == ({} if listed else {0: wide})


def _select_type(
    param: str, legal: dict[str, tuple[int, ...]], kernels: tuple[dict[str, tuple[int, ...]], ...]
) -> int:
    listed = [t for k in kernels for t in k.get(param, legal[param])]
    return next(
        (t for t in (7, 9, 1, *listed) if t in legal[param] and t in (listed or legal[param])),
        legal[param][0],
    )


def test_open_ended_kernels_run_only_their_own_version() -> None:
    assert kernel_matches(7, 2147483647, 7)
    assert not kernel_matches(7, 2147483647, 22)
    assert kernel_matches(7, 21, 13)
    assert not kernel_matches(7, 21, 22)


def test_kernels_that_differ_in_one_parameter_are_joined() -> None:
    assert merge_kernels([{"T": (1,), "U": (7,)}, {"T": (11,), "U": (7,)}]) == [
        {"T": (1, 11), "U": (7,)}
    ]
    separate = [{"T": (1,), "U": (1,)}, {"T": (11,), "U": (11,)}]
    assert merge_kernels(separate) == separate
    assert merge_kernels([{"T": (1,)}, {"T": (1,)}]) == [{"T": (1,)}]


def test_widening_keeps_every_value() -> None:
    for source, targets in WIDER.items():
        for target in targets:
            a, b = dtypes.to_numpy(source), dtypes.to_numpy(target)
            if source == dtypes.boolean or dtypes.is_int_type(source):
                assert dtypes.is_int_type(target)
            else:
                assert dtypes.is_float_type(target) and dtypes.itemsize(target) > dtypes.itemsize(
                    source
                )
            if (
                source != dtypes.bfloat16
                and source != dtypes.boolean
                and dtypes.is_int_type(source)
            ):
                import numpy as np

                assert np.iinfo(b).min <= np.iinfo(a).min and np.iinfo(a).max <= np.iinfo(b).max


def test_a_version_without_kernels_hides_the_older_one() -> None:
    assert _kernel_entry("GlobalLpPool", 21)[4] != ()
    assert _kernel_entry("GlobalLpPool", 22)[4] == ()
