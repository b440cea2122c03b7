"""The check of examples/web finds a label, a logit and a token that are not eager's.

`make web ARGS=--check` runs it on the page in Chromium.
"""

from __future__ import annotations

import pytest
import torch

from examples.web.check import find_differences
from examples.web.export import SHAPES, encode_text, train_classifier, train_language_model

PROMPT = "The "


@pytest.fixture(scope="module")
def models():
    return train_classifier(2), train_language_model(2)


@pytest.fixture
def results(models):
    """Return what a page computes that is right."""
    classifier, language_model = models
    with torch.no_grad():
        logits = classifier(torch.zeros(1, 1, 28, 28))[0]
        rows = language_model(encode_text(PROMPT)[None]).logits[0, -1:]
    label = list(SHAPES)[int(logits.argmax())]
    drawing = {"drawn": label, "label": label, "pixels": [0.0] * 784, "logits": logits}
    text = {"prompt": PROMPT, "tokens": rows.argmax(-1).tolist(), "logits": rows}
    return {"drawings": [drawing], "texts": [text], "errors": []}


@pytest.mark.parametrize("kind", ["drawings", "texts"])
@pytest.mark.parametrize(("change", "count"), [(0.0, 0), (2e-4, 1), (float("nan"), 1)])
def test_wrong_logits_are_found(models, results, kind, change, count):
    results[kind][0]["logits"].view(-1)[-1] += change
    assert len(find_differences(results, *models)) == count


def test_wrong_labels_and_tokens_and_errors_are_found(models, results):
    results["texts"][0]["tokens"] = [-1]
    results["drawings"][0]["label"] = "house"
    results["errors"] = ["no model"]
    (_, label, text) = find_differences(results, *models)
    assert label.endswith("the page says house") and text.startswith(f"{PROMPT}: not ")
