"""Converters of the caller: their keys, composite operators, and the checks on results."""

from __future__ import annotations

import operator
import pydoc

import pytest
import torch

from ortable.errors import ConversionError, FunctionNotFoundError, OptionError, UnsupportedCase
from ortable.exporter.dispatchers.dispatcher import Dispatcher, from_seed_style
from ortable.exporter.dispatchers.operator_names import operator_names
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.to_onnx import to_onnx
from ortable.interpreter.tables import generated_tables

from .helpers import assert_close, run_onnx

F = torch.nn.functional


def module_of(function) -> torch.nn.Module:
    class Module(torch.nn.Module):
        def forward(self, *args: torch.Tensor):
            return function(*args)

    return Module()


def convert(function, *args, dispatcher, **options):
    return to_onnx(module_of(function), args, dispatcher=dispatcher, **options)


def op_types(model) -> list[str]:
    return [node.op_type for node in model.graph.node]


def make_converter(op_type: str = "Softsign"):
    """Return a converter whose node the tables never write."""

    def mark(graph, res, self, *args, **kwargs):
        return graph.make_node(op_type, [self], res.outputs)

    return mark


def test_a_converter_of_the_user_is_called_like_a_generated_one() -> None:
    calls = []

    def erfcx(graph, res, self):
        calls.append((res.dtype, res.shape, self))
        return graph.make_node("Erf", [self], res.outputs)

    functions = {"aten::special_erfcx": erfcx}
    model = convert(torch.special.erfcx, torch.rand(2, 3), dispatcher=functions)
    assert op_types(model) == ["Erf"]
    assert calls == [(1, (2, 3), "args_0")]


def test_a_result_without_elements_is_made_by_the_converter_of_the_user_too() -> None:
    """With the tables' converter the empty result is a constant."""
    empty, functions = torch.rand(0, 3), {"aten::special_erfcx": make_converter()}
    assert op_types(convert(torch.special.erfcx, empty, dispatcher=None)) in ([], ["Identity"])
    assert op_types(convert(torch.special.erfcx, empty, dispatcher=functions)) == ["Softsign"]


def format_id(value: object) -> str:
    """Return a test id that is the same in every process, unlike a function's address."""
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize(
    "key",
    [
        "aten::celu",
        "aten::celu.default",
        torch.ops.aten.celu.default,
        torch.ops.aten.celu,
        torch.celu,
        F.celu,
        "torch.nn.functional.celu",
        "torch.celu",
    ],
)
@pytest.mark.parametrize("function", [torch.celu, F.celu, torch.nn.CELU()], ids=["t", "F", "nn"])
def test_an_operator_may_be_named_in_every_way(key, function) -> None:
    model = convert(function, torch.rand(3), dispatcher={key: make_converter()})
    assert op_types(model) == ["Softsign"]


@pytest.mark.parametrize(
    ("key", "function"),
    [
        ("Tensor.relu", lambda x: x.relu()),
        (torch.Tensor.relu, torch.relu),
        (operator.add, lambda x: x + x),
        ("operator.add", lambda x: torch.add(x, 2.0)),
        ("aten::add.Tensor", lambda x: x + 1),
        (torch.special.erfcx, torch.special.erfcx),
        (torch.linalg.vector_norm, lambda x: torch.linalg.vector_norm(x, dim=0, keepdim=True)),
        (F.gelu, F.gelu),
        (F.layer_norm, lambda x: F.layer_norm(x, (3,))),
        (F.scaled_dot_product_attention, lambda x: F.scaled_dot_product_attention(x, x, x)),
    ],
    ids=format_id,
)
def test_functions_methods_and_python_operators_name_what_they_call(key, function) -> None:
    x = torch.rand(1, 3) if key is not F.scaled_dot_product_attention else torch.rand(1, 1, 2, 3)

    def mark(graph, res, self, *args, **kwargs):
        return graph.make_node("Identity", [self], res.outputs, name="mine")

    model = convert(lambda v: torch.sin(function(v)), x, dispatcher={key: mark}, optimize=False)
    assert "mine" in [node.name for node in model.graph.node]


class Celu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.celu(x)


def test_torch_functions_of_a_traced_graph_reach_the_converter_too() -> None:
    traced = torch.fx.symbolic_trace(Celu())
    for node in traced.graph.nodes:
        node.meta["val"] = torch.empty(3, device="meta")
    model = to_onnx(traced, dispatcher={F.celu: make_converter()})
    assert op_types(model) == ["Softsign"]


