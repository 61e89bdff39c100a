#!/usr/bin/env python3
"""GraphSAGE of PyTorch Geometric, trained by Lightning from a LightningDataModule:

    PYTHONPATH=python examples/lightning_data.py data/first --epochs 5

Prints loss and validation accuracy after each epoch. With --state FILE, a checkpoint of Lightning,
the run goes on with the very next batch behind it, if it was killed. (Lightning before 2.6
takes such a checkpoint to have one batch less, and does not validate in that epoch.)
With --devices 2 two processes train together, each with batches of its own.
"""

import argparse
import os
import warnings

import sluice
import torch
from torch_geometric.nn import GraphSAGE

try:
    import lightning
except ImportError:  # its older name
    import pytorch_lightning as lightning


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--fanout", type=int, nargs="+", default=[10, 10])
    parser.add_argument("--batch-size", type=int, default=512, help="of each process")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--devices", type=int, default=1, help="processes, each on the CPU")
    parser.add_argument("--state", help="checkpoint, written after each 20 batches")
    o = parser.parse_args()
    if o.state and o.devices > 1:
        # Lightning keeps what rank 0 says alone.
        parser.error("--state: is for one device")
    return o


class Epochs:
    """A loader as Lightning takes any iterable. Of a torch DataLoader, which NeighborLoader is, it
    replaces the sampler where several processes train."""

    def __init__(self, loader):
        self.loader = loader

    def __iter__(self):
        return iter(self.loader)

    def __len__(self):
        return len(self.loader)


class Graph(lightning.LightningDataModule):
    def __init__(self, o):
        super().__init__()
        self.o = o

    def setup(self, stage):
        # Where there are several processes they know each other by now, and share samplers.
        self.train, self.val = self.open("train", shuffle=True), self.open("val")

    def open(self, nodes, shuffle=False):
        o = self.o
        return sluice.NeighborLoader(
            o.dataset, o.fanout, o.batch_size, nodes, shuffle=shuffle, seed=o.seed
        )

    def train_dataloader(self):
        return Epochs(self.train)

    def val_dataloader(self):
        return Epochs(self.val)

    # Lightning has this in its checkpoints, those of an epoch's end as well.
    def state_dict(self):
        return self.train.state_dict()

    def load_state_dict(self, state):
        if state["number"] < len(self.train):
            self.train.load_state_dict(state)
        else:  # of an epoch that has no more batches
            self.train.set_epoch(state["epoch"] + 1)

    def teardown(self, stage):
        self.train.close()
        self.val.close()


class Model(lightning.LightningModule):
    def __init__(self, o):
        super().__init__()
        graph = sluice.open(o.dataset).metadata
        self.lr = o.lr
        self.sage = GraphSAGE(graph["feat_dim"], o.hidden, len(o.fanout), graph["num_classes"])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)

    def forward(self, batch):
        """Logits of the seeds."""
        return self.sage(batch.x.float(), batch.edge_index)[: batch.batch_size]

    def training_step(self, batch, _):
        loss = torch.nn.functional.cross_entropy(self(batch), batch.y, ignore_index=-1)
        self.log(
            "loss", loss, on_step=False, on_epoch=True, batch_size=batch.batch_size, sync_dist=True
        )
        return loss

    def validation_step(self, batch, _):
        known = batch.y >= 0
        if known.any():
            hits = (self(batch).argmax(1) == batch.y)[known].float().mean()
            self.log("val", hits, batch_size=int(known.sum()), sync_dist=True)

    def on_train_epoch_end(self):
        found = self.trainer.callback_metrics
        self.print(
            f"epoch {self.current_epoch + 1}/{self.trainer.max_epochs}  "
            f"loss {found['loss']:.4f}  val {found['val']:.4f}"
        )


class Saver(lightning.Callback):
    """Saves within epochs and at their ends, but not behind an epoch's last batch, where
    ModelCheckpoint does: Lightning counts wrong when it goes on there for the second time."""

    def __init__(self, path):
        self.path = path

    def save(self, trainer):
        trainer.save_checkpoint(f"{self.path}.part")
        os.replace(f"{self.path}.part", self.path)

    def on_train_batch_end(self, trainer, module, outputs, batch, number):
        if (number + 1) % 20 == 0 and not trainer.is_last_batch:
            self.save(trainer)

    def on_train_epoch_end(self, trainer, module):
        self.save(trainer)


def main():
    o = options()
    lightning.seed_everything(o.seed)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=o.devices,
        max_epochs=o.epochs,
        callbacks=[Saver(o.state)] if o.state else [],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # It looks at the loader alone, whose state the data module has.
    warnings.filterwarnings("ignore", ".*your dataloader is not resumable")
    resume = o.state if o.state and os.path.exists(o.state) else None
    trainer.fit(Model(o), datamodule=Graph(o), ckpt_path=resume)


if __name__ == "__main__":
    main()
