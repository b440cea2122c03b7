"""Run a sample call of a spec: eager against the converted graph in ONNX Runtime.

Values, dtypes and shapes are compared. A sample with dynamic dimensions is converted once, and runs
at the sizes of the sample and at larger sizes.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.compat import torch as compat
from ortable.exporter.reporting import sessions
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.ir.graph import Graph
from ortable.ir.proto.walk import nodes_below
from ortable.passes.older_opsets import write_in_older_opset
from ortable.prelude.facts import float32_holds
from ortable_generated.aten.dispatch import RULES
from ortablegen.aten.model import Sample
from ortablegen.aten.samples import parse_sample
from ortablegen.language.samples import TensorSample, evaluate_value
from ortablegen.schemas.onnx import FLOOR
from ortablegen.schemas.torch import OpSchema

from .values import draw_tensor

NO_METADATA = object()  # a result without metadata
_UNSAFE_OPS = ("Bernoulli", "CenterCropPad")
DATA_DEPENDENT = (
    compat.DataDependentOutputException,
    compat.DynamicOutputShapeException,
    compat.GuardOnDataDependentSymNode,
)
TOLERANCES = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5, torch.float64: 1e-9}


@dataclass
class ConvertedSample:
    """A converted sample: the model, its outputs, and its input tensors."""

    model: onnx.ModelProto
    interpreter: DynamoInterpreter
    tensors: list[torch.Tensor]
    node: torch.fx.Node

    @property
    def ops(self) -> list[str]:
        """The operator types in order, without Identity nodes, which name outputs."""
        return [node.op_type for node in self.model.graph.node if node.op_type != "Identity"]


def overload_of(schema: OpSchema) -> Any:
    """Return the torch overload of a schema."""
    name, _, overload = schema.key.partition(".")
    namespace, _, plain = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), plain), overload or "default")


# An increment of the sizes of dynamic dimensions: one for all, or one for each name.
Growth = int | Mapping[str, int]


def _grow_size(size: int, name: str | None, grow: Growth) -> int:
    if name is None:
        return size
    return size + (grow if isinstance(grow, int) else grow[name])


def make_tensor(sample: TensorSample, generator: torch.Generator, grow: Growth = 0) -> torch.Tensor:
    """Make the tensor of a sample; ``grow`` is added to its dynamic dimensions."""
    shape = [_grow_size(size, name, grow) for size, name in sample.dims]
    return draw_tensor(sample, tuple(shape), generator, wrap=True)


def _sample_leaves(value: Any) -> list[TensorSample]:
    if isinstance(value, TensorSample):
        return [value]
    return (
        [leaf for item in value for leaf in _sample_leaves(item)] if isinstance(value, list) else []
    )


def _dim_names(value: Any) -> list[tuple[str, int]]:
    return [(name, size) for leaf in _sample_leaves(value) for size, name in leaf.dims if name]


def fill_samples(value: Any, tensors: Any) -> Any:
    """Replace each TensorSample in ``value`` by the next of ``tensors``."""
    if isinstance(value, TensorSample):
        return next(tensors)
    return [fill_samples(item, tensors) for item in value] if isinstance(value, list) else value


def call_arguments(schema: OpSchema, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Make the arguments of a call; defaults fill gaps between the given positional arguments."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    positional = [a for a in schema.arguments if not a.kwarg_only]
    last = max((i for i, a in enumerate(positional) if a.name in values), default=-1)
    for index, argument in enumerate(positional[: last + 1]):
        args.append(_torch_value(argument.type, values.get(argument.name, argument.default)))
        assert index == len(args) - 1
    for argument in schema.arguments:
        if argument.kwarg_only and argument.name in values:
            kwargs[argument.torch_name] = _torch_value(argument.type, values[argument.name])
    return args, kwargs


def _torch_value(type_text: str, value: Any) -> Any:
    plain = type_text.rstrip("?")
    if plain in ("ScalarType", "MemoryFormat", "Layout") and isinstance(value, str):
        return getattr(torch, value)
    if plain == "Device" and isinstance(value, str):
        return torch.device(value)
    return value


def run_eager(
    schema: OpSchema, sample: Sample, grow: int = 0, seed: int = 0
) -> tuple[Any, list[torch.Tensor]]:
    """Call the operator in torch, and return the result and the inputs."""
    parsed = parse_sample(sample, schema)
    tensors = make_tensors(parsed, grow, seed)
    clones = [tensor.clone() for tensor in tensors]
    return call_eager(schema, parsed, clones, grow), tensors


def make_tensors(parsed: Mapping[str, Any], grow: Growth = 0, seed: int = 0) -> list[torch.Tensor]:
    """Make the tensors of a parsed sample, in order."""
    generator = torch.Generator().manual_seed(seed)
    return [make_tensor(leaf, generator, grow) for leaf in _sample_leaves(list(parsed.values()))]


def call_eager(
    schema: OpSchema, parsed: Mapping[str, Any], tensors: Sequence[torch.Tensor], grow: Growth = 0
) -> Any:
    """Call the operator of a parsed sample in torch, on ``tensors``."""
    sizes = {name: _grow_size(size, name, grow) for name, size in _dim_names(list(parsed.values()))}
    feed = iter(tensors)
    values = {
        name: fill_samples(evaluate_value(value, sizes), feed) for name, value in parsed.items()
    }
    args, kwargs = call_arguments(schema, values)
    return overload_of(schema)(*args, **kwargs)


def _make_fake(
    mode: compat.FakeTensorMode, tensor: torch.Tensor, leaf: TensorSample
) -> torch.Tensor:
    sizes = [compat.DimDynamic.DUCK if name else compat.DimDynamic.STATIC for _, name in leaf.dims]
    return mode.from_tensor(
        tensor, symbolic_context=compat.StatelessSymbolicContext(dynamic_sizes=sizes)
    )


def fx_graph(
    schema: OpSchema, sample: Sample
) -> tuple[torch.fx.GraphModule, torch.fx.Node, list[torch.Tensor]]:
    """Make a graph of one call, with fake tensors as metadata like a graph of torch.export."""
    parsed = parse_sample(sample, schema)
    tensors = make_tensors(parsed)
    module, call = graph_of_call(schema, parsed, tensors, sample.unused_results)
    return module, call, tensors


def graph_of_call(
    schema: OpSchema,
    parsed: Mapping[str, Any],
    tensors: Sequence[torch.Tensor],
    unread: tuple[int, ...] = (),
) -> tuple[torch.fx.GraphModule, torch.fx.Node]:
    """Make a graph of the call of a parsed sample, with fake tensors like ``tensors``."""
    leaves = _sample_leaves(list(parsed.values()))
    mode = compat.FakeTensorMode(shape_env=compat.ShapeEnv(), allow_non_fake_inputs=True)
    graph = torch.fx.Graph()
    nodes: list[torch.fx.Node] = []
    dim_nodes: dict[str, torch.fx.Node] = {}
    for index, (leaf, tensor) in enumerate(zip(leaves, tensors, strict=True)):
        node = graph.placeholder(f"x{index}")
        node.meta["val"] = _make_fake(mode, tensor, leaf)
        nodes.append(node)
    for node, leaf in zip(nodes, leaves, strict=True):
        for axis, (_, name) in enumerate(leaf.dims):
            if name and name not in dim_nodes:
                dim_nodes[name] = graph.call_function(torch.ops.aten.sym_size.int, (node, axis))
                dim_nodes[name].meta["val"] = node.meta["val"].shape[axis]
    feed = iter(nodes)
    sizes = {name: torch.fx.Proxy(node) for name, node in dim_nodes.items()}
    values = {
        name: fill_samples(evaluate_value(value, sizes), feed) for name, value in parsed.items()
    }
    args, kwargs = torch.fx.node.map_aggregate(
        call_arguments(schema, values), lambda x: x.node if isinstance(x, torch.fx.Proxy) else x
    )
    for node in graph.nodes:  # nodes of arithmetic on sizes have no metadata yet
        if "val" not in node.meta:
            node.meta["val"] = node.target(*torch.fx.node.map_arg(node.args, _value_of))
    call = graph.call_function(overload_of(schema), tuple(args), kwargs)
    with mode:
        fake_args, fake_kwargs = torch.fx.node.map_arg((tuple(args), kwargs), _value_of)
        # data-dependent results have no metadata
        with contextlib.suppress(*DATA_DEPENDENT):
            call.meta["val"] = overload_of(schema)(*fake_args, **fake_kwargs)
    _add_output(graph, call, len(overload_of(schema)._schema.returns), unread)
    return torch.fx.GraphModule(torch.nn.Module(), graph), call


def _value_of(node: torch.fx.Node) -> Any:
    return node.meta["val"]


def _add_output(
    graph: torch.fx.Graph, call: torch.fx.Node, count: int, unused: tuple[int, ...]
) -> None:
    value = call.meta.get("val", [NO_METADATA] * count if count > 1 else NO_METADATA)
    if not isinstance(value, list | tuple):
        graph.output((call,) if count else ())
        return
    items = []
    for index, item in enumerate(value):
        if item is None or index in unused:
            continue
        node = graph.call_function(operator.getitem, (call, index))
        if item is not NO_METADATA:
            node.meta["val"] = item
        items.append(node)
    graph.output(tuple(items))


def convert_sample(
    schema: OpSchema, sample: Sample, opset: int, target: str | None = None
) -> ConvertedSample:
    """Convert the one-call graph of a sample."""
    return SampleCheck(schema, sample).convert(opset, target)


def convert_graph(
    module: torch.fx.GraphModule,
    call: torch.fx.Node,
    tensors: list[torch.Tensor],
    opset: int,
    target: str | None,
    builder: GraphBuilder | None = None,
) -> ConvertedSample:
    """Convert a graph of :func:`graph_of_call`."""
    if builder is None:
        builder = GraphBuilder(max(opset, FLOOR), target=target)
    interpreter = DynamoInterpreter(builder)
    interpreter.run(module)
    builder.remove_unused()
    if opset < FLOOR:
        write_in_older_opset(builder, opset)
    model = builder.to_onnx()
    _check_axes(model)
    return ConvertedSample(model, interpreter, tensors, call)


def check_model(converted: ConvertedSample) -> None:
    """Check properties that every converted model must have."""
    onnx.checker.check_model(converted.model, full_check=False)
    assert not unsafe_nodes(converted.model), "ONNX Runtime's optimizers miscompile these nodes"
    narrowed = narrowed_attributes(converted.interpreter.builder)
    assert not narrowed, f"float64 nodes have attributes that float32 rounds: {narrowed}"


def unsafe_nodes(model: onnx.ModelProto) -> list[str]:
    """List the operator types of nodes that optimizers of ONNX Runtime miscompile.

    These are Pad and Resize with `axes`, and operators that converters must not emit.
    """
    function_nodes = [node for function in model.functions for node in function.node]
    unsafe = []
    for node in (*(node for node, _ in nodes_below(model.graph)), *function_nodes):
        some_pads = node.op_type == "Pad" and len(node.input) > 3 and node.input[3]
        some_sizes = node.op_type == "Resize" and any(a.name == "axes" for a in node.attribute)
        if some_pads or some_sizes or node.op_type in _UNSAFE_OPS:
            unsafe.append(node.op_type)
    return unsafe


def _check_axes(model: onnx.ModelProto) -> None:
    """Check that reductions count axes from the front.

    With negative axes, ONNX Runtime computes a wrong shape for a tensor without elements.
    """
    initializers = {item.name: numpy_helper.to_array(item) for item in model.graph.initializer}
    for node in model.graph.node:
        if (
            node.op_type.startswith("Reduce")
            and len(node.input) > 1
            and node.input[1] in initializers
        ):
            axes = initializers[node.input[1]].tolist()
            assert all(axis >= 0 for axis in axes), f"{node.op_type} over axes {axes}"
        if node.op_type.startswith("Arg"):  # ArgMax and ArgMin
            axis = next((item.i for item in node.attribute if item.name == "axis"), 0)
            assert axis >= 0, f"{node.op_type} over axis {axis}"


def check_inference_rule(schema: OpSchema, sample: Sample) -> list[tuple[int, str]]:
    """Check the entry's shape and dtype rule against eager.

    Returns:
        The properties that the rule cannot infer: numbers of results with ``shape`` or ``dtype``.
    """
    expected, tensors = run_eager(schema, sample)
    builder = GraphBuilder(18)
    feed = iter(
        builder.make_tensor_input(f"x{i}", dtypes.from_torch(t.dtype), tuple(t.shape))
        for i, t in enumerate(tensors)
    )
    parsed = parse_sample(sample, schema)
    sizes = dict(_dim_names(list(parsed.values())))
    values = {
        name: fill_samples(evaluate_value(value, sizes), feed) for name, value in parsed.items()
    }
    for argument in schema.arguments:
        if argument.type.startswith("ScalarType") and isinstance(values.get(argument.name), str):
            values[argument.name] = dtypes.from_torch(getattr(torch, values[argument.name]))
    rules = RULES[schema.key](builder, **values)
    results = list(expected) if isinstance(expected, list | tuple) else [expected]
    undetermined: list[tuple[int, str]] = []
    for number, ((dtype, shape), result) in enumerate(zip(rules, results, strict=False)):
        if not isinstance(result, torch.Tensor):
            continue
        undetermined += [(number, "dtype")] * (dtype is None) + [(number, "shape")] * (
            shape is None
        )
        if dtype is not None:
            torch_dtype = dtypes.name(dtypes.from_torch(result.dtype))
            assert dtypes.name(dtype) == torch_dtype, (
                f"result {number} of {schema.key}: the rule says {dtypes.name(dtype)},"
                f" torch gives {torch_dtype}"
            )
        if shape is not None:
            assert tuple(shape) == tuple(result.shape), (
                f"result {number} of {schema.key}: the rule says {tuple(shape)},"
                f" torch gives {tuple(result.shape)}"
            )
    return undetermined


def narrowed_attributes(builder: Graph) -> list[str]:
    """List attributes of nodes over float64 that float32 cannot represent."""
    return [
        f"{node.op_type}.{name} = {value}"
        for node in builder.nodes
        if any(
            input_name and builder.get_type(input_name) == dtypes.float64
            for input_name in node.inputs
        )
        for name, value in node.attrs.items()
        if isinstance(value, float) and not float32_holds(value)
    ]


def run_onnx(model: onnx.ModelProto, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Run a model in ONNX Runtime on tensors of any dtype, including bfloat16."""
    return run_session(make_session(model.SerializeToString()), feeds)


