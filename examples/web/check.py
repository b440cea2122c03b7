"""Compare the numbers that the page computes in headless Chromium with eager's."""

from __future__ import annotations

import http.server
import json
import os
import platform
import subprocess
import threading
from pathlib import Path
from typing import Any

import torch

from . import BROWSER, install_packages
from .export import CHARACTERS, SHAPES, SIDE, encode_text

PROMPTS = ("Hello", "The above", "Permission is ")
TOLERANCE = 1e-4


@torch.no_grad()
def find_differences(results: dict[str, Any], classifier: Any, language_model: Any) -> list[str]:
    """Return a line for each label, logit and token of the page that is not as expected."""
    lines = list(results["errors"])
    for result in results["drawings"]:
        name, pixels = result["drawn"], torch.tensor(result["pixels"])
        expected = classifier(pixels.reshape(1, 1, SIDE, SIDE))[0]
        lines += compare_logits(name, result["logits"], expected)
        if result["label"] != name:
            lines.append(f"{name}: the page says {result['label']}")
    for result in results["texts"]:
        prompt = encode_text(result["prompt"])[None]
        count, mask = len(result["tokens"]), torch.ones_like(prompt)
        tokens = language_model.generate(
            prompt, attention_mask=mask, do_sample=False, max_new_tokens=count
        )
        *_, last = tokens[0].split([prompt.shape[1], count])
        if result["tokens"] != last.tolist():
            lines.append(f"{result['prompt']}: not {''.join(CHARACTERS[token] for token in last)}")
        expected = language_model(tokens).logits[0, prompt.shape[1] - 1 : -1]
        lines += compare_logits(result["prompt"], result["logits"], expected)
    return lines


def compare_logits(name: str, logits: list[Any], expected: torch.Tensor) -> list[str]:
    error = float((torch.as_tensor(logits) - expected).abs().max())
    print(f"{name}: logits differ from eager's by {error:.1e}", flush=True)
    return [] if error <= TOLERANCE else [f"{name}: logits differ by {error:.1e}"]


def check_page(
    server: http.server.HTTPServer, build: Path, models: tuple[Any, Any], screenshot: Path | None
) -> int:
    """Visit the page and return the exit status: 1 if a number is not eager's."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("skipped: the package of Chromium is for Linux on x86-64")
        return 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    modules = install_packages(build / "browser", BROWSER)
    (build / "temporary").mkdir(exist_ok=True)
    job = {"address": f"http://127.0.0.1:{server.server_port}", "shapes": SHAPES}
    job |= {"prompts": PROMPTS, "screenshot": screenshot and str(screenshot.resolve())}
    process = subprocess.run(
        ["node", Path(__file__).with_name("check.js")],
        env={**os.environ, "NODE_PATH": str(modules), "TMPDIR": str(build / "temporary")},
        input=json.dumps(job), stdout=subprocess.PIPE, text=True, timeout=300, check=True,
    )  # fmt: skip
    server.shutdown()
    differences = find_differences(json.loads(process.stdout), *models)
    print("\n".join(differences) or "equal to eager's numbers")
    return 1 if differences else 0
