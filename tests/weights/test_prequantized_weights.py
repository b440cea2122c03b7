"""Models with quantized weights: kernels that read their codes, in exports and torch.compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
import torchao.quantization as torchao
import transformers
from onnx.utils import Extractor
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e import quantize_pt2e  # noqa: F401 - registers quantized_decomposed

import ortable
from ortable.backend.roles import DATA_CHECKS

from .models import build as language_model
from .models import count_products, distance, operators
from .prequantized_weights import Awq, Gptq, InGroups, Packed4, Packed8, PerChannel

pytestmark = pytest.mark.alternates(parts=3)

INNER, OUTER = 128, 64
ROUNDING_ERROR = 1e-5


def torchao_model(config: object) -> torch.nn.Module:
    layers = torch.nn.Linear(INNER, 96), torch.nn.ReLU(), torch.nn.Linear(96, OUTER, bias=False)
    model = torch.nn.Sequential(*layers).eval()
    torchao.quantize_(model, config)
    return model


def intx(dtype: torch.dtype, granularity: object) -> object:
    return torchao.IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity)


# Models with 4-bit codes, and the number of products that read codes.
FOUR_BIT_MODELS: dict[str, tuple[Callable[[], torch.nn.Module], int]] = {
    "torchao in groups": (lambda: torchao_model(intx(torch.int4, PerGroup(32))), 2),
    "torchao by rows": (lambda: torchao_model(intx(torch.int4, PerAxis(0))), 2),
    "int4pack, whole zero points": (lambda: Packed4(INNER, OUTER, True), 1),
    "int4pack, other zeros": (lambda: Packed4(INNER, 80, False), 1),
    "gptq": (lambda: Gptq(INNER, OUTER), 1),
    "gptq, one group": (lambda: Gptq(96, OUTER, 96), 1),
    "awq": (lambda: Awq(INNER, OUTER), 1),
    "pt2e by rows": (lambda: PerChannel(INNER, OUTER), 1),
    "pt2e in groups": (lambda: InGroups(INNER, OUTER), 1),
}
# Models with 8-bit codes, and the number of products that read codes.
EIGHT_BIT_MODELS: dict[str, tuple[Callable[[], torch.nn.Module], int]] = {
    "torchao": (lambda: torchao_model(torchao.Int8WeightOnlyConfig()), 2),
    "torchao in groups": (lambda: torchao_model(intx(torch.int8, PerGroup(32))), 2),
    "int8pack": (lambda: Packed8(INNER, OUTER), 1),
    "pt2e by rows": (lambda: PerChannel(INNER, OUTER, -128, 127), 1),
}


def build(make: Callable[[], torch.nn.Module]) -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model = make().eval()
    inner = 96 if getattr(model, "scales", torch.empty(0)).shape[:1] == (1,) else INNER
    return model, torch.randn(2, 3, inner)


def run_export(model: torch.nn.Module, x: torch.Tensor, **options) -> tuple[Counter, float]:
    """Return the operators of an export for ONNX Runtime, and its distance from eager."""
    program = ortable.export(model, (x,), target="onnxruntime", **options)
    with torch.no_grad():
        return Counter(operators(program.model_proto)), distance(program(x), model(x))


def run_compiled(model: torch.nn.Module, x: torch.Tensor, **options) -> tuple[Counter, float]:
    """Return the operators and distance of torch.compile, without nodes that only check data."""
    torch._dynamo.reset()
    storage: dict = {}
    run = torch.compile(model, backend="ortable", options={"storage": storage, **options})
    with torch.no_grad():
        error = distance(run(x), model(x))
        assert distance(run(x), model(x)) == error
    counts: Counter = Counter()
    for record in storage["instance"]:
        model = record.weights.get("onnx") or record.onnx
        inputs = [value.name for value in model.graph.input]
        outputs = [value.name for value in model.graph.output if value.name != DATA_CHECKS]
        counts.update(operators(Extractor(model).extract_model(inputs, outputs)))
    return counts, error


FRONT_ENDS = pytest.mark.parametrize("front", [run_export, run_compiled])


@FRONT_ENDS
@pytest.mark.parametrize("name", FOUR_BIT_MODELS)
def test_codes_of_four_bits_are_read_by_kernels(name, front) -> None:
    make, products = FOUR_BIT_MODELS[name]
    counts, error = front(*build(make))
    assert error < ROUNDING_ERROR
    assert counts["MatMulNBits"] == products
    assert not counts["Gemm"]
    assert counts["MatMul"] == (1 if name.endswith("other zeros") else 0)
    assert not counts.keys() & {"BitShift", "BitwiseAnd", "DequantizeLinear", "Cast", "Gather"}


@pytest.mark.alternates(parts=2)
@FRONT_ENDS
@pytest.mark.parametrize("name", EIGHT_BIT_MODELS)
def test_codes_of_eight_bits_where_activations_may_be_rounded(name, front) -> None:
    make, products = EIGHT_BIT_MODELS[name]
    plain, error = front(*build(make))
    assert error < ROUNDING_ERROR
    assert not plain["MatMulNBits"]
    counts, error = front(*build(make), weights="int8")
    assert counts["MatMulNBits"] == products
    assert ROUNDING_ERROR < error < 0.02
    assert not counts.keys() & {"Gemm", "MatMul", "DequantizeLinear", "Cast"}


@FRONT_ENDS
def test_groups_in_another_order_stay_arithmetic(front) -> None:
    counts, error = front(*build(lambda: Gptq(INNER, OUTER, ordered=False)))
    assert error < ROUNDING_ERROR
    assert not counts["MatMulNBits"]


@FRONT_ENDS
@pytest.mark.parametrize("rewrites", ["none", ["default", "-ort_codes", "-ort_weights"]])
def test_without_rules_it_stays_arithmetic(rewrites, front) -> None:
    counts, error = front(*build(FOUR_BIT_MODELS["torchao in groups"][0]), rewrites=rewrites)
    assert error < ROUNDING_ERROR
    assert not counts["MatMulNBits"]


def test_a_table_of_embeddings_is_read_as_codes() -> None:
    class QuantizedEmbedding(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("codes", torch.randint(-8, 8, (20, 64), dtype=torch.int8))
            self.register_buffer("scales", torch.rand(20, 2, 1))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            table = (self.codes.unflatten(1, (2, 32)) * self.scales).flatten(1)
            return torch.nn.functional.embedding(ids, table)

    model, ids = QuantizedEmbedding(), torch.tensor([[3, 19, 0]])
    for front in (run_export, run_compiled):
        counts, error = front(model, ids)
        assert error == 0
        assert counts["GatherBlockQuantized"] == 1


def test_quantised_weights_that_are_replaced_are_read_again() -> None:
    model, x = build(FOUR_BIT_MODELS["torchao in groups"][0])
    other = torchao_model(intx(torch.int4, PerGroup(32)))
    torch._dynamo.reset()
    run = torch.compile(model, backend="ortable")
    with torch.no_grad():
        old_result = run(x)
        model.load_state_dict(other.state_dict())
        assert distance(run(x), other(x)) < ROUNDING_ERROR
        assert distance(old_result, other(x)) > 0.1


def test_packed_weights_of_every_number_of_rows() -> None:
    for outer in (16, 32, 48, 64, 80, 144):
        model, x = build(lambda outer=outer: Packed4(64, outer, True))
        x = x[..., :64].contiguous()
        counts, error = run_export(model, x)
        assert error < ROUNDING_ERROR
        assert counts["MatMulNBits"] == 1


@FRONT_ENDS
def test_torchao_for_torchs_own_kernel(front) -> None:
    from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig

    config = PrototypeInt4WeightOnlyConfig(group_size=32, set_inductor_config=False)
    counts, error = front(*build(lambda: torchao_model(config)))
    assert error < ROUNDING_ERROR
    assert counts["MatMulNBits"] == counts["ReduceSum"] == counts["MatMul"] == 2


def test_three_values_of_bitnet() -> None:
    from transformers.integrations.bitnet import BitLinear, pack_weights

    layer = BitLinear(INNER, OUTER, bias=True, dtype=torch.float32)
    layer.weight.copy_(pack_weights(torch.randint(-1, 2, (OUTER, INNER))))
    layer.weight_scale.fill_(3.0)
    # transformers compiles a method of the layer, which torch.compile cannot capture
    with torch.compiler.set_stance("force_eager"):
        counts, error = run_export(*build(lambda: layer))
    assert error < ROUNDING_ERROR
    assert counts["MatMulNBits"] == 1


def test_a_model_that_transformers_loads(tmp_path) -> None:
    model, kwargs = language_model("llama")
    model.save_pretrained(tmp_path)
    config = transformers.TorchAoConfig(intx(torch.int4, PerGroup(32)))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=config, dtype=torch.float32
    )
    layers = 7 * model.config.num_hidden_layers  # without the head
    program = ortable.export(loaded, (), kwargs, target="onnxruntime")
    assert count_products(program.model_proto) == layers
    torch._dynamo.reset()
    storage: dict = {}
    run = torch.compile(loaded, backend="ortable", options={"storage": storage})
    with torch.no_grad():
        expected = loaded(**kwargs).logits
        assert distance(program(**kwargs)["logits"], expected) < ROUNDING_ERROR
        assert distance(run(**kwargs).logits, expected) < ROUNDING_ERROR
    (record,) = [record for record in storage["instance"] if record.weights]
    assert count_products(record.weights["onnx"]) == layers


def test_standard_onnx_computes_the_same() -> None:
    for name in ("int4pack, other zeros", "gptq", "awq"):
        model, x = build(FOUR_BIT_MODELS[name][0])
        program = ortable.export(model, (x,))
        with torch.no_grad():
            assert distance(program(x), model(x)) < ROUNDING_ERROR
        assert all(not node.domain for node in program.model_proto.graph.node)
