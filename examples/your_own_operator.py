"""An operator of your own, from torch.library to ONNX, with five lines of YAML.

    python examples/your_own_operator.py
    cd examples; ortable specs test my_ops.yaml --import your_own_operator   # the entry's cases

You learn what is missing when a model calls an operator that only your project has, and how an
entry in a file of yours (my_ops.yaml) supplies it, for the export and for torch.compile. The
operator is a soft cap, ``cap * tanh(x / cap)``, as some language models put on their logits.

Ends with status 1 when a result differs from eager's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import ortable

SPECS = Path(__file__).with_name("my_ops.yaml")


@torch.library.custom_op("example::softcap", mutates_args=())
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """Values between -cap and cap, nearly unchanged around 0."""
    return cap * torch.tanh(x / cap)


@softcap.register_fake
def _(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(x)


class Head(torch.nn.Module):
    """Capped logits, as probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(softcap(self.fc(x), 5.0), dim=-1)


def main() -> int:
    """The error, the entry, both ways to ONNX Runtime; 0 when results equal eager's."""
    torch.manual_seed(0)
    model, x = Head().eval(), 20 * torch.randn(3, 8)

    print("== Without an entry")
    try:
        ortable.to_onnx(model, (x,))
    except ortable.FunctionNotFoundError as error:
        print(error)

    print("\n== With the entry")
    print(SPECS.read_text())
    ortable.load_specs(SPECS)  # for every later conversion of this process
    batch = torch.export.Dim("batch")
    program = ortable.export(model, (x,), dynamic_shapes={"x": {0: batch}})
    print("ONNX nodes:", " ".join(node.op_type for node in program.model.graph.node))
    compiled = torch.compile(model, backend="ortable", fullgraph=True)
    with torch.no_grad():
        expected = model(x)
        found = {"exported": program(x), "compiled": compiled(x)}
    differences = {name: float((y - expected).abs().max()) for name, y in found.items()}
    for name, difference in differences.items():
        print(f"{name}: largest difference from eager {difference:.1e}")
    return int(max(differences.values()) > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
