"""What the --help of each command of the shell begins and ends with: a sentence of what you get,
and calls that a test runs. Called by `main`."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping

EXAMPLES: dict[str, tuple[str, ...]] = {
    "show": ("ortable show model.onnx", "ortable show model.onnx --full | less"),
    "draw": (
        "ortable draw model.onnx -o model.json --overlay dtype",
        "ortable draw model.onnx -o layer.dot --module encoder.layer.0",
    ),
    "ops": ("ortable ops --grep conv", "ortable ops --missing model.pt2"),
    "export": (
        "ortable export my_models:bert -o bert.onnx",
        'ortable export net.py:Net -o net.onnx --inputs "x=f32[batch=2,10]"',
        "ortable export model.pt2 -o model.onnx --opset 20 --report report.md",
        "ortable export bert-folder -o bert.onnx --task fill-mask --dynamic",
        "ortable export llama-folder -o llama --weights int8 --json",
    ),
    "explain": (
        "ortable explain my_models:bert",
        "ortable explain my_models:bert --train --json",
        "ortable explain my_models:bert --options freeze=off optimize=False",
    ),
    "profile": (
        "ortable profile my_models:bert --html bert.html",
        "ortable profile model.onnx --size batch=8 --json profile.json",
    ),
    "bench": (
        "ortable bench my_models:bert",
        "ortable bench my_models:bert --train --rounds 50",
        'ortable bench net.py:Net --inputs "f32[64,10]" --json',
    ),
    "tune": (
        "ortable tune my_models:bert",
        "ortable tune my_models:bert --seconds 60 --cache-dir cache",
    ),
    "debug": (
        "ortable debug my_models:bert --train",
        "ortable debug my_models:bert --options freeze=off --script fault.py",
    ),
    "rewrites": ("ortable rewrites list --grep gelu", "ortable rewrites show cast_same"),
    "specs": ("ortable specs check my_ops.yaml", "ortable specs test my_ops.yaml"),
}

SENTENCES: dict[str, str] = {
    "show": "You get the text of an ONNX model: inputs, weights, a line for each node, outputs.",
    "draw": "You get a picture of an ONNX model, or open it in Model Explorer or Netron.",
    "ops": "You get the operators of PyTorch that can be converted, with opsets and dtypes; with "
    "--missing, those of your saved program that cannot.",
    "export": "You get an ONNX file that ONNX Runtime has run, and whose results are compared "
    "with those of PyTorch. Of a model of transformers that generates text you get a folder that "
    "onnxruntime-genai and optimum run.",
    "explain": "You get what torch.compile makes of a model: its graphs, why they break, which "
    "operators they have, what ONNX Runtime fuses, and where the seconds of the first call go.",
    "profile": "You get where the time of a call goes: by module, line of your code, operator and "
    "kernel.",
    "bench": "You get the time of a call in eager PyTorch and compiled by ortable, in turns.",
    "tune": "You get the settings of ONNX Runtime's sessions that are fastest for your model on "
    "this machine.",
    "debug": "You get the part that makes the model differ from eager, its file and line.",
    "rewrites": "You get the rules that make graphs smaller: all of them, one of them, or a check "
    "of a file of yours.",
    "specs": "You get a check of your file of operators or rewrites, or a run of its cases against "
    "PyTorch.",
}

FIRST_STEPS = """\
first steps, in a folder with a file net.py that has your model Net:
  ortable export net.py:Net -o net.onnx --inputs "f32[2,10]"
  ortable show net.onnx
  ortable bench net.py:Net --inputs "f32[2,10]"
  ortable COMMAND --help

exit status: 0 all is well; 1 results differ, or a check failed; 2 a wrong command line, or an
error; 130 stopped by Ctrl-C."""


def add_examples(commands: Mapping[str, argparse.ArgumentParser]) -> None:
    """Put sentence and examples around the help of the commands."""
    for name, calls in EXAMPLES.items():
        command = commands[name]
        command.formatter_class = argparse.RawDescriptionHelpFormatter
        if name in SENTENCES and command.description is None:
            command.description = textwrap.fill(SENTENCES[name], 78)
        before = f"{command.epilog}\n\n" if command.epilog else ""
        command.epilog = f"{before}examples:\n" + "\n".join(f"  {call}" for call in calls)
