"""Export with arguments of every kind: containers, registered classes, numbers and caches."""

from __future__ import annotations

import dataclasses
import enum

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import ExportError, InputError
from ortable.exporter.to_onnx import to_onnx

from .helpers import assert_same, run_onnx


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    rest: list
    note: str = "a"


torch.export.register_dataclass(Point)


class Unknown:
    """A class that nobody registered."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class Bag:
    """A container that is registered below with indices as keys of its children."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        self.tensors = tensors


pytree.register_pytree_node(
    Bag,
    lambda bag: (tuple(bag.tensors), None),
    lambda tensors, _: Bag(*tensors),
    flatten_with_keys_fn=lambda bag: (
        [(pytree.SequenceKey(i), tensor) for i, tensor in enumerate(bag.tensors)],
        None,
    ),
)


class Nameless(Bag):
    """A container that is registered below without keys of its children."""


pytree.register_pytree_node(
    Nameless, lambda bag: (list(bag.tensors), None), lambda tensors, _: Nameless(*tensors)
)


class Mode(enum.Enum):
    PLUS = 1


class OnPoint(torch.nn.Module):
    def forward(self, p: Point, bag: Bag | None = None) -> torch.Tensor:
        value = p.x + p.rest[0] * (2 if p.note == "a" else 3)
        return value if bag is None else value - bag.tensors[0] * bag.tensors[1]


class Mixed(torch.nn.Module):
    def forward(self, x, n, scale, flag, name, none, *more, nested, **kw):
        x = x * scale + n if flag and none is None else x
        return x + more[0] - nested["a"][0] * kw["z"] if name == "yes" else x


def sizes(values) -> dict[str, list[int | str]]:
    return {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values
    }


def point(rows: int) -> Point:
    return Point(torch.rand(rows, 3), [torch.rand(rows, 3)])


def bag(rows: int) -> Bag:
    return Bag(torch.rand(rows, 3), torch.rand(rows, 3))


SPEC = {0: "rows"}


@pytest.mark.parametrize(
    "spec",
    [
        [SPEC, [SPEC], None],
        Point(SPEC, [SPEC], None),
        {"x": SPEC, "rest": [SPEC]},
        SPEC,  # applies to every tensor of the class
    ],
)
def test_dynamic_shapes_of_a_registered_class(spec) -> None:
    model = to_onnx(OnPoint(), (point(4),), dynamic_shapes={"p": spec})
    assert sizes(model.graph.input) == {"p_x": ["rows", 3], "p_rest_0": ["rows", 3]}
    for rows in (4, 7, 1):
        assert_same(model, OnPoint(), (point(rows),))


def test_a_class_registered_without_names_is_refused() -> None:
    with pytest.raises(ExportError, match=r"children of Nameless: register it with .*keys_fn"):
        shapes = {"p": None, "bag": SPEC}
        to_onnx(OnPoint(), (point(4), Nameless(torch.rand(4, 3))), dynamic_shapes=shapes)


def test_a_class_registered_with_numbers_takes_one_entry_for_each_child() -> None:
    shapes = {"p": [SPEC, [SPEC], None], "bag": (SPEC, SPEC)}
    model = to_onnx(OnPoint(), (point(4), bag(4)), dynamic_shapes=shapes)
    assert list(sizes(model.graph.input)) == ["p_x", "p_rest_0", "bag_0", "bag_1"]
    for rows in (4, 6):
        assert_same(model, OnPoint(), (point(rows), bag(rows)))


def test_numbers_strings_and_none_are_constants_and_tensors_are_inputs() -> None:
    def call(rows: int):
        x, y, z = (torch.rand(rows, 3) for _ in range(3))
        kwargs = {"z": z, "nested": {"a": [x + 1, None]}}
        return (x, 3, 2.5, True, "yes", None, y), kwargs

    args, kwargs = call(4)
    shapes = {"x": SPEC, "more": [SPEC], "nested": {"a": [SPEC, None]}, "z": SPEC}
    for dynamic_shapes in (None, shapes):
        model = to_onnx(Mixed(), args, kwargs, dynamic_shapes=dynamic_shapes)
        assert list(sizes(model.graph.input)) == ["x", "more_0", "z", "nested_a_0"]
        assert_same(model, Mixed(), args, kwargs)
    assert set(sizes(model.graph.input)["z"]) == {"rows", 3}
    assert_same(model, Mixed(), *call(6))


