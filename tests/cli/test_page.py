"""docs/shell.md: its reference is what the parser says, and its commands do what it shows."""

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
# (command, what it prints; nothing where the page does not show it)
CALLS = [
    (line.removeprefix("$ "), block.splitlines()[1:] if line.startswith("$ ") else [])
    for block in BLOCKS
    for line in block.splitlines()
    if line.removeprefix("$ ").startswith("ortable ")
]
QUICKLY = {"bench": ["--rounds", "2"]}
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
def _here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield
    sys.path[:] = before
    sys.modules.pop("net", None)


def test_the_reference_is_what_the_parser_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.cli.page writes it"


@pytest.mark.alternates(parts=2)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(("call", "shown"), CALLS)
def test_a_command_prints_what_the_page_shows(
    call: str, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(call)[1:]
    words += QUICKLY.get(words[0], [])
    if "BertForMaskedLM" in words:
        words += ["--config", *(each for each in FIELDS if "layers" not in each)]
    wrong = bool(shown) and shown[0].startswith("error: ")
    try:
        status = main(words)
    except SystemExit as left:
        status = left.code
    told = capsys.readouterr()
    assert status == (2 if wrong else 0), told.err
    printed = [_plain(line) for line in (told.err if wrong else told.out).splitlines()]
    for line in shown:
        if line.startswith("..."):
            continue
        if "net.onnx" in call or wrong:
            assert _plain(line) in printed
        else:  # sizes and figures are those of another model
            assert _kind(line) in [_kind(each) for each in printed]


def _plain(line: str) -> str:
    """Without figures that differ from machine to machine, without the folder, and without the
    operator that torch 2.15 names before its own words."""
    line = line.replace("RuntimeError: addmm: ", "RuntimeError: ")
    line = re.sub(r"at \S*/net\.py", "at net.py", line)
    return re.sub(r"  +", " ", re.sub(r"\d\.\d*e-\d+", "#", line)).rstrip()


def _kind(line: str) -> str:
    return re.sub(r"[ .]+", " ", re.sub(r"MB|KB|bytes", "KB", FIGURE.sub("#", line))).strip()


def test_calls_are_found() -> None:
    assert len(CALLS) >= 12 and sum(bool(shown) for _, shown in CALLS) >= 6
