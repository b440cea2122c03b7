"""Operators of a user's library: as nodes of a custom domain, by converters, and by specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper
from onnx.helper import get_attribute_value
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from torch._export import config as export_config
from torch.utils import _pytree as pytree

from ortable import export, load_specs
from ortable.errors import (
    ExportError,
    FunctionNotFoundError,
    OptionError,
    SpecError,
    UnsupportedCase,
)
from ortable.exporter.dispatchers.dispatcher import Dispatcher
from ortable.exporter.dispatchers.onnxscript_dispatcher import OxsDispatcher
from ortable.exporter.to_onnx import to_onnx
from ortable_generated.aten import dispatch

from .helpers import assert_close, assert_same, run_onnx

LIBRARY = torch.library.Library("ortable_custom", "DEF")


def define(schema: str, function: Any) -> None:
    name = schema.partition("(")[0]
    LIBRARY.define(schema)
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")


define("scale(Tensor x, float factor=2.0) -> Tensor", lambda x, factor=2.0: x * factor)
define(
    "everything(Tensor x, Tensor? y, int i, SymInt s, float f, bool b, str t, int[] l, float[] fl, "
    "bool[] bl, str[] tl, int[] none, int? absent=None, ScalarType? d=None, str name='n', "
    "ScalarType k=float) -> Tensor",
    lambda x, *args, **kwargs: x + 1,
)
define("pair(Tensor x, int n) -> (Tensor, Tensor)", lambda x, n: (x + n, x.sum().to(torch.int64)))
define("chunks(Tensor x, int n) -> Tensor[]", lambda x, n: [c.clone() for c in x.chunk(n)])
define(
    "joined(Tensor first, Tensor[] rest) -> Tensor", lambda first, rest: torch.cat([first, *rest])
)
define("lists(Tensor[] a, Tensor[] b) -> Tensor", lambda a, b: torch.cat([*a, *b]))
define("gain(Tensor x, Scalar by) -> Tensor", lambda x, by: x * 2)
define("counted(Tensor x) -> (Tensor, int)", lambda x: (x * 2, 3))
define("rows(Tensor x, SymInt n) -> Tensor", lambda x, n: x[:n].clone())
define("size(Tensor x) -> int", lambda x: x.shape[0])
define("add_(Tensor(a!) x, float v) -> ()", lambda x, v: (x.add_(v), None)[1])
define("swap_(Tensor(a!) x, Tensor(b!) y, Tensor z) -> Tensor", lambda x, y, z: swap_xy(x, y, z))
define(
    "increment_(Tensor(a!)? x, Tensor(b!) y, Tensor(c!)? z) -> Tensor",
    lambda x, y, z: (y * 2, y.add_(1))[0],
)

OPS = torch.ops.ortable_custom
DOMAIN = {"ortable_custom": "my.domain"}


def swap_xy(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    original = x.clone()
    x.copy_(y)
    y.copy_(original)
    return z * 2


def module_of(function) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return function(x)

    return Module()


def convert(function, *args, domains: Any = None, **options) -> onnx.ModelProto:
    dispatcher = Dispatcher(custom_domains=domains or DOMAIN)
    return to_onnx(module_of(function), args, dispatcher=dispatcher, **options)


def only_node(model: onnx.ModelProto) -> onnx.NodeProto:
    (node,) = [node for node in model.graph.node if node.domain]
    return node


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}


def test_a_domain_without_kernels_is_told_with_what_to_do() -> None:
    message = "ONNX Runtime cannot load the model: .*my.domain:scale.*register_custom_ops_library"
    with pytest.raises(ExportError, match="(?s)validation failed, " + message):
        convert(OPS.scale, torch.rand(2), validate=True)
    dispatcher = Dispatcher(custom_domains=DOMAIN)
    program = export(module_of(OPS.scale), (torch.rand(2),), dispatcher=dispatcher)
    with pytest.raises(ExportError, match="(?s)^" + message):
        program(torch.rand(2))


class scale(OpRun):
    op_domain = "my.domain"

    def _run(self, x, factor=None):
        return (x * np.float32(factor),)


def test_an_unknown_operator_is_refused_unless_a_domain_is_given() -> None:
    module = module_of(lambda x: OPS.scale(x, 3.0))
    with pytest.raises(FunctionNotFoundError) as raised:
        to_onnx(module, (torch.rand(2),))
    assert "custom_domains={'ortable_custom': 'my.domain'}" in str(raised.value)
    with pytest.raises(FunctionNotFoundError):
        to_onnx(module, (torch.rand(2),), dispatcher=Dispatcher(custom_domains={"other": "o"}))


def test_the_reference_evaluator_runs_it_with_the_users_implementation() -> None:
    x = torch.rand(3, 2)
    model = convert(lambda x: OPS.scale(torch.relu(x), 3.0) + 1, x, dynamic_shapes={"x": {0: "n"}})
    onnx.checker.check_model(model)
    assert {o.domain: o.version for o in model.opset_import} == {"": 18, "my.domain": 1}
    node = only_node(model)
    assert (node.op_type, attributes(node)) == ("scale", {"factor": 3.0})
    (output,) = model.graph.output
    dims = [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim]
    assert dims == ["n", 2]
    (result,) = ReferenceEvaluator(model, new_ops=[scale]).run(None, {"x": x.numpy()})
    np.testing.assert_allclose(result, (x * 3 + 1).numpy(), rtol=1e-6)


def test_onnx_runtime_runs_it_once_the_domain_has_the_operator() -> None:
    x = torch.rand(3, 2)
    model = convert(lambda x: OPS.scale(torch.relu(x), 3.0) + 1, x)
    with pytest.raises(onnxruntime.capi.onnxruntime_pybind11_state.Fail, match=r"my\.domain"):
        run_onnx(model, {"x": x.numpy()})
    # A function of the model replaces the library of kernels.
    factor = helper.make_node("Constant", [], ["f"])
    factor.attribute.add(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT)
    body = [factor, helper.make_node("Mul", ["x", "f"], ["y"])]
    opsets = [helper.make_opsetid("", 18)]
    model.functions.append(
        helper.make_function("my.domain", "scale", ["x"], ["y"], body, opsets, ["factor"])
    )
    assert_close(run_onnx(model, {"x": x.numpy()}), [x * 3 + 1])


def test_arguments_that_are_no_tensors_are_attributes() -> None:
    def call(x):
        return OPS.everything(
            x, None, 3, x.shape[0], 1, True, "word", [1, 2], [0.5], [True, False], ["a", "b"], [],
            d=torch.float16,
        )  # fmt: skip

    model = convert(call, torch.rand(2, 3))
    node = only_node(model)
    onnx.checker.check_model(model)
    assert list(node.input) == ["x"]
    values = attributes(node)
    assert values == {
        "i": 3, "s": 2, "f": 1.0, "b": 1, "t": b"word", "l": [1, 2], "fl": [0.5], "bl": [1, 0],
        "tl": [b"a", b"b"], "none": [], "d": TensorProto.FLOAT16, "name": b"n",
        "k": TensorProto.FLOAT,
    }  # fmt: skip
    types = {attribute.name: attribute.type for attribute in node.attribute}
    assert types["none"] == onnx.AttributeProto.INTS and types["f"] == onnx.AttributeProto.FLOAT


def test_tensors_are_inputs_in_the_order_of_the_schema() -> None:
    def call(x):
        y = OPS.everything(x, x * 2, 1, 1, 1.0, True, "", [], [], [], [], [])
        return OPS.joined(y, [x, y, x])

    joined = [node for node in convert(call, torch.rand(2, 3)).graph.node if node.domain][1]
    assert list(joined.input) == ["everything", "x", "everything", "x"]
    assert not joined.attribute


def test_results_have_the_types_and_shapes_of_torch() -> None:
    def call(x):
        first, second = OPS.pair(x, 2)
        parts = OPS.chunks(x, 2)
        return first, second, parts[1]

    model = convert(call, torch.rand(4, 3))
    pair, chunks = (node for node in model.graph.node if node.domain)
    assert len(pair.output) == 2 and len(chunks.output) == 2 and all(chunks.output)
    types = [value.type.tensor_type for value in model.graph.output]
    assert [t.elem_type for t in types] == [1, 7, 1]
    assert [[d.dim_value for d in t.shape.dim] for t in types] == [[4, 3], [], [2, 3]]


def test_the_domain_may_have_a_version_and_comes_after_converters() -> None:
    model = convert(OPS.scale, torch.rand(2), domains={"ortable_custom": ("my.domain", 3)})
    assert {o.domain: o.version for o in model.opset_import}["my.domain"] == 3

    def converter(graph, res, x, factor=2.0):
        return graph.make_node("Mul", [x, graph.make_initializer("", factor)], res.outputs)

    for dispatcher_class in (Dispatcher, OxsDispatcher):
        dispatcher = dispatcher_class({OPS.scale.default: converter}, custom_domains=DOMAIN)
        module = module_of(lambda x: OPS.scale(x, 3.0))
        model = to_onnx(module, (torch.rand(2),), dispatcher=dispatcher)
        assert [node.op_type for node in model.graph.node] == ["Mul"]
        assert_same(model, module, (torch.rand(2),))


def test_two_versions_of_one_domain_are_refused() -> None:
    opsets = {"": 18, "my.domain": 2}
    with pytest.raises(UnsupportedCase, match="has version 2 in this model"):
        convert(OPS.scale, torch.rand(2), target_opset=opsets)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: OPS.rows(x, x.shape[0]), r"'n' is the symbolic size .*dim_as_vector"),
        (
            lambda x: OPS.gain(x, 1 / x.shape[0]),
            "'by' is a number that the model computes",
        ),
        (lambda x: OPS.lists([x], [x]), "'a' is a list of tensors before another tensor"),
        (lambda x: OPS.scale(torch.complex(x, x), 2.0).real, "is complex"),
        (lambda x: OPS.gain(x, 1j), "argument 'by' is 1j, which no attribute can hold"),
        (lambda x: OPS.counted(x)[0], "returns tensors, and ortable_custom::counted returns some"),
    ],
)
def test_what_a_node_cannot_hold_is_refused_by_name(function, message) -> None:
    with pytest.raises(UnsupportedCase, match=message):
        convert(function, torch.rand(4, 3), dynamic_shapes={"x": {0: "n"}})


@pytest.mark.parametrize(
    ("domains", "message"),
    [
        ({"mylib": ""}, "need a domain of their own"),
        ({"mylib": "ai.onnx"}, "need a domain of their own"),
        ({"mylib": ("d", 0)}, "version of domain 'd'"),
        ({"mylib::op": "d"}, "namespaces of torch.library"),
    ],
)
def test_domains_are_checked(domains, message) -> None:
    with pytest.raises(OptionError, match=message):
        Dispatcher(custom_domains=domains)


def test_the_nodes_carry_their_provenance() -> None:
    node = only_node(convert(lambda x: OPS.scale(x, 2.0), torch.rand(2)))
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    assert metadata["aten_target"] == "ortable_custom.scale.default"
    assert metadata["source"].startswith("test_custom_operators.py:")


def test_a_custom_op_object_is_a_key() -> None:
    @torch.library.custom_op("ortable_custom_py::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    def convert_twice(graph, res, x):
        return graph.make_node("Add", [x, x], res.outputs)

    module = module_of(twice)
    for key in (twice, "ortable_custom_py::twice"):
        model = to_onnx(module, (torch.rand(3),), dispatcher={key: convert_twice})
        assert [node.op_type for node in model.graph.node] == ["Add"]
        assert_same(model, module, (torch.rand(3),))


# -- operators that mutate arguments


def add_in_place(x):
    y = x + 1
    OPS.add_(y, 2.0)
    return y * 2


def swap_in_place(x):
    y, z = x + 1, x * 3
    doubled = OPS.swap_(z, y, x)  # Arguments are not in the order of computation.
    return y, z, doubled


def increment_second(x):
    y = x * 3
    return OPS.increment_(None, y, None), y


@pytest.mark.parametrize("bases", [True, False], ids=["auto_functionalized_v2", "older"])
def test_an_operator_that_writes_returns_the_new_values_after_its_results(bases: bool) -> None:
    def add_(graph, res, x, v):
        return graph.make_node("Add", [x, graph.make_initializer("", v)], res.outputs)

    def swap_(graph, res, x, y, z):
        first = graph.make_node("Add", [z, z], res.outputs[:1])
        return [first, y, x]

    def increment_(graph, res, x, y, z):
        assert x is None and z is None
        one = graph.make_initializer("", 1.0)
        doubled = graph.make_node("Add", [y, y], res.outputs[:1])
        return [doubled, graph.make_node("Add", [y, one], res.outputs[1:2])]

    dispatcher = Dispatcher({OPS.add_: add_, OPS.swap_.default: swap_, OPS.increment_: increment_})
    for function in (add_in_place, swap_in_place, increment_second):
        module = module_of(function)
        with export_config.patch(enable_auto_functionalized_v2_for_export=bases):
            model = to_onnx(module, (torch.rand(3),), dispatcher=dispatcher)
        assert_same(model, module, (torch.rand(3),))


def test_a_node_of_an_operator_that_writes_has_the_new_values_as_outputs() -> None:
    model = convert(swap_in_place, torch.rand(3))
    node = only_node(model)
    assert (node.op_type, len(node.input), len(node.output)) == ("swap_", 3, 3)
    node = only_node(convert(add_in_place, torch.rand(3)))
    assert (len(node.input), len(node.output), attributes(node)) == (1, 1, {"v": 2.0})


def test_a_write_into_a_part_is_refused() -> None:
    def part(x):
        y = x + 1
        OPS.add_(y[0], 2.0)
        return y

    with pytest.raises(UnsupportedCase, match=r"writes into a part of a tensor.*clone"):
        convert(part, torch.rand(2, 3))


def test_an_operator_that_writes_and_has_no_converter_is_named() -> None:
    with pytest.raises(FunctionNotFoundError) as raised:
        to_onnx(module_of(swap_in_place), (torch.rand(3),))
    assert "ortable_custom::swap_" in str(raised.value)
    text = raised.value.details
    assert "ortable_custom::swap_, 1 call" in text
    assert "it writes to x, y: an entry returns results, then the new values" in text
    same = "{shape: same(x), dtype: same(x)}"
    assert f"out: [{same}, {same}, {same}]" in text


# -- user specs


@pytest.fixture
def load_spec_text(tmp_path: Path):
    tables = (dispatch.CONVERTERS, dispatch.COMPLEX_CONVERTERS, dispatch.RULES, dispatch.SPEC_FILES)
    saved = [dict(table) for table in tables]

    def load(text: str, **options):
        path = tmp_path / "my_ops.yaml"
        path.write_text(text)
        return load_specs(path, **options)

    yield load
    for table, contents in zip(tables, saved, strict=True):
        table.clear()
        table.update(contents)


SCALE = """
- op: ortable_custom::scale(Tensor x, float factor=2.) -> Tensor
  out: {shape: same(x), dtype: same(x)}
  lower: return Mul(x, const(factor, dtype_of(x)))
  samples: [{x: "f32[2,3]", factor: 3.0}]