def test_a_member_of_an_enumeration_is_a_constant_of_a_static_model() -> None:
    class AddsByMode(torch.nn.Module):
        def forward(self, x: torch.Tensor, mode: Mode) -> torch.Tensor:
            return x + 1 if mode is Mode.PLUS else x

    args = (torch.rand(3), Mode.PLUS)
    assert_same(to_onnx(AddsByMode(), args), AddsByMode(), args)
    with pytest.raises(
        ExportError, match=r"'mode' is Mode.PLUS, and torch.export does not support"
    ):
        to_onnx(AddsByMode(), args, dynamic_shapes={"x": {0: "n"}})


def test_the_order_of_keyword_arguments_does_not_mix_up_their_dimensions() -> None:
    class ThreeInputs(torch.nn.Module):
        def forward(self, a, b, *, c):
            return a.sum() - b * c[:, None]

    kwargs = {"c": torch.rand(3), "b": torch.rand(3, 5)}
    shapes = {"a": {0: Dim("i")}, "b": {0: Dim("j"), 1: Dim("k")}, "c": {0: Dim("j")}}
    model = to_onnx(ThreeInputs(), (torch.rand(7),), kwargs, dynamic_shapes=shapes)
    assert sizes(model.graph.input) == {"a": ["i"], "c": ["j"], "b": ["j", "k"]}
    assert_same(model, ThreeInputs(), (torch.rand(2),), {"c": torch.rand(4), "b": torch.rand(4, 6)})


@pytest.mark.parametrize("dim", [Dim.DYNAMIC, "n", Dim("n"), Dim("n", min=2, max=5)])
def test_a_dynamic_integer_is_an_input(dim) -> None:
    class Head(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x[:n] * n

    model = to_onnx(Head(), (torch.rand(6), 4), dynamic_shapes={"x": None, "n": dim})
    output_size = "s0" if dim is Dim.DYNAMIC else "n"
    assert sizes(model.graph.input) == {"x": [6], "n": [1]}
    assert sizes(model.graph.output) == {"output_0": [output_size]}
    x = torch.rand(6)
    for n in (4, 2):
        (result,) = run_onnx(model, {"x": x.numpy(), "n": torch.tensor([n]).numpy()})
        torch.testing.assert_close(result, x[:n] * n)


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, value) -> torch.Tensor:
        return x * 2 if value is None else x


@pytest.mark.parametrize("value", [2.5, True, "s", None])
def test_other_values_cannot_be_dynamic(value) -> None:
    with pytest.raises(ExportError, match=r"for 'value', which is .*: only tensors and integers"):
        to_onnx(Scaled(), (torch.rand(3), value), dynamic_shapes={"x": None, "value": Dim.DYNAMIC})
    model = to_onnx(
        Scaled(), (torch.rand(3), value), dynamic_shapes={"x": {0: "n"}, "value": Dim.AUTO}
    )
    assert sizes(model.graph.input) == {"x": ["n"]}


@pytest.mark.parametrize(
    ("value", "spec", "message"),
    [
        (3, 2 * Dim("n"), "'value' is a number: its name .* cannot be the derived dimension 2"),
        (Unknown(torch.rand(3)), {0: "n"}, "'value' is a .*Unknown.*register_pytree_node"),
    ],
)
def test_a_dynamic_shape_that_a_value_cannot_have(value, spec, message) -> None:
    with pytest.raises(ExportError, match=message):
        to_onnx(Scaled(), (torch.rand(3), value), dynamic_shapes={"x": {0: "n"}, "value": spec})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Unknown(torch.rand(3)), r"'value.a\[1\]' is a .*Unknown.*register_pytree_node"),
        (object(), r"'value.a\[1\]' is a builtins.object.*register_pytree_node\(object"),
        (torch.float16, "is the dtype torch.float16, which torch.export does not take"),
        (1j, "is the complex 1j, which torch.export does not take"),
    ],
)
def test_a_class_that_nobody_registered_is_named_with_the_remedy(value, message) -> None:
    with pytest.raises(ExportError, match=message.replace("value.a", r"value\['a'\]")):
        to_onnx(Scaled(), (torch.rand(3), {"a": [1, value]}))


