"""A find as a script that runs by itself, and as a regression test. In comes a program and what
came of it, out goes text: torch, ortable and ONNX Runtime are all that the script needs. Written by
`runner` to build/fuzz."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from .catalog import catalog
from .oracle import PLACES, Outcome
from .program import Program

_HARNESS = "from ortable.testing.entries import run_onnx"
_HEAD = '''"""{title}

{detail}
"""

import operator
import warnings

import torch

import ortable
from ortable.testing.entries import run_onnx

warnings.simplefilter("ignore")
torch.manual_seed(1)
nan, inf = float("nan"), float("inf")


def transposed(tensor):
    order = range(tensor.dim())[::-1]
    return tensor.permute(*order).contiguous().permute(*order)


def strided(tensor):
    return torch.stack([tensor, tensor], -1)[..., 0]
'''

_FLOW = """
from torch import cond
from torch._higher_order_ops import scan, while_loop
"""

_EXPORT = """

class Model(torch.nn.Module):
    def forward(self, *args):
        return forward(*args)


def compare():
    exported = {exported}
    model = ortable.to_onnx(
        exported, target_opset={opset}, target={target!r}, rewrites={rewrites!r}
    )
    names = {names}
    given = inputs({sizes})
    feeds = {{each.name: given[names.index(each.name)].clone() for each in model.graph.input}}
    found = run_onnx(model, feeds)
    for got, wanted in zip(found, forward(*given)):
        torch.testing.assert_close(got, wanted, rtol={rtol}, atol={atol}, equal_nan=True)
"""

_COMPILE = """

def compare():
    compiled = torch.compile(forward, backend="ortable", dynamic={dynamic}{options})
    found, wanted = call(compiled, inputs()), call(forward, inputs())
    for place, (got, want) in enumerate(zip(found, wanted)):
        torch.testing.assert_close(got, want, rtol={rtol}, atol={atol}, equal_nan=True)
"""

_PLAIN_CALL = """

def call(function, given):
    with torch.no_grad():
        return [*function(*given), *given]
"""

_GRADIENT_CALL = """

def cotangent(tensor):
    generator = torch.Generator().manual_seed(tensor.numel())
    drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5
    return drawn.to(tensor.dtype)


def call(function, given):
    given = [each.detach().requires_grad_(each.is_floating_point()) for each in given]
    outputs = function(*(each * 1 if each.requires_grad else each for each in given))
    chosen = [each for each in outputs if each.requires_grad]
    wanted = [each for each in given if each.requires_grad]
    cotangents = list(map(cotangent, chosen))
    gradients = torch.autograd.grad(chosen, wanted, cotangents, allow_unused=True)
    return [*outputs, *(each for each in gradients if each is not None)]
"""


def script(program: Program, mode: str, outcome: Outcome) -> str:
    """The text of a script that fails while the fault is there."""
    rtol, atol = (max(program.tolerance, each) for each in (1e-3, 1e-4))
    title = f"Found by make fuzz: {outcome.kind} ({mode}; {outcome.where})"
    parts = [_HEAD.format(title=title, detail=outcome.detail[:600])]
    if mode == "nodes":
        parts[0] = parts[0].replace(_HARNESS, f"{_HARNESS}\nfrom tests.fuzz.nodes import graph_of")
    spaces = {step.key.partition("::")[0] for step in program.steps}
    if not spaces <= {"aten", "prims"}:  # operators that come with a package
        needed = "".join(f"import {each}\n" for each in sorted(catalog().modules))
        parts[0] = parts[0].replace("import torch\n", f"import torch\n{needed}", 1)
    if any(word in program.source() for word in ("cond(", "while_loop(", "scan(")):
        parts.append(_FLOW)
    parts.append("\n\n" + program.source() + "\n")
    parts.append(_inputs(program))
    if mode in ("export", "fx", "nodes"):
        opset, target, rewrites = _place(outcome)
        parts.append(
            _EXPORT.format(
                exported=_exporting(program, mode), opset=opset, target=target, rewrites=rewrites,
                sizes=_sizes(outcome), names=_names(program, mode), rtol=rtol, atol=atol,
            )
        )  # fmt: skip
    else:
        rewrites = outcome.where.removeprefix("rewrites ") or "default"
        parts.append(_GRADIENT_CALL if mode == "gradient" else _PLAIN_CALL)
        options = f', options={{"rewrites": "{rewrites}", "fallback": "error"}}'
        parts.append(
            _COMPILE.format(dynamic=program.dynamic, options=options, rtol=rtol, atol=atol)
        )
    parts.append('\n\nif __name__ == "__main__":\n    compare()\n')
    return "".join(parts)


def kept(path: Path, folder: Path) -> Path:
    """Writes the script of a find as a test into a folder of tests; where it is."""
    name = "test_fuzz_" + re.sub(r"_[0-9]+$", "", path.stem).lower()
    text = path.read_text().replace("def compare():", f"def {name}():")
    made = folder / f"{name}.py"
    made.write_text(text.replace("    compare()\n", f"    {name}()\n"))
    return made


def _place(outcome: Outcome) -> tuple[int, str | None, str]:
    for opset, target, rewrites in PLACES:
        if outcome.where.startswith(f"opset {opset}, target {target}, rewrites {rewrites}"):
            return opset, target, rewrites
    return PLACES[0]


def _sizes(outcome: Outcome) -> str:
    _, found, sizes = outcome.where.partition(", sizes ")
    return sizes if found else ""


def _exporting(program: Program, mode: str) -> str:
    if mode == "nodes":
        return "graph_of(forward, inputs())"
    if mode == "fx":
        kind = "symbolic" if program.dynamic else "fake"
        return (
            "torch.fx.experimental.proxy_tensor.make_fx("
            f"torch.func.functionalize(forward), tracing_mode={kind!r})(*inputs())"
        )
    if not program.dynamic:
        return "torch.export.export(Model(), tuple(inputs()))"
    auto = (
        "dynamic_shapes=(tuple(tuple(torch.export.Dim.AUTO for _ in x.shape) for x in inputs()),)"
    )
    return f"torch.export.export(Model(), tuple(inputs()), {auto})"


def _names(program: Program, mode: str) -> str:
    if mode == "export":
        return "list(exported.graph_signature.user_inputs)"
    return '[node.name for node in exported.graph.nodes if node.op == "placeholder"]'


def _inputs(program: Program) -> str:
    lines = ["\n\ndef inputs(sizes=None):", "    made = ["]
    lines += [f"        {_literal(each.tensor())}," for each in program.inputs]
    lines.append("    ]")
    lines.append("    if sizes is None:\n        return made")
    lines.append("    return [")
    lines.append("        each.reshape(-1).repeat(99)[: torch.Size(size).numel()].reshape(size)")
    lines.append("        for each, size in zip(made, sizes)\n    ]")
    return "\n".join(lines) + "\n"


def _literal(tensor: torch.Tensor) -> str:
    """A tensor as an expression that makes it: its numbers, dtype and strides."""
    plain: Any = tensor.contiguous()
    name = str(plain.dtype)
    numbers = plain.tolist()
    text = f"torch.tensor({numbers!r}, dtype={name})"
    if not plain.numel():
        text = f"torch.zeros({tuple(plain.shape)}, dtype={name})"
    if tensor.is_contiguous():
        return text
    if tensor.permute(tuple(range(tensor.dim()))[::-1]).is_contiguous():
        return f"transposed({text})"
    return f"strided({text})"
