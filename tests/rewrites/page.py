"""The table of all rules in docs/rewrites.md: how far each is proven, and where it fires.

python -m tests.rewrites.page  # writes it, from recorded.yaml and evidence.yaml"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

from ortable.passes.rewrite import rule_selection
from tests.passes.rewrite.harness import ROOT, all_rewrites

from . import evidence, proofs

PAGE = ROOT / "docs" / "rewrites.md"
BEGIN = "<!-- The table is written by `python -m tests.rewrites.page`. -->\n"
END = "<!-- End of the table. -->\n"
WORDS = {
    "SAME": "proven: one expression",
    "VALUES": "proven: all values",
    "DRAWN": "proven for drawn values",
    "ZERO": "proven but for the sign of a zero",
    "ROUNDING": "equal but for rounding",
    "SPECIAL": "equal but for rounding, infinities and NaN",
    "NONE": "tested",
}
# why nothing is proven of a rule, where the record does not say it
_KERNEL = "what GroupQueryAttention computes is defined by ONNX Runtime's kernel alone"
_BITS = "what kernels for codes compute is defined by ONNX Runtime alone"
_ROUNDS = "it rounds, where `weights=` asks for it"
_CODES = (
    "ort_bits_bias", "ort_bits_embedding", "ort_bits_gemm", "ort_bits_matmul",
    "ort_bits_transposed_matmul", "ort_codes_of_gather", "ort_codes_of_gemm",
    "ort_codes_of_matmul", "ort_codes_scaled",
)  # fmt: skip
_ROUNDED = (
    "half_weights_of_gemm", "half_weights_of_gemm_in_half", "half_weights_of_matmul",
    "half_weights_of_matmul_in_half", "half_weights_of_transposed_matmul",
    "half_weights_of_transposed_matmul_in_half", "ort_half_weights_of_gather",
    "ort_weights_of_gather", "weights_of_expert", "weights_of_expert_in_gemm", "weights_of_gemm",
    "weights_of_matmul", "weights_of_transposed_expert", "weights_of_transposed_matmul",
)  # fmt: skip
_SORTS = "the order of a TopK and sums of scattered ones are not in the terms"
REASONS = {
    **dict.fromkeys(
        ("ort_expert_counts", "ort_expert_rows", "ort_experts_of_columns", "ort_experts_of_rows"),
        _SORTS,
    ),
    **dict.fromkeys(_CODES, _BITS),
    **dict.fromkeys(_ROUNDED, _ROUNDS),
    "cross_entropy_gradient": "it needs 128 classes",
    "ort_attention_causal": _KERNEL,
    "ort_attention_causal_by_division": _KERNEL,
    "ort_attention_causal_hidden": _KERNEL,
    "ort_attention_causal_rotary": _KERNEL,
    "ort_attention_causal_rotary_places": _KERNEL,
    "ort_coded_cache": _KERNEL,
    "ort_coded_cache_repeated": _KERNEL,
    "ort_decode": _KERNEL,
    "ort_decode_flat": _KERNEL,
    "ort_decode_grouped": _KERNEL,
}


def used() -> tuple[Counter[str], Counter[str]]:
    """In how many programs each rule fires, and how many nodes it saves there."""
    programs: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    for rules in evidence.recorded()["programs"].values():
        for name, counts in rules.items():
            programs[name] += 1
            saved[name] += counts["saved"]
    return programs, saved


def table() -> str:
    """The rules by how far they are proven, each with its graphs, programs and nodes saved."""
    known, (programs, saved) = proofs.recorded(), used()
    off = {rule.name for rule in rule_selection.select_rules("all") if rule.off}
    groups: dict[str, list[str]] = {words: [] for words in WORDS.values()}
    for name in sorted(rewrite.name for rewrite in all_rewrites()):
        found: dict[str, Any] = known.get(name, {"verdict": "NONE", "graphs": 0})
        verdict = WORDS[found["verdict"]]
        why = REASONS.get(name, found.get("why", ""))
        if found["verdict"] == "NONE" and why:
            verdict += f": {why}"
        title = f"`{name}`" + (" (off)" if name in off else "")
        figures = f"{found['graphs']}/{programs[name]}/{saved[name]}"
        groups.setdefault(verdict, []).append(f"{title} {figures}")
    parts = [f"**{verdict}**: {', '.join(rows)}." for verdict, rows in groups.items() if rows]
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """The page with the table as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + table() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
