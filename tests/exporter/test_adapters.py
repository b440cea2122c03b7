"""LoRA adapters as inputs of one graph, compared with PEFT."""

from __future__ import annotations

import copy
import functools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import peft
import pytest
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file

import ortable
from ortable.errors import ExportError, InputError, OptionError
from ortable.exporter.language_models.adapters import read_adapter

from .helpers import assert_close
from .test_export_language_model import build

pytestmark = pytest.mark.alternates(parts=3)

TEXTS = torch.tensor([[43, 17, 25, 61, 12, 80, 33], [5, 9, 54, 11, 3, 72, 8]])
MASK = torch.ones_like(TEXTS)
NEW_TOKENS = 8
# Architecture -> settings of two adapters, which have some of their layers in common.
LORA: dict[str, dict[str, dict[str, Any]]] = {
    "llama": {
        "poet": {
            "target_modules": ["q_proj", "v_proj"], "r": 4, "lora_alpha": 6,
            "rank_pattern": {"v_proj": 3}, "alpha_pattern": {"self_attn.v_proj": 5},
        },
        "coder": {
            "target_modules": ["v_proj", "down_proj", "lm_head"], "r": 2, "lora_alpha": 3,
            "use_rslora": True,
        },
    },
    "gpt2": {  # its layers are Conv1D
        "poet": {"target_modules": ["c_attn"], "r": 4, "fan_in_fan_out": True},
        "coder": {"target_modules": ["mlp.c_fc", "mlp.c_proj"], "r": 1, "fan_in_fan_out": True},
    },
}  # fmt: skip


def adapt(model: Any, settings: Mapping[str, Any], folder: Path) -> Any:
    """Return the model with a random adapter, which is saved."""
    adapted = peft.get_peft_model(model, peft.LoraConfig(**settings)).eval()
    torch.manual_seed(len(folder.name))
    for name, parameter in adapted.named_parameters():
        if ".lora_" in name:
            parameter.data = 0.3 * torch.randn_like(parameter)
    adapted.save_pretrained(folder, save_embedding_layers=False)
    return adapted


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=TEXTS, attention_mask=MASK).logits


def assert_same(exported: Any, expected: Mapping[str | None, Any], tolerance: float = 1e-5) -> None:
    """Compare logits, and tokens if these are exact, with each adapter in turn in one session."""
    base = logits_of(expected[None])
    for name in [*expected, *expected]:
        logits, reference = exported.step(TEXTS, MASK, adapter=name)[0], logits_of(expected[name])
        assert distance(logits, reference) < tolerance
        assert name is None or distance(logits, base) > 20 * tolerance
        if tolerance < 1e-4:
            tokens = exported.generate(TEXTS[:1], max_new_tokens=NEW_TOKENS, adapter=name)
            assert torch.equal(tokens, generate(expected[name]))


