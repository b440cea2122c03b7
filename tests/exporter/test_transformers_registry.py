"""ortable as an exporter in transformers' registry: export, save, load and run, against eager."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import transformers
from transformers.cache_utils import StaticCache
from transformers.exporters import AutoHfExporter, ExportedModel
from transformers.exporters.auto import EXPORT_BACKENDS
from transformers.exporters.utils import get_leaf_tensors
from transformers.modeling_outputs import BaseModelOutput

import ortable
from ortable.compat.torch import pytree, unregister_pytree
from ortable.errors import ExportError, InputError, OptionError, ProviderError, VersionError
from tests.exporter.language_models import CACHE, build
from tests.packaging.files import ROOT

pytestmark = pytest.mark.alternates(parts=3)

ortable.register_transformers()
_TINY = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
}  # fmt: skip


@pytest.fixture(autouse=True)
def unregister_caches() -> Iterator[None]:
    """Unregister caches from pytree, so that transformers' exporters register them themselves."""
    registered = [cls for cls in pytree.SUPPORTED_NODES if cls.__name__.endswith("Cache")]
    for cls in registered:
        unregister_pytree(cls)
    yield
    for cls in [cls for cls in pytree.SUPPORTED_NODES if cls.__name__.endswith("Cache")]:
        unregister_pytree(cls)


def ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(2, 90, (batch, length))


def exporter() -> Any:
    return AutoHfExporter.from_config({"export_format": "ortable"})


