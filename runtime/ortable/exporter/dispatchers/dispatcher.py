"""Add a user's converters to the generated ones, by operator or torch function.

For an operator, a dispatcher returns the user's converter, the generated one, one of another
library, or one that writes a node of a custom ONNX domain: tensors become inputs of the node,
everything else attributes. The interpreter and functionalize.py ask it for converters.
"""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate

import torch
from onnx import AttributeProto
from torch.fx import Node

from ortable import dims, dtypes
from ortable.builder import GraphBuilder, ResultSpec
from ortable.errors import ConversionError, OptionError, OrtableError, UnsupportedCase
from ortable.exporter.dispatchers.operator_names import operator_names
from ortable.interpreter import results
from ortable.prelude.complex_value import ComplexValue


class CheckedConverter:
    """A user's function as the converter of operator ``name``, with checks of its results.

    Raises:
        ConversionError: the function failed, or its results differ from torch's in number, type or
            shape.
        UnsupportedCase: the function raised it, because it does not support the arguments.
    """

    __slots__ = ("calls", "function", "label", "name")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.calls = 0
        self.label = describe_converter(function)

    def __call__(self, graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and check its results."""
        self.calls += 1
        node = graph.origin  # converting an inner graph changes the origin
        try:
            returned = self.function(graph, res, *args, **kwargs)
        except (ConversionError, UnsupportedCase) as error:
            if error.fx_node is not None:
                raise  # the error comes from an inner graph, and has the node of that graph
            raise type(error)(f"{self.label} rejects the call: {error.message}") from error
        except Exception as error:  # the function is any Python code
            raise ConversionError(self._failure_text(error)) from error
        graph.origin = node
        value = results.node_value(node) if isinstance(node, Node) else None
        returned = self._arrange_results(res, returned, isinstance(value, (list, tuple)))
        names = returned if isinstance(returned, (list, tuple)) else [returned]
        for index, (name, dtype, shape) in enumerate(
            zip(names, res.dtypes, res.shapes, strict=True)
        ):
            if dtype is None or isinstance(name, ComplexValue):
                continue
            if not name and not res.is_used(index):
                continue
            self._check_result(graph, index, name, dtype, shape)
        return returned

    def _failure_text(self, error: Exception) -> str:
        """Describe an error of the function, with the innermost line in the function's file."""
        is_ortable_error = isinstance(error, OrtableError)
        text = error.message if isinstance(error, OrtableError) else str(error)
        error_type = "" if is_ortable_error else f"{type(error).__name__}: "
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        file = code.co_filename if code else None
        frames = traceback.extract_tb(error.__traceback__)
        user_frames = [frame for frame in frames if frame.filename == file]
        location = (
            f" (at {os.path.basename(user_frames[-1].filename)}:{user_frames[-1].lineno})"
            if user_frames
            else ""
        )
        return f"{self.label} failed{location}: {error_type}{text}"

    def _arrange_results(self, res: Any, returned: Any, several: bool) -> Any:
        """Return one value for an operator with a single result that is no list, else a list.

        ``several``: whether torch's value is a list or tuple. Raises ConversionError for another
        number of results than torch's.
        """
        values: Sequence[Any] = returned if isinstance(returned, (list, tuple)) else [returned]
        if len(values) != len(res):
            raise ConversionError(
                f"{self.label} returned {_count_text(len(values))}, "
                f"torch has {_count_text(len(res))}"
            )
        return list(values) if several or len(res) != 1 else values[0]

    def _check_result(self, graph: Any, index: int, name: Any, dtype: int, shape: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ConversionError(
                f"{self.label} returned {name!r} for result {index}; a result is the name that "
                "graph.make_node returns"
            )
        difference = results.check_and_complete(graph, name, dtype, shape)
        if difference is not None:
            raise ConversionError(f"{self.label}, result '{name}': {difference}")


def describe_converter(function: Callable[..., Any]) -> str:
    """Return the name and location of a function: ``converter 'my_celu' (model.py:12)``."""
    unwrapped = inspect.unwrap(function)
    name = getattr(unwrapped, "__qualname__", None) or repr(unwrapped)
    code = getattr(unwrapped, "__code__", None)
    location = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code else ""
    return f"converter '{name.rpartition('<locals>.')[2]}'{location}"


def _count_text(number: int) -> str:
    return f"{number} result" + ("" if number == 1 else "s")


# f(graph, res, *args, **kwargs) -> the name of the result, or a list of names.
Converter = Callable[Concatenate[GraphBuilder, ResultSpec, ...], Any]


class Dispatcher:
    """The user's converters, which take precedence over the generated ones.

    Args:
        functions: ``{operator: f}`` with ``f(graph, res, *args, **kwargs)``, which adds nodes to
            ``graph`` and returns the name of the result, or a list of names. An operator is
            ``"aten::add.Tensor"``, ``"aten::add"`` (every overload without a converter in
            ``functions``), ``torch.ops.aten.add.Tensor``, ``torch.ops.aten.add``, an operator of
            ``torch.library``, a higher-order one (``torch.ops.higher_order.cond``), or a torch
            function, method or Python operator that calls one: ``torch.nn.functional.celu``,
            ``"Tensor.relu"``, ``operator.add``. The function gets the arguments of the operator's
            schema.
        verbose: 1 prints each operator that a converter of this dispatcher converts.
        custom_domains: ``{"mylib": "my.domain"}`` or ``{"mylib": ("my.domain", 2)}``: operators
            of the namespace ``mylib`` without a converter become nodes of that ONNX domain (and
            version). Tensors become inputs, numbers and strings attributes.

    Raises:
        OptionError: a key is not an operator, or is a torch function that may call several; a
            converter is not callable; a domain is not a name.
    """

    def __init__(
        self,
        functions: Mapping[Any, Converter] | None = None,
        verbose: int = 0,
        *,
        custom_domains: Mapping[str, str | tuple[str, int]] | None = None,
    ) -> None:
        self.functions: dict[str, CheckedConverter] = {}
        for key, function in (functions or {}).items():
            for name in operator_names(key):
                if not callable(function):
                    raise OptionError(
                        f"the converter of '{name}' is a function f(graph, res, *args), not "
                        f"{function!r}"
                    )
                if name in self.functions:
                    raise OptionError(f"two converters are given for '{name}'")
                self.functions[name] = CheckedConverter(function, name)
        self.verbose = verbose
        self.domains = normalize_domains(custom_domains)
        self._printed: set[str] = set()

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """Return the converter for an operator: the user's, ``native``, or the domain's.

        Args:
            name: an overload, ``"aten::add.Tensor"``.
            target: what the FX node calls.
            native: the generated converter, or None.
        """
        converter = self.own(name)
        if converter is not None:
            self.say("find", f"'{name}' is converted by {converter.label}")
            return converter
        domain = self.domains.get(name.partition("::")[0]) if native is None else None
        if domain is None or not hasattr(target, "_schema"):
            return native
        self.say("find", f"'{name}' becomes a node of domain '{domain[0]}'")
        return node_converter(target, *domain)

    def own(self, name: str) -> CheckedConverter | None:
        """Return the user's converter of an overload, or of its operator.

        Args:
            name: an overload, ``"aten::add.Tensor"``.
        """
        return self.functions.get(name) or self.functions.get(name.partition(".")[0])

    def say(self, where: str, text: str) -> None:
        """Print a line once if ``verbose`` is set.

        Args:
            where: the method that prints.
            text: the text of the line.
        """
        line = f"[{type(self).__name__}.{where}] {text}"
        if self.verbose and line not in self._printed:
            self._printed.add(line)
            print(line)


def normalize_dispatcher(dispatcher: Any) -> Any:
    """Return a dispatcher; a dict of converters becomes a Dispatcher, and None stays None.

    Raises OptionError for an object without a method ``find``.
    """
    is_text = isinstance(dispatcher, (str, bytes))  # str and bytes have a method find
    if dispatcher is None or (callable(getattr(dispatcher, "find", None)) and not is_text):
        return dispatcher
    if isinstance(dispatcher, Mapping):
        return Dispatcher(dispatcher)
    raise OptionError(
        "dispatcher is a Dispatcher, a dict of converters by operator name, or an object with "
        "find(name, target, native), "
        f"not {type(dispatcher).__name__}"
    )


def _user_dispatcher(dispatcher: Any) -> Any:
    """Return the user's dispatcher, also if `FunctionBodies` wraps it."""
    return getattr(dispatcher, "dispatcher", dispatcher)


def print_unused_converters(dispatcher: Any) -> None:
    """Print the names of the user's converters that were never called, if there are any."""
    dispatcher = _user_dispatcher(dispatcher)
    functions = dispatcher.functions if isinstance(dispatcher, Dispatcher) else {}
    unused = sorted(name for name, converter in functions.items() if not converter.calls)
    if unused:
        print(f"[to_onnx] converters that were never called: {', '.join(unused)}")


def find_user_converter(dispatcher: Any, name: str) -> Converter | None:
    """Return the user's converter of an operator, or None.

    An operator that has one must not be decomposed.
    """
    user_dispatcher = _user_dispatcher(dispatcher)
    return user_dispatcher.own(name) if isinstance(user_dispatcher, Dispatcher) else None


def direct_converter(dispatcher: Any, name: str, target: Any, native: Any) -> Converter | None:
    """Return the converter because of which an operator is not decomposed; None if there is none.

    Converters that OxsDispatcher borrows do not count, so that decompositions take precedence;
    those for operators of other libraries do if `FunctionBodies` wraps the OxsDispatcher.
    """
    user_dispatcher = _user_dispatcher(dispatcher)
    converter = native
    if isinstance(user_dispatcher, Dispatcher):
        converter = Dispatcher.find(user_dispatcher, name, target, native)
        if (
            converter is not None
            or user_dispatcher is dispatcher
            or name.startswith(("aten::", "prims::"))
        ):
            return converter
    return converter if dispatcher is None else dispatcher.find(name, target, native)


def from_seed_style(function: Callable[..., Any]) -> Converter:
    """Adapt a converter written as ``f(g, sts, outputs, *args, **kwargs)``.

    ``outputs`` are the names to give to the results. ``sts`` has the dtypes and shapes that torch
    recorded; if it is None, the converter has to set them.

    Args:
        function: the converter to adapt.
    """

    def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        result_types = None if res.dtype is None else {"dtypes": res.dtypes, "shapes": res.shapes}
        return function(graph, result_types, list(res.outputs), *args, **kwargs)

    convert.__qualname__ = getattr(function, "__qualname__", "converter")
    convert.__doc__ = function.__doc__
    convert.__wrapped__ = function  # type: ignore[attr-defined]
    return convert


# -- operators of a library as nodes of a custom domain

# Type of an attribute that is an empty list, by the element type in the schema.
_EMPTY = {
    "IntType": AttributeProto.INTS,
    "SymIntType": AttributeProto.INTS,
    "BoolType": AttributeProto.INTS,
    "FloatType": AttributeProto.FLOATS,
    "NumberType": AttributeProto.FLOATS,
    "StringType": AttributeProto.STRINGS,
}
# torch's number of a dtype -> ONNX's: schemas contain default dtypes as torch's numbers, but the
# interpreter passes dtypes among the arguments of a call as ONNX's.
_SCALAR_TYPES = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.int16, 3: dtypes.int32, 4: dtypes.int64,
    5: dtypes.float16, 6: dtypes.float32, 7: dtypes.float64, 9: dtypes.complex64,
    10: dtypes.complex128, 11: dtypes.boolean, 15: dtypes.bfloat16,
}  # fmt: skip
_TEXTS = (torch.device, torch.layout, torch.memory_format)
_NUMBERS = ("BoolType", "FloatType", "IntType", "NumberType", "SymIntType")


def normalize_domains(domains: Mapping[str, Any] | None) -> dict[str, tuple[str, int]]:
    """Normalize ``{namespace: domain}`` to ``{namespace: (domain, version)}``.

    Raises OptionError for anything else, and for ONNX's own domain, which has fixed operators.
    """
    normalized = {}
    for namespace, entry in (domains or {}).items():
        domain, version = entry if isinstance(entry, (tuple, list)) else (entry, 1)
        if not isinstance(namespace, str) or not namespace or "::" in namespace:
            raise OptionError(
                "custom_domains maps namespaces of torch.library, for example {'mylib': "
                f"'my.domain'}}, not {namespace!r}"
            )
        if not isinstance(domain, str) or domain in ("", "ai.onnx"):
            raise OptionError(
                f"the operators of '{namespace}' need a domain of their own, for example "
                f"'my.domain', not {domain!r}"
            )
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise OptionError(f"the version of domain '{domain}' is 1 or more, not {version!r}")
        normalized[namespace] = (domain, version)
    return normalized


def node_converter(target: Any, domain: str, version: int) -> Callable[..., Any]:
    """Return a converter that writes one node ``domain::op`` for a call of the overload ``target``.

    Tensor arguments become inputs in the order of the schema (``""`` for None; the items of a list
    follow each other), other arguments become attributes, except None. Types and shapes of the
    outputs are torch's. The converter raises UnsupportedCase if a node cannot represent the call:
    for a symbolic size, a list of tensors before another tensor argument, a result that is not a
    tensor, or a version of the domain that differs from the model's.
    """
    schema = target._schema
    op_type = target.name().partition("::")[2].replace(".", "_")

    def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = _bind_arguments(schema, args, kwargs)
        inputs = _node_inputs(schema, arguments)
        attributes = _node_attributes(schema, arguments)
        if None in res.dtypes:
            raise UnsupportedCase(
                f"a node of domain '{domain}' returns tensors, and {schema.name} returns "
                "something else; write a converter for it"
            )
        known_version = graph.opsets.setdefault(domain, version)
        if known_version != version:
            raise UnsupportedCase(
                f"domain '{domain}' has version {known_version} in this model, but version "
                f"{version} in custom_domains; choose one of them with target_opset"
            )
        # unused results keep a name: the kernel may not support them as optional
        outputs = [name or graph.unique_name(f"{op_type}_unused") for name in res.outputs]
        graph.make_node(op_type, inputs, outputs, domain=domain, name=op_type)
        # set on the node, since an attribute may have the name of a parameter of make_node
        graph.nodes[-1].attrs.update(attributes)
        for name, dtype, shape in zip(outputs, res.dtypes, res.shapes, strict=True):
            graph.set_type(name, dtype)
            if shape is not None:
                graph.set_shape(name, shape)
        single = len(schema.returns) == 1 and schema.returns[0].type.kind() != "ListType"
        return outputs[0] if single and len(outputs) == 1 else outputs

    return convert


def _bind_arguments(schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Bind arguments by name, in the order of the schema, with defaults."""
    keyword_values = {name.rstrip("_"): value for name, value in kwargs.items()}
    arguments = {}
    for index, argument in enumerate(schema.arguments):
        name = argument.name
        if index < len(args):
            arguments[name] = args[index]
        elif name.rstrip("_") in keyword_values:
            arguments[name] = keyword_values[name.rstrip("_")]
        else:
            default: Any = argument.default_value if argument.has_default_value() else None
            is_dtype = default is not None and "ScalarType" in str(argument.real_type)
            arguments[name] = _SCALAR_TYPES[default] if is_dtype else default
    return arguments


def _element_kind(argument: Any) -> tuple[str, bool]:
    """Return the element type of an argument (``TensorType``), and whether it is a list."""
    schema_type, is_list = argument.type, False
    while schema_type.kind() in ("OptionalType", "ListType"):
        is_list = is_list or schema_type.kind() == "ListType"
        schema_type = schema_type.getElementType()
    return str(schema_type.kind()), is_list


def _node_inputs(schema: Any, arguments: Mapping[str, Any]) -> list[str]:
    """Return the inputs of the node; only the last tensor argument may be a list."""
    inputs: list[str] = []
    list_argument = ""
    for argument in schema.arguments:
        kind, is_list = _element_kind(argument)
        if kind != "TensorType":
            continue
        if list_argument:
            raise UnsupportedCase(
                f"'{list_argument}' is a list of tensors before another tensor argument, and a "
                "node cannot mark its end; write a converter, or put the list last"
            )
        value = arguments[argument.name]
        items = (value or []) if is_list else [value]
        list_argument = argument.name if is_list else ""
        for item in items:
            if not isinstance(item, (str, type(None))):
                description = "complex" if isinstance(item, ComplexValue) else f"the number {item}"
                raise UnsupportedCase(
                    f"argument '{argument.name}' is {description}, an input of a node is a tensor"
                )
            inputs.append(item or "")
    return inputs


def _node_attributes(schema: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for argument in schema.arguments:
        kind, is_list = _element_kind(argument)
        value = arguments[argument.name]
        if kind == "TensorType" or value is None:
            continue
        if not is_list:
            attributes[argument.name] = _attribute_value(value, kind, argument.name)
            continue
        # torch accepts one number for a list of fixed length
        items = value if isinstance(value, (list, tuple)) else [value] * (argument.N or 1)
        attributes[argument.name] = [
            _attribute_value(item, kind, argument.name) for item in items
        ] or AttributeProto(name=argument.name, type=_EMPTY[kind])
    return attributes


def _attribute_value(value: Any, kind: str, name: str) -> Any:
    """Return the value of an attribute: a number or string; a bool becomes an int.

    Raises UnsupportedCase for symbolic sizes, computed numbers, and unsupported types.
    """
    if isinstance(value, dims.SymDim):
        raise UnsupportedCase(
            f"argument '{name}' is the symbolic size {value}, an attribute is a number: make the "
            "dimension static, take it from a tensor's shape inside the operator, or write a "
            "converter that passes graph.dim_as_vector(size) as an input"
        )
    if isinstance(value, str) and kind in _NUMBERS:  # the name of a computed result
        raise UnsupportedCase(
            f"argument '{name}' is a number that the model computes from sizes, an attribute is a "
            "plain number: make the dimension static, compute it from a tensor's shape inside the "
            "operator, or write a converter that passes it as an input"
        )
    if isinstance(value, _TEXTS):
        return str(value)
    if not isinstance(value, (bool, int, float, str)):
        raise UnsupportedCase(f"argument '{name}' is {value!r}, which no attribute can hold")
    if kind == "FloatType":
        return float(value)
    return int(value) if isinstance(value, bool) else value
