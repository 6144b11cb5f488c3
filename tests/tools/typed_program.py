"""A small typed program: types follow from Flambeau's stubs."""

import flambeau as fl
from flambeau import nn
from flambeau.nn import functional as F


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 2, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: fl.Tensor) -> fl.Tensor:
        hidden = F.relu(self.norm(self.first(x)))
        result: fl.Tensor = self.second(hidden)
        return result


def accuracy(scores: fl.Tensor, labels: fl.Tensor) -> float:
    best = scores.max(1).indices
    return (best == labels).float().mean().item()


x: fl.Tensor = fl.randn(8, 4, dtype=fl.float32)
net = Net(16)
values, indices = fl.sort(x, dim=0, descending=True)
q, r = fl.linalg.qr(x)
total: fl.Tensor = fl.where(x > 0, x, 0.0).sum(dim=(0, 1), keepdim=True)
rows: int = x.shape[0] + x.size(1)
loss = F.cross_entropy(net(x), fl.zeros(8, dtype=fl.int64), reduction="sum")
loss.backward()
for name, parameter in net.named_parameters():
    fl.add(parameter.detach(), 1, out=parameter.grad)
    print(name.upper(), parameter.detach().reshape(2, -1).view((-1,)).clamp_(0, 1).dtype)
optimizer = fl.optim.SGD(net.parameters(), lr=0.1)
net.to("cpu").train().zero_grad()
spectrum: fl.Tensor = fl.fft.rfft(x, dim=-1)
print(
    accuracy(net(x), fl.zeros(8)),
    fl.special.erfcx(x),
    fl.stack([x, x]),
    x.topk(2).values,
    x.max(),
    x.T.device,
)
