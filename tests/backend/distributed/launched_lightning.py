"""A `fit` of Lightning over several processes, which it starts itself: the weights of each, written
to `<argv[1]>/<rank>.pt`, compiled as `argv[2]` says, over `argv[3]` devices."""

from __future__ import annotations

import faulthandler
import logging
import sys
import warnings
from pathlib import Path

import lightning
import torch
from ddp_steps import together
from fsdp import Model
from harness import _register
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset


class Fitted(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = Model()

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.model(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01, eps=1e-4)


def main():
    faulthandler.dump_traceback_later(100, exit=True)  # who waits for ever says where
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    _register()
    backend, devices = sys.argv[2], int(sys.argv[3])
    module = Fitted()
    if backend != "no":
        module.model.compile(backend=backend)
    [(x, y)] = together(32, 8)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=devices, strategy="ddp", max_epochs=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    # Lightning deals rows out in turn: 0, 2, 4... to the first, which the joined batch has, too.
    trainer.fit(module, DataLoader(TensorDataset(x, y), batch_size=8 // devices, shuffle=False))
    told = {
        "weights": module.model.state_dict(),
        "graphs": counters["stats"]["unique_graphs"],
        "processes": trainer.world_size,
    }
    torch.save(told, Path(sys.argv[1]) / f"{trainer.global_rank}.pt")


if __name__ == "__main__":
    main()