def distance(computed: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of a difference relative to that of the expected values."""
    return float((computed.double() - expected).norm() / expected.double().norm())


def generate(model: Any) -> torch.Tensor:
    options = {"attention_mask": MASK[:1], "do_sample": False, "max_new_tokens": NEW_TOKENS}
    return model.generate(input_ids=TEXTS[:1], **options)


def export(name: str, folder: Path, **options: Any) -> tuple[Any, dict[str | None, Any]]:
    """Export a model with its adapters; return it with the models of torch by adapter."""
    models = {
        adapter: adapt(build(name), settings, folder / adapter)
        for adapter, settings in LORA[name].items()
    }
    exported = ortable.export_language_model(
        build(name),
        folder / "lm",
        adapters={adapter: folder / adapter for adapter in models},
        logits="all",
        **options,
    )
    return exported, {None: build(name), **models}


Exporter = Callable[[str], tuple[Any, dict[str | None, Any]]]


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Return a function that exports a model once."""
    return functools.cache(lambda name: export(name, tmp_path_factory.mktemp(name)))


@pytest.mark.alternates("name")
@pytest.mark.parametrize("name", LORA)
def test_two_adapters_in_turn_are_those_of_peft(name: str, exporter: Exporter) -> None:
    exported, expected = exporter(name)
    assert_same(exported, expected)
    files = {path.name for path in exported.folder.iterdir()}
    assert {"poet.onnx_adapter", "coder.onnx_adapter"} < files
    # merged into the weights, and guessed tokens
    merged = copy.deepcopy(expected["poet"]).merge_and_unload()
    tokens = exported.generate(
        TEXTS[:1], max_new_tokens=NEW_TOKENS, adapter="poet", prompt_lookup_num_tokens=3
    )
    assert torch.equal(tokens, generate(merged))


def test_sessions_of_onnxruntime_take_the_files(exporter: Exporter) -> None:
    """Adapters by RunOptions, inputs by hand, and defaults that add nothing."""
    exported, expected = exporter("llama")
    session = onnxruntime.InferenceSession(exported.folder / "model.onnx")
    feeds = {
        "input_ids": TEXTS.numpy(),
        "attention_mask": MASK.numpy(),
        "position_ids": torch.arange(TEXTS.shape[1]).repeat(2, 1).numpy(),
    }
    for value in session.get_inputs():
        if value.name not in feeds:
            shape = (2, value.shape[1], 0, value.shape[3])
            feeds[value.name] = torch.zeros(shape).numpy()
    optional = {value.name: value.shape for value in session.get_overridable_initializers()}
    assert optional["model.layers.0.mlp.down_proj.lora_A"] == [64, "rank_2"]
    assert optional["model.layers.0.mlp.down_proj.lora_B"] == ["rank_2", 32]
    for name in ("poet", "coder"):
        path = str(exported.folder / f"{name}.onnx_adapter")
        adapter, options = onnxruntime.LoraAdapter(), onnxruntime.RunOptions()
        adapter.Load(path)
        options.add_active_adapter(adapter)
        computed = torch.from_numpy(session.run(["logits"], feeds, options)[0])
        assert torch.equal(computed, exported.step(TEXTS, MASK, adapter=name)[0])
        assert_close([computed], [logits_of(expected[name])])
    for rank in (0, 1):
        zeros = {
            key: torch.zeros([size if isinstance(size, int) else rank for size in shape]).numpy()
            for key, shape in optional.items()
        }
        computed = torch.from_numpy(session.run(["logits"], {**feeds, **zeros})[0])
        assert torch.equal(computed, exported.step(TEXTS, MASK)[0])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("kind", "activations", "tolerance"),
    [("int4", "float32", 1e-5), ("int8", "int8", 0.02)],  # the second also rounds activations
)
def test_layers_of_codes_with_adapters_of_floats(
    kind: Any, activations: Any, tolerance: float, tmp_path: Path
) -> None:
    options = ortable.WeightOptions(kind, activations=activations, embeddings=False)
    exported, models = export("llama", tmp_path, weights=options)
    for model in models.values():
        for path, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and "lora_" not in path:
                module.weight.data = rounded_weight(module, options)
    assert_same(exported, models, tolerance)


def rounded_weight(module: torch.nn.Linear, options: ortable.WeightOptions) -> torch.Tensor:
    """Return the weight that the codes of a layer alone stand for."""
    layer = torch.nn.Linear(module.in_features, module.out_features, bias=False).eval()
    layer.weight = module.weight
    identity = torch.eye(module.in_features)
    return ortable.export(layer, (identity,), weights=options)(identity).T.contiguous()


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({"target": None}, 1e-5),
        ({"merged": False, "validate": True}, 1e-5),
        # scales of keys and values that also hold those of the adapters
        ({"cache": {"kind": "int8", "texts": TEXTS}}, 0.05),
        ({"weights": "float16"}, 2e-3),
        ({"weights": {"kind": "float16", "keep_io": False}}, 2e-3),
    ],
)
def test_forms_of_the_graph(options: Any, tolerance: float, tmp_path: Path) -> None:
    exported, expected = export("llama", tmp_path, **options)
    assert_same(exported, expected, tolerance)