def test_a_returned_class_that_nobody_registered_is_named() -> None:
    class Returns(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Unknown:
            return Unknown(x + 1)

    with pytest.raises(ExportError, match=r"the model returns a .*Unknown.*register_dataclass"):
        to_onnx(Returns(), (torch.rand(3),))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ([SPEC, [{7: "b"}], None], r"'p\.rest\[0\]' names dimension 7, but it has rank 2"),
        ([SPEC, [SPEC, SPEC], None], r"'p\.rest' needs one entry for each of its 1 items"),
        ({"y": SPEC}, r"'p' needs one entry for each of its 3 items \(x, rest, note\)"),
        ([SPEC, [{0: 5}], None], r"dimension 0 of 'p\.rest\[0\]' is 5 .* but its size is 4"),
        ([SPEC, [{0: 2.5}], None], "it can be a name, a torch.export.Dim"),
        ([SPEC, [{1: "rows"}], None], "dimensions of one name have one size"),
    ],
)
def test_errors_name_the_leaf(spec, message) -> None:
    with pytest.raises(ExportError, match=message):
        to_onnx(OnPoint(), (point(4),), dynamic_shapes={"p": spec})


def test_a_fixed_dimension_of_a_leaf_is_found_in_torchs_complaint() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, p: Point) -> torch.Tensor:
            return p.rest[0] + torch.ones(4, 3)

    with pytest.raises(ExportError, match=r"input 'p\.rest\[0\]', dimension 0 \(rows\), size 4"):
        to_onnx(Fixed(), (point(4),), dynamic_shapes={"p": [None, [SPEC], None]})


def cache(rows: int, past: int, layers: int = 2):
    import transformers

    cache_object = transformers.DynamicCache()
    for layer in range(layers):
        cache_object.update(torch.rand(rows, 2, past, 4), torch.rand(rows, 2, past, 4), layer)
    return cache_object


class Cached(torch.nn.Module):
    def forward(self, x, past):
        keys, values = past.update(x, x * 2, 1)
        return keys - values, past


PAST = {0: "batch", 2: "past"}


@pytest.mark.parametrize(
    "spec", [PAST, [[PAST] * 2, [PAST] * 2], [PAST] * 4, {"key_cache": [PAST] * 2}]
)
def test_a_cache_goes_in_and_out(spec) -> None:
    shapes = {"x": {0: "batch", 2: "new"}, "past": spec}
    if isinstance(spec, dict) and "key_cache" in spec:
        shapes["past"] = {**spec, "value_cache": [PAST] * 2}
    model = to_onnx(Cached(), (torch.rand(3, 2, 6, 4), cache(3, 5)), dynamic_shapes=shapes)
    input_shapes = sizes(model.graph.input)
    assert list(input_shapes)[1:] == [
        f"past_{kind}_cache_{layer}" for kind in ("key", "value") for layer in range(2)
    ]
    assert input_shapes["past_value_cache_1"] == ["batch", 2, "past", 4]
    assert set(sizes(model.graph.output)["output_0"]) == {"batch", 2, "new + past", 4}
    for rows, new, past in ((3, 6, 5), (2, 1, 9)):
        assert_same(model, Cached(), (torch.rand(rows, 2, new, 4), cache(rows, past)))


def test_a_pair_of_caches_goes_in_and_out() -> None:
    import transformers

    class Pair(torch.nn.Module):
        def forward(self, x, past):
            keys, _ = past.self_attention_cache.update(x, x, 0)
            return keys.sum(2) + past.cross_attention_cache.layers[0].keys.sum(2), past

    def call(rows: int, new: int, past: int, source: int):
        pair = transformers.EncoderDecoderCache(cache(rows, past, 1), cache(rows, source, 1))
        return torch.rand(rows, 2, new, 4), pair

    spec = {"self_attention_cache": PAST, "cross_attention_cache": {0: "batch", 2: "source"}}
    shapes = {"x": {0: "batch", 2: "new"}, "past": spec}
    model = to_onnx(Pair(), call(3, 6, 5, 7), dynamic_shapes=shapes)
    assert "past_cross_attention_cache_value_cache_0" in sizes(model.graph.input)
    for lengths in ((3, 6, 5, 7), (2, 1, 4, 9)):
        assert_same(model, Pair(), call(*lengths))