def called_operators(function, args) -> set[str] | None:
    """Return the operators that torch.export captures of a call, or None if the call fails."""
    from torch.fx.experimental.proxy_tensor import make_fx

    try:
        graph = make_fx(function, pre_dispatch=True)(*(arg.clone() for arg in args)).graph
    except (RuntimeError, TypeError, ValueError, LookupError, AssertionError):
        return None
    targets = [node.target for node in graph.nodes if node.op == "call_function"]
    return {t.name().partition(".")[0] for t in targets if isinstance(t, torch._ops.OpOverload)}


@pytest.mark.slow
def test_every_function_of_the_tables_calls_the_operator_that_it_names() -> None:
    x, integers = torch.rand(3, 3) + 0.1, torch.arange(4).reshape(2, 2)
    count = 0
    for name in generated_tables().callables:
        try:
            names = operator_names(name)
        except OptionError:
            continue  # The error asks for an operator name.
        function = pydoc.locate(name) or pydoc.locate(name.replace("operator.", "_operator."))
        for args in ((x,), (x, x), (integers,), (integers, integers), (x, x, x)):
            operators = called_operators(function, args)
            if operators:
                functional = {n if n.endswith("__") else n.rstrip("_") for n in operators}
                functional |= {n.replace("::__i", "::__") for n in functional}
                assert functional & set(names), (name, names, operators)
                count += 1
                break
    assert count > 250


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift", "iand"])
def test_operators_of_python_have_two_names_in_exported_graphs(name) -> None:
    def mark(graph, res, self, other):
        return graph.make_node("Sub", [self, other], res.outputs, name="mine")

    def function(x):
        return getattr(operator, name)(x + 0, x)

    model = convert(function, torch.tensor([1, 2]), dispatcher={getattr(operator, name): mark})
    assert "mine" in [node.name for node in model.graph.node]
    x = torch.tensor([1, 2])
    bitwise_calls = {torch.bitwise_and: lambda x: torch.bitwise_and(x, x + 1)}
    for key, call in bitwise_calls.items():
        model = convert(call, x, dispatcher={key: mark, operator.or_: mark})
        assert "mine" in [node.name for node in model.graph.node]


def test_a_name_without_overload_stands_for_those_without_their_own() -> None:
    """A key without overload covers the overloads that have no key of their own."""
    functions = {"aten::add": make_converter("Neg"), "aten::add.Tensor": make_converter("Abs")}
    assert op_types(convert(lambda x: x + x, torch.rand(2), dispatcher=functions)) == ["Abs"]
    functions.pop("aten::add.Tensor")
    assert op_types(convert(lambda x: x + x, torch.rand(2), dispatcher=functions)) == ["Neg"]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("relu", "'relu' is not an operator"),
        ("aten::relu.", "'aten::relu.' is not an operator"),
        (" aten::relu", "' aten::relu' is not an operator"),
        ("Tensor.__class__", "torch does not say which operator torch.Tensor.__class__ calls"),
        (3, "a converter is named after its operator"),
        (torch.nn.ReLU, "a converter is named after its operator"),
        ("aten::cellu", r"torch has no operator 'aten::cellu'; did you mean 'aten::celu'\?"),
        ("aten::add.Tensr", "has no overload 'Tensr', it has"),
        (torch.norm, "calls one of several operators.*'aten::linalg_vector_norm'"),
        ("Tensor.norm", "calls one of several operators"),
        (F.embedding, r"the operator that the converter is for: 'aten::embedding', whose schema"),
        (F.multi_head_attention_forward, "torch does not say which operator"),
        ("torch.nn.functional.nothing", "is not an operator"),
        ("Tensor.relu_", "writes in place.*'Tensor.relu'"),
        ("aten::relu_", "'aten::relu_' writes in place.*'aten::relu'"),
        (torch.relu_, "'aten::relu_' writes in place.*'aten::relu'"),
        (torch.ops.aten.add_.Tensor, "'aten::add_.Tensor' writes in place.*'aten::add'"),
        ("Tensor.double", r"a call of aten::to\.dtype with .*; name the converter after 'aten::to"),
        ("Tensor.nothing", "torch does not say which operator torch.Tensor.nothing calls"),
        ("Tensor.stft", r"torch.Tensor.stft is a function in Python.*'aten::stft"),
        (lambda x: x, "torch does not say which operator"),
    ],
    ids=format_id,
)
def test_a_key_that_names_no_operator_says_what_to_write(key, message) -> None:
    with pytest.raises(OptionError, match=message):
        Dispatcher({key: make_converter()})


