"""Models of bfloat16 and float16: as far from float64 as eager is and no further, compiled and
exported; option `weights` for them, whose words "keep" and "float32" change no number."""

from __future__ import annotations

from collections import Counter

import onnx
import pytest
import torch
import transformers

import ortable
from ortable.backend.execute.runner import move_casts_to_front
from ortable.errors import OptionError

from .models import NAMES, build, distance, linears, operators

HALVES = (torch.bfloat16, torch.float16)
NETS = ("mlp", "convnet")


def half(name: str, dtype: torch.dtype):
    """A model and the arguments of a call in a dtype, and what it computes in float64 with the
    same weights."""
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
    wide = {k: v.double() if v.is_floating_point() else v for k, v in kwargs.items()}
    with torch.no_grad():
        eager, exact = first_of(model(**kwargs)), first_of(model.double()(**wide))
    return model.to(dtype), kwargs, eager, exact


def first_of(found) -> torch.Tensor:
    return found if isinstance(found, torch.Tensor) else found[0]


def compiled(model, storage=None, **options):
    torch._dynamo.reset()
    options["storage"] = {} if storage is None else storage
    return torch.compile(model, backend="ortable", options=options)


def is_as_exact(found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    assert (found.dtype, found.shape) == (eager.dtype, eager.shape)
    return distance(found, exact) < 1.5 * distance(eager, exact)


@pytest.mark.alternates("name", parts=3)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", (*NAMES, *NETS))
def test_compiled_models_are_as_exact_as_eager(name, dtype) -> None:
    model, kwargs, eager, exact = half(name, dtype)
    run = compiled(model)
    with torch.no_grad():
        assert is_as_exact(first_of(run(**kwargs)), eager, exact)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ("llama", "mlp"))
def test_exported_models_are_as_exact_as_eager(name, dtype) -> None:
    model, kwargs, eager, exact = half(name, dtype)
    program = ortable.export(model, (), kwargs, target="onnxruntime")
    assert is_as_exact(first_of(program(**kwargs)), eager, exact)


@pytest.mark.alternates("name", parts=2)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ("llama", "convnet"))
def test_keep_and_float32_change_no_number_but_by_rounding(name, dtype) -> None:
    model, kwargs, eager, exact = half(name, dtype)
    took = {}
    for word in ("keep", "float32"):
        storage: dict = {}
        run = compiled(model, storage, weights=word)
        with torch.no_grad():
            for _ in range(3):  # the same session, and weights that rest
                assert is_as_exact(first_of(run(**kwargs)), eager, exact)
        took[word] = Counter()
        for record in storage["instance"]:
            took[word].update(record.weights)
    matrices = sum(p.nbytes for p in model.parameters() if p.dim() > 1)
    assert took["keep"]["model_bytes"] == took["float32"]["model_bytes"] >= matrices
    assert took["keep"]["session_bytes"] < 0.1 * matrices
    tables = sum(m.weight.nbytes for m in model.modules() if isinstance(m, torch.nn.Embedding))
    assert took["float32"]["session_bytes"] >= 2 * matrices - tables


def test_kept_weights_may_change_and_train() -> None:
    model, kwargs, _, _ = half("mlp", torch.bfloat16)
    run = compiled(model, weights="keep")
    with torch.no_grad():
        before = run(**kwargs)
        model[0].weight.mul_(-1)
        after = run(**kwargs)
        assert not torch.equal(before, after)
        assert distance(after, model(**kwargs)) < 0.02
    run(**kwargs).sum().backward()
    assert model[0].weight.grad.dtype == torch.bfloat16


def test_float32_is_refused_where_weights_train() -> None:
    model, kwargs, _, _ = half("mlp", torch.bfloat16)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="Option 'weights'"):
        compiled(model, weights="float32")(**kwargs)
    with pytest.raises(OptionError, match="Remove one of the two"):
        ortable.OrtOptions(weights="float32", freeze="off")


@pytest.mark.parametrize("dtype", HALVES)
def test_kept_weights_are_cast_one_after_the_other(dtype) -> None:
    """Casts in front are run last; a session would hold all weights in float32 otherwise."""
    model, kwargs, _, _ = half("llama", dtype)
    storage: dict = {}
    with torch.no_grad():
        compiled(model, storage, weights="keep")(**kwargs)
    late = move_casts_to_front(storage["instance"][0].onnx)
    readers = {n for node in late.graph.node if node.op_type != "Cast" for n in node.input}
    matrices = {
        each.name
        for each in late.graph.input
        if each.type.tensor_type.elem_type in (10, 16) and len(each.type.tensor_type.shape.dim) > 1
    }
    assert len(matrices & readers) == 1  # the table of embeddings, of which rows are read
    casts = [i for i, node in enumerate(late.graph.node) if set(node.input) & matrices - readers]
    assert casts and max(casts) < len(late.graph.input)
    onnx.checker.check_model(late)


@pytest.mark.alternates("name", parts=3)
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", NAMES)
def test_every_linear_layer_of_half_floats_reads_codes(name, dtype) -> None:
    model, kwargs, eager, _ = half(name, dtype)
    storage: dict = {}
    run = compiled(model, storage, weights="int8")
    with torch.no_grad():
        found = first_of(run(**kwargs))
    assert found.dtype == dtype
    assert distance(found, eager) < 0.03
    records = [each for each in storage["instance"] if each.weights]
    assert sum(operators(each.weights["onnx"])["MatMulNBits"] for each in records) == linears(model)


@pytest.mark.parametrize("target", ["onnxruntime", None])
def test_exported_codes_have_the_names_of_the_weights(target) -> None:
    model, kwargs, _, _ = half("llama", torch.bfloat16)
    _, builder = ortable.to_onnx(
        model, (), kwargs, target=target, weights="int8", return_builder=True
    )
    report = builder.record.weights
    names = {each.name for each in report.rounded}
    linear = {f"{n}.weight" for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)}
    assert linear <= names <= set(model.state_dict())
    assert report.error < 0.03


def test_a_file_keeps_half_floats_unless_asked() -> None:
    model, kwargs, eager, exact = half("bert", torch.bfloat16)
    sizes = {}
    for word in (None, "keep", "float32"):
        program = ortable.export(model, (), kwargs, target="onnxruntime", weights=word)
        assert is_as_exact(first_of(program(**kwargs)), eager, exact)
        sizes[word] = program.model.ByteSize()
        assert program.report.weights is None
        assert (program.report.stored_weights is None) == (word is None)
    report = program.report.stored_weights
    assert sizes[None] == sizes["keep"] < sizes["float32"] - report.half_bytes_before // 2
    assert report.half_bytes_after < 0.2 * report.half_bytes_before
    assert "weights='float32'" in str(report)


@pytest.mark.alternates("weights")
@pytest.mark.parametrize("weights", [None, "keep"])
def test_decoding_in_bfloat16_is_as_exact_as_eager(weights) -> None:
    """Logits of a prompt and of single tokens after it, with a cache of bfloat16."""
    model, _ = build("llama")
    ids = torch.arange(12).reshape(2, 6) * 7 % 96
    exact = model.double()(input_ids=ids).logits
    model = model.bfloat16()
    run = compiled(model, weights=weights)

    def decoded(call) -> torch.Tensor:
        cache, parts = transformers.DynamicCache(config=model.config), []
        for begin, end in ((0, 3), (3, 4), (4, 5), (5, 6)):
            part = call(input_ids=ids[:, begin:end], past_key_values=cache, use_cache=True)
            parts.append(part.logits)
        return torch.cat(parts, 1)

    with torch.no_grad():
        assert is_as_exact(decoded(run), decoded(model), exact)