def check_equal(output: Any, expected: Any) -> None:
    """Check that two outputs have the same class and the same tensors by name."""
    assert type(output) is type(expected)
    actual, expected_tensors = get_leaf_tensors(output), get_leaf_tensors(expected)
    assert list(actual) == list(expected_tensors)
    for name, tensor in expected_tensors.items():
        torch.testing.assert_close(actual[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


def bert() -> tuple[Any, dict[str, Any]]:
    config = transformers.BertConfig(vocab_size=97, max_position_embeddings=32, **_TINY)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    return transformers.BertModel(config), {"input_ids": ids(2, 5), "attention_mask": mask}


def vit() -> tuple[Any, dict[str, Any]]:
    config = transformers.ViTConfig(image_size=16, patch_size=4, **_TINY)
    return transformers.ViTForImageClassification(config), {
        "pixel_values": torch.randn(2, 3, 16, 16)
    }


def llama() -> tuple[Any, dict[str, Any]]:
    return build("llama"), {"input_ids": ids(2, 5), "attention_mask": torch.ones(2, 5).long()}


def t5() -> tuple[Any, dict[str, Any]]:
    return build("t5"), {"input_ids": ids(2, 7), "decoder_input_ids": ids(2, 3)}


@pytest.mark.parametrize("make", [bert, vit, llama, t5], ids=lambda make: make.__name__)
def test_export_save_load_and_run(make: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, inputs = make()
    model.eval()
    with torch.no_grad():
        expected = model(**inputs)
    exported = exporter().export(model, dict(inputs), {"target_opset": 20})
    check_equal(exported(**inputs), expected)
    exported.save_pretrained(tmp_path / "saved")
    (file,) = (tmp_path / "saved").glob("*.onnx")
    assert onnx.load(file, load_external_data=False).opset_import[0].version == 20
    loaded = ExportedModel.from_pretrained(tmp_path / "saved")
    check_equal(loaded(**inputs), expected)
    assert loaded.config.model_type == model.config.model_type
    assert str(loaded.device) == "cpu"
    loaded.save_pretrained(tmp_path / "again")
    check_equal(ExportedModel.from_pretrained(tmp_path / "again")(**inputs), expected)


def test_dynamic_sizes_of_a_model_and_names_of_its_tensors() -> None:
    torch.manual_seed(0)
    model = build("llama")
    inputs = {"input_ids": ids(2, 5), "attention_mask": torch.ones(2, 5).long()}
    exported = exporter().export(model, inputs, {"dynamic": True, "target": "onnxruntime"})
    larger = {"input_ids": ids(3, 9), "attention_mask": torch.ones(3, 9).long()}
    with torch.no_grad():
        check_equal(exported(**larger), model(**larger))
    assert exported.program.input_names == ["input_ids", "attention_mask"]
    assert exported.program.output_names[:2] == ["logits", f"{CACHE}.layers.0.keys"]


@pytest.mark.filterwarnings("ignore:the model holds only for sizes")
def test_the_parts_of_generation(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = build("llama")
    inputs = {"input_ids": ids(2, 5), "attention_mask": torch.ones(2, 5).long()}
    exported = exporter().export_for_generation(model, inputs, {"prefill": {}, "decode": {}})
    assert list(exported.components) == ["prefill", "decode"]
    exported.save_pretrained(tmp_path)
    runners = ExportedModel.from_pretrained(tmp_path).runners
    with torch.no_grad():
        first = model(**inputs)
        prefilled = runners["prefill"](position_ids=torch.arange(5).expand(2, 5), **inputs)
        check_equal(prefilled, first)
        step = {"input_ids": ids(2, 1), "attention_mask": torch.ones(2, 6).long()}
        position = torch.full((2, 1), 5)
        past, eager_past = ({CACHE: getattr(output, CACHE)} for output in (prefilled, first))
        second = runners["decode"](**past, position_ids=position, **step)
        check_equal(second, model(**eager_past, **step))


def static_cache(model: Any, length: int) -> StaticCache:
    cache = StaticCache(config=model.config, max_cache_len=length)
    cache.early_initialization(2, 2, 8, torch.float32, torch.device("cpu"))
    return cache


def test_a_cache_that_forward_writes_to_is_written_to() -> None:
    torch.manual_seed(0)
    model = build("llama")
    exported = exporter().export(
        model, {"input_ids": ids(2, 1), CACHE: static_cache(model, 12)}, {}
    )
    assert exported.program.output_names[-1] == (
        f"input.{CACHE}.layers.1.cumulative_length_mutated"
    )
    exported_cache, eager_cache = static_cache(model, 12), static_cache(model, 12)
    for token in (ids(2, 1), ids(2, 1)):
        with torch.no_grad():
            expected = model(input_ids=token, **{CACHE: eager_cache})
        check_equal(exported(input_ids=token, **{CACHE: exported_cache}), expected)
        check_equal(exported_cache, eager_cache)


class HardToTrace(transformers.PreTrainedModel):
    """A model that non-strict torch.export rejects: ``len`` of a tensor and a branch on values."""

    config_class = transformers.BertConfig
    branches = False

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.linear = torch.nn.Linear(4, 3)
        self.post_init()

    def forward(self, x: torch.Tensor) -> BaseModelOutput:
        y = self.linear(x.reshape(len(x), -1, 4)).sum(1)
        if self.branches and (y > 0).any():
            y = y * 2
        return BaseModelOutput(last_hidden_state=y, attentions=(y + 1,))


@pytest.mark.parametrize("branches", [False, True])
def test_other_strategies_where_torch_export_fails(branches: bool, tmp_path: Path) -> None:
    model, x = HardToTrace(transformers.BertConfig()).eval(), torch.randn(2, 8)
    model.branches = branches
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}} if not branches else None
    with pytest.raises(Exception, match=r"specialized it to be a constant|data-dependent"):
        exporter().export(model, {"x": x}, {"dynamic_shapes": shapes, "fallback": False})
    exported = exporter().export(model, {"x": x}, {"dynamic_shapes": shapes})
    assert exported.program.output_names == ["last_hidden_state", "attentions.0"]
    exported.save_pretrained(tmp_path)
    loaded = ExportedModel.from_pretrained(tmp_path)
    for scale in (1, -1, 0):
        for batch in (2,) if branches else (2, 3):
            example = scale * torch.randn(batch, 8)
            with torch.no_grad():
                check_equal(exported(x=example), model(x=example))
                check_equal(loaded(x=example), model(x=example))


def test_strict_capture_names_its_tensors() -> None:
    model, x = HardToTrace(transformers.BertConfig()).eval(), torch.randn(2, 8)
    shapes = {"x": {0: torch.export.Dim.DYNAMIC}}
    exported = exporter().export(model, {"x": x}, {"dynamic_shapes": shapes, "strict": True})
    assert exported.program.input_names == ["x"]
    with torch.no_grad():
        check_equal(exported(x=torch.ones(5, 8)), model(x=torch.ones(5, 8)))


def test_a_model_that_no_strategy_exports_is_refused_by_name() -> None:
    class Never(HardToTrace):
        def forward(self, x: torch.Tensor) -> BaseModelOutput:
            attentions = (x,) if (x > 0).any() else None
            return BaseModelOutput(last_hidden_state=x, attentions=attentions)

    model = Never(transformers.BertConfig()).eval()
    with pytest.raises(ExportError, match="no strategy could export Never"):
        exporter().export(model, {"x": torch.randn(2, 8)}, {})


def test_constants_of_a_call_and_missing_inputs() -> None:
    model, inputs = vit()
    model.eval()
    exported = exporter().export(model, {**inputs, "interpolate_pos_encoding": True}, {})
    with torch.no_grad():
        check_equal(exported(**inputs), model(**inputs, interpolate_pos_encoding=True))
    with pytest.raises(InputError, match="'pixel_values', which is not in the arguments"):
        exported(interpolate_pos_encoding=True)


def test_where_a_model_runs_is_checked() -> None:
    model, inputs = vit()
    exported = exporter().export(model.eval(), inputs, {})
    with pytest.raises(OptionError, match="device or providers"):
        exported.to("cpu", providers=["CPUExecutionProvider"])
    with pytest.raises(ProviderError, match="not on meta"):
        exported.to("meta")
    with pytest.raises(OptionError, match="intra_op"):
        exported.to(session_options={"intra_op_number": 1})


def test_a_quantizer_of_onnx_models_is_refused() -> None:
    class Quantizer:
        quantizes_fx_graph = False

    model, inputs = vit()
    with pytest.raises(OptionError, match="Quantizer quantizes ONNX models"):
        exporter().export(model.eval(), inputs, {"quantizer": Quantizer()})


def test_registering_twice_is_registering_once() -> None:
    registered = EXPORT_BACKENDS["ortable"]
    ortable.register_transformers()
    assert EXPORT_BACKENDS["ortable"] is registered


def test_transformers_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VersionError, match=r"transformers is not installed; .*pip install"):
        ortable.register_transformers()


def test_importing_ortable_does_not_import_transformers() -> None:
    path = [str(ROOT / name) for name in ("runtime", "generated", "codegen")]
    code = (
        f"import sys; sys.path[:0] = {path!r}\n"
        "import ortable; ortable.register_transformers; ortable.export\n"
        "assert 'transformers' not in sys.modules\n"
        "sys.modules['transformers.exporters'] = None\n"
        "try:\n    ortable.register_transformers()\n"
        "except ortable.errors.VersionError as error:\n    print(error)\n"
    )
    proc = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert proc.returncode == 0, proc.stderr
    assert "pip install -U" in proc.stdout