def test_a_method_that_torch_binds_is_its_operator() -> None:
    """Functions in Python such as `Tensor.stft` need a row in the tables; bound methods do not."""
    assert operator_names("Tensor._is_zerotensor") == ("aten::_is_zerotensor",)


def test_functions_are_checked_when_they_are_given() -> None:
    with pytest.raises(OptionError, match="the converter of 'aten::relu' is a function"):
        Dispatcher({"aten::relu": "Relu"})
    with pytest.raises(OptionError, match="two converters are given for 'aten::celu'"):
        Dispatcher({"aten::celu": make_converter(), torch.celu: make_converter()})


# -- composite operators


@pytest.mark.parametrize("table", [None, "default", "all"])
def test_a_composite_operator_reaches_its_converter_whole(table) -> None:
    def layer_norm(graph, res, input, shape, weight=None, bias=None, eps=1e-5, enable=True):
        return graph.make_node("Softsign", [input], res.outputs)

    options = ExportOptions(decomposition_table=table)
    model = convert(
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        torch.rand(2, 3),
        dispatcher={torch.nn.functional.layer_norm: layer_norm},
        export_options=options,
    )
    assert op_types(model) == ["Softsign"]


def test_a_graph_that_is_functionalised_keeps_the_operator_whole() -> None:
    def write(x, y):
        x.mul_(2)
        return torch.nn.functional.linear(x, y)

    def linear(graph, res, input, weight, bias=None):
        transposed = graph.make_node("Transpose", [weight], perm=[1, 0])
        return graph.make_node("MatMul", [input, transposed], res.outputs, name="mine")

    args = torch.rand(2, 3), torch.rand(4, 3)
    model = convert(write, *args, dispatcher={"aten::linear": linear}, rewrites="none")
    assert "mine" in [node.name for node in model.graph.node]


def test_an_operator_that_the_tables_decompose_reaches_its_converter_whole() -> None:
    model = convert(lambda x: torch.diff(x), torch.rand(2, 4), dispatcher=None)
    assert "Sub" in op_types(model)

    def diff(graph, res, self, *args):
        return graph.make_node("Squeeze", [graph.make_node("Unsqueeze", [self, zero(graph)]),
                                           zero(graph)], name="mine")  # fmt: skip

    def zero(graph):
        return graph.make_initializer("", [0])

    with pytest.raises(ConversionError, match=r"shape \(2, 4\)|shape 2x4"):
        convert(lambda x: torch.diff(x), torch.rand(2, 4), dispatcher={"aten::diff": diff})


# -- higher-order operators


def test_a_higher_order_operator_may_have_a_converter_of_the_user() -> None:
    def branch(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    calls = []

    def cond(graph, res, predicate, true_graph, false_graph, operands):
        calls.append((isinstance(true_graph, torch.fx.GraphModule), len(operands)))
        results = graph.convert_into(graph, true_graph, list(operands))
        return [graph.make_node("Identity", results, res.outputs)]

    for key in (torch.ops.higher_order.cond, "higher_order::cond"):
        x = torch.rand(3)
        model = convert(branch, x, dispatcher={key: cond})
        assert "If" not in op_types(model)
        name = model.graph.input[0].name
        assert_close(run_onnx(model, {name: x.numpy()}), [x + 1])
    assert calls == [(True, 1)] * 2


# -- checks on converters


def convert_celu(converter, function=torch.celu):
    return convert(function, torch.rand(2, 3), dispatcher={"aten::celu": converter})


def test_an_exception_names_the_converter_the_node_and_the_line_of_the_model() -> None:
    def my_celu(graph, res, self):
        return graph.make_node("Celu", [self + undefined], res.outputs)  # type: ignore # noqa

    with pytest.raises(ConversionError) as raised:
        to_onnx(Celu(), (torch.rand(2),), dispatcher={"aten::celu": my_celu})
    text = str(raised.value)
    assert "converter 'my_celu' (test_dispatchers.py:" in text
    assert "failed (at test_dispatchers.py:" in text
    assert "NameError: name 'undefined' is not defined" in text
    assert "node 'celu'" in text and "aten::celu(Tensor self" in text
    assert "source: " in text and ": return torch.celu(x)" in text


def test_an_error_of_the_builder_keeps_its_words() -> None:
    def my_celu(graph, res, self):
        return graph.make_node("Cellu", [self], res.outputs)

    with pytest.raises(ConversionError, match=r"'my_celu' .*failed .*Cellu"):
        convert_celu(my_celu)


@pytest.mark.parametrize(
    ("op_type", "attributes", "message"),
    [
        ("Cast", {"to": 10}, "computes float16, torch computes float32"),
        ("Transpose", {"perm": [1, 0]}, "computes shape 3x2, torch computes shape 2x3"),
        ("ReduceSum", {"keepdims": 0}, "computes .*, torch computes"),
    ],
)
def test_another_type_or_shape_than_torchs_names_the_converter(
    op_type, attributes, message
) -> None:
    def my_celu(graph, res, self):
        return graph.make_node(op_type, [self], res.outputs, **attributes)

    with pytest.raises(ConversionError, match=rf"converter 'my_celu' .*result 'celu': .*{message}"):
        convert_celu(my_celu)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None for result 0"),
        (("celu", "celu"), "returned 2 results, torch has 1 result"),
        ("nowhere", "'nowhere', which is not a result of the graph"),
    ],
)
def test_what_a_converter_returns_is_checked(returned, message) -> None:
    def my_celu(graph, res, self):
        graph.make_node("Celu", [self], res.outputs)
        return returned

    with pytest.raises(ConversionError, match=rf"converter 'my_celu' .*{message}"):
        convert_celu(my_celu)


