"""Export your own operator from torch.library to ONNX, with five lines of YAML.

    python examples/your_own_operator.py
    cd examples; ortable specs test my_ops.yaml --import your_own_operator   # tests its samples

You learn which error you get for an operator that only your project has, and how an entry in your
own file (my_ops.yaml) supports it, for the export and for torch.compile. The operator is a soft
cap, ``cap * tanh(x / cap)``, which some language models apply to their logits.

Exits with status 1 if a result differs from eager's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import ortable

SPECS = Path(__file__).with_name("my_ops.yaml")


@torch.library.custom_op("example::softcap", mutates_args=())
def softcap(x: torch.Tensor, cap: float) -> torch.Tensor:
    """Limit values smoothly to the range from -cap to cap."""
    return cap * torch.tanh(x / cap)


@softcap.register_fake
def _(x: torch.Tensor, cap: float) -> torch.Tensor:
    return torch.empty_like(x)


class Head(torch.nn.Module):
    """A classifier with capped logits."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(softcap(self.fc(x), 5.0), dim=-1)


def main() -> int:
    """Show the error, load the entry, export and compile; return 0 if results equal eager's."""
    torch.manual_seed(0)
    model, x = Head().eval(), 20 * torch.randn(3, 8)

    print("== Without an entry")
    try:
        ortable.to_onnx(model, (x,))
    except ortable.FunctionNotFoundError as error:
        print(error)

    print("\n== With the entry")
    print(SPECS.read_text(encoding="utf-8"))
    ortable.load_specs(SPECS)  # applies to all later conversions in this process
    batch = torch.export.Dim("batch")
    program = ortable.export(model, (x,), dynamic_shapes={"x": {0: batch}})
    print("ONNX nodes:", " ".join(node.op_type for node in program.model.graph.node))
    compiled = torch.compile(model, backend="ortable", fullgraph=True)
    with torch.no_grad():
        expected = model(x)
        results = {"exported": program(x), "compiled": compiled(x)}
    differences = {name: float((y - expected).abs().max()) for name, y in results.items()}
    for name, difference in differences.items():
        print(f"{name}: largest difference from eager {difference:.1e}")
    return int(max(differences.values()) > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
