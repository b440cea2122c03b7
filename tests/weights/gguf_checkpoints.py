"""Write small GGUF files with random blocks; gguf is imported where it is needed."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

# The bytes where float16 numbers of a block start: its scales, and minima.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip
HEADS, KEY_HEADS = 4, 2


def random_blocks(shape: tuple[int, int], size: int, type_name: str, random: Any) -> np.ndarray:
    """Return rows of blocks of ``size`` bytes: random, but for small positive scales."""
    rows, blocks = shape
    data = random.randint(0, 256, (rows * blocks, size)).astype(np.uint8)
    for start in HALVES[type_name]:
        numbers = (random.rand(len(data), 1) * 0.002 + 0.0001).astype(np.float16)
        data[:, start : start + 2] = numbers.view(np.uint8)
    return data.reshape(rows, -1)


def write_gguf(
    path: Path,
    architecture: str,
    types: list[str],
    *,
    tied: bool = False,
    width: int = 64,
    key_width: int = 16,
    vocabulary: int = 96,
    layers: int = 2,
    rotary_factors: np.ndarray | None = None,
) -> None:
    """Write a file of an architecture whose matrices have the given types in turn."""
    import gguf

    random, names, hidden = np.random.RandomState(0), cycle(types), 2 * width
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(128)
    writer.add_block_count(layers)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(vocabulary)
    writer.add_key_length(key_width)
    writer.add_value_length(key_width)
    writer.add_rope_dimension_count(key_width)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{index}" for index in range(vocabulary)])
    writer.add_token_types([1] * vocabulary)

    def add_matrix(name: str, rows: int, columns: int) -> None:
        type_name = next(names)
        dtype = gguf.GGMLQuantizationType[type_name]
        count, size = gguf.GGML_QUANT_SIZES[dtype]
        blocks = random_blocks((rows, columns // count), size, type_name, random)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=dtype)

    def add_vector(name: str, count: int) -> None:
        writer.add_tensor(name, (random.rand(count) * 0.2 + 0.9).astype(np.float32))

    queries, keys = HEADS * key_width, KEY_HEADS * key_width
    add_matrix("token_embd", vocabulary, width)
    if not tied:
        add_matrix("output", vocabulary, width)
    add_vector("output_norm.weight", width)
    if rotary_factors is not None:
        writer.add_tensor("rope_freqs.weight", rotary_factors)
    for prefix in (f"blk.{number}." for number in range(layers)):
        matrices = {
            "attn_q": (queries, width), "attn_k": (keys, width), "attn_v": (keys, width),
            "ffn_gate": (hidden, width), "ffn_up": (hidden, width),
        }  # fmt: skip
        if architecture == "phi3":
            matrices = {"attn_qkv": (queries + 2 * keys, width), "ffn_up": (2 * hidden, width)}
        matrices |= {"attn_output": (width, queries), "ffn_down": (width, hidden)}
        for name, (rows, columns) in matrices.items():
            add_matrix(prefix + name, rows, columns)
            if architecture == "qwen2" and name in ("attn_q", "attn_k", "attn_v"):
                add_vector(f"{prefix}{name}.bias", rows)
        norms = {"attn_norm": width, "ffn_norm": width}
        if architecture in ("qwen3", "gemma3"):
            norms |= {"attn_q_norm": key_width, "attn_k_norm": key_width}
        if architecture.startswith("gemma"):
            norms |= {"post_attention_norm": width, "post_ffw_norm": width}
        for name, count in norms.items():
            add_vector(f"{prefix}{name}.weight", count)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
