"""A user's script that uses every public name of ortable, for type checkers only."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, assert_type

import torch
from onnx import ModelProto

import ortable
from ortable import (
    CacheOptions,
    Converter,
    Dispatcher,
    DynamoInterpreter,
    ExportOptions,
    ExportReport,
    ExtendedReferenceEvaluator,
    GraphBuilder,
    LargeModel,
    LoadedSpecs,
    Node,
    Observation,
    OnnxLanguageModel,
    OnnxProgram,
    OrtBackend,
    OrtOptions,
    OrtOptionsDict,
    OxsDispatcher,
    ProofReport,
    ResultSpec,
    SupportedOp,
    Validation,
    WeightOptions,
    WeightReport,
    attach_weights,
    bypass_export_some_errors,
    draw,
    export,
    export_language_model,
    filter_decomposition_table,
    from_seed_style,
    get_decomposition_table,
    load_quantized_checkpoint,
    load_specs,
    match_input_parameters,
    observe,
    onnx_custom_backend,
    onnx_debug_backend,
    plot_dot,
    pretty_onnx,
    profile,
    refresh,
    register_transformers,
    supported_ops,
    to_onnx,
)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return torch.relu(self.linear(x)) * scale


def export_model(model: Model, x: torch.Tensor, folder: Path, large: bool) -> None:
    proto = to_onnx(model, (x,), dynamic_shapes={"x": {0: "batch"}}, target_opset=20)
    assert_type(proto, ModelProto)
    print(len(proto.graph.node))
    assert_type(to_onnx(model, x, {"scale": 2.0}, optimize=False, rewrites="none"), ModelProto)
    assert_type(to_onnx(torch.export.export(model, (x,)), target_opset={"": 20}), ModelProto)
    assert_type(to_onnx(folder / "model.pt2", target="onnxruntime"), ModelProto)
    saved = to_onnx(model, (x,), filename=folder / "model.onnx", validate=True, report="r.md")
    assert_type(saved, ModelProto | Any)
    loaded = to_onnx(model, (x,), large_model=True, external_threshold=0)
    assert_type(loaded, LargeModel)
    loaded.save(folder / "big.onnx", max_shard_bytes=2**30)
    proto, builder = to_onnx(model, (x,), return_builder=True)
    assert_type(builder, GraphBuilder)
    pair = to_onnx(model, (x,), large_model=True, return_builder=True)
    assert_type(pair, tuple[Any, GraphBuilder])
    result = to_onnx(model, (x,), large_model=large)
    if isinstance(result, LargeModel):
        result = result.to_proto()
    assert_type(to_onnx(model, (x,), input_names=["a"], output_names={"output_0": "y"}), ModelProto)
    options = ExportOptions(strict=True, decomposition_table="default", functions=["subgraphs"])
    to_onnx(model, (x,), export_options=options, export_modules_as_functions={torch.nn.Linear})
    assert_type(options.table(), dict[Any, Callable[..., Any]] | None)
    with bypass_export_some_errors(patch_transformers=False) as patches:
        assert_type(patches, tuple[str, ...])


def observe_model(model: Model) -> tuple[OnnxProgram, Any]:
    with observe(model, keep=2) as observed:
        model(torch.rand(2, 3))
        model(torch.rand(5, 3))
    assert_type(observed, Observation)
    print(
        observed,
        [d.sizes for d in observed.dimensions],
        observed.dynamic_shapes,
        len(observed.apart()),
    )
    program = observed.export(target_opset=20, maximum={"batch": 64})
    assert_type(program, OnnxProgram)
    report = observed.prove(program)
    assert_type(report, ProofReport)
    print([trial.reason for trial in report.of("refused")], report.check().ok, observed.proof)
    return program, observed.compile(options={"freeze": "off"}, prove=False)


def export_program(model: Model, x: torch.Tensor, folder: Path) -> OnnxProgram:
    program = export(model, (x,), dynamic_shapes={"x": {0: "batch"}}, optimize=False)
    assert_type(program, OnnxProgram)
    assert_type(program.model_proto, ModelProto)
    assert_type(program.model, ModelProto | LargeModel)
    assert_type(program.exported_program, torch.export.ExportedProgram | None)
    print(program(x, scale=2.0).shape, program.input_names, program.session(providers=None))
    program.save(folder / "model.onnx", external_data=True)
    report: ExportReport = program.optimize(rewrites=["default"]).report
    assert_type(report.seconds, dict[str, float])
    validation: Validation = program.validate(x)
    assert_type(validation.largest, float)
    assert_type(validation.check().ok, bool)
    assert_type(program.compute_values(["y"], (x,)), tuple[torch.Tensor, ...])
    program.draw(folder / "graph.svg")
    program.apply_weights(model.state_dict())
    return program


def load_weights(model: Model, path: str) -> None:
    loaded = LargeModel.load(path)
    assert_type(loaded, LargeModel)
    assert_type(loaded.proto, ModelProto)
    assert_type(loaded.nbytes, int)
    assert_type(attach_weights(loaded, model.state_dict(), partial=True), LargeModel)
    assert_type(register_transformers(), None)
    feeds = match_input_parameters(model, ["linear.weight", "x"], [torch.zeros(2, 3)])
    print(sorted(feeds))


def export_chat_model(model: torch.nn.Module) -> None:
    """Export a language model and load it from its folder."""
    cache = CacheOptions(scales="tensor", texts=[[1, 2, 3]])
    chat = export_language_model(model, "model", loop="greedy", weights="float32", cache=cache)
    assert_type(chat, OnnxLanguageModel)
    assert_type(OnnxLanguageModel.load("model").generate(torch.tensor([[1, 2]])), torch.Tensor)
    print(chat.folder, chat.files, chat.input_names)
    export_language_model(load_quantized_checkpoint("model.gguf"), "model")


def celu(graph: GraphBuilder, res: ResultSpec, x: str, alpha: float = 1.0) -> str:
    """Convert aten::celu, as a user's converter does."""
    print(res.name, res.dtype, res.shape, graph.get_opset(), graph.has_shape(x))
    return graph.make_node("Celu", [x], res.name, alpha=alpha)


