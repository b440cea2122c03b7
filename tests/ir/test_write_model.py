"""`to_onnx`: IR version, types, attributes, metadata, large models, functions."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper

from ortable import GraphBuilder, dims, dtypes
from ortable.builder import LargeModel
from ortable.errors import BuilderError
from ortable.ir.proto.node_proto import name_nodes


def make_linear(opset=18, **options):
    builder = GraphBuilder(opset, **options)
    builder.make_tensor_input("x", dtypes.float32, ("n", 40))
    builder.make_initializer("w", torch.rand(40, 50))
    builder.make_initializer("b", np.ones(50, dtype=np.float32))
    builder.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=1, beta=0.5)
    builder.make_tensor_output("y")
    return builder


@pytest.mark.parametrize(("opset", "ir_version"), [(18, 8), (19, 9), (21, 10), (23, 11), (26, 13)])
def test_ir_version_is_the_smallest_of_the_opset(opset, ir_version):
    model = make_linear(opset).to_onnx()
    assert model.ir_version == ir_version
    onnx.checker.check_model(model, full_check=True)
    assert make_linear(opset, ir_version=9).to_onnx().ir_version == 9


def test_ir_version_that_onnxruntime_cannot_load_is_refused():
    with pytest.raises(BuilderError, match="IR version 14 cannot be loaded by ONNX Runtime"):
        make_linear(18, ir_version=14, target="onnxruntime").to_onnx()


def test_shapes_are_written_as_they_were_declared():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n", None, 3))
    builder.make_tensor_input("s", dtypes.float32, ())
    builder.make_tensor_input("u", dtypes.float32, None)
    builder.make_tensor_output(builder.make_node("Concat", ["x", "x"], ["y"], axis=0))
    graph = builder.to_onnx().graph
    assert [helper.printable_value_info(v) for v in graph.input[:2]] == [
        "%x[FLOAT, nx?x3]",
        "%s[FLOAT, scalar]",
    ]
    assert not graph.input[2].type.tensor_type.HasField("shape")
    assert graph.input[1].type.tensor_type.HasField("shape")
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "2*n"


def test_attribute_kinds_come_from_the_schema():
    builder = make_linear()
    node = builder.to_onnx().graph.node[0]
    assert {a.name: (a.type, a.f) for a in node.attribute} == {
        "alpha": (onnx.AttributeProto.FLOAT, 1.0),
        "beta": (onnx.AttributeProto.FLOAT, 0.5),
    }


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (3, "INT"),
        (True, "INT"),
        (3.5, "FLOAT"),
        ("text", "STRING"),
        (b"\xff", "STRING"),
        ([1, 2], "INTS"),
        ((1, 2.5), "FLOATS"),
        (["a"], "STRINGS"),
        (np.ones(2), "TENSOR"),
        (helper.make_tensor_type_proto(1, (2,)), "TYPE_PROTO"),
        (helper.make_attribute("other", [1.0]), "FLOATS"),
    ],
)
def test_attributes_of_foreign_operators_have_the_kind_of_their_value(value, kind):
    builder = GraphBuilder(18)
    builder.make_node("Op", [], ["y"], domain="mine", attr=value)
    builder.make_tensor_output("y", dtypes.float32)
    attribute = builder.to_onnx().graph.node[0].attribute[0]
    assert attribute.name == "attr"
    assert attribute.type == getattr(onnx.AttributeProto, kind)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (
            {"axis": dims.make_symbol("n")},
            "n is a symbolic dimension, but an attribute must be a static",
        ),
        ({"axis": 1.5}, "1.5 is not an integer"),
        ({"axis": np.array(1.5)}, r"array\(1.5\) is not an integer"),
        ({"axis": torch.tensor(1.5)}, r"tensor\(1.5000\) is not an integer"),
        ({"axis": "1"}, "'1' is not an integer"),
        ({"axis": 2**70}, "axis=1180591620717411303424 .* must be INT: Value out of range"),
        (
            {"alpha": dims.make_symbol("n")},
            "n is a symbolic dimension, but an attribute must be a static",
        ),
        ({"alpha": "0.5"}, "'0.5' is not a number"),
        ({"alpha": -1e60}, "-1e[+]60 is too large for an attribute, which is a float32"),
        ({"mode": 3}, "Attribute mode=3 of node Resize.*: 3 is not a string"),
        ({"activations": "Tanh"}, "'Tanh' is a string, but a list of strings is required"),
        ({"sparse_value": 3}, "sparse_value=3 of node Constant.* must be SPARSE_TENSOR"),
    ],
)
def test_attributes_that_would_lose_something_are_refused(attrs, message):
    operators = {"axis": "Flatten", "alpha": "LeakyRelu", "mode": "Resize", "activations": "RNN"}
    operator = operators.get(next(iter(attrs)), "Constant")
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, None)
    inputs = {"Constant": [], "RNN": ["x", "x", "x"]}.get(operator, ["x"])
    with pytest.raises(BuilderError, match=message):
        builder.make_node(operator, inputs, ["y"], **attrs)
        builder.make_tensor_output("y", dtypes.float32)
        builder.to_onnx()


@pytest.mark.parametrize(
    "number", [np.finfo(np.float32).max, -np.inf, float.fromhex("0x1.fffffefffp127")]
)
def test_large_numbers_that_are_floats_of_32_bits(number):
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, None)
    builder.make_tensor_output(builder.make_node("LeakyRelu", ["x"], alpha=number))
    written = builder.to_onnx().graph.node[0].attribute[0].f
    assert written == np.float32(number)


def test_an_attribute_of_a_node_in_a_subgraph_is_named_alone():
    builder = GraphBuilder(18)
    builder.make_tensor_input("c", dtypes.boolean, ())
    branch = builder.subgraph("then")
    branch.make_tensor_output(branch.make_node("Softmax", [branch.op.Cast("c", to=1)], axis=0.5))
    builder.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    builder.make_tensor_output("y")
    with pytest.raises(BuilderError, match=r"^Attribute axis=0.5 of node Softmax\("):
        builder.to_onnx()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "the attribute type of an empty list is unknown; give an AttributeProto"),
        ({"a": 1}, "an attribute cannot be a dict"),
        ([1, "a"], "the elements of the list have different types"),
        ([[1], [2]], "the value of an attribute cannot be a list of lists"),
    ],
)
def test_what_no_schema_describes_and_no_attribute_can_be(value, message):
    builder = GraphBuilder(18)
    result = builder.make_node("Op", [], domain="mine", attr=value)
    builder.make_tensor_output(result, dtypes.float32)
    with pytest.raises(BuilderError, match=rf"^Attribute attr=.* of node mine::Op.*: {message}"):
        builder.to_onnx()


def test_metadata_comes_from_the_origin_once_per_origin():
    calls = []

    def describe(origin):
        calls.append(origin)
        return {"fx": origin, "line": "return x"}

    builder = GraphBuilder(18, origin_metadata=describe)
    builder.make_tensor_input("x", dtypes.float32, (2,))
    builder.origin = "node1"
    y = builder.make_node("Relu", [builder.make_node("Neg", ["x"])])
    builder.origin = None
    builder.make_tensor_output(builder.make_node("Abs", [y]))
    model = builder.to_onnx(metadata={"author": "me"})
    props = [{e.key: e.value for e in n.metadata_props} for n in model.graph.node]
    assert props == [{"fx": "node1", "line": "return x"}] * 2 + [{}]
    assert calls == ["node1"]
    assert {e.key: e.value for e in model.metadata_props} == {"author": "me"}
    onnx.checker.check_model(model)


def test_nodes_get_the_names_of_their_fx_nodes_but_for_those_that_somebody_named():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2,))
    builder.origin = {"fx_node": "total"}
    y = "x"
    for name in ("", "Add3", "mine", "mi1", "Adder"):
        y = builder.make_node("Add", [y, "x"], name=name)
    name_nodes(builder)
    node_names = [node.name for node in builder.nodes]
    assert node_names[2:] == ["mine", "mi1", "Adder"]
    assert all(name.startswith("total") for name in node_names[:2])


def test_value_info_is_written_when_asked_for():
    builder = make_linear()
    builder.make_node("Relu", ["y"], ["z"])
    builder.outputs.clear()
    builder.make_tensor_output("z")
    assert not builder.to_onnx().graph.value_info
    assert [v.name for v in builder.to_onnx(value_info=True).graph.value_info] == ["y"]


def test_large_model_leaves_large_tensors_out():
    large = make_linear().to_onnx(large_model=True)
    assert isinstance(large, LargeModel)
    assert list(large.tensors) == list(large.external_tensors) == ["w"]
    assert isinstance(large.tensors["w"], torch.Tensor)
    stub, small = large.proto.graph.initializer
    assert (stub.data_location, stub.raw_data, list(stub.dims)) == (
        TensorProto.EXTERNAL,
        b"",
        [40, 50],
    )
    assert small.raw_data
    assert list(make_linear().to_onnx(large_model=True, external_threshold=1).tensors) == ["w", "b"]
    assert large.proto.doc_string.startswith("large_model=True")


def test_large_model_gives_its_tensors_to_a_session():
    large = make_linear().to_onnx(large_model=True)
    options = onnxruntime.SessionOptions()
    arrays = large.numpy_tensors()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    session = onnxruntime.InferenceSession(
        large.proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    x = np.random.rand(3, 40).astype(np.float32)
    result = session.run(None, {"x": x})[0]
    np.testing.assert_allclose(result, x @ arrays["w"] + 0.5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.float16])
def test_large_model_saved_and_loaded_again(tmp_path, dtype):
    builder = GraphBuilder(18)
    weights = {
        f"w{i}": torch.rand(size).gt(0.5).to(dtype) for i, size in enumerate((5, 700, 0, 90001))
    }
    for name, tensor in weights.items():
        builder.make_initializer(name, tensor)
        builder.make_tensor_output(builder.make_node("Identity", [name]))
    path = tmp_path / "model.onnx"
    large = builder.to_onnx(large_model=True, external_threshold=10, optimize=False)
    large.save(path)
    large.save(path)  # overwrite the first file
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        expected = weights[tensor.name].to(torch.float32).numpy()
        loaded = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        np.testing.assert_array_equal(loaded, expected)
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        for entry in tensor.external_data:
            assert entry.key != "offset" or int(entry.value) % 64 == 0
    onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    embedded = large.to_proto()
    assert [t.data_location for t in embedded.graph.initializer] == [0] * 4
    assert [t.raw_data for t in embedded.graph.initializer] == [
        t.raw_data for t in model.graph.initializer
    ]


def test_a_failed_save_leaves_the_old_files(tmp_path):
    from torch._subclasses import FakeTensorMode

    path = tmp_path / "model.onnx"
    make_linear().to_onnx(large_model=True).save(path)
    old_files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    broken = make_linear().to_onnx(large_model=True)
    with FakeTensorMode():
        broken.tensors["w"] = torch.zeros(40, 50)
    with pytest.raises(BuilderError, match="give the real tensor"):
        broken.save(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == old_files


def test_too_much_for_one_proto_is_refused_before_it_is_written():
    builder = GraphBuilder(18)
    builder.make_initializer("w", np.broadcast_to(np.float32(0), (2**20, 600)))
    builder.make_tensor_output(builder.make_node("Identity", ["w"]))
    with pytest.raises(BuilderError, match=r"The initializers take 2.3 GiB.*large_model=True"):
        builder.to_onnx()
    assert list(builder.to_onnx(large_model=True).tensors) == ["w"]


def test_a_graph_becomes_a_local_function(ort):
    inner = GraphBuilder(18)
    inner.make_tensor_input("a", dtypes.float32, ("n",))
    inner.make_tensor_output(inner.op.Add(inner.op.Relu("a"), np.float32(1), outputs=["r"]))
    builder = GraphBuilder(18)
    builder.add_function(inner.to_function("plus", "mine"))
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    y = builder.make_node("plus", ["x"], ["y"], domain="mine")
    assert not builder.has_type(y)
    builder.make_tensor_output(y, dtypes.float32, ("n",))
    x = np.array([-1, 2], dtype=np.float32)
    assert ort(builder, {"x": x})[0].tolist() == [1, 3]
    assert builder.to_onnx().functions[0].name == "plus"
    inlined = builder.to_onnx(inline=True)
    assert not inlined.functions
    assert {"Relu", "Add"} <= {n.op_type for n in inlined.graph.node}
    with pytest.raises(BuilderError, match=r"already has a function mine.plus"):
        builder.add_function(inner.to_function("plus", "mine"))
