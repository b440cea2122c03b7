"""Write the table of all rules in docs/rewrites.md: proof status and uses.

python -m tests.rewrites.page  # reads recorded.yaml and evidence.yaml
"""

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
STATUS = {
    "SAME": "proven: one expression",
    "VALUES": "proven: all values",
    "DRAWN": "proven for drawn values",
    "ZERO": "proven but for the sign of a zero",
    "ROUNDING": "equal but for rounding",
    "SPECIAL": "equal but for rounding, infinities and NaN",
    "NONE": "tested",
}
# why a rule is unproven, where the record has no reason
_KERNEL_DEFINED = "what GroupQueryAttention computes is defined by ONNX Runtime's kernel alone"
_CODE_KERNELS = "what kernels for codes compute is defined by ONNX Runtime alone"
_QUANTIZES = "it rounds, where `weights=` asks for it"
_CODE_RULES = (
    "ort_bits_bias", "ort_bits_embedding", "ort_bits_gemm", "ort_bits_matmul",
    "ort_bits_transposed_matmul", "ort_codes_of_gather", "ort_codes_of_gemm",
    "ort_codes_of_matmul", "ort_codes_scaled",
)  # fmt: skip
_WEIGHT_RULES = (
    "half_weights_of_gemm", "half_weights_of_gemm_in_half", "half_weights_of_matmul",
    "half_weights_of_matmul_in_half", "half_weights_of_transposed_matmul",
    "half_weights_of_transposed_matmul_in_half", "ort_half_weights_of_gather",
    "ort_weights_of_gather", "weights_of_expert", "weights_of_expert_in_gemm", "weights_of_gemm",
    "weights_of_matmul", "weights_of_transposed_expert", "weights_of_transposed_matmul",
)  # fmt: skip
_SORTING = "the order of a TopK and sums of scattered ones are not in the terms"
REASONS = {
    **dict.fromkeys(
        ("ort_expert_counts", "ort_expert_rows", "ort_experts_of_columns", "ort_experts_of_rows"),
        _SORTING,
    ),
    **dict.fromkeys(_CODE_RULES, _CODE_KERNELS),
    **dict.fromkeys(_WEIGHT_RULES, _QUANTIZES),
    "cross_entropy_gradient": "it needs 128 classes",
    "ort_append_attention": _KERNEL_DEFINED,
    "ort_append_attention_repeated": _KERNEL_DEFINED,
    "ort_attention_causal": _KERNEL_DEFINED,
    "ort_attention_causal_by_division": _KERNEL_DEFINED,
    "ort_attention_causal_hidden": _KERNEL_DEFINED,
    "ort_attention_causal_rotary": _KERNEL_DEFINED,
    "ort_attention_causal_rotary_places": _KERNEL_DEFINED,
    "ort_coded_cache": _KERNEL_DEFINED,
    "ort_coded_cache_repeated": _KERNEL_DEFINED,
    "ort_decode": _KERNEL_DEFINED,
    "ort_decode_flat": _KERNEL_DEFINED,
    "ort_decode_grouped": _KERNEL_DEFINED,
}


def count_uses() -> tuple[Counter[str], Counter[str]]:
    """Return, per rule, the number of programs with a replacement and of nodes saved."""
    programs: Counter[str] = Counter()
    saved: Counter[str] = Counter()
    for rules in evidence.load_evidence()["programs"].values():
        for name, counts in rules.items():
            programs[name] += 1
            saved[name] += counts["saved"]
    return programs, saved


def make_table() -> str:
    """Return the rules grouped by proof status, each with its graphs, programs and nodes saved."""
    records, (programs, saved) = proofs.load_proofs(), count_uses()
    disabled = {rule.name for rule in rule_selection.select_rules("all") if rule.off}
    groups: dict[str, list[str]] = {status: [] for status in STATUS.values()}
    for name in sorted(rewrite.name for rewrite in all_rewrites()):
        record: dict[str, Any] = records.get(name, {"verdict": "NONE", "graphs": 0})
        verdict = STATUS[record["verdict"]]
        reason = REASONS.get(name, record.get("why", ""))
        if record["verdict"] == "NONE" and reason:
            verdict += f": {reason}"
        title = f"`{name}`" + (" (off)" if name in disabled else "")
        figures = f"{record['graphs']}/{programs[name]}/{saved[name]}"
        groups.setdefault(verdict, []).append(f"{title} {figures}")
    parts = [f"**{verdict}**: {', '.join(rows)}." for verdict, rows in groups.items() if rows]
    return "\n\n".join(parts) + "\n"


def make_page() -> str:
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n" + make_table() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(make_page())
    sys.exit(0)
