"""Fine-tune a small BERT with transformers' Trainer, with forward and backward in ONNX Runtime.

    python examples/trainer_bert.py

You learn the two arguments that compile a Trainer's model with ortable: ``torch_compile=True`` and
``torch_compile_backend="onnxrt"``, ortable's name in accelerate's list of backends. The same
training runs in eager PyTorch, too, and the losses of the steps are compared.

Weights are random and the sentences are generated: the model learns whether most words of a
sentence are in the upper half of the vocabulary. Exits with status 1 if the losses differ.
"""

from __future__ import annotations

import sys
import tempfile

import torch
from torch._dynamo.utils import counters
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

VOCABULARY, LENGTH, SENTENCES = 100, 12, 64
STEPS = 16
TOLERANCE = 1e-3


def small_bert() -> BertForSequenceClassification:
    """Build a BERT of two layers. It has dropout: ortable and eager draw the same masks."""
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=LENGTH,
            # without it, the first call sets it from the labels, and the model is compiled twice
            problem_type="single_label_classification",
        )
    )


def sentences() -> list[dict[str, torch.Tensor]]:
    """Make tokens with labels, in the format of a tokenized data set."""
    ids = torch.randint(VOCABULARY, (SENTENCES, LENGTH), generator=torch.Generator().manual_seed(1))
    labels = ((ids >= VOCABULARY // 2).sum(1) > LENGTH // 2).long()
    mask = torch.ones_like(ids)
    return [
        {"input_ids": i, "attention_mask": m, "labels": label}
        for i, m, label in zip(ids, mask, labels, strict=True)
    ]


def losses(compiled: bool) -> list[float]:
    """Train, and return the loss of each step."""
    settings = {"torch_compile": True, "torch_compile_backend": "onnxrt"} if compiled else {}
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=16,
            learning_rate=3e-3,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            seed=0,
            **settings,
        )
        trainer = Trainer(model=small_bert(), args=arguments, train_dataset=sentences())
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def main() -> int:
    """Run both trainings; return 0 if their losses agree and fall."""
    counters.clear()
    eager, compiled = losses(compiled=False), losses(compiled=True)
    print("\nstep     eager   compiled")
    for step in (0, STEPS // 2, STEPS - 1):
        print(f"{step + 1:4} {eager[step]:9.4f} {compiled[step]:10.4f}")
    largest = max(abs(a - b) for a, b in zip(compiled, eager, strict=True))
    print(f"graphs: {counters['stats']['unique_graphs']} compiled for the training")
    print(f"largest difference of {STEPS} losses: {largest:.1e}")
    first, last = sum(compiled[: STEPS // 4]), sum(compiled[-STEPS // 4 :])
    is_falling = last < 0.95 * first
    print("the loss falls" if is_falling else "the loss does NOT fall")
    return int(largest > TOLERANCE or not is_falling)


if __name__ == "__main__":
    sys.exit(main())
