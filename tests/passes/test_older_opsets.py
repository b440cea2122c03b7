"""Exports at opsets 13 to 17 are valid and equal to eager, or refused by operator and line."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import ortable
from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError, OptionError, UnsupportedCase
from ortable.ir import schemas
from ortable.passes import older_opsets
from ortable_generated.older_opsets import OLDER

OLDER_OPSETS = range(13, 18)


def export_at(opset, model, args, **keywords):
    """Export, check the model with onnx at its opset, compare it with eager; return it."""
    program = ortable.export(model, args, target_opset=opset, **keywords)
    model_proto = program.model_proto
    assert [(o.domain, o.version) for o in model_proto.opset_import] == [("", opset)]
    onnx.checker.check_model(model_proto, full_check=True)
    assert model_proto.ir_version == onnx.helper.find_min_ir_version_for(model_proto.opset_import)
    program.validate().check()
    return model_proto


def operators(model_proto):
    return {node.op_type for node in model_proto.graph.node}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Block(nn.Module):
    """Operators that changed after opset 13: reductions, splits, pads, norms, activations."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        y = F.hardswish(self.linear(self.norm(x)))
        first, second = F.pad(y, (1, 2)).split([7, 4], dim=-1)
        y = F.mish(first.amax(1, keepdim=True)) + second.mean(dim=(0, 2))[None, :, None]
        return y.logsumexp(-1) * x.shape[0], torch.tril(y, -1), torch.triu(y > 0)


@pytest.mark.parametrize("opset", OLDER_OPSETS)
@pytest.mark.parametrize("free", [False, True])
def test_a_block_is_written_in_every_older_opset(opset, free):
    shapes = ({0: "batch", 1: "length"},) if free else None
    export_at(opset, Block().eval(), (torch.randn(2, 5, 8),), dynamic_shapes=shapes)


