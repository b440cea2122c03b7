"""The check of examples/web finds a label, a logit and a token that are not eager's.

`make web ARGS=--check` runs it on the page in Chromium.
"""

from __future__ import annotations

import copy

import pytest
import torch

from examples.web.check import find_differences
from examples.web.export import (
    CHARACTERS,
    SHAPES,
    encode_text,
    train_classifier,
    train_language_model,
)

PROMPT = "The "


@pytest.fixture(scope="module")
def models():
    return train_classifier(2), train_language_model(2)


@pytest.fixture
def results(models):
    """Return what a page computes that is right, but for labels: the models have barely learned."""
    classifier, language_model = models
    with torch.no_grad():
        logits = classifier(torch.zeros(1, 1, 28, 28))[0]
        tokens = encode_text(PROMPT)[None]
        for _ in range(3):
            rows = language_model(tokens).logits[0]
            tokens = torch.cat((tokens, rows[-1:].argmax(-1, keepdim=True)), 1)
    label = list(SHAPES)[int(logits.argmax())]
    drawing = {"drawn": label, "label": label, "pixels": [0.0] * 784, "logits": logits.tolist()}
    text = {"prompt": PROMPT, "tokens": tokens[0, 4:].tolist(), "logits": rows[3:].tolist()}
    return {"drawings": [drawing], "texts": [text], "errors": []}


def test_equal_numbers_have_no_differences(models, results):
    assert find_differences(results, *models) == []


@pytest.mark.parametrize("kind", ["drawings", "texts"])
def test_wrong_logits_are_found(models, results, kind):
    wrong = torch.tensor(results[kind][0]["logits"])
    wrong.view(-1)[-1] += 2e-4
    results[kind][0]["logits"] = wrong.tolist()
    (line,) = find_differences(results, *models)
    assert line.endswith("logits differ by 2.0e-04")
    wrong.view(-1)[-1] = float("nan")
    results[kind][0]["logits"] = wrong.tolist()
    assert len(find_differences(results, *models)) == 1


def test_wrong_tokens_labels_and_errors_are_found(models, results):
    wrong = copy.deepcopy(results)
    wrong["texts"][0]["tokens"][1] = (wrong["texts"][0]["tokens"][1] + 1) % len(CHARACTERS)
    wrong["drawings"][0]["label"] = "house"
    wrong["errors"] = ["Error: no model"]
    lines = find_differences(wrong, *models)
    assert [line.split(":")[0] for line in lines] == [
        "Error",
        results["drawings"][0]["drawn"],
        PROMPT,
    ]