"""


def test_a_spec_of_the_user_works_in_to_onnx_and_in_torch_compile(load_spec_text) -> None:
    load_spec_text(SCALE)
    module = module_of(lambda x: torch.relu(OPS.scale(x - 0.5, 3.0)))
    x = torch.rand(2, 3)
    assert_same(to_onnx(module, (x,)), module, (x,))
    storage: dict[str, Any] = {}
    compiled = torch.compile(module, backend="ortable", options={"storage": storage})
    assert_close([compiled(x)], [module(x)])
    (instance,) = storage["instance"]
    assert [node.op_type for node in instance["onnx"].graph.node].count("Mul") == 1


WRITING = """
- op: ortable_custom::add_(Tensor(a!) x, float v) -> ()
  out: {shape: same(x), dtype: same(x)}
  lower: return Add(x, const(v, dtype_of(x)))
  samples: [{x: "f32[2,3]", v: 3.0}]

- op: ortable_custom::swap_(Tensor(a!) x, Tensor(b!) y, Tensor z) -> Tensor
  out:
    - {shape: same(x), dtype: same(x)}
    - {shape: same(x), dtype: same(x)}
    - {shape: same(y), dtype: same(y)}
  lower: return Add(z, z), y, x
  samples: [{x: "f32[2,3]", y: "f32[2,3]", z: "f32[2,3]"}]
