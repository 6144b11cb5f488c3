"""Writes the files beside it; run with PyTorch (2.13 made those here): python make_files.py"""

import collections
import os

import numpy
import torch
from torch import nn

FOLDER = os.path.dirname(os.path.abspath(__file__))
DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def save(value, name, **options):
    torch.save(value, os.path.join(FOLDER, name), **options)


def values():
    x = torch.arange(12.0).reshape(3, 4)
    attributed = nn.Parameter(torch.ones(2))
    attributed.tag = "first"
    return {
        "x": x,
        "rows": x[1:],
        "columns": x.t(),
        "one": x[2, 3],
        "wide": x[0].expand(2, 4),
        "again": x,
        "parameter": nn.Parameter(torch.full((2,), 3.0), requires_grad=False),
        "attributed": attributed,
        "leaf": torch.ones(1, requires_grad=True),
        "empty": torch.zeros(2, 0),
        "set": {1, 2},
        "counter": collections.Counter("aab"),
        "ordered": collections.OrderedDict(b=1, a=2),
        "default": collections.defaultdict(list, {1: [2]}),
        "bytes": b"\0\xff",
        "complex": 1 - 2j,
        "size": x.shape,
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        "layout": torch.strided,
    }


def trained():
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    model(torch.ones(3, 2)).square().sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": 7,
        "best": 0.5,
        "weight": model.weight.tolist(),
    }


def module():
    torch.manual_seed(0)
    model = nn.Sequential(
        collections.OrderedDict(
            layer=nn.Linear(2, 4),
            act=nn.GELU(),
            norm=nn.BatchNorm1d(4),
            inner=nn.ModuleDict(
                {"lstm": nn.LSTM(4, 3, bidirectional=True), "conv": nn.Conv2d(1, 2, 3, padding=1)}
            ),
        )
    )
    model.tied = nn.Parameter(model.layer.weight)
    model.alias = model.layer
    return model


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 1)
        self.register_buffer("scale", torch.full((2,), 2.0))
        self.other = torch.ones(3)
        self.sizes = [1, 2]

    def forward(self, x):
        return self.inner(x * self.scale) + self.other.sum()


if __name__ == "__main__":
    save(
        {name: torch.tensor([[0, 1, 2], [1, 0, 3]]).to(getattr(torch, name)) for name in DTYPES}, "dtypes.pt"
    )
    save(values(), "values.pt")
    save(values(), "values_older.pt", _use_new_zipfile_serialization=False)
    save(values(), "values_protocol5.pt", pickle_protocol=5)
    save(trained(), "checkpoint.pt")
    save(module(), "module.pt")
    save(
        {
            "coo": torch.eye(3).to_sparse(),
            "csr": torch.eye(3).to_sparse_csr(),
            "meta": torch.zeros(2, 3, device="meta"),
            "numpy": numpy.arange(6.0).reshape(2, 3),
            "number": numpy.float32(1.5),
        },
        "forms.pt",
    )
    scripted = torch.jit.script(Net())
    with torch.no_grad():
        scripted.inner.weight.copy_(torch.tensor([[1.0, 2.0]]))
    scripted.save(os.path.join(FOLDER, "scripted.pt"))
