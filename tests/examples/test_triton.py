"""The config.pbtxt that examples/serve/triton_repository.py writes describes its model.

protobuf parses the file with the part of Triton's messages (model_config.proto) that an ONNX model
needs. Unknown fields are parse errors, as in Triton.
"""

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
# Fields of each message: name, number, type (or name of a message or enumeration), repeated.
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


def make_model_config() -> Any:
    """Make an empty ModelConfig."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="inference", syntax="proto3")
    types = file.enum_type.add(name="DataType")
    for number, name in enumerate(TYPES):
        types.value.add(name=f"TYPE_{name}", number=number)
    for message, fields in MESSAGES.items():
        descriptor = file.message_type.add(name=message)
        for name, number, field_type, repeated in fields:
            label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
            field = descriptor.field.add(name=name, number=number, label=label)
            if isinstance(field_type, str):
                field.type = Field.TYPE_ENUM if field_type == "DataType" else Field.TYPE_MESSAGE
                field.type_name = f".inference.{field_type}"
            else:
                field.type = field_type
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("inference.ModelConfig"))()


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return script("serve/triton_repository")


def assert_describes(config: Any, graph: onnx.GraphProto) -> None:
    """Check that names, types and sizes equal the graph's, without the batch dimension."""
    for entries, values in ((config.input, graph.input), (config.output, graph.output)):
        assert [entry.name for entry in entries] == [value.name for value in values]
        for entry, value in zip(entries, values, strict=True):
            tensor_type = value.type.tensor_type
            onnx_name = TensorProto.DataType.Name(tensor_type.elem_type)
            triton_names = {
                "FLOAT": "FP32",
                "DOUBLE": "FP64",
                "FLOAT16": "FP16",
                "BFLOAT16": "BF16",
            }
            assert TYPES[entry.data_type] == triton_names.get(onnx_name, onnx_name)
            batch, *rest = tensor_type.shape.dim
            assert batch.dim_param and not batch.dim_value
            shape = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in rest]
            reshaped = list(entry.reshape.shape) if entry.HasField("reshape") else list(entry.dims)
            assert reshaped == shape
            assert len(entry.dims) >= 1  # Triton rejects empty dims


@pytest.mark.parametrize("external", [False, True])
def test_the_configuration_is_the_model_s(example: Any, external: bool, tmp_path: Path) -> None:
    path = example.write(tmp_path, external_data=external)
    folder = tmp_path / "classifier"
    config = text_format.Parse((folder / "config.pbtxt").read_text(), make_model_config())
    assert (config.name, config.backend, config.platform) == (folder.name, "onnxruntime", "")
    assert config.HasField("dynamic_batching")
    assert max(config.dynamic_batching.preferred_batch_size) == config.max_batch_size == 32
    model = onnx.load(path, load_external_data=False)
    assert_describes(config, model.graph)
    # the folder of a version is named by its number; model.onnx is the default file name
    assert path.relative_to(folder).as_posix() == "1/model.onnx"
    names = {file.name for file in path.parent.iterdir()}
    assert names == {"model.onnx", *(["model.onnx.data"] if external else [])}
    moved = path.parent.rename(folder / "2") / "model.onnx"  # the model of the next version
    session = onnxruntime.InferenceSession(moved, providers=["CPUExecutionProvider"])
    x = torch.randn(config.max_batch_size, 16)
    (result,) = session.run(None, {"features": x.numpy()})
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(result), example.classifier()(x))


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
        helper.make_tensor_value_info(f"v{number}", elem_type, shape)
        for number, (elem_type, shape) in enumerate(pairs)
    ]
    graph = helper.make_graph([], "g", values, values[::-1])
    text = example.config(helper.make_model(graph))
    assert_describes(text_format.Parse(text, make_model_config()), graph)


@pytest.mark.parametrize("shape", [[], [2, 3]], ids=["no batch", "a fixed batch"])
def test_a_value_without_a_free_batch_is_refused(example: Any, shape: list[int]) -> None:
    with pytest.raises(ValueError, match="v has no batch of free size"):
        example.tensors([helper.make_tensor_value_info("v", TensorProto.FLOAT, shape)])


def test_the_parser_refuses_what_triton_does_not_know() -> None:
    with pytest.raises(text_format.ParseError, match="max_batch"):
        text_format.Parse("max_batch: 3", make_model_config())
