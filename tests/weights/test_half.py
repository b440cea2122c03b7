"""Accuracy of bfloat16 and float16 models relative to eager, also with the option `weights`."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
import torch
import transformers

import ortable
from ortable.backend.execute.runner import move_casts_to_front
from ortable.errors import OptionError

from .models import NAMES, build, count_products, distance, linears

pytestmark = pytest.mark.alternates(parts=3)

HALF_DTYPES = (torch.bfloat16, torch.float16)
NETS = ("mlp", "convnet")


def build_half(name: str, dtype: torch.dtype):
    """Return a model in a dtype, its arguments, and its results in that dtype and in float64."""
    torch.manual_seed(0)
    if name == "mlp":
        layers = [torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 32)]
        model, kwargs = torch.nn.Sequential(*layers).eval(), {"input": torch.randn(5, 64)}
    elif name == "convnet":
        first, second = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 16, 3, stride=2)
        layers = [first, torch.nn.BatchNorm2d(8), torch.nn.ReLU(), second, torch.nn.Flatten()]
        model, kwargs = torch.nn.Sequential(*layers).eval(), {"input": torch.randn(2, 3, 16, 16)}
    else:
        model, kwargs = build(name)
    model = model.to(dtype)
    kwargs = {k: v.to(dtype) if v.is_floating_point() else v for k, v in kwargs.items()}
    wide_kwargs = {k: v.double() if v.is_floating_point() else v for k, v in kwargs.items()}
    with torch.no_grad():
        eager, exact = first_output(model(**kwargs)), first_output(model.double()(**wide_kwargs))
    return model.to(dtype), kwargs, eager, exact


def first_output(output) -> torch.Tensor:
    return output if isinstance(output, torch.Tensor) else output[0]


def compile_model(model, storage=None, **options):
    torch._dynamo.reset()
    options["storage"] = {} if storage is None else storage
    return torch.compile(model, backend="ortable", options=options)


def is_as_accurate(actual: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    assert (actual.dtype, actual.shape) == (eager.dtype, eager.shape)
    return distance(actual, exact) < 1.5 * distance(eager, exact)


@pytest.mark.alternates("name", parts=3)
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", (*NAMES, *NETS))
def test_compiled_models_are_as_exact_as_eager(name, dtype) -> None:
    model, kwargs, eager, exact = build_half(name, dtype)
    run = compile_model(model)
    with torch.no_grad():
        assert is_as_accurate(first_output(run(**kwargs)), eager, exact)


@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", ("llama", "mlp"))
def test_exported_models_are_as_exact_as_eager(name, dtype) -> None:
    model, kwargs, eager, exact = build_half(name, dtype)
    program = ortable.export(model, (), kwargs, target="onnxruntime")
    assert is_as_accurate(first_output(program(**kwargs)), eager, exact)


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", ("llama", "convnet"))
def test_keep_and_float32_change_no_number_but_by_rounding(name, dtype) -> None:
    model, kwargs, eager, exact = build_half(name, dtype)
    byte_counts = {}
    for choice in ("keep", "float32"):
        storage: dict = {}
        run = compile_model(model, storage, weights=choice)
        with torch.no_grad():
            for _ in range(3):  # one session, with unchanged weights
                assert is_as_accurate(first_output(run(**kwargs)), eager, exact)
        byte_counts[choice] = Counter()
        for record in storage["instance"]:
            byte_counts[choice].update(record.weights)
    matrices = sum(p.nbytes for p in model.parameters() if p.dim() > 1)
    assert byte_counts["keep"]["model_bytes"] == byte_counts["float32"]["model_bytes"] >= matrices
    assert byte_counts["keep"]["session_bytes"] < 0.1 * matrices
    tables = sum(m.weight.nbytes for m in model.modules() if isinstance(m, torch.nn.Embedding))
    assert byte_counts["float32"]["session_bytes"] >= 2 * matrices - tables


def test_kept_weights_may_change_and_train() -> None:
    model, kwargs, _, _ = build_half("mlp", torch.bfloat16)
    run = compile_model(model, weights="keep")
    with torch.no_grad():
        before = run(**kwargs)
        model[0].weight.mul_(-1)
        after = run(**kwargs)
        assert not torch.equal(before, after)
        assert distance(after, model(**kwargs)) < 0.02
    run(**kwargs).sum().backward()
    assert model[0].weight.grad.dtype == torch.bfloat16


def test_float32_is_refused_where_weights_train() -> None:
    model, kwargs, _, _ = build_half("mlp", torch.bfloat16)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="Option 'weights'"):
        compile_model(model, weights="float32")(**kwargs)
    with pytest.raises(OptionError, match="Remove one of the two"):
        ortable.OrtOptions(weights="float32", freeze="off")


@pytest.mark.parametrize("dtype", HALF_DTYPES)
def test_kept_weights_are_cast_one_after_the_other(dtype) -> None:
    """ONNX Runtime runs casts at the front late, so it does not hold all weights in float32."""
    model, kwargs, _, _ = build_half("llama", dtype)
    storage: dict = {}
    with torch.no_grad():
        compile_model(model, storage, weights="keep")(**kwargs)
    proto = move_casts_to_front(storage["instance"][0].onnx)
    uncast = {name for node in proto.graph.node if node.op_type != "Cast" for name in node.input}
    matrices = {
        v.name
        for v in proto.graph.input
        if v.type.tensor_type.elem_type in (10, 16) and len(v.type.tensor_type.shape.dim) > 1
    }
    assert len(matrices & uncast) == 1  # the embedding table, which is read without a cast
    casts = [i for i, node in enumerate(proto.graph.node) if set(node.input) & matrices - uncast]
    assert casts and max(casts) < len(proto.graph.input)
    onnx.checker.check_model(proto)


@pytest.mark.alternates("name", parts=3)
@pytest.mark.parametrize("dtype", HALF_DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_every_linear_layer_of_half_floats_reads_codes(name, dtype) -> None:
    model, kwargs, eager, _ = build_half(name, dtype)
    storage: dict = {}
    run = compile_model(model, storage, weights="int8")
    with torch.no_grad():
        result = first_output(run(**kwargs))
    assert result.dtype == dtype
    assert distance(result, eager) < 0.03
    records = [r for r in storage["instance"] if r.weights]
    assert sum(count_products(r.weights["onnx"]) for r in records) == linears(model)


@pytest.mark.parametrize("target", ["onnxruntime", None])
def test_exported_codes_have_the_names_of_the_weights(target) -> None:
    model, kwargs, _, _ = build_half("llama", torch.bfloat16)
    _, builder = ortable.to_onnx(
        model, (), kwargs, target=target, weights="int8", return_builder=True
    )
    report = builder.record.weights
    names = {weight.name for weight in report.rounded}
    linear = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    assert linear <= names <= set(model.state_dict())
    assert report.error < 0.03


def test_a_file_keeps_half_floats_unless_asked() -> None:
    model, kwargs, eager, exact = build_half("bert", torch.bfloat16)
    sizes = {}
    for choice in (None, "keep", "float32"):
        program = ortable.export(model, (), kwargs, target="onnxruntime", weights=choice)
        assert is_as_accurate(first_output(program(**kwargs)), eager, exact)
        sizes[choice] = program.model.ByteSize()
        assert program.report.weights is None
        assert (program.report.stored_weights is None) == (choice is None)
    report = program.report.stored_weights
    assert sizes[None] == sizes["keep"] < sizes["float32"] - report.half_bytes_before // 2
    assert report.half_bytes_after < 0.2 * report.half_bytes_before
    assert "weights='float32'" in str(report)


@pytest.mark.alternates("weights")
@pytest.mark.parametrize("weights", [None, "keep"])
def test_decoding_in_bfloat16_is_as_exact_as_eager(weights) -> None:
    """The cache is bfloat16; the logits are those of a prompt and of single tokens after it."""
    model, _ = build("llama")
    ids = torch.arange(12).reshape(2, 6) * 7 % 96
    exact = model.double()(input_ids=ids).logits
    model = model.bfloat16()
    run = compile_model(model, weights=weights)

    def decode(model_call) -> torch.Tensor:
        cache, logits = transformers.DynamicCache(config=model.config), []
        for begin, end in ((0, 3), (3, 4), (4, 5), (5, 6)):
            part = model_call(input_ids=ids[:, begin:end], past_key_values=cache, use_cache=True)
            logits.append(part.logits)
        return torch.cat(logits, 1)

    with torch.no_grad():
        assert is_as_accurate(decode(run), decode(model), exact)