def test_several_results_are_counted_and_a_list_is_a_list() -> None:
    def first_result(graph, res, self, *args, **kwargs):
        return graph.make_node("Identity", [self], res.outputs[:1])

    with pytest.raises(ConversionError, match="returned 1 result, torch has 2 results"):
        convert(lambda x: torch.topk(x, 2), torch.rand(3), dispatcher={"aten::topk": first_result})

    def split(graph, res, self, size, dim=0):
        return graph.make_node("Identity", [self], res.outputs)

    model = convert(lambda x: torch.split(x, 3)[0] + 1, torch.rand(3),
                    dispatcher={"aten::split.Tensor": split})  # fmt: skip
    assert op_types(model) == ["Add"]


def test_a_refusal_of_the_converter_stays_one() -> None:
    def my_celu(graph, res, self):
        raise UnsupportedCase("only on Sundays")

    with pytest.raises(UnsupportedCase, match=r"'my_celu' .*rejects the call: only on Sundays"):
        convert_celu(my_celu)


def test_converters_in_the_older_form_are_adapted() -> None:
    typed = []

    def aten_erfcx(g, sts, outputs, x):
        typed.append(bool(sts))
        res = g.op.Erf(x, outputs=outputs, name="erfcx")
        if not sts:
            g.set_type(res, g.get_type(x))
        return res

    dispatcher = Dispatcher({"aten::special_erfcx": from_seed_style(aten_erfcx)})
    model = convert(torch.special.erfcx, torch.rand(2), dispatcher=dispatcher)
    assert op_types(model) == ["Erf"]
    assert typed == [True]


def test_the_page_s_copy_takes_identity_or_castlike() -> None:
    def aten_copy(g, sts, outputs, x, src, non_blocking=False):
        "identity"
        assert not non_blocking, "copy implemented when non_blocking is True"
        if g.get_type(x) == g.get_type(src):
            return g.op.Identity(src, name="copy", outputs=outputs)
        return g.op.CastLike(src, x, name="copy", outputs=outputs)

    dispatcher = {"aten::copy": from_seed_style(aten_copy)}
    x, same, other = torch.rand(3), torch.rand(3), torch.arange(3)
    model = convert(torch.ops.aten.copy.default, x, same, dispatcher=dispatcher)
    assert op_types(model) == ["Identity"]  # An Identity from an input to an output stays.
    model = convert(torch.ops.aten.copy.default, x, other, dispatcher=dispatcher)
    assert op_types(model) == ["CastLike"] and model.graph.node[0].name == "copy"


