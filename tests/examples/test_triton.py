"""The folders of examples/serve/triton_repository.py, as Triton reads them: config.pbtxt is parsed
with protobuf's own parser and compared with the model that lies beside it.

The messages are Triton's (model_config.proto), as far as a served ONNX file needs them: a field
that is not here is an error of the parser, as one that Triton does not know is."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from onnx import TensorProto, helper

from . import script

TYPES = (
    "INVALID", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "STRING", "BF16",
)  # fmt: skip
Field = descriptor_pb2.FieldDescriptorProto
# Of each message: field, number, type (or the name of a message or enumeration), repeated.
MESSAGES: dict[str, tuple[tuple[str, int, Any, bool], ...]] = {
    "ModelTensorReshape": (("shape", 1, Field.TYPE_INT64, True),),
    "ModelInput": (
        ("name", 1, Field.TYPE_STRING, False),
        ("data_type", 2, "DataType", False),
        ("dims", 4, Field.TYPE_INT64, True),
        ("reshape", 5, "ModelTensorReshape", False),
    ),
    "ModelOutput": (
        ("name", 1, Field.TYPE_STRING, False),
        ("data_type", 2, "DataType", False),
        ("dims", 3, Field.TYPE_INT64, True),
        ("reshape", 5, "ModelTensorReshape", False),
    ),
    "ModelDynamicBatching": (
        ("preferred_batch_size", 1, Field.TYPE_INT32, True),
        ("max_queue_delay_microseconds", 2, Field.TYPE_UINT64, False),
    ),
    "ModelConfig": (
        ("name", 1, Field.TYPE_STRING, False),
        ("platform", 2, Field.TYPE_STRING, False),
        ("backend", 17, Field.TYPE_STRING, False),
        ("max_batch_size", 4, Field.TYPE_INT32, False),
        ("input", 5, "ModelInput", True),
        ("output", 6, "ModelOutput", True),
        ("dynamic_batching", 11, "ModelDynamicBatching", False),
    ),
}


def model_config() -> Any:
    """An empty ModelConfig."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="inference", syntax="proto3")
    types = file.enum_type.add(name="DataType")
    for number, name in enumerate(TYPES):
        types.value.add(name=f"TYPE_{name}", number=number)
    for message, fields in MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, number, kind, repeated in fields:
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            field = made.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type = Field.TYPE_ENUM if kind == "DataType" else Field.TYPE_MESSAGE
                field.type_name = f".inference.{kind}"
            else:
                field.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return script("serve/triton_repository")


def assert_describes(config: Any, graph: onnx.GraphProto) -> None:
    """Names, types and sizes are the graph's; the batch stands in max_batch_size alone."""
    for said, values in ((config.input, graph.input), (config.output, graph.output)):
        assert [each.name for each in said] == [value.name for value in values]
        for each, value in zip(said, values, strict=True):
            kind = value.type.tensor_type
            onnx_name = TensorProto.DataType.Name(kind.elem_type)
            theirs = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "BFLOAT16": "BF16"}
            assert TYPES[each.data_type] == theirs.get(onnx_name, onnx_name)
            batch, *rest = kind.shape.dim
            assert batch.dim_param and not batch.dim_value
            shape = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in rest]
            reshaped = list(each.reshape.shape) if each.HasField("reshape") else list(each.dims)
            assert reshaped == shape
            assert len(each.dims) >= 1  # Triton refuses none


@pytest.mark.parametrize("external", [False, True])
def test_the_configuration_is_the_model_s(example: Any, external: bool, tmp_path: Path) -> None:
    path = example.write(tmp_path, external_data=external)
    folder = tmp_path / "classifier"
    config = text_format.Parse((folder / "config.pbtxt").read_text(), model_config())
    assert (config.name, config.backend, config.platform) == (folder.name, "onnxruntime", "")
    assert config.HasField("dynamic_batching")
    assert max(config.dynamic_batching.preferred_batch_size) == config.max_batch_size == 32
    model = onnx.load(path, load_external_data=False)
    assert_describes(config, model.graph)
    # a version is a folder whose name is a number; this name of a file is the default
    assert path.relative_to(folder).as_posix() == "1/model.onnx"
    names = {each.name for each in path.parent.iterdir()}
    assert names == {"model.onnx", *(["model.onnx.data"] if external else [])}
    moved = path.parent.rename(folder / "2") / "model.onnx"  # the next version, elsewhere
    session = onnxruntime.InferenceSession(moved, providers=["CPUExecutionProvider"])
    x = torch.randn(config.max_batch_size, 16)
    (got,) = session.run(None, {"features": x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(got), example.classifier()(x))


def test_types_sizes_and_one_number_a_row(example: Any) -> None:
    shapes = (["batch"], ["batch", 3], ["batch", "length", 2], ["batch", 1])
    pairs = [
        (TensorProto.DataType.Value(name), shapes[number % len(shapes)])
        for number, name in enumerate(
            ("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
             "FLOAT16", "FLOAT", "DOUBLE", "STRING", "BFLOAT16")
        )
    ]  # fmt: skip
    values = [
        helper.make_tensor_value_info(f"v{number}", kind, shape)
        for number, (kind, shape) in enumerate(pairs)
    ]
    graph = helper.make_graph([], "g", values, values[::-1])
    text = example.config(helper.make_model(graph))
    assert_describes(text_format.Parse(text, model_config()), graph)


@pytest.mark.parametrize("shape", [[], [2, 3]], ids=["no batch", "a fixed batch"])
def test_a_value_without_a_free_batch_is_refused(example: Any, shape: list[int]) -> None:
    with pytest.raises(ValueError, match="v has no batch of free size"):
        example.tensors([helper.make_tensor_value_info("v", TensorProto.FLOAT, shape)])


def test_the_parser_refuses_what_triton_does_not_know() -> None:
    with pytest.raises(text_format.ParseError, match="max_batch"):
        text_format.Parse("max_batch: 3", model_config())