def make_session(
    model: bytes, without: Sequence[str] = (), optimize: bool = True
) -> onnxruntime.InferenceSession:
    """Make a single-threaded session without the optimizers in ``without``.

    With ``optimize=False`` the session has no optimizers, and does not log failures.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3 if optimize else 4
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(without) or None,
    )


def run_session(
    session: onnxruntime.InferenceSession, feeds: Mapping[str, torch.Tensor]
) -> list[torch.Tensor]:
    """Run a session, and return all outputs as tensors."""
    return sessions.run_session(session, feeds)


def check_sample_at(
    schema: OpSchema, sample: Sample, opset: int, target: str | None = None
) -> ConvertedSample | None:
    """Convert and run a sample; raise AssertionError if it differs from eager."""
    return SampleCheck(schema, sample).run(opset, target)


class SampleCheck:
    """Checks one sample at several opsets and targets.

    The sample is traced once and runs in eager once for each size; equal models run once.
    """

    def __init__(self, schema: OpSchema, sample: Sample) -> None:
        self.schema = schema
        self.sample = sample
        self.case = 0  # case number in the last conversion; 0 for an entry with one case
        self._expected: dict[int, tuple[Any, list[torch.Tensor]]] = {}
        self._passed_models: set[bytes] = set()

    @functools.cached_property
    def graph(self) -> tuple[torch.fx.GraphModule, torch.fx.Node, list[torch.Tensor]]:
        """The graph of the sample, its call, and its input tensors."""
        return fx_graph(self.schema, self.sample)

    def expected(self, grow: int) -> tuple[Any, list[torch.Tensor]]:
        """Run eager with dynamic dimensions larger by ``grow``; return result and inputs."""
        if grow not in self._expected:
            self._expected[grow] = run_eager(self.schema, self.sample, grow)
        return self._expected[grow]

    def convert(self, opset: int, target: str | None) -> ConvertedSample:
        """Convert the graph, and set `case`."""
        module, call, tensors = self.graph
        builder = GraphBuilder(max(opset, FLOOR), target=target)
        try:
            return convert_graph(module, call, tensors, opset, target, builder)
        finally:
            self.case = builder.case

    def run(self, opset: int, target: str | None) -> ConvertedSample | None:
        """Convert at ``opset`` for ``target`` and compare with eager.

        An opset older than those of the converters is written from theirs.
        """
        sample = self.sample
        if not sample.applies_at(max(opset, FLOOR), target):
            return None
        if sample.raises is not None:
            self._check_raises(opset, target)
            return None
        converted = self.convert(opset, target)
        if sample.expect is not None and opset >= FLOOR:
            assert converted.ops == list(sample.expect), (
                f"nodes are {converted.ops}, expected {list(sample.expect)}"
            )
        text = converted.model.SerializeToString(deterministic=True)
        if text in self._passed_models:
            return converted
        check_model(converted)
        session = make_session(text) if converted.model.graph.output else None
        self.compare(converted, lambda feeds: run_session(session, feeds) if session else [])
        self._passed_models.add(text)
        return converted

    def compare(
        self,
        converted: ConvertedSample,
        run: Callable[[Mapping[str, torch.Tensor]], list[torch.Tensor]],
    ) -> None:
        """Compare with eager what ``run`` returns for the inputs, at all sizes of the sample."""
        dynamic = bool(_dim_names(list(parse_sample(self.sample, self.schema).values())))
        for grow in (0, 3) if dynamic else (0,):
            self._compare_at(converted, run, grow)

    def _check_raises(self, opset: int, target: str | None) -> None:
        sample = self.sample
        try:
            self.convert(opset, target)
        except Exception as error:
            assert sample.raises is not None
            assert sample.raises in str(error), f"refused, but not for '{sample.raises}': {error}"
            return
        raise AssertionError(f"{self.schema.key} should refuse this call: {sample.raises}")

    def _compare_at(
        self,
        converted: ConvertedSample,
        run: Callable[[Mapping[str, torch.Tensor]], list[torch.Tensor]],
        grow: int,
    ) -> None:
        expected, tensors = self.expected(grow)
        inputs = list(converted.interpreter.inputs)
        feeds = {r.name: t for r, t in zip(inputs, tensors, strict=True) if r.name is not None}
        results = expected if isinstance(expected, list | tuple) else [expected]
        expected_results = [
            result
            for index, result in enumerate(results)
            if result is not None and index not in self.sample.unused_results
        ]
        _compare_outputs(converted, expected_results, run(feeds), self.sample, grow)


def _compare_outputs(
    converted: ConvertedSample,
    expected_results: list[Any],
    got: list[torch.Tensor],
    sample: Sample,
    grow: int,
) -> None:
    by_name = {
        value.name: tensor for value, tensor in zip(converted.model.graph.output, got, strict=True)
    }
    assert len(converted.interpreter.outputs) == len(expected_results)
    for record, expected in zip(converted.interpreter.outputs, expected_results, strict=True):
        if not isinstance(expected, torch.Tensor):
            if record.name is not None:
                assert by_name[record.name].reshape(-1).tolist() == [expected]
            elif grow == 0 and not isinstance(record.value, dims.SymDim):
                assert record.value == expected
            continue
        got_tensor = by_name[record.name]
        if expected.is_complex():
            expected = torch.view_as_real(expected.resolve_conj().resolve_neg())
        if sample.random:
            assert got_tensor.dtype == expected.dtype
            assert got_tensor.shape == expected.shape
            continue
        compare_tensor(got_tensor, expected.resolve_neg(), sample.tolerance)


def compare_tensor(
    got: torch.Tensor, expected: torch.Tensor, tolerance: float | None = None
) -> None:
    """Check value, dtype and shape."""
    assert got.dtype == expected.dtype, f"dtype {got.dtype}, eager has {expected.dtype}"
    assert tuple(got.shape) == tuple(expected.shape), (
        f"shape {tuple(got.shape)}, eager has {tuple(expected.shape)}"
    )
    if expected.dtype in TOLERANCES:
        bound = tolerance if tolerance is not None else TOLERANCES[expected.dtype]
        np.testing.assert_allclose(
            got.detach().double().numpy(),
            expected.detach().double().clone().numpy(),  # clone allocates a ZeroTensor's elements
            rtol=bound,
            atol=bound,
            equal_nan=True,
        )
    else:
        assert torch.equal(got, expected), f"{got} differs from eager's {expected}"
