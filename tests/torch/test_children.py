"""Fresh interpreters that a script under `flambeau run` starts serve torch too: workers of a loader, and `spawn`."""

import os
import subprocess
import sys
from pathlib import Path

import flambeau

SCRIPT = """
import torch
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset, get_worker_info

class Draws(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.rand(()), get_worker_info().id

def train(number, model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    (model(torch.ones(1, 2)) - 3).square().sum().backward()
    optimizer.step()

if __name__ == "__main__":
    torch.manual_seed(0)
    forked, spawned = ([(x.item(), int(worker)) for x, worker in DataLoader(
        Draws(), batch_size=None, num_workers=2, multiprocessing_context=context,
        generator=torch.Generator().manual_seed(1))] for context in ("fork", "spawn"))
    print(forked == spawned, sorted(worker for _, worker in forked))
    model = torch.nn.Linear(2, 1, bias=False).share_memory()
    before = model.weight.tolist()
    mp.spawn(train, args=(model,), nprocs=1)
    print(model.weight.tolist() != before, model.weight.grad)
"""


def test_spawned_workers_and_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = dict(os.environ, PYTHONPATH=str(Path(flambeau.__file__).parent.parent))
    done = subprocess.run([sys.executable, "-m", "flambeau.cli", "run", str(script)], capture_output=True, text=True,
                          env=environment, timeout=100)
    assert done.stdout == "True [0, 0, 1, 1]\nTrue None\n", done.stderr