def test_models_of_float16_have_adapters_of_float32(tmp_path: Path) -> None:
    model = build("llama").to(torch.float16)
    adapted = adapt(model, LORA["llama"]["poet"], tmp_path / "poet")
    exported = ortable.export_language_model(
        build("llama").to(torch.float16),
        tmp_path / "lm",
        adapters={"poet": tmp_path / "poet"},
        logits="all",
    )
    logits, _ = exported.step(TEXTS, MASK, adapter="poet")
    assert logits.dtype == torch.float16
    assert distance(logits, logits_of(adapted)) < 2e-3
    assert {value.dtype for value in exported._adapter_inputs.values()} == {torch.float32}


def test_adapters_are_added_later_and_replaced(exporter: Exporter, tmp_path: Path) -> None:
    original, expected = exporter("llama")
    folder = shutil.copytree(original.folder, tmp_path / "lm")
    exported = ortable.OnnxLanguageModel.load(folder)
    settings = {"target_modules": ["q_proj", "down_proj"], "r": 5}
    model = adapt(build("llama"), settings, tmp_path / "later")
    tensors = load_file(tmp_path / "later" / "adapter_model.safetensors")
    config = json.loads((tmp_path / "later" / "adapter_config.json").read_text())
    exported.add_adapter("poet", (config, tensors))  # in place of another
    assert_same(exported, {None: expected[None], "poet": model, "coder": expected["coder"]})
    nothing = {
        key: value[:0] if "lora_A" in key else value[:, :0] for key, value in tensors.items()
    }
    exported.add_adapter("nothing", (config, nothing))
    base = exported.step(TEXTS, MASK)[0]
    assert torch.equal(exported.step(TEXTS, MASK, adapter="nothing")[0], base)

    reloaded = ortable.OnnxLanguageModel.load(exported.folder)
    for adapter, message in (
        (tmp_path, "is a folder with adapter_config.json"),
        ({"q": torch.zeros(2)}, "a folder of PEFT, or its settings"),
        ((config, {"model.embed.lora_A.weight": torch.zeros(1, 1)}), "without its counterpart"),
        ((config, renamed(tensors, "q_proj", "k_proj")), "'model.layers.0.self_attn.k_proj', for"),
        ((config, renamed(tensors, "q_proj", "v_proj")), "v_proj.lora_B has the shape"),
    ):
        with pytest.raises(InputError, match=message):
            reloaded.add_adapter("other", adapter)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no adapter 'other'; it has 'coder', 'nothing', 'poet'"):
        reloaded.generate(TEXTS, adapter="other")
    with pytest.raises(OptionError, match=r"unlike '\.\./poet'"):
        reloaded.generate(TEXTS, adapter="../poet")
    (exported.folder / "taken.onnx_adapter").mkdir()
    with pytest.raises(ExportError, match="adapter 'taken' could not be written to"):
        reloaded.add_adapter("taken", (config, tensors))
    assert not list(exported.folder.glob(".*"))
    (exported.folder / "taken.onnx_adapter").rmdir()
    (exported.folder / "bad.onnx_adapter").write_bytes(b"text")
    with pytest.raises(InputError, match="is no adapter of ONNX Runtime"):
        reloaded.generate(TEXTS, adapter="bad")
    again = ortable.export_language_model(build("llama"), exported.folder)
    assert not list(again.folder.glob("*.onnx_adapter"))


def renamed(tensors: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    return {key.replace(old, new): value for key, value in tensors.items()}


_LAYER = "base_model.model.model.layers.0.self_attn.q_proj"
_TENSORS = {
    f"{_LAYER}.lora_A.weight": torch.ones(2, 32), f"{_LAYER}.lora_B.weight": torch.ones(32, 2)
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({"peft_type": "LOHA"}, {}, "has peft_type='LOHA'"),
        ({"bias": "all"}, {}, "has bias='all'"),
        ({"use_dora": True}, {}, "has use_dora=True"),
        ({"init_lora_weights": "pissa_niter_4"}, {}, "has init_lora_weights='pissa_niter_4'"),
        ({"modules_to_save": ["lm_head"]}, {}, "has modules_to_save="),
        ({"lora_alpha": None}, {}, "lora_alpha is a number, not None"),
        ({}, {"lm_head.base_layer.weight": torch.ones(2)}, "save_embedding_layers=False"),
        ({}, {f"{_LAYER}.lora_B.weight": torch.ones(32, 3)}, r"not torch.float32 \(2, 32\) and"),
        ({}, renamed(_TENSORS, "q_proj", "x_proj"), "'model.layers.0.self_attn.x_proj', which Lla"),
        ({}, renamed(_TENSORS, "self_attn.q_proj", "input_layernorm"), "a LlamaRMSNorm: only"),
        ({}, renamed(_TENSORS, "q_proj", "k_proj"), "for 32 inputs and 32 outputs of '.*k_proj'"),
    ],
)
def test_what_is_no_sum_of_products_is_refused(
    config: dict[str, Any], tensors: dict[str, Any], message: str, tmp_path: Path
) -> None:
    adapter = ({"lora_alpha": 4, **config}, {**_TENSORS, **tensors})
    with pytest.raises(InputError, match=message):
        ortable.export_language_model(build("llama"), tmp_path / "lm", adapters={"one": adapter})


