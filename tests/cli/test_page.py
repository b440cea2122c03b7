"""docs/shell.md has the parser's reference, and its commands print the output it shows."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import ortable
from ortable.cli.main import main

from .page import BEGIN, PAGE, page

SIZES = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "vocab_size": 99,
}  # fmt: skip
TEXT = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
FENCED = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, flags=re.MULTILINE | re.DOTALL)
BLOCKS = [block for language, block in FENCED if not language]
# (command, expected output; empty if the page does not show it)
CALLS = [
    (line.removeprefix("$ "), block.splitlines()[1:] if line.startswith("$ ") else [])
    for block in BLOCKS
    for line in block.splitlines()
    if line.removeprefix("$ ").startswith("ortable ")
]
FAST_FLAGS = {"bench": ["--rounds", "2"]}
FIELDS = [f"{name}={value}" for name, value in SIZES.items()]
FIGURE = re.compile(r"[\d.]+(e-\d+)?")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (source,) = [block for language, block in FENCED if language == "python"]
    (folder / "net.py").write_text(source)
    torch.manual_seed(0)
    scope: dict[str, Any] = {}
    exec(source, scope)
    rows = {"dynamic_shapes": ({0: "batch"},), "filename": folder / "net.onnx"}
    ortable.to_onnx(scope["Net"](), (torch.rand(2, 10),), **rows)
    bert = transformers.BertForMaskedLM(transformers.BertConfig(**SIZES))
    bert.save_pretrained(folder / "bert-folder")
    llama = transformers.LlamaConfig(**SIZES, num_key_value_heads=1, max_position_embeddings=64)
    transformers.LlamaForCausalLM(llama).save_pretrained(folder / "llama-folder")
    return folder


@pytest.fixture(autouse=True)
def _working_directory(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("net", None)


def test_the_reference_is_what_the_parser_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.cli.page`"


@pytest.mark.alternates(parts=2)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(("call", "expected"), CALLS)
def test_a_command_prints_what_the_page_shows(
    call: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = shlex.split(call)[1:]
    arguments += FAST_FLAGS.get(arguments[0], [])
    if "BertForMaskedLM" in arguments:
        arguments += ["--config", *(field for field in FIELDS if "layers" not in field)]
    fails = bool(expected) and expected[0].startswith("error: ")
    try:
        status = main(arguments)
    except SystemExit as exit_error:
        status = exit_error.code
    output = capsys.readouterr()
    assert status == (2 if fails else 0), output.err
    printed = [_normalize(line) for line in (output.err if fails else output.out).splitlines()]
    for line in expected:
        if line.startswith("..."):
            continue
        if "net.onnx" in call or fails:
            assert _normalize(line) in printed
        else:  # the page shows sizes and figures of another model
            assert _mask_figures(line) in [_mask_figures(text) for text in printed]


def _normalize(line: str) -> str:
    """Remove times, the folder, and the operator that torch 2.15 adds to its messages."""
    line = line.replace("RuntimeError: addmm: ", "RuntimeError: ")
    line = re.sub(r"at \S*/net\.py", "at net.py", line)
    return re.sub(r"  +", " ", re.sub(r"\d\.\d*e-\d+", "#", line)).rstrip()


def _mask_figures(line: str) -> str:
    return re.sub(r"[ .]+", " ", re.sub(r"MB|KB|bytes", "KB", FIGURE.sub("#", line))).strip()


def test_calls_are_found() -> None:
    assert len(CALLS) >= 12 and sum(bool(lines) for _, lines in CALLS) >= 6
