"""Print a find as a script of torch, ortable and ONNX Runtime, or save it as a test."""

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
    """Return the text of a script that fails while the fault exists."""
    rtol, atol = (max(program.tolerance, minimum) for minimum in (1e-3, 1e-4))
    title = f"Found by make fuzz: {outcome.kind} ({mode}; {outcome.where})"
    parts = [_HEAD.format(title=title, detail=outcome.detail[:600])]
    if mode == "nodes":
        parts[0] = parts[0].replace(_HARNESS, f"{_HARNESS}\nfrom tests.fuzz.nodes import graph_of")
    namespaces = {step.key.partition("::")[0] for step in program.steps}
    if not namespaces <= {"aten", "prims"}:  # operators that a package registers
        imports = "".join(f"import {module}\n" for module in sorted(catalog().modules))
        parts[0] = parts[0].replace("import torch\n", f"import torch\n{imports}", 1)
    if any(name in program.source() for name in ("cond(", "while_loop(", "scan(")):
        parts.append(_FLOW)
    parts.append("\n\n" + program.source() + "\n")
    parts.append(_inputs_function(program))
    if mode in ("export", "fx", "nodes"):
        opset, target, rewrites = _find_place(outcome)
        parts.append(
            _EXPORT.format(
                exported=_export_call(program, mode), opset=opset, target=target, rewrites=rewrites,
                sizes=_sizes_text(outcome), names=_names_call(program, mode), rtol=rtol, atol=atol,
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
    """Write the script of a find as a test to a folder, and return its path."""
    name = "test_fuzz_" + re.sub(r"_[0-9]+$", "", path.stem).lower()
    text = path.read_text().replace("def compare():", f"def {name}():")
    test_path = folder / f"{name}.py"
    test_path.write_text(text.replace("    compare()\n", f"    {name}()\n"))
    return test_path


def _find_place(outcome: Outcome) -> tuple[int, str | None, str]:
    for opset, target, rewrites in PLACES:
        if outcome.where.startswith(f"opset {opset}, target {target}, rewrites {rewrites}"):
            return opset, target, rewrites
    return PLACES[0]


def _sizes_text(outcome: Outcome) -> str:
    _, separator, sizes = outcome.where.partition(", sizes ")
    return sizes if separator else ""


def _export_call(program: Program, mode: str) -> str:
    if mode == "nodes":
        return "graph_of(forward, inputs())"
    if mode == "fx":
        tracing_mode = "symbolic" if program.dynamic else "fake"
        return (
            "torch.fx.experimental.proxy_tensor.make_fx("
            f"torch.func.functionalize(forward), tracing_mode={tracing_mode!r})(*inputs())"
        )
    if not program.dynamic:
        return "torch.export.export(Model(), tuple(inputs()))"
    dynamic_shapes = (
        "dynamic_shapes=(tuple(tuple(torch.export.Dim.AUTO for _ in x.shape) for x in inputs()),)"
    )
    return f"torch.export.export(Model(), tuple(inputs()), {dynamic_shapes})"


def _names_call(program: Program, mode: str) -> str:
    if mode == "export":
        return "list(exported.graph_signature.user_inputs)"
    return '[node.name for node in exported.graph.nodes if node.op == "placeholder"]'


def _inputs_function(program: Program) -> str:
    lines = ["\n\ndef inputs(sizes=None):", "    made = ["]
    lines += [f"        {_tensor_call(x.tensor())}," for x in program.inputs]
    lines.append("    ]")
    lines.append("    if sizes is None:\n        return made")
    lines.append("    return [")
    lines.append("        each.reshape(-1).repeat(99)[: torch.Size(size).numel()].reshape(size)")
    lines.append("        for each, size in zip(made, sizes)\n    ]")
    return "\n".join(lines) + "\n"


def _tensor_call(tensor: torch.Tensor) -> str:
    """Return an expression that makes the tensor with its values, dtype and strides."""
    contiguous: Any = tensor.contiguous()
    dtype = str(contiguous.dtype)
    values = contiguous.tolist()
    text = f"torch.tensor({values!r}, dtype={dtype})"
    if not contiguous.numel():
        text = f"torch.zeros({tuple(contiguous.shape)}, dtype={dtype})"
    if tensor.is_contiguous():
        return text
    if tensor.permute(tuple(range(tensor.dim()))[::-1]).is_contiguous():
        return f"transposed({text})"
    return f"strided({text})"
