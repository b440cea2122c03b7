"""specs/runtime/optimizers.yaml against the installed ONNX Runtime: every optimizer has a row, a
row is what its optimizer does, and the backend's sessions run without what is disabled."""

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
GROUPS = {name: list(rows) for name, rows in groupby(PATTERNS, lambda each: each.optimizer)}


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
    assert installed() <= listed, "try them (tests/optimizers), and add rows to the table"


def test_what_a_session_runs_has_a_row_of_its_level(capfd):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 0
    model = _neg("float").SerializeToString()
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    written = capfd.readouterr()
    log = written.out + written.err
    rows = {(row["name"], row["level"]) for row in TABLE}
    level = 0
    found = set()
    for line in log.splitlines():
        if start := re.search(r"Graph transformer step \d+ of \d+ for level (\d) started", line):
            level = int(start[1])
        if name := re.search(r"Applying graph transformer (\w+) on step", line):
            found.add((name[1], level))
        elif name := re.search(r"GraphTransformer (\w+) modified:", line):
            assert name[1] in {row["name"] for row in TABLE} | {
                f"Level{level}_RuleBasedTransformer"
            }
    assert len(found) > 40, "the messages of the log are other ones"
    late = {(name, kind) for name, kind in found if name != f"Level{kind}_RuleBasedTransformer"}
    assert late - rows <= {("EnsureUniqueDQForNodeUnit", 1)}


def test_rows_and_patterns_belong_together():
    names = {row["name"] for row in TABLE}
    assert set(GROUPS) <= names
    shared = set(TWICE.values())
    for row in TABLE:
        name = row["name"]
        if name in shared or row["verdict"] == "idle" or name == "FreeDimensionOverrideTransformer":
            continue
        outcomes = {pattern.outcome for pattern in GROUPS.get(name, ())}
        assert outcomes, f"{name}: no pattern was tried"
        assert (outcomes != {"equal"}) == ("wrong" in row), f"{name}: {outcomes}"


def _signed():
    name = "int8 at opset 21"
    return model_of(next(pattern for pattern in PATTERNS if pattern.name == name))


def _quantized(codes):
    """A model whose codes have the dtype that the text says."""
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
    seen = []
    made = onnxruntime.InferenceSession

    def recording(*args, **kwargs):
        seen.extend(kwargs["disabled_optimizers"])
        return made(*args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", recording)
    make_session(_quantized(codes), ["CPUExecutionProvider"], None, training=False)
    assert ("QDQPropagationTransformer" in seen) == signed


@pytest.mark.parametrize(
    ("model", "graphs"),
    [(_neg("float"), None), (_neg("double"), "float64"), (_signed(), "int8 activations")],
    ids=["float32", "float64", "int8"],
)
def test_sessions_of_the_backend_run_without_what_is_disabled(model, graphs, monkeypatch):
    seen = []
    made = onnxruntime.InferenceSession

    def recording(*args, **kwargs):
        seen.append(set(kwargs["disabled_optimizers"]))
        return made(*args, **kwargs)

    monkeypatch.setattr(onnxruntime, "InferenceSession", recording)
    for options in (None, onnxruntime.SessionOptions(), {"log_severity_level": 4}):
        make_session(model, ["CPUExecutionProvider"], options, training=False)
    disabled = [row for row in TABLE if row["verdict"] == "disabled"]
    expected = {row["name"] for row in disabled if row.get("graphs", graphs) == graphs}
    assert seen == [expected] * 3 and "GatherToSliceFusion" in expected


def test_sessions_of_the_backend_do_not_round_activations():
    pattern = next(each for each in PATTERNS if each.name == "four bits")
    model, feed = model_of(pattern), pattern.feeds[0]
    expected = session_of(model, "DISABLE_ALL").run(None, feed)[0]
    session = make_session(model, ["CPUExecutionProvider"], None, training=False)
    np.testing.assert_allclose(session.run(None, feed)[0], expected, 0, 1e-5 * abs(expected).max())