def pass_converters(model: Model, x: torch.Tensor, path: Path) -> None:
    custom: dict[str, Converter] = {"aten::celu": celu}
    to_onnx(model, (x,), dispatcher=custom)
    to_onnx(model, (x,), dispatcher=Dispatcher({torch.ops.aten.celu.default: celu}, verbose=1))
    to_onnx(model, (x,), dispatcher=OxsDispatcher(custom_domains={"mine": ("my.domain", 2)}))

    def seed_style(g: GraphBuilder, sts: object, outputs: list[str], x: str) -> str:
        return g.make_node("Relu", [x], outputs[0])

    assert_type(from_seed_style(seed_style), Converter)
    specs = load_specs(path, lowerings={"mine": celu}, override=True)
    assert_type(specs, LoadedSpecs)
    assert_type(specs.operators, tuple[str, ...])
    for operator in supported_ops():
        assert_type(operator, SupportedOp)
        print(operator.name, operator.spec_file)


def build_graph(module: torch.fx.GraphModule) -> None:
    builder = GraphBuilder(18, ir_version=9, target="onnxruntime")
    x = builder.make_tensor_input("x", 1, ("batch", 3))
    one = builder.make_initializer("one", torch.ones(3))
    total = builder.make_node("Add", [x, one], name="add")
    assert_type(total, str)
    y = builder.op.Relu(total)
    assert_type(builder.make_tensor_output(total), str)
    builder.make_tensor_output([y, total])
    assert_type(builder.get_type(x), int)
    assert_type(builder.get_rank(x), int)
    assert_type(builder.remove_unused(), int)
    assert_type(builder.optimize(folding=True), dict[str, int])
    node = builder.nodes[0]
    assert_type(node, Node)
    print(node.op_type, node.inputs, node.outputs, builder.get_shape(x), builder.get_debug_msg())
    assert_type(builder.to_onnx(), ModelProto)
    assert_type(builder.to_onnx(large_model=True), LargeModel)
    interpreter = DynamoInterpreter(builder, None, Dispatcher(), verbose=2)
    for record in interpreter.run(module):
        print(record)