def test_the_page_s_addmm_and_asin_work_with_the_import_changed() -> None:
    def aten_addmm(g, sts, outputs, a, b, c, beta=1.0, alpha=1.0):
        "gemm"
        res = g.op.Gemm(
            b, c, a, alpha=float(alpha), beta=float(beta), outputs=outputs, name="addmm"
        )
        if not sts:
            g.set_type(res, g.get_type(b))
            g.set_rank(res, 2)
        return res

    def aten_asin(g, sts, outputs, x):
        "asin"
        return g.make_node("Asin", [x], outputs)

    dispatcher = Dispatcher(
        {"aten::addmm": from_seed_style(aten_addmm), "aten::asin": from_seed_style(aten_asin)}
    )
    args = torch.rand(2, 4), torch.rand(2, 3), torch.rand(3, 4) / 10

    def function(a, b, c):
        return torch.asin(torch.addmm(a, b, c, beta=0.5, alpha=0.25))

    model = convert(function, *args, dispatcher=dispatcher)
    assert [(n.op_type, n.name) for n in model.graph.node] == [("Gemm", "addmm"), ("Asin", "asin")]
    names = [value.name for value in model.graph.input]
    feeds = {name: arg.numpy() for name, arg in zip(names, args, strict=True)}
    assert_close(run_onnx(model, feeds), [function(*args)])


def test_verbose_says_once_which_converter_is_taken(capsys) -> None:
    dispatcher = Dispatcher({"aten::celu": make_converter()}, verbose=1)
    convert(lambda x: torch.celu(torch.celu(x)), torch.rand(2), dispatcher=dispatcher)
    lines = [line for line in capsys.readouterr().out.splitlines() if "Dispatcher.find" in line]
    assert len(lines) == 1
    assert "'aten::celu' is converted by converter 'mark' (test_dispatchers.py:" in lines[0]


def test_verbose_names_converters_that_were_never_called(capsys) -> None:
    dispatcher = Dispatcher({torch.celu: make_converter(), torch.selu: make_converter()})
    convert(torch.celu, torch.rand(2), dispatcher=dispatcher, verbose=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "never called" in line]
    assert lines == ["[to_onnx] converters that were never called: aten::selu"]


def test_without_a_dispatcher_the_error_names_the_ways_out() -> None:
    with pytest.raises(FunctionNotFoundError) as raised:
        to_onnx(module_of(torch.norm_except_dim), (torch.rand(2),))
    text = str(raised.value)
    assert "aten::norm_except_dim, 1 call" in text and "start from:" in text
    for word in ("load_specs", "Dispatcher({'aten::norm_except_dim': f})", "OxsDispatcher()"):
        assert word in text


@pytest.mark.parametrize(
    "name",
    ["Tensor.fill_", "Tensor.exponential_", "Tensor.relu_", "aten::lerpx", "aten::format_",
     "aten::reversx", "aten::sparse_dim_", "aten::reluu"],
)  # fmt: skip
def test_a_name_that_an_error_suggests_is_taken(name) -> None:
    with pytest.raises(OptionError) as raised:
        Dispatcher({name: make_converter()})
    suggested = [text for text in str(raised.value).split("'")[1::2] if text != name]
    assert all(Dispatcher({text: make_converter()}).functions for text in suggested)


def test_a_method_that_writes_and_has_no_other_is_refused_without_a_name() -> None:
    """The error for an in-place method without a functional variant suggests no name."""
    with pytest.raises(OptionError, match=r"such writes: name the operator in the graph$"):
        Dispatcher({"Tensor.apply_": make_converter()})


@pytest.mark.parametrize(
    "function",
    [lambda x: (x + 1).relu_(), lambda x: F.celu_(x + 1), lambda x: torch.geqrf(x)[0]],
)
def test_a_python_function_that_no_converter_can_stand_for_needs_example_inputs(function) -> None:
    traced = torch.fx.symbolic_trace(function)
    next(iter(traced.graph.nodes)).meta["val"] = torch.empty(2, 2)
    with pytest.raises(FunctionNotFoundError) as raised:
        to_onnx(traced)
    text = f"{raised.value}\n{raised.value.details}"
    assert "What to do: give example inputs (args): torch then exports the graph" in text
    for word in ("Dispatcher", "load_specs", "start from"):
        assert word not in text


def test_the_error_of_a_method_names_the_operator_whose_converter_would_be_asked() -> None:
    traced = torch.fx.symbolic_trace(lambda x: x.repeat(2))
    next(iter(traced.graph.nodes)).meta["val"] = torch.empty(3, 3)
    with pytest.raises(ConversionError) as raised:
        to_onnx(traced)
    assert raised.value.operator == "repeat"
    assert raised.value.converter_name == "aten::repeat"
    assert "dispatcher={'aten::repeat': f}" in str(raised.value)
    assert op_types(to_onnx(traced, dispatcher={"aten::repeat": make_converter()})) == ["Softsign"]