CALLS = {
    "LayerNormalization": (lambda x: F.layer_norm(x, x.shape[1:]), torch.randn(2, 3, 4)),
    "half LayerNormalization": (
        lambda x: F.layer_norm(x, x.shape[-1:], torch.ones(4).half()),
        torch.randn(2, 3, 4).half(),
    ),
    "Split into parts of two sizes": (lambda x: x.chunk(3), torch.randn(7, 2)),
    "Split into equal parts": (lambda x: x.chunk(3), torch.randn(6, 2)),
    "Trilu of booleans": (lambda x: torch.triu(x, 1), torch.randn(3, 4) > 0),
    "Trilu of integers": (lambda x: torch.tril(x, -1), torch.arange(12).reshape(3, 4)),
    "sums of bytes": (lambda x: x * 3 + x, torch.arange(250, 256, dtype=torch.uint8)),
    "differences of int8": (lambda x: x - 100, torch.arange(-128, -120, dtype=torch.int8)),
    "BitwiseNot": (torch.bitwise_not, torch.arange(-3, 3)),
    "BitwiseNot of bytes": (torch.bitwise_not, torch.arange(250, 256, dtype=torch.uint8)),
    "reduction over all axes": (lambda x: (x.amax(), x.prod(), x.norm()), torch.randn(3, 4)),
    "interpolation": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        torch.randn(1, 2, 3, 4),
    ),
    "LSTM": (nn.LSTM(3, 4, batch_first=True).eval(), torch.randn(2, 5, 3)),
    "reflecting pad": (lambda x: F.pad(x, (1, 1), mode="reflect"), torch.randn(1, 2, 4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_changed_operator_is_written_at_opset_13(name):
    function, x = CALLS[name]
    export_at(13, Function(function), (x,))


def test_nodes_of_branches_are_written_too():
    def function(x):
        branches = (lambda x: x.amax(1), lambda x: F.hardswish(x).mean(1))
        return torch.cond(x.sum() > 0, *branches, (x,))

    assert "If" in operators(export_at(13, Function(function), (torch.randn(2, 3),)))


def test_a_node_that_did_not_change_stays():
    model_proto = export_at(17, nn.LayerNorm(4).eval(), (torch.randn(2, 4),))
    assert operators(model_proto) == {"LayerNormalization"}


class Flatten(nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def test_sizes_of_a_reshape_may_be_free():
    shapes = ({0: "a", 1: "b", 2: "c"},)
    export_at(13, Flatten(), (torch.randn(2, 3, 4),), dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("function", "operator", "first"),
    [
        (lambda x, i: x.scatter_add(0, i, x), "ScatterElements", 16),
        (lambda x, i: i & 1, "BitwiseAnd", 18),
        (lambda x, i: torch.fft.fft(x).real, "DFT", 17),
    ],
)
def test_an_operator_that_the_opset_lacks_is_refused_by_name_and_line(function, operator, first):
    args = (torch.randn(3, 4), torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(UnsupportedCase, match=rf"(?s)test_older_opsets.py:\d+.*{operator}.*18"):
        ortable.to_onnx(Function(function), args, target_opset=first - 1)
    export_at(first, Function(function), args)


def test_an_empty_size_needs_opset_14():
    for opset in (13, 14):
        builder = GraphBuilder(18)
        x = builder.make_tensor_input("x", dtypes.float32, (0, 3))
        sizes = builder.make_initializer("", np.array([0, 5], np.int64))
        builder.make_tensor_output(builder.make_node("Reshape", [x, sizes], allowzero=1))
        if opset == 14:
            older_opsets.write_in_older_opset(builder, opset)
            onnx.checker.check_model(builder.to_onnx())
        else:
            with pytest.raises(BuilderError, match="may be 0, which allowzero says"):
                older_opsets.write_in_older_opset(builder, opset)


def make_graph_with_axes(operator, shape, pads_are_constant):
    """Return a graph of one operator whose axes count along ``x``, and its inputs."""
    builder = GraphBuilder(18)
    inputs = {"x": np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)}
    builder.make_tensor_input("x", dtypes.float32, shape)
    if operator == "LayerNormalization":
        scale = builder.make_initializer("", np.ones(4, np.float32))
        result = builder.make_node(operator, ["x", scale], axis=1)
    else:
        pads, axes = np.array([1, 0, 0, 2]), builder.make_initializer("", np.array([2, -3]))
        if pads_are_constant:
            name = builder.make_initializer("", pads)
        else:
            name = builder.make_tensor_input("pads", dtypes.int64, (4,))
            inputs["pads"] = pads
        result = builder.make_node(operator, ["x", name, "", axes])
    builder.make_tensor_output(result, shape=None if pads_are_constant else ("n", "m", "k"))
    return builder, inputs


@pytest.mark.parametrize(
    ("operator", "pads_are_constant"),
    [("LayerNormalization", True), ("Pad", True), ("Pad", False)],
)
def test_axes_count_along_the_first_input(operator, pads_are_constant, ort):
    builder, inputs = make_graph_with_axes(operator, ("n", 3, 4), pads_are_constant)
    (expected,) = ort(builder, inputs)
    older_opsets.write_in_older_opset(builder, 13)
    (result,) = ort(builder, inputs)
    assert builder.to_onnx().opset_import[0].version == 13
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    builder, _ = make_graph_with_axes(operator, None, pads_are_constant)
    with pytest.raises(BuilderError, match=f"{operator}: the rank of its input is not known"):
        older_opsets.write_in_older_opset(builder, 13)


def test_local_functions_are_refused():
    with pytest.raises(OptionError, match="local functions need opset 18"):
        ortable.to_onnx(
            nn.Sequential(nn.Linear(2, 2)), (torch.randn(1, 2),), target_opset=17,
            export_modules_as_functions=True,
        )  # fmt: skip


@pytest.mark.parametrize("opset", [12, 7])
def test_opsets_before_13_are_refused(opset):
    with pytest.raises(OptionError, match="supported are 13 to"):
        ortable.to_onnx(nn.Linear(2, 2), (torch.randn(1, 2),), target_opset=opset)


def test_the_backend_compiles_at_opset_18_at_least():
    with pytest.raises(OptionError, match="supported are 18 to"):
        ortable.OrtOptions(target_opset=17)


@pytest.mark.parametrize("target", [None, "onnxruntime"])
def test_a_file_has_the_opset_for_each_target(target, tmp_path):
    program = ortable.export(
        Block().eval(), (torch.randn(2, 5, 8),), target_opset=15, target=target
    )
    program.save(tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx").opset_import[0].version == 15
    program.validate().check()


def test_no_default_of_a_newer_attribute_is_lost():
    """An older operator without the attribute may behave in another way: RoiAlign does."""
    for operator in {schema.name for schema in onnx.defs.get_all_schemas_with_history()}:
        since = schemas.since_version(operator, 18)
        for opset in OLDER_OPSETS if since is not None else ():
            if since <= opset or schemas.since_version(operator, opset) is None:
                continue
            known = onnx.defs.get_schema(operator, opset, "").attributes
            rows = [row for row in OLDER.get(operator, ()) if opset < row["before"]]
            for name in schemas.default_attributes(operator, 18).keys() - known.keys():
                assert rows, (operator, opset, name)
                writes_all = {"attributes", "body", "lower"} & rows[0].keys()
                assert writes_all or name in rows[0]["drop"], (operator, opset, name)


@pytest.mark.parametrize("mode", ["half_pixel", None])
def test_a_value_that_came_later_is_refused(mode):
    builder = GraphBuilder(18)
    x = builder.make_tensor_input("x", dtypes.float32, (1, 2, 8, 8))
    rois = builder.make_tensor_input("rois", dtypes.float32, (3, 4))
    batch = builder.make_tensor_input("batch", dtypes.int64, (3,))
    result = builder.make_node("RoiAlign", [x, rois, batch], coordinate_transformation_mode=mode)
    builder.make_tensor_output(result)
    with pytest.raises(
        BuilderError, match="coordinate_transformation_mode 'half_pixel' came later"
    ):
        older_opsets.write_in_older_opset(builder, 15)


def test_every_row_is_of_an_operator_that_changed():
    for operator, rows in OLDER.items():
        since = schemas.since_version(operator, 18)
        assert all(row["before"] <= since for row in rows), operator
        for row in rows:
            assert row.get("lower", "pad") in older_opsets._LOWERINGS
