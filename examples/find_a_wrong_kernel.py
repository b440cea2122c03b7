"""Find the operator that makes the result of a model differ from eager, in three steps.

    python examples/find_a_wrong_kernel.py

You learn what to do when results differ from eager. This one has a deliberate mistake: an entry of
wrong_ops.yaml multiplies by 0.01 where torch's operator has 0.1. ``validate()`` reports that the
model differs, ``onnx_debug_backend`` with ``compare`` names the first different result with its
spec, module and line, and a call of the operator alone confirms it.

Exits with status 1 if the mistake is not found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import ortable

SPECS = Path(__file__).with_name("wrong_ops.yaml")


@torch.library.custom_op("shop::shift", mutates_args=())
def shift(x: torch.Tensor) -> torch.Tensor:
    """Add one."""
    return x + 1


@torch.library.custom_op("shop::leaky", mutates_args=())
def leaky(x: torch.Tensor) -> torch.Tensor:
    """Multiply negative values by 0.1."""
    return torch.where(x < 0, 0.1 * x, x)


for _operator in (shift, leaky):
    _operator.register_fake(torch.empty_like)


class Layer(torch.nn.Module):
    """A linear layer followed by both operators."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return leaky(shift(self.fc(x)))


def main() -> int:
    """Run the three steps; return 0 if they find the entry of shop::leaky."""
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(Layer(), Layer(), torch.nn.Softmax(-1)).eval(), torch.randn(4, 8)
    ortable.load_specs(SPECS)

    print("== 1. Does it differ?")
    validation = ortable.export(model, (x,)).validate()
    print(validation)
    print("yes, but the table does not show why" if not validation else "no")

    print("\n== 2. Where does it begin?")
    debug_model = torch.compile(
        model, backend=ortable.onnx_debug_backend, options={"compare": True}, fullgraph=True
    )
    message = ""
    try:
        with torch.no_grad():
            debug_model(x)
    except ortable.MismatchError as error:
        message = str(error)
    print(message)

    print("\n== 3. The operator alone")
    x = torch.tensor([-1.0, 1.0])
    compiled = torch.compile(lambda x: leaky(x), backend="ortable")
    print(f"torch {leaky(x).tolist()}, ONNX {[round(v, 6) for v in compiled(x).tolist()]}")
    is_found = "shop::leaky" in message and not validation
    print("\nthe entry of shop::leaky has the wrong factor" if is_found else "\nNOT found")
    return int(not is_found)


if __name__ == "__main__":
    sys.exit(main())