"""


def test_a_spec_of_an_operator_that_writes(load_spec_text) -> None:
    def write_argument(x):
        OPS.add_(x, 2.0)
        return x * 3

    def through_a_view(x):
        y = x + 1
        OPS.add_(y.view(-1), 1.0)
        return y

    load_spec_text(WRITING)
    for function in (add_in_place, swap_in_place):
        module, x = module_of(function), torch.rand(3)
        assert_same(to_onnx(module, (x,)), module, (x,))
    for function in (add_in_place, swap_in_place, write_argument):
        storage: dict[str, Any] = {}
        x, eager_x = torch.rand(3), torch.rand(3)
        eager_x.copy_(x)
        compiled = torch.compile(function, backend="ortable", options={"storage": storage})
        assert_close(pytree.tree_leaves(compiled(x)), pytree.tree_leaves(function(eager_x)))
        assert_close([x], [eager_x])
        assert {row.where for row in storage["instance"][0]["placement"]} == {"onnx"}
    with pytest.raises(Exception, match=r"writes into a part of a tensor.*clone"):
        strict = {"fallback": "error"}
        torch.compile(through_a_view, backend="ortable", options=strict)(torch.rand(2, 3))
    torch._dynamo.reset()
    x = torch.rand(2, 3)
    fallback = torch.compile(through_a_view, backend="ortable", options={"hints": False})
    assert_close([fallback(x)], [through_a_view(x)])


def test_an_alias_of_the_user_means_an_operator_of_ours(load_spec_text) -> None:
    LIBRARY_2.define("soft(Tensor v, int axis) -> Tensor")
    LIBRARY_2.impl("soft", lambda v, axis: v.softmax(axis), "CompositeExplicitAutograd")
    LIBRARY_2.define("gate(Tensor x) -> Tensor")
    LIBRARY_2.impl("gate", lambda x: torch.sigmoid(x), "CompositeExplicitAutograd")
    loaded = load_spec_text("""