def test_input_names_as_a_dict_replace_some_of_the_names() -> None:
    model = to_onnx(OnPoint(), (point(4),), input_names={"p_rest_0": "other"})
    assert list(sizes(model.graph.input)) == ["p_x", "other"]
    with pytest.raises(ExportError, match=r"input_names renames \['q'\], but the model has"):
        to_onnx(OnPoint(), (point(4),), input_names={"q": "other"})


class Plain(torch.Tensor):
    """A tensor subclass that changes no operator, like those of torchvision."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Negated(torch.Tensor):
    """A tensor subclass whose sums have the opposite sign."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return -result if func in (torch.Tensor.__add__, torch.Tensor.add, torch.add) else result


class Sum(torch.nn.Module):
    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight


def test_a_class_of_tensors_that_changes_nothing_is_exported() -> None:
    x = torch.rand(2, 3)
    for weight, argument in ((x * 2, x.as_subclass(Plain)), ((x * 2).as_subclass(Plain), x)):
        model = to_onnx(Sum(weight), (argument,))
        assert torch.equal(run_onnx(model, {"x": x.numpy()})[0], x + x * 2)


def test_a_class_of_tensors_that_changes_what_is_computed_is_refused() -> None:
    x = torch.rand(2, 3)
    message = (
        r"(?s)^Negated.__torch_function__ changes what the model computes, .* differ on the example"
        r".*What to do: give plain tensors \(x.as_subclass\(torch.Tensor\)\)"
    )
    for weight, argument in ((x * 2, x.as_subclass(Negated)), ((x * 2).as_subclass(Negated), x)):
        with pytest.raises(ExportError, match=message):
            to_onnx(Sum(weight), (argument,))
        assert torch.equal(Sum(weight)(argument), x.as_subclass(Negated) + x * 2)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (torch.Tensor.to_mkldnn, r"of layout torch._mkldnn: .*; give x.to_dense\(\)"),
        (
            lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
            r"a quantized tensor \(torch.qint8\), .*: give x.dequantize\(\), or",
        ),
        (
            lambda x: torch.nested.nested_tensor([x, x]),
            r"a nested tensor: .*; give torch.nested.to_padded_tensor\(x, 0.0\)",
        ),
    ],
)
def test_a_tensor_that_is_not_dense_is_refused_by_its_place(convert, message) -> None:
    x = torch.rand(2, 3)
    packed = convert(x)
    with pytest.raises(InputError, match=rf"^args\[0\] is {message}"):
        to_onnx(Sum(x), (packed,))
    with pytest.raises(InputError, match=rf"^kwargs\['x'\] is {message}"):
        to_onnx(Sum(x), (), {"x": packed})
    if not packed.is_mkldnn:  # an MKLDNN weight is supported, see tests/interpreter/test_layouts.py
        with pytest.raises(InputError, match=rf"^'weight' of the model is {message}"):
            to_onnx(Sum(packed), (x,))


def test_a_nested_input_of_a_graph_is_refused() -> None:
    traced = torch.fx.symbolic_trace(lambda x: x + 1)
    nested = torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(1, 3)])
    next(iter(traced.graph.nodes)).meta["val"] = nested
    with pytest.raises(InputError, match="input 'x' of the graph is a nested tensor: an ONNX"):
        to_onnx(traced)


def test_empty_tensors_have_an_address():
    """Group norm of no elements ended the process, because their memory had the address 0."""

    class Norm(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.group_norm(x, 2)

    example = torch.ones(2, 4, 3, 3)
    program = ortable.export(Norm(), (example,), dynamic_shapes=({2: "height"},))
    assert program(example[:, :, :0]).shape == (2, 4, 0, 3)
