"""Write your own rewrite: a pattern of ONNX nodes, and its replacement.

    python examples/your_own_rewrite.py
    ortable specs test examples/my_rules.yaml

You learn how to add a rule from your own file (my_rules.yaml) to those of the package, how to see
that it fired, and that it changes nodes but not results. The rule replaces the square root of a sum
of squares by ONNX's operator for this norm, ReduceL2.

Exits with status 1 if the rule does not fire, or a result differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch

import ortable

RULES = str(Path(__file__).with_name("my_rules.yaml"))
RULE = "length_of_vectors"


class Similarity(torch.nn.Module):
    """Cosine similarity of queries and keys, written as the formula."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        query = query / torch.sqrt((query * query).sum(-1, keepdim=True))
        key = key / torch.sqrt((key * key).sum(-1, keepdim=True))
        return query @ key.T


def main() -> int:
    """Export with and without the rule, compile with it, and return 0 on success."""
    torch.manual_seed(0)
    model, inputs = Similarity(), (torch.randn(4, 16), torch.randn(5, 16))
    expected = model(*inputs)
    differences = {}
    fired = 0
    for name, choice in (("default", "default"), ("default + yours", ["default", RULES])):
        program = ortable.export(model, inputs, rewrites=choice)
        nodes = Counter(node.op_type for node in program.model.graph.node)
        fired = program.report.rewrites.get(RULE, 0)
        print(f"{name}: {nodes.total()} nodes {dict(nodes)}, {RULE} fired {fired} times")
        differences[f"exported, {name}"] = float((program(*inputs) - expected).abs().max())

    storage: dict[str, list] = {}
    options = {"rewrites": ["default", RULES], "storage": storage}
    compiled = torch.compile(model, backend="ortable", options=options)
    differences["compiled"] = float((compiled(*inputs) - expected).abs().max())
    (record,) = storage["instance"]
    print(f"compiled: rules that fired {record.rewrites}")
    for name, difference in differences.items():
        print(f"{name}: largest difference from eager {difference:.1e}")
    return int(fired != 2 or max(differences.values()) > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
