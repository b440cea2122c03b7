"""specs/runtime/optimizers.yaml agrees with the installed ONNX Runtime."""

from __future__ import annotations

import re
from itertools import groupby

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from ortable.backend.sessions.session import make_session
from tests.optimizers import (
    patterns_basic,
    patterns_layout,
    patterns_nets,
    patterns_products,
    patterns_quantized,
)
from tests.optimizers.harness import TABLE, TWICE, Pattern, check, installed, model_of, session_of

PATTERNS = sorted(
    [
        *patterns_basic.PATTERNS,
        *patterns_layout.PATTERNS,
        *patterns_nets.PATTERNS,
        *patterns_products.PATTERNS,
        *patterns_quantized.PATTERNS,
    ],
    key=lambda pattern: pattern.optimizer,
)
GROUPS = {name: list(rows) for name, rows in groupby(PATTERNS, lambda pattern: pattern.optimizer)}


def _neg(kind):
    text = f"({kind}[n] x) => ({kind}[n] y) {{ y = Neg(x) }}"
    return model_of(Pattern("", "", text, ()))


@pytest.mark.parametrize("name", GROUPS)
def test_an_optimizer_does_what_its_row_says(name):
    failures = []
    for pattern in GROUPS[name]:
        try:
            check(pattern)
        except AssertionError as error:
            failures.append(str(error))
    assert not failures, "\n".join(failures)


def test_what_is_built_in_has_a_row():
    listed = {row.get("class", row["name"]) for row in TABLE}
    assert installed() <= listed, "test the new optimizers here, and add rows to the table"


def test_what_a_session_runs_has_a_row_of_its_level(capfd):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 0
    model = _neg("float").SerializeToString()
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    captured = capfd.readouterr()
    log = captured.out + captured.err
    rows = {(row["name"], row["level"]) for row in TABLE}
    level = 0
    applied = set()
    for line in log.splitlines():
        if started := re.search(r"Graph transformer step \d+ of \d+ for level (\d) started", line):
            level = int(started[1])
        if name := re.search(r"Applying graph transformer (\w+) on step", line):
            applied.add((name[1], level))
        elif name := re.search(r"GraphTransformer (\w+) modified:", line):
            assert name[1] in {row["name"] for row in TABLE} | {
                f"Level{level}_RuleBasedTransformer"
            }
    assert len(applied) > 40, "the format of the log has changed"
    single = {(name, n) for name, n in applied if name != f"Level{n}_RuleBasedTransformer"}
    assert single - rows <= {("EnsureUniqueDQForNodeUnit", 1)}


def test_rows_and_patterns_belong_together():
    names = {row["name"] for row in TABLE}
    assert set(GROUPS) <= names
    twice = set(TWICE.values())
    for row in TABLE:
        name = row["name"]
        if name in twice or row["verdict"] == "idle" or name == "FreeDimensionOverrideTransformer":
            continue
        outcomes = {pattern.outcome for pattern in GROUPS.get(name, ())}
        assert outcomes, f"{name}: there is no pattern"
        assert (outcomes != {"equal"}) == ("wrong" in row), f"{name}: {outcomes}"


def _int8():
    name = "int8 at opset 21"
    return model_of(next(pattern for pattern in PATTERNS if pattern.name == name))


def _make_quantized_model(codes):
    """Return a model whose quantized tensor has the dtype that the text defines."""
    text = f"""<ir_version: 10, opset_import: ["": 21]>
    g (float[n,m] x) => (float[m,n] y) <float s = {{0.05}}>
    {{ {codes} d = DequantizeLinear(q, s) y = Transpose<perm=[1,0]>(d) }}"""
    return parser.parse_model(text)


@pytest.mark.parametrize(
    ("codes", "signed"),
    [
        ("q = QuantizeLinear<output_dtype=3>(x, s)", True),
        ("q = QuantizeLinear<output_dtype=2>(x, s)", False),
        ("q = QuantizeLinear(x, s)", False),
        ("z = Constant<value=int8 {3}>() q = QuantizeLinear(x, s, z)", True),
        ("z = Constant<value=uint8 {3}>() q = QuantizeLinear(x, s, z)", False),
        ("k = Constant<value=int8[1] {3}>() z = Squeeze(k) q = QuantizeLinear(x, s, z)", True),
    ],
)
def test_signed_codes_are_known_however_they_are_said(codes, signed, monkeypatch):
    disabled = []
    make_original = onnxruntime.InferenceSession

    def record_optimizers(*args, **kwargs):
        disabled.extend(kwargs["disabled_optimizers"])
        return make_original(*args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", record_optimizers)
    make_session(_make_quantized_model(codes), ["CPUExecutionProvider"], None, training=False)
    assert ("QDQPropagationTransformer" in disabled) == signed


@pytest.mark.parametrize(
    ("model", "graphs"),
    [(_neg("float"), None), (_neg("double"), "float64"), (_int8(), "int8 activations")],
    ids=["float32", "float64", "int8"],
)
def test_sessions_of_the_backend_run_without_what_is_disabled(model, graphs, monkeypatch):
    disabled_sets = []
    make_original = onnxruntime.InferenceSession

    def record_optimizers(*args, **kwargs):
        disabled_sets.append(set(kwargs["disabled_optimizers"]))
        return make_original(*args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", record_optimizers)
    for options in (None, onnxruntime.SessionOptions(), {"log_severity_level": 4}):
        make_session(model, ["CPUExecutionProvider"], options, training=False)
    disabled = [row for row in TABLE if row["verdict"] == "disabled"]
    expected = {row["name"] for row in disabled if row.get("graphs", graphs) == graphs}
    assert disabled_sets == [expected] * 3 and "GatherToSliceFusion" in expected


def test_sessions_of_the_backend_do_not_round_activations():
    pattern = next(p for p in PATTERNS if p.name == "four bits")
    model, feed = model_of(pattern), pattern.feeds[0]
    expected = session_of(model, "DISABLE_ALL").run(None, feed)[0]
    session = make_session(model, ["CPUExecutionProvider"], None, training=False)
    np.testing.assert_allclose(session.run(None, feed)[0], expected, 0, 1e-5 * abs(expected).max())
