"""Initializers: all dtypes and shapes, merging of small equal ones, and shared torch memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, numpy_helper

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError


def load(builder, name):
    proto = next(t for t in builder.to_onnx(optimize=False).graph.initializer if t.name == name)
    return numpy_helper.to_array(proto)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (40, 50)])
@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128),
        *(torch.float8_e4m3fn, torch.float8_e5m2),
    ],
)
def test_torch_tensors_of_every_type_and_shape(dtype, shape):
    base = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape) - 1
    tensor = (base % 3).to(dtype)
    builder = GraphBuilder(18)
    name = builder.make_initializer("w", tensor)
    array = load(builder, name)
    assert array.shape == tuple(shape)
    assert dtypes.from_numpy(array.dtype) == dtypes.from_torch(dtype) == builder.get_type(name)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    np.testing.assert_array_equal(array.astype(np.dtype(str(wide)[6:])), tensor.to(wide).numpy())


@pytest.mark.parametrize(
    ("value", "dtype", "shape"),
    [
        (3, dtypes.int64, ()),
        (3.5, dtypes.float32, ()),
        (True, dtypes.boolean, ()),
        ([1, 2], dtypes.int64, (2,)),
        ([1.5, 2], dtypes.float32, (2,)),
        ([], dtypes.float32, (0,)),
        (np.float64(2), dtypes.float64, ()),
        (np.array(["a", "b"], dtype=object), dtypes.string, (2,)),
        (np.zeros(3, dtype=ml_dtypes.int4), dtypes.int4, (3,)),
        (numpy_helper.from_array(np.ones(2, dtype=np.int8)), dtypes.int8, (2,)),
        (1j, dtypes.complex64, ()),
    ],
)
def test_numbers_lists_arrays_and_protos(value, dtype, shape):
    builder = GraphBuilder(21)
    name = builder.make_initializer("", value)
    assert (builder.get_type(name), builder.get_shape(name)) == (dtype, shape)
    assert load(builder, name).shape == shape


def test_what_is_no_tensor_is_refused():
    with pytest.raises(BuilderError, match="cannot be an initializer"):
        GraphBuilder(18).make_initializer("", object())
    with pytest.raises(BuilderError, match="is not a tensor"):
        GraphBuilder(18).make_initializer("", [[1], [1, 2]])
    for mixed in ([1, "a"], np.array([1, 2], dtype=object), np.array([None, "a"], dtype=object)):
        with pytest.raises(BuilderError, match="cannot be an initializer; give a numpy array"):
            GraphBuilder(18).make_initializer("", mixed)
    builder = GraphBuilder(18)
    builder.make_initializer("sparse", torch.eye(3).to_sparse())
    with pytest.raises(
        BuilderError, match=r"'sparse' .* has layout torch.sparse_coo: .*to_dense\(\)"
    ):
        builder.get_constant("sparse")


def test_views_of_torch_memory_are_written_as_they_read():
    tensor = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    builder = GraphBuilder(18)
    for name, view in {"t": tensor.t(), "col": tensor[:, 1], "every": tensor[::2]}.items():
        builder.make_initializer(name, view)
        np.testing.assert_array_equal(load(builder, name), view.numpy())
    conj = torch.tensor([1 + 2j]).conj()
    builder.make_initializer("conj", conj)
    np.testing.assert_array_equal(load(builder, "conj"), np.array([1 - 2j], dtype=np.complex64))


def test_torch_memory_is_shared_until_the_model_is_written():
    tensor = torch.zeros(200)
    builder = GraphBuilder(18)
    builder.make_initializer("w", tensor)
    assert builder.initializers_dict["w"] is tensor
    tensor.fill_(2)
    assert load(builder, "w").tolist() == [2.0] * 200
    assert np.shares_memory(builder.get_constant("w"), tensor.numpy())


def test_small_equal_initializers_are_one_and_bytes_decide():
    builder = GraphBuilder(18)
    make = builder.make_initializer
    assert make("", np.array([1.0, 2.0])) == make("", np.array([1.0, 2.0]))
    assert make("", np.float32(0.0)) != make("", np.float32(-0.0))
    nan = np.float32("nan")
    assert make("", nan) == make("", nan)
    assert make("", np.array([1], dtype=np.int64)) != make("", np.array([1], dtype=np.int32))
    assert make("", np.array([[1]])) != make("", np.array([1]))
    assert make("", torch.ones(2)) == make("", np.ones(2, dtype=np.float32))
    assert make("", np.zeros(129)) != make("", np.zeros(129))


def test_a_named_initializer_keeps_its_name():
    builder = GraphBuilder(18)
    assert builder.make_initializer("p", np.zeros(3)) == "p"
    assert builder.make_initializer("q", np.zeros(3)) == "q"
    with pytest.raises(BuilderError, match="The initializer 'p' cannot be made"):
        builder.make_initializer("p", np.zeros(3))


def test_tied_weights_are_one_initializer():
    weight = torch.nn.Parameter(torch.rand(20, 30))
    builder = GraphBuilder(18)
    first = builder.make_initializer("embedding", weight)
    assert builder.make_initializer("head", weight) == first
    assert builder.make_initializer("same", weight.detach()) == first
    assert builder.make_initializer("transposed", weight.t()) == "transposed"
    assert builder.make_initializer("part", weight[1:]) == "part"
    assert builder.make_initializer("copy", weight.clone()) == "copy"


def test_names_are_those_of_the_page():
    builder = GraphBuilder(18)
    assert builder.make_initializer("", np.zeros((3, 1), dtype=np.float32)) == "init1_s3x1_"
    assert builder.make_initializer("", np.ones((3, 1), dtype=np.float32)) == "init1_s3x1_2"
    assert builder.make_initializer("", [0]) == "init7_s1_0"
    assert builder.make_initializer("", [2, -1]) == "init7_s2_2_-1"
    assert builder.make_initializer("", 5) == "init7_s_5"
    assert builder.make_initializer("", list(range(6))) == "init7_s6_"


def test_small_integers_are_known_as_shapes():
    builder = GraphBuilder(18)
    assert builder.value_shape(builder.make_initializer("", [2, 3])) == (2, 3)
    assert builder.value_shape(builder.make_initializer("n", torch.tensor([4]))) == (4,)
    assert builder.value_shape(builder.make_initializer("", 7)) == 7
    assert builder.value_shape(builder.make_initializer("", [[7]])) is None
    assert builder.value_shape(builder.make_initializer("", list(range(65)))) is None


def test_a_fake_tensor_can_be_built_with_and_is_refused_when_written():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(3)
    builder = GraphBuilder(18)
    builder.make_initializer("w", fake)
    assert builder.get_shape("w") == (3,)
    with pytest.raises(BuilderError, match=r"initializer 'w'.*give the real tensor"):
        builder.to_onnx(optimize=False)


def test_external_data_that_is_not_loaded_is_named(tmp_path):
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2000,))
    builder.make_initializer("w", np.ones(2000, dtype=np.float32))
    builder.make_tensor_output(builder.make_node("Add", ["x", "w"]))
    builder.to_onnx(large_model=True).save(tmp_path / "m.onnx")
    loaded = GraphBuilder(onnx.load(tmp_path / "m.onnx", load_external_data=False))
    with pytest.raises(BuilderError, match="Initializer 'w' is stored in another file"):
        loaded.get_constant("w")
    tensor = loaded.to_onnx().graph.initializer[0]
    assert tensor.data_location == TensorProto.EXTERNAL
    assert {entry.key: entry.value for entry in tensor.external_data}["location"] == "m.onnx.data"


def test_a_merged_constant_is_a_snapshot():
    tensor = torch.ones(2)
    builder = GraphBuilder(18)
    name = builder.make_initializer("", tensor)
    tensor.fill_(7)
    assert builder.make_initializer("", np.ones(2, dtype=np.float32)) == name
    assert load(builder, name).tolist() == [1, 1]
