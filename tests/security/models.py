"""Models that nobody means well with, small enough to be made in a moment. In comes nothing, out
goes a table of them by name; called by the tests of the doors through which models come."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, numpy_helper
from onnx import helper as h

FLOAT = TensorProto.FLOAT
SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`${alert(3)}"


def model(
    nodes: list[NodeProto], inits: tuple[TensorProto, ...] = (), **changes: object
) -> ModelProto:
    """A model of opset 18 with an input x of two floats and an output y."""
    inputs = changes.get("inputs", [h.make_tensor_value_info("x", FLOAT, [2])])
    outputs = [h.make_tensor_value_info("y", FLOAT, None)]
    graph = h.make_graph(nodes, "g", inputs, outputs, list(inits))
    opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
    made = h.make_model(graph, opset_imports=opsets, functions=changes.get("functions", []))
    made.ir_version = 9
    return made


def node(op: str, inputs: list[str], **attributes: object) -> NodeProto:
    """A node whose output is y."""
    return h.make_node(op, inputs, ["y"], **attributes)


def with_tensor(**fields: object) -> ModelProto:
    """A model that adds a tensor w of these fields."""
    return model([node("Add", ["x", "w"])], (TensorProto(name="w", **fields),))


def with_input(shape: list[int | str]) -> ModelProto:
    return model([node("Relu", ["x"])], inputs=[h.make_tensor_value_info("x", FLOAT, shape)])


def external(location: str | None, offset: object = 0, length: object = 16) -> ModelProto:
    """A model whose four floats w are in another file."""
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
    shape = [h.make_tensor_value_info("x", FLOAT, [4])]
    return model([node("Add", ["x", "w"])], (tensor,), inputs=shape)


def of_constants(op: str, *values: object, **attributes: object) -> ModelProto:
    """A model of one operator on constants, which folding may be tempted to compute."""
    names = [f"c{place}" for place in range(len(values))]
    tensors = tuple(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in zip(names, values, strict=True)
    )
    return model([node(op, names, **attributes)], tensors)


def deep(levels: int) -> ModelProto:
    """Ifs in one another."""
    made = model([])
    made.graph.input.append(h.make_tensor_value_info("c", TensorProto.BOOL, []))
    graph = made.graph
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
    return made


def functions(count: int, calls: int = 2) -> ModelProto:
    """Functions that each call the next one so many times: calls ** count nodes."""
    made: list[FunctionProto] = []
    for number in range(count):
        last = number == count - 1
        op, domain = ("Relu", "") if last else (f"F{number + 1}", "f")
        names = ["a", *(f"t{place}" for place in range(calls - 1)), "b"]
        body = [
            h.make_node(op, [names[place]], [names[place + 1]], domain=domain)
            for place in range(calls)
        ]
        opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
        made.append(h.make_function("f", f"F{number}", ["a"], ["b"], body, opsets))
    return model([node("F0", ["x"], domain="f")], functions=made)


def recursive() -> ModelProto:
    """A function that calls itself."""
    opsets = [h.make_opsetid("", 18), h.make_opsetid("f", 1)]
    body = [h.make_node("F", ["a"], ["b"], domain="f")]
    made = h.make_function("f", "F", ["a"], ["b"], body, opsets)
    return model([node("F", ["x"], domain="f")], functions=[made])


def doubled(times: int) -> ModelProto:
    """A constant joined with itself again and again."""
    rows = [h.make_node("Concat", [f"a{n}", f"a{n}"], [f"a{n + 1}"], axis=0) for n in range(times)]
    first = numpy_helper.from_array(np.ones(1, np.float32), "a0")
    return model([*rows, node("Identity", [f"a{times}"])], (first,))


def with_opset(version: int, domain: str = "") -> ModelProto:
    made = model([node("Relu", ["x"])])
    del made.opset_import[:]
    made.opset_import.append(h.make_opsetid(domain, version))
    return made


def with_ir(version: int) -> ModelProto:
    made = model([node("Relu", ["x"])])
    made.ir_version = version
    return made


def not_utf8() -> ModelProto:
    """Names of bytes that are no UTF-8, as protobuf lets them through."""
    made = model([h.make_node("Relu", ["x"], ["QQQQ"], name="RRRR"), node("Relu", ["QQQQ"])])
    written = (
        made.SerializeToString()
        .replace(b"QQQQ", b"\xff\xfe\x80Q")
        .replace(b"RRRR", b"\xff\xfe\x80R")
    )
    return ModelProto.FromString(written)


def scripted() -> ModelProto:
    """A model all of whose names end scripts and begin others."""
    made = h.make_graph(
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
        entry = made.node[0].metadata_props.add()
        entry.key, entry.value = key, f"['', '{SCRIPT}']" if "scopes" in key else SCRIPT
    made.node[0].attribute.append(h.make_attribute(SCRIPT, SCRIPT))
    return h.make_model(made, opset_imports=[h.make_opsetid("", 18)], ir_version=9)


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
    "doubled 45 times": lambda: doubled(45),
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
    "functions of 2**40 nodes": lambda: functions(40),
    "names that are not UTF-8": not_utf8,
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


def damaged(seed: int, written: bytes) -> ModelProto | None:
    """The model of bytes of which a few were changed, moved or left out; None when protobuf itself
    refuses them."""
    draw = random.Random(seed)
    content = bytearray(written)
    for _ in range(draw.choice((1, 2, 4, 8))):
        at = draw.randrange(len(content))
        kind = draw.random()
        if kind < 0.5:
            content[at] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        elif kind < 0.7:
            del content[at : at + draw.randrange(1, 9)]
        elif kind < 0.85:
            content[at:at] = draw.randbytes(draw.randrange(1, 9))
        else:
            begin = draw.randrange(len(content))
            content[at:at] = content[begin : begin + draw.randrange(64)]
    try:
        return ModelProto.FromString(bytes(content))
    except DecodeError:
        return None