def test_models_that_adapters_do_not_fit_are_refused(tmp_path: Path) -> None:
    adapter = ({"lora_alpha": 4}, _TENSORS)
    layer = "transformer.h.0.self_attention.query_key_value"
    pair = {
        f"{layer}.lora_A.weight": torch.ones(2, 32),
        f"{layer}.lora_B.weight": torch.ones(96, 2),
    }
    bloom = ({"lora_alpha": 4}, pair)  # has no maximal text length
    adapted = adapt(build("llama"), {"target_modules": ["q_proj"]}, tmp_path / "one")
    base = adapted.get_base_model()
    bypassed = build("llama")
    projection = bypassed.model.layers[0].self_attn.q_proj
    weight = projection.weight
    bypassed.model.layers[0].self_attn.q_proj.forward = None
    bypassed.model.layers[0].self_attn.q_proj.__class__ = type(
        "Uncalled", (torch.nn.Linear,), {"__call__": lambda self, x: x @ weight.T}
    )
    for model, options, error, message in (
        (base, {}, InputError, "is adapted already: give the base model"),
        (bypassed, {}, ExportError, "q_proj' without calling the layer"),
        (build("bloom"), {"adapters": {"one": bloom}}, OptionError, "of BloomForCausalLM has no"),
        (build("llama"), {"loop": "greedy"}, OptionError, "leave out loop"),
        (build("llama"), {"adapters": ["one"]}, OptionError, "a dict of adapters by name"),
        (build("llama"), {"adapters": {"a/b": adapter}}, OptionError, "unlike 'a/b'"),
    ):
        with pytest.raises(error, match=message):
            options = {"adapters": {"one": adapter}, **options}
            ortable.export_language_model(model, tmp_path / "lm", **options)


def test_safetensors_and_settings_of_peft_are_read(tmp_path: Path) -> None:
    """B has the factor of PEFT: alpha / rank."""
    folder = tmp_path / "one"
    folder.mkdir()
    save_file(_TENSORS, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"lora_alpha": 5, "peft_type": "LORA"}))
    (weights,) = read_adapter("one", folder).values()
    assert torch.equal(weights.a, torch.ones(32, 2))
    assert torch.equal(weights.b, torch.full((2, 32), 2.5))


def test_passes_leave_inputs_that_have_defaults(exporter: Exporter) -> None:
    """An optimizer of the file folds no default, also where it is not empty."""
    exported, _ = exporter("llama")
    model = onnx.load(exported.folder / "model.onnx")
    for tensor in model.graph.initializer:
        if tensor.name.endswith((".lora_A", ".lora_B")):
            shape = [size or 2 for size in tensor.dims]
            values = numpy_helper.from_array(np.ones(shape, np.float32), tensor.name)
            tensor.CopyFrom(values)
    builder = ortable.GraphBuilder(model)
    builder.optimize()
    optimized = builder.to_onnx()
    names = {tensor.name for tensor in optimized.graph.initializer}
    assert {name for name in exported._adapter_inputs if name in names} == set(
        exported._adapter_inputs
    )
    assert [value.name for value in optimized.graph.input] == [
        value.name for value in model.graph.input
    ]
    read = [name for node in optimized.graph.node for name in node.input]
    assert set(exported._adapter_inputs) < set(read)
