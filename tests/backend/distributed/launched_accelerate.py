"""A loop of accelerate, for `accelerate launch`: the weights of this process, written to
`<argv[1]>/<rank>.pt`. The launcher names the backend. The data loader deals the batches out."""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from ddp_steps import together
from fsdp import Model
from harness import _register
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset


def main():
    faulthandler.dump_traceback_later(100, exit=True)  # who waits for ever says where
    torch.set_num_threads(1)
    _register()
    run = Accelerator(cpu=True, gradient_accumulation_steps=2)
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)
    [(x, y)] = together(32, 8)
    size = 4 * (2 // run.num_processes)  # the joined batch has eight rows
    loader = DataLoader(TensorDataset(x, y), batch_size=size)
    model, optimizer, loader = run.prepare(model, optimizer, loader)
    for _ in range(2):
        for rows, wanted in loader:
            with run.accumulate(model):
                loss = nn.functional.mse_loss(model(rows), wanted)
                run.backward(loss)
                if run.sync_gradients:
                    run.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
    plain = run.unwrap_model(model, keep_torch_compile=False)
    told = {
        "weights": plain.state_dict(),
        "graphs": counters["stats"]["unique_graphs"],
        "processes": run.num_processes,
    }
    torch.save(told, Path(sys.argv[1]) / f"{run.process_index}.pt")
    run.wait_for_everyone()
    # torch 2.13 may end in a deadlock of its own: what holds a model's Reducer frees the group with
    # the GIL, and waits for the group's thread, which wants the GIL to free its last collective.
    os._exit(0)


if __name__ == "__main__":
    main()
