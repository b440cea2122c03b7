"""What the sections of docs/libraries.md read, and the comparison of what they compute.

`prepare_SECTION` writes models with random weights into the current folder. `check_SECTION` runs
after each block of the section's code: it gets the index of the block and the names of the page.
"""

from __future__ import annotations

import copy
import string
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten

from tests.sweeps import torchvision_kernels

TEXTS = ["a text", "two other texts", "x"]


def assert_equal(result: Any, expected: Any, **tolerance: float) -> None:
    """Compare values of any nesting, also arrays with tensors, float32 within 1e-4."""
    results, structure = tree_flatten(result)
    leaves, expected_structure = tree_flatten(expected)
    assert structure == expected_structure
    for leaf, expected_leaf in zip(results, leaves, strict=True):
        if isinstance(leaf, str):
            assert leaf == expected_leaf
        else:
            torch.testing.assert_close(
                leaf, expected_leaf, **{"rtol": 1e-4, "atol": 1e-5, **tolerance}
            )


def assert_program_equal(program: Any, module: torch.nn.Module, *sizes: tuple[int, ...]) -> None:
    """Compare what a program or a compiled module computes with the module, at several sizes."""
    for size in sizes:
        x = torch.rand(size)
        with torch.no_grad():
            assert_equal(program(x), module(x))


# -- ultralytics


def prepare_ultralytics() -> None:
    torchvision_kernels.provide()
    from PIL import Image, ImageDraw
    from ultralytics import YOLO

    for name in ("yolo26n", "yolo11n"):
        yolo = YOLO(f"{name}.yaml")
        for module in yolo.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = None  # the statistics of all batches
            elif getattr(module, "out_channels", None) == 80 and module.bias is not None:
                torch.nn.init.normal_(module.weight, std=0.0025)  # scores with few ties
                torch.nn.init.constant_(module.bias, -1)
        yolo.model.train()(torch.rand(8, 3, 64, 96))
        yolo.save(f"{name}.pt")
    picture = Image.effect_noise((64, 64), 90).convert("RGB")
    ImageDraw.Draw(picture).rectangle((10, 20, 40, 50), fill="orange")
    picture.save("picture.png")


def check_ultralytics(block: int, page: SimpleNamespace) -> None:
    if block == 1:
        _check_suppression(page)
        return
    from ultralytics import YOLO

    import ortable

    eager = YOLO("yolo26n.pt")  # nms=False selects the head without NMS
    expected = eager("picture.png", imgsz=64, conf=0.01, nms=False)[0].boxes
    assert len(expected) > 10
    assert_equal(page.boxes.conf, expected.conf, atol=1e-3)
    assert page.compiled_boxes.shape[-1] == 6
    precise = copy.deepcopy(page.detector).double()  # scores that are nearly equal keep their order
    precise.model[-1].stride = precise.model[-1].stride.double()
    example = (page.example[0].double(),)
    program = ortable.export(precise, example, dynamic_shapes=page.shapes)
    fast = torch.compile(precise, backend="ortable")
    with torch.no_grad():
        for size in ((1, 3, 64, 96), (2, 3, 64, 64), (3, 3, 96, 160)):
            x = torch.rand(size, dtype=torch.float64)
            assert_equal(program(x), precise(x))
            assert_equal(fast(x), precise(x))
            scores = page.detector(x.float())[..., 4]
            assert_equal(page.program(x.float())[..., 4], scores)


class Predictions(torch.nn.Module):
    """A detector whose input is its predictions: [1, 4 + 8 classes, boxes]."""

    task = "detect"
    names = dict(enumerate("abcdefgh"))  # noqa: RUF012

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0


def _random_predictions(count: int) -> torch.Tensor:
    corner = torch.randint(0, 3, (1, 2, count)) * 60 + torch.rand(1, 2, count) * 4
    size = 55 + torch.rand(1, 2, count) * 8
    return torch.cat([corner, corner + size, torch.rand(1, 8, count) * 0.6], 1)


def _check_suppression(page: SimpleNamespace) -> None:
    """Compare NMS on equal predictions exactly, and the scores of the whole file.

    With random weights, eager's float32 is up to 0.16 pixels and 1e-4 of a score from float64, so
    that boxes of nearly equal scores may change places.
    """
    import ortable

    module, shapes = page.NMSModel(Predictions(), page.settings).eval(), {"x": {2: "boxes"}}
    with ortable.bypass_export_some_errors():
        program = ortable.export(module, (_random_predictions(126),), dynamic_shapes=shapes)
    for count in (126, 50, 700):
        x = _random_predictions(count)
        assert 0 < (module(x)[..., 4] > 0).sum() < count, "NMS removes some boxes"
        assert_equal(program(x), module(x), rtol=0, atol=0)
    module = page.NMSModel(page.old, page.settings)
    with torch.no_grad():
        for size in ((1, 3, 64, 96), (1, 3, 96, 160)):
            x = torch.rand(size)
            assert_equal(page.suppressed(x)[..., 4], module(x)[..., 4], atol=2e-4)


# -- diffusers