- alias: ortable_alias::gate
  of: aten::sigmoid
  args: {self: x}
  samples: [{x: "f32[2]"}]

- alias: ortable_alias::soft
  of: aten::_softmax
  args: {self: v, dim: axis, half_to_float: "False"}
  samples: [{v: "f32[2,3]", axis: 1}]
""")
    assert loaded.operators == ("ortable_alias::gate", "ortable_alias::soft")
    ops = torch.ops.ortable_alias
    module = module_of(lambda x: ops.soft(ops.gate(x), 1))
    model = to_onnx(module, (torch.rand(2, 3),))
    assert [node.op_type for node in model.graph.node] == ["Sigmoid", "Softmax"]
    assert_same(model, module, (torch.rand(2, 3),))


def test_an_alias_of_nothing_or_of_a_random_operator_is_refused(load_spec_text) -> None:
    LIBRARY_2.define("other(Tensor self) -> Tensor")
    for target in ("aten::nothing", "aten::rand_like"):
        with pytest.raises(SpecError, match=f"there is no op entry '{target}'"):
            load_spec_text(
                f"- alias: ortable_alias::other\n  of: {target}\n  samples: [{{self: 'f32[2]'}}]\n"
            )


LIBRARY_2 = torch.library.Library("ortable_alias", "DEF")
