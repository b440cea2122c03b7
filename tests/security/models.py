"""Hostile ONNX models by name, each built in a moment."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from onnx import (
    AttributeProto,
    FunctionProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    numpy_helper,
)
from onnx import helper as h

FLOAT = TensorProto.FLOAT
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`${alert(3)}"


def model(
    nodes: list[NodeProto], inits: tuple[TensorProto, ...] = (), **changes: object
) -> ModelProto:
    """Return a model of opset 18 with an input x of two floats and an output y."""
    inputs = changes.get("inputs", [h.make_tensor_value_info("x", FLOAT, [2])])
    outputs = [h.make_tensor_value_info("y", FLOAT, None)]
    graph = h.make_graph(nodes, "g", inputs, outputs, list(inits))
    opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
    proto = h.make_model(graph, opset_imports=opsets, functions=changes.get("functions", []))
    proto.ir_version = 9
    return proto


def node(op: str, inputs: list[str], **attributes: object) -> NodeProto:
    """Return a node whose output is y."""
    return h.make_node(op, inputs, ["y"], **attributes)


def with_tensor(**fields: object) -> ModelProto:
    """Return a model that adds a tensor w with the given fields."""
    return model([node("Add", ["x", "w"])], (TensorProto(name="w", **fields),))


def with_input(shape: list[int | str]) -> ModelProto:
    return model([node("Relu", ["x"])], inputs=[h.make_tensor_value_info("x", FLOAT, shape)])


def external(location: str | None, offset: object = 0, length: object = 16) -> ModelProto:
    """Return a model whose four floats w are in another file."""
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    shape = [h.make_tensor_value_info("x", FLOAT, [4])]
    return model([node("Add", ["x", "w"])], (tensor,), inputs=shape)


def of_constants(op: str, *values: object, **attributes: object) -> ModelProto:
    """Return a model of one operator on constants, which constant folding might evaluate."""
    names = [f"c{index}" for index in range(len(values))]
    tensors = tuple(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, values, strict=True)
    )
    return model([node(op, names, **attributes)], tensors)


def deep(levels: int) -> ModelProto:
    """Return a model of nested Ifs."""
    proto = model([])
    proto.graph.input.append(h.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph = proto.graph
    for level in range(levels):
        name = f"y{level}" if level else "y"
        inner = graph.node.add(op_type="If", input=["c"], output=[name])
        if level:
            graph.output.append(h.make_tensor_value_info(name, FLOAT, None))
        for branch in ("else_branch", "then_branch"):
            attribute = inner.attribute.add(name=branch, type=AttributeProto.GRAPH)
            attribute.g.name = branch
        inner.attribute[0].g.output.append(h.make_tensor_value_info("x", FLOAT, None))
        graph = inner.attribute[1].g
    graph.output.append(h.make_tensor_value_info("x", FLOAT, None))
    return proto


def functions(count: int, calls: int = 2) -> ModelProto:
    """Return a model of functions that each call the next: calls ** count nodes when inlined."""
    definitions: list[FunctionProto] = []
    for number in range(count):
        last = number == count - 1
        op, domain = ("Relu", "") if last else (f"F{number + 1}", "f")
        names = ["a", *(f"t{index}" for index in range(calls - 1)), "b"]
        body = [
            h.make_node(op, [names[index]], [names[index + 1]], domain=domain)
            for index in range(calls)
        ]
        opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
        definitions.append(h.make_function("f", f"F{number}", ["a"], ["b"], body, opsets))
    return model([node("F0", ["x"], domain="f")], functions=definitions)


def recursive() -> ModelProto:
    """Return a model of a function that calls itself."""
    opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
    body = [h.make_node("F", ["a"], ["b"], domain="f")]
    definition = h.make_function("f", "F", ["a"], ["b"], body, opsets)
    return model([node("F", ["x"], domain="f")], functions=[definition])


def recursive_in_branch() -> ModelProto:
    """Return a model of two functions, of which each calls the other in the branches of an If."""
    opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
    definitions = []
    for name, called in (("F", "G"), ("G", "F")):
        call = h.make_node(called, ["a"], ["q"], domain="f")
        branch = h.make_graph([call], "g", [], [h.make_tensor_value_info("q", FLOAT, None)])
        choice = h.make_node("If", ["a"], ["b"], then_branch=branch, else_branch=branch)
        definitions.append(h.make_function("f", name, ["a"], ["b"], [choice], opsets))
    return model([node("F", ["x"], domain="f")], functions=definitions)


def sparse(dims: list[int], index: int, as_constant: bool = False) -> ModelProto:
    """Return a model that adds a sparse tensor with one value."""
    values = TensorProto(name="w", data_type=FLOAT, dims=[1], float_data=[1.0])
    indices = TensorProto(data_type=TensorProto.INT64, dims=[1], int64_data=[index])
    tensor = SparseTensorProto(values=values, indices=indices, dims=dims)
    if as_constant:
        return model([node("Constant", [], sparse_value=tensor)])
    proto = model([node("Add", ["x", "w"])])
    proto.graph.sparse_initializer.append(tensor)
    return proto


def with_nested_type(levels: int) -> ModelProto:
    proto = model([node("Relu", ["x"])])
    value_type = proto.graph.input[0].type
    value_type.Clear()
    for _ in range(levels):
        value_type = value_type.sequence_type.elem_type
    value_type.tensor_type.elem_type = FLOAT
    return proto


def concat_chain(times: int) -> ModelProto:
    """Return a model that concatenates a constant with itself repeatedly."""
    nodes = [h.make_node("Concat", [f"a{n}", f"a{n}"], [f"a{n + 1}"], axis=0) for n in range(times)]
    first = numpy_helper.from_array(np.ones(1, np.float32), "a0")
    return model([*nodes, node("Identity", [f"a{times}"])], (first,))


def with_opset(version: int, domain: str = "") -> ModelProto:
    proto = model([node("Relu", ["x"])])
    del proto.opset_import[:]
    proto.opset_import.append(h.make_opsetid(domain, version))
    return proto


def with_ir(version: int) -> ModelProto:
    proto = model([node("Relu", ["x"])])
    proto.ir_version = version
    return proto


def non_utf8_names() -> ModelProto:
    """Return a model with names that are not UTF-8, which protobuf accepts."""
    proto = model([h.make_node("Relu", ["x"], ["QQQQ"], name="RRRR"), node("Relu", ["QQQQ"])])
    content = (
        proto.SerializeToString()
        .replace(b"QQQQ", b"\xff\xfe\x80Q")
        .replace(b"RRRR", b"\xff\xfe\x80R")
    )
    return ModelProto.FromString(content)


def scripted() -> ModelProto:
    """Return a model whose names close and open HTML scripts."""
    graph = h.make_graph(
        [
            h.make_node(
                "Relu", [f"x{SCRIPT}"], [f"y{SCRIPT}"], name=f"/a{SCRIPT}/b/Relu", doc_string=SCRIPT
            )
        ],
        SCRIPT,
        [h.make_tensor_value_info(f"x{SCRIPT}", FLOAT, [SCRIPT])],
        [h.make_tensor_value_info(f"y{SCRIPT}", FLOAT, [SCRIPT])],
    )
    for key in ("module_path", "module_type", "pkg.torch.onnx.name_scopes", "line", SCRIPT):
        entry = graph.node[0].metadata_props.add()
        entry.key, entry.value = key, f"['', '{SCRIPT}']" if "scopes" in key else SCRIPT
    graph.node[0].attribute.append(h.make_attribute(SCRIPT, SCRIPT))
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


_BIG = 1 << 40
HOSTILE: dict[str, Callable[[], ModelProto]] = {
    "sizes without data": lambda: with_tensor(data_type=1, dims=[_BIG], raw_data=b"1234"),
    "product beyond 64 bits": lambda: with_tensor(data_type=1, dims=[_BIG] * 4, raw_data=b"1234"),
    "product that wraps to 0": lambda: with_tensor(data_type=1, dims=[1 << 32] * 2, raw_data=b""),
    "negative size": lambda: with_tensor(data_type=1, dims=[-4], raw_data=b"1234" * 4),
    "two negative sizes": lambda: with_tensor(data_type=1, dims=[-2, -2], raw_data=b"1234" * 4),
    "short data": lambda: with_tensor(data_type=1, dims=[4], raw_data=b"12"),
    "unknown dtype": lambda: with_tensor(data_type=99, dims=[4], raw_data=b"12"),
    "no dtype": lambda: with_tensor(data_type=0, dims=[4], raw_data=b"12"),
    "short int4": lambda: with_tensor(data_type=TensorProto.INT4, dims=[4], raw_data=b"1"),
    "missing strings": lambda: with_tensor(data_type=TensorProto.STRING, dims=[4]),
    "input twice": lambda: model(
        [node("Relu", ["x"])], inputs=[h.make_tensor_value_info("x", FLOAT, [2])] * 2
    ),
    "result named as its input": lambda: model([h.make_node("Relu", ["x"], ["x"])]),
    "result twice": lambda: model([node("Relu", ["x"]), node("Relu", ["x"])]),
    "weight named as a result": lambda: model(
        [node("Relu", ["x"])], (TensorProto(name="y", data_type=1, dims=[1], float_data=[1]),)
    ),
    "input without a name": lambda: model(
        [node("Relu", [""])], inputs=[h.make_tensor_value_info("", FLOAT, [2])]
    ),
    "cycle": lambda: model([node("Relu", ["z"]), h.make_node("Relu", ["y"], ["z"])]),
    "giant ConstantOfShape": lambda: of_constants("ConstantOfShape", np.array([_BIG])),
    "negative ConstantOfShape": lambda: of_constants("ConstantOfShape", np.array([-5])),
    "giant Range": lambda: of_constants("Range", 0, 1 << 60, 1),
    "Range of step 0": lambda: of_constants("Range", 0, 1 << 60, 0),
    "giant Tile": lambda: of_constants("Tile", np.ones(2, np.float32), np.array([1 << 38])),
    "giant Expand": lambda: of_constants("Expand", np.float32(1), np.array([1 << 20, 1 << 20])),
    "giant Pad": lambda: of_constants("Pad", np.ones(1, np.float32), np.array([_BIG, 0])),
    "giant OneHot": lambda: of_constants("OneHot", np.array([1]), _BIG, np.zeros(2, np.float32)),
    "Reshape to two unknown sizes": lambda: of_constants(
        "Reshape", np.ones(2, np.float32), np.array([-1, -1])
    ),
    "doubled 45 times": lambda: concat_chain(45),
    "Split of an axis that is not": lambda: model([node("Split", ["x"], axis=7)]),
    "Split of nothing": lambda: model([node("Split", [])]),
    "Split of an axis of text": lambda: model([node("Split", ["x"], axis="a")]),
    "Split of a number": lambda: model(
        [node("Split", ["x"])], inputs=[h.make_tensor_value_info("x", FLOAT, [])]
    ),
    "Constant without results": lambda: model(
        [h.make_node("Constant", [], [], value_int=1), node("Relu", ["x"])]
    ),
    "attribute without a kind": lambda: model(
        [
            NodeProto(
                op_type="Concat", input=["x"], output=["y"], attribute=[AttributeProto(name="axis")]
            )
        ]
    ),
    "If without a branch": lambda: model(
        [
            NodeProto(
                op_type="If",
                input=["x"],
                output=["y"],
                attribute=[AttributeProto(name="then_branch"), AttributeProto(name="else_branch")],
            )
        ]
    ),
    "opset below 1": lambda: with_opset(-3),
    "opset beyond all": lambda: with_opset(_BIG),
    "no opset of ONNX": lambda: with_opset(1, "nobody"),
    "IR version below 1": lambda: with_ir(-1),
    "IR version beyond all": lambda: with_ir(_BIG),
    "nothing": lambda: ModelProto(ir_version=8),
    "input of a negative size": lambda: with_input([-7]),
    "input of giant sizes": lambda: with_input([1 << 62] * 8),
    "sizes named as code": lambda: with_input(
        ["__import__('os').system('x')", "a+", "1/0", "n" * 9999, "9**9**9"]
    ),
    "rank 10000": lambda: with_input([1] * 10000),
    "25 levels": lambda: deep(25),
    "10000 levels": lambda: deep(10000),
    "a function that calls itself": recursive,
    "functions that call each other in branches": recursive_in_branch,
    "sparse sizes without data": lambda: sparse([_BIG], 0),
    "sparse sizes that wrap to 0": lambda: sparse([1 << 32] * 2, 0),
    "sparse index behind the end": lambda: sparse([4], 99),
    "sparse index below 0": lambda: sparse([4], -5),
    "sparse constant without data": lambda: sparse([_BIG], 0, as_constant=True),
    "a type of 5000 levels": lambda: with_nested_type(5000),
    "giant product": lambda: of_constants(
        "Mul", np.ones((1 << 20, 1), np.float32), np.ones((1, 1 << 20), np.float32)
    ),
    "functions of 2**40 nodes": lambda: functions(40),
    "names that are not UTF-8": non_utf8_names,
    "names of scripts": scripted,
}
EXTERNAL: dict[str, Callable[[], ModelProto]] = {
    "up": lambda: external("../secret.bin"),
    "up and down": lambda: external("sub/../../secret.bin"),
    "absolute": lambda: external("/etc/passwd"),
    "of Windows": lambda: external("C:\\secret.bin"),
    "up, of Windows": lambda: external("..\\secret.bin"),
    "a link out of the folder": lambda: external("link.bin"),
    "a loop of links": lambda: external("loop.bin"),
    "a pipe": lambda: external("pipe"),
    "the folder": lambda: external("."),
    "missing": lambda: external("missing.bin"),
    "no name": lambda: external(None),
    "NUL in the name": lambda: external("w\0.bin"),
    "a name without end": lambda: external("w" * 5000),
    "negative offset": lambda: external("w.bin", -16),
    "offset behind the end": lambda: external("w.bin", 1 << 50),
    "negative length": lambda: external("w.bin", 0, -16),
    "length beyond the file": lambda: external("w.bin", 0, 1 << 60),
    "offset of words": lambda: external("w.bin", "x"),
    "offset of 5000 digits": lambda: external("w.bin", "9" * 5000),
}  # fmt: skip

_CONSTANT = {"op_type": "Constant", "output": ["c"]}
# Where else than in the weights of the graph a tensor may stand.
EXTERNAL_PLACES: dict[str, Callable[[ModelProto], TensorProto]] = {
    "constant": lambda model: model.graph.node.add(**_CONSTANT).attribute.add(name="value").t,
    "sparse weight": lambda model: model.graph.sparse_initializer.add().values,
    "sparse constant": lambda model: (
        model.graph.node.add(**_CONSTANT).attribute.add(name="sparse_value").sparse_tensor.indices
    ),
    "subgraph": lambda model: model.graph.node[0].attribute.add(name="g").g.initializer.add(),
    "sparse weight of a subgraph": lambda model: (
        model.graph.node[0].attribute.add(name="g").graphs.add().sparse_initializer.add().values
    ),
    "function": lambda model: (
        model.functions.add().node.add(**_CONSTANT).attribute.add(name="value").t
    ),
    "attribute of a function": lambda model: (
        model.functions.add().attribute_proto.add(name="value").t
    ),
}


def make_folder(path: Path) -> Path:
    """Create a folder for a model, with a secret beside it and links to the secret."""
    (path / "secret.bin").write_bytes(b"\0" * 16)
    folder = path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    (folder / "link.bin").symlink_to(path / "secret.bin")
    (folder / "loop.bin").symlink_to(folder / "loop.bin")
    os.mkfifo(folder / "pipe")
    return folder


def damaged(seed: int, original: bytes) -> ModelProto | None:
    """Change, insert or delete a few bytes; return None where protobuf rejects the result."""
    rng = random.Random(seed)
    content = bytearray(original)
    for _ in range(rng.choice((1, 2, 4, 8))):
        position = rng.randrange(len(content))
        kind = rng.random()
        if kind < 0.5:
            content[position] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        elif kind < 0.7:
            del content[position : position + rng.randrange(1, 9)]
        elif kind < 0.85:
            content[position:position] = rng.randbytes(rng.randrange(1, 9))
        else:
            start = rng.randrange(len(content))
            content[position:position] = content[start : start + rng.randrange(64)]
    try:
        return ModelProto.FromString(bytes(content))
    except DecodeError:
        return None