def prepare_diffusers() -> None:
    from diffusers import (
        AutoencoderKL,
        DDIMScheduler,
        StableDiffusionPipeline,
        UNet2DConditionModel,
    )
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    vocabulary = [*string.ascii_lowercase, *(f"{letter}</w>" for letter in string.ascii_lowercase)]
    vocabulary += ["<|startoftext|>", "<|endoftext|>"]
    words = {word: index for index, word in enumerate(vocabulary)}
    small = {"layers_per_block": 1, "norm_num_groups": 8}
    text = CLIPTextConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, bos_token_id=52, eos_token_id=53, pad_token_id=53,
    )  # fmt: skip
    unet = UNet2DConditionModel(
        sample_size=16, cross_attention_dim=32, block_out_channels=(32,), **small,
        down_block_types=("CrossAttnDownBlock2D",), up_block_types=("CrossAttnUpBlock2D",),
    )  # fmt: skip
    vae = AutoencoderKL(
        down_block_types=["DownEncoderBlock2D"] * 2, up_block_types=["UpDecoderBlock2D"] * 2,
        block_out_channels=[16, 16], **small,
    )  # fmt: skip
    StableDiffusionPipeline(
        vae=vae, unet=unet, scheduler=DDIMScheduler(), text_encoder=CLIPTextModel(text),
        tokenizer=CLIPTokenizer(words, merges=[], model_max_length=77),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    ).save_pretrained("folder")  # fmt: skip


def check_diffusers(block: int, page: SimpleNamespace) -> None:
    eager = page.StableDiffusionPipeline.from_pretrained("folder")
    for prompts, size in ((["a cat"], 32), (["a dog", "a bat", "an ant"], 64)):
        images = [
            pipe(
                prompts, height=size, width=size, num_inference_steps=3, output_type="np",
                generator=torch.Generator().manual_seed(0),
            ).images
            for pipe in (page.pipe, eager)
        ]  # fmt: skip
        assert_equal(*images, atol=1e-4)
    pixels = np.asarray(page.image, dtype=np.int64)
    expected = eager(
        "a cat", height=32, width=32, num_inference_steps=3,
        generator=torch.Generator().manual_seed(0),
    ).images[0]  # fmt: skip
    assert np.abs(pixels - np.asarray(expected)).max() <= 1


# -- the libraries of Hugging Face


def _write_model(folder: str, model: Any, config: Any) -> None:
    """Write a random model and a tokenizer of letters."""
    from transformers import BertTokenizerFast

    letters = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    Path("vocab.txt").write_text("\n".join(words))
    network = model(
        config(
            vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=64,
        )
    )  # fmt: skip
    network.save_pretrained(folder)
    BertTokenizerFast("vocab.txt").save_pretrained(folder)


def prepare_transformers() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    _write_model("classifier", BertForSequenceClassification, BertConfig)


prepare_optimum = prepare_transformers


def check_transformers(block: int, page: SimpleNamespace) -> None:
    eager = page.pipeline("text-classification", model="classifier")
    assert_equal(page.answers, eager(page.texts))
    for size in (1, 3):
        assert_equal(page.classify(TEXTS, batch_size=size), eager(TEXTS, batch_size=size))


def check_optimum(block: int, page: SimpleNamespace) -> None:
    eager = page.pipeline("text-classification", model=page.model, tokenizer=page.tokenizer)
    fast = page.pipeline("text-classification", model=page.loaded, tokenizer=page.tokenizer)
    assert_equal(page.answers, eager(["any text"]))
    for size in (1, 3):
        assert_equal(fast(TEXTS, batch_size=size), eager(TEXTS, batch_size=size))


def prepare_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import BertConfig, BertModel

    _write_model("bert", BertModel, BertConfig)
    SentenceTransformer("bert", device="cpu").save("embedder")  # with mean pooling


def check_sentence_transformers(block: int, page: SimpleNamespace) -> None:
    assert "ORTModel" in type(page.loaded[0].auto_model).__name__
    assert_equal(page.vectors, page.encoder.encode(["any text", "another one"]))
    for size in (1, 3):
        encode = {"batch_size": size, "normalize_embeddings": True}
        assert_equal(page.loaded.encode(TEXTS, **encode), page.encoder.encode(TEXTS, **encode))


# -- the others


prepare_timm = torchvision_kernels.provide


def check_timm(block: int, page: SimpleNamespace) -> None:
    for module in (page.program, page.fast):
        assert_program_equal(module, page.model, (1, 3, 64, 64), (3, 3, 64, 64))


def check_lightning(block: int, page: SimpleNamespace) -> None:
    losses, compiled_losses = _fit_recorded(page, False), _fit_recorded(page, True)
    assert len(losses) == 12
    assert_equal(compiled_losses, losses)
    assert page.loss.isfinite()
    assert_program_equal(page.program, page.module, (1, 8), (5, 8))


def _fit_recorded(page: SimpleNamespace, compiled: bool) -> list[float]:
    """Return the losses of all steps of a fit."""
    losses = []

    class Recorded(page.Regression):
        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = super().training_step(batch, index)
            losses.append(loss.item())
            return loss

    torch.manual_seed(0)
    module = Recorded()
    if compiled:
        module.compile(backend="ortable")
    page.fit(module, page.data)
    return losses


def check_mlflow(block: int, page: SimpleNamespace) -> None:
    mlflow = sys.modules["mlflow"]
    expected = page.model(page.x).detach().numpy()
    assert_equal(page.answers, expected)
    for location in ("saved", page.logged.model_uri):
        loaded = mlflow.pyfunc.load_model(location)
        x = torch.rand(5, 4)
        assert_equal(loaded.predict(x.numpy())["y"], page.model(x).detach().numpy())