def compile_model(model: Model, x: torch.Tensor) -> None:
    call = torch.compile(model, backend="ortable", options={"fallback": "eager", "verbose": 1})
    print(call(x))
    storage: dict[str, Any] = {}
    backend = partial(
        onnx_custom_backend,
        providers=["CPUExecutionProvider", ("CUDAExecutionProvider", {"device_id": 0})],
        storage=storage,
        freeze="on",
        target_opset={"": 22},
        pre_ort_model_transforms=lambda proto: None,
        session_options={"log_severity_level": 0},
        cache_dir=Path("cache"),
    )
    print(torch.compile(model, backend=backend)(x))
    debug = partial(onnx_debug_backend, compare=True, atol=1e-3, verbose=1)
    print(torch.compile(model, backend=debug)(x))
    for record in storage["instance"]:
        instance: OrtBackend = record
        assert_type(instance.source, str)
    refresh(model)
    refresh()
    weights = WeightOptions("int4", bits={"*.weight": 8})
    quantized = export(model, (x,), weights=weights, max_error=0.1, calibration=[(x,), {"x": x}])
    report: WeightReport | None = quantized.report.weights
    assert report is not None
    assert_type(report.error, float | None)
    settings: OrtOptionsDict = {"providers": "CPUExecutionProvider", "fallback": None}
    options = OrtOptions(**settings)
    assert_type(options.rewrites, tuple[str, ...])
    assert_type(options.verbose, int)
    assert_type(OrtOptions.from_mapping(settings, {"verbose": 2}), OrtOptions)
    table = get_decomposition_table()
    filtered = filter_decomposition_table(table, lambda op: "relu" in str(op))
    assert_type(filtered, dict[Any, Callable[..., Any]])


def inspect_model(proto: ModelProto, feeds: Mapping[str, Any]) -> str:
    plot_dot(proto, rankdir="LR", figsize=(8, 8))
    draw(proto, "model.svg", module="encoder.layer.0", depth=2, fold=False)
    draw(proto, "model.json", overlays=["dtype", profile(proto)])
    evaluator = ExtendedReferenceEvaluator(proto, verbose=1)
    for node, values in evaluator.steps(feeds):
        print(node.op_type, sorted(values))
    assert_type(pretty_onnx(proto.graph, with_attributes=False), str)
    return pretty_onnx(proto) + pretty_onnx("model.onnx", shorten=False)


def bisect_model(model: Model, x: torch.Tensor) -> str:
    bisection = ortable.bisect(model, (x,), train=True, options={"freeze": "off"}, atol=1e-4)
    assert_type(bisection, ortable.Bisection)
    fault = bisection.fault
    assert_type(fault, ortable.Fault | None)
    return bisection.to_json() if fault is None else f"{fault.place}: {fault.advice}"


def explain_model(model: Model, x: torch.Tensor) -> str:
    report = ortable.explain(model, x, options={"verbose": 0}, train=True)
    assert_type(report, ortable.Explanation)
    print(report.graph_count, [operator for graph in report.graphs for operator in graph.torch])
    return report.to_markdown() + report.to_json(indent=None)


def compare_with_eager(model: Model, x: torch.Tensor, path: Path) -> str:
    result = ortable.first_difference(model, (x,), train=True, options={"freeze": "off"}, atol=1e-5)
    assert_type(result, ortable.Comparison)
    fault = result.difference
    if fault is not None:
        assert_type(fault, ortable.Difference)
        print(fault.save(path), fault.culprit, fault.spec_file, fault.spec_line, fault.case)
    print(result.ok, result.compared, [node.why for node in result.unreached])
    return str(ortable.first_difference(ortable.export(model, (x,)), rtol=0.0))


def profile_model(model: Model, x: torch.Tensor, path: Path) -> float:
    result = ortable.profile(model, x, calls=5, options={"freeze": "off"}, train=True)
    assert_type(result, ortable.Profile)
    print(result.text(rows=5), result.json(indent=None), [row.path for row in result.modules])
    result.save_html(path)
    return sum(row.us for row in (*result.lines, *result.rest))


def silence_warnings() -> None:
    warnings.simplefilter("ignore", ortable.FallbackWarning)
    warnings.simplefilter("ignore", ortable.GradientsOnWarning)
    warnings.simplefilter("ignore", ortable.UntestedVersionWarning)


def handle_errors(model: Model, x: torch.Tensor) -> str | None:
    try:
        to_onnx(model, (x,))
    except ortable.FunctionNotFoundError as no_converter:
        assert_type(no_converter.fx_node, str | None)
        return no_converter.fx_node
    except (ortable.UnsupportedCase, ortable.UnsupportedDtype, ortable.ConversionError) as refusal:
        print(refusal.sizes)
    except ortable.VersionError as bad_version:
        print(bad_version.message)
    except ortable.ArgumentError as bad_argument:
        print(bad_argument.advice, bad_argument.graph_text)
    except (ortable.ExportError, ortable.InputError, ortable.OptionError) as bad_input:
        print(bad_input)
    except (ortable.BuilderError, ortable.KernelError, ortable.RewriteError, ortable.SpecError):
        raise
    except (ortable.PrecompileError, ortable.ProviderError, ortable.MismatchError):
        raise
    except ortable.OrtableError as error:
        assert isinstance(error, ortable.errors.OrtableError)
    return ortable.__version__
