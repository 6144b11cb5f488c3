"""The training doctor: it names the fault of each broken training, is silent on sound ones, and leaves no
trace."""

import random

import numpy
import pytest

import flambeau as fl
from flambeau import nn
from flambeau.autograd import diagnose

F = nn.functional


@pytest.fixture(autouse=True)
def same_numbers():
    fl.manual_seed(0)


class Training:
    """A small classification whose parts can be broken: a step of it is what `diagnose` runs."""

    def __init__(self, *layers, lr=1e-2, optimizer=None, classes=4, make=fl.optim.SGD, scale=1.0):
        self.model = nn.Sequential(*layers) if layers else nn.Sequential(nn.Linear(8, 32), nn.ReLU(),
                                                                         nn.Linear(32, classes))
        self.x = fl.randn(32, 8) * scale
        self.y = (self.x[:, 0] > 0).long() + 2 * (self.x[:, 1] > 0).long()
        self.optimizer = optimizer or make(self.model.parameters(), lr=lr)
        self.zero, self.stepping = True, True

    def loss(self):
        return F.cross_entropy(self.model(self.x), self.y)

    def step(self):
        if self.zero:
            self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        if self.stepping:
            self.optimizer.step()
        return loss

    def diagnose(self, **options):
        return diagnose(self.step, self.model, self.optimizer, verbose=False, **options)


def named(report, kind, *words):
    """The report has a finding of this kind whose text has all the words."""
    text = [str(found) for found in report.findings if found.kind == kind]
    assert text, f"{kind} is not among {report.kinds}"
    assert any(all(word in one for word in words) for one in text), text


# ---------------------------------------------------------------------------------- sound trainings
class Attention(nn.Module):
    """Attention written out, with or without its scale."""

    def __init__(self, width=16, scale=True, size=1.0):
        super().__init__()
        self.qkv, self.out, self.scale = nn.Linear(width, 3 * width), nn.Linear(width, 4), scale
        with fl.no_grad():
            self.qkv.weight.mul_(size)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) * (x.shape[-1] ** -0.5 if self.scale else 1)
        return self.out(fl.softmax(scores, -1) @ v).mean(1)


def with_images():
    training = Training(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(72, 4), make=fl.optim.Adam, lr=1e-3)
    training.x = fl.randn(32, 1, 8, 8)
    training.y = fl.randint(0, 4, (32,))
    return training


def with_words():
    training = Training(nn.Embedding(20, 16), nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
                        nn.Flatten(), nn.Linear(96, 4), make=fl.optim.AdamW, lr=1e-3)
    training.x = fl.randint(0, 20, (32, 6))
    return training


def with_attention():
    training = Training(Attention(), make=fl.optim.Adam, lr=1e-3)
    training.x = fl.randn(32, 5, 16)
    return training


def with_regression():
    training = Training(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1), lr=0.05)
    training.loss = lambda: F.mse_loss(training.model(training.x), training.x[:, :1])
    return training


SOUND = {"classes": Training, "momentum": lambda: Training(make=lambda p,
                                                           lr: fl.optim.SGD(p, lr=0.05, momentum=0.9)),
         "images": with_images, "words": with_words, "attention": with_attention,
         "regression": with_regression}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_training_is_not_blamed(name):
    report = SOUND[name]().diagnose()
    assert report.ok and "nothing conspicuous" in str(report), str(report)


def test_a_step_that_only_computes_the_loss_is_trained_here():
    training = Training()
    report = diagnose(training.loss, training.model, training.optimizer, verbose=False)
    assert report.ok and report.seen.losses[-1] < report.seen.losses[0]
    # without an optimizer: gradients only
    assert diagnose(training.loss, training.model, verbose=False).ok


def test_gradient_accumulation_is_not_blamed():
    training = Training()

    def step():
        training.optimizer.zero_grad()
        for part in range(4):
            loss = F.cross_entropy(training.model(training.x[8 * part:8 * part + 8]),
                                   training.y[8 * part:8 * part + 8]) / 4
            loss.backward()
        training.optimizer.step()
        return loss
    assert "zero_grad" not in diagnose(step, training.model, training.optimizer, verbose=False).kinds


# ---------------------------------------------------------------------------------- inputs and loss
def test_inputs():
    training = Training()
    clean = training.x
    training.x = clean * 60 + 127
    named(training.diagnose(), "inputs", "not normalised", "mean 12")
    training.x = clean.clone()
    training.x[3, 2] = float("nan")
    report = training.diagnose()
    named(report, "inputs", "1 values that are NaN")
    # the cause before the effect
    assert report.findings[0].kind == "inputs" and "loss" in report.kinds
    training.x = fl.ones(32, 8)
    named(training.diagnose(), "inputs", "constant")
    training.x = clean[:1].expand(32, 8).clone()
    named(training.diagnose(), "inputs", "32 examples of the batch are the same")
    training.x = clean * fl.tensor([1.0] * 7 + [1e-5])
    named(training.diagnose(), "inputs", "scales apart")


def test_inputs_are_looked_at_without_a_model():
    weight = fl.randn(3, 2, requires_grad=True)
    x = fl.randn(5, 3) * 500
    report = diagnose(lambda: ((x @ weight) ** 2).mean(), inputs=x, verbose=False)
    named(report, "inputs", "not normalised")


def test_a_loss_that_is_not_finite_and_where_it_begins():
    class Log(nn.Module):
        def forward(self, x):
            return x.log()
    training = Training(nn.Linear(8, 8), nn.ReLU(), Log(), nn.Linear(8, 4))
    named(training.diagnose(), "loss", "first output that is not finite is that of 2")


def test_a_loss_that_rises():
    training = Training()
    training.loss = lambda: -F.cross_entropy(training.model(training.x), training.y).exp()
    down = training.diagnose()
    assert "loss" not in down.kinds
    broken = Training(lr=0.5, scale=3.0)
    broken.loss = lambda: (broken.model(broken.x) ** 2).mean() * 3
    assert "loss" in broken.diagnose().kinds or "learning rate" in broken.diagnose().kinds


def test_a_loss_at_chance_that_does_not_fall():
    training = Training(lr=1e-9)
    with fl.no_grad():
        training.model[2].weight.mul_(1e-3)
        training.model[2].bias.zero_()
    named(training.diagnose(), "loss", "does not fall", "chance level for 4 classes (ln 4 = 1.386)")


def test_softmax_before_cross_entropy():
    training = Training(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(-1))
    named(training.diagnose(), "softmax", "takes the softmax itself")


def test_a_loss_without_history():
    training = Training()
    report = diagnose(lambda: training.loss().detach(), training.model, training.optimizer, verbose=False)
    named(report, "loss", "does not require grad")


# ---------------------------------------------------------------------------------- parameters and optimizer
def test_parameters_without_gradient():
    class Unused(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.forgotten, self.cut = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(8, 8)

        def forward(self, x):
            return self.used(x + self.cut(x).detach())
    report = Training(Unused()).diagnose()
    named(report, "no gradient", "0.forgotten.weight", "0.cut.weight")
    assert "0.used" not in str(report.findings)


def test_frozen_parameters_are_not_missed():
    training = Training()
    training.model[0].requires_grad_(False)
    assert training.diagnose().ok


def test_the_optimizer_has_other_parameters():
    training = Training()
    training.optimizer = fl.optim.SGD(Training().model.parameters(), lr=0.1)
    named(training.diagnose(), "optimizer", "none of the model's parameters")
    training.optimizer = fl.optim.SGD(training.model[2].parameters(), lr=0.1)
    named(training.diagnose(), "optimizer", "does not have 0.weight, 0.bias")


@pytest.mark.filterwarnings("ignore")
def test_duplicated_parameters():
    training = Training()
    parameters = list(training.model.parameters())
    training.optimizer.param_groups[0]["params"] = [*parameters, parameters[0]]
    named(training.diagnose(), "optimizer", "twice: 0.weight")


def test_gradients_that_pile_up():
    training = Training()
    training.zero = False
    named(training.diagnose(), "zero_grad", "0.weight")


def test_a_step_that_is_never_taken():
    training = Training()
    training.stepping = False
    named(training.diagnose(), "learning rate", "do not change")


@pytest.mark.parametrize("lr, words", [(1e-8, "too small"), (50.0, "too large")])
def test_learning_rates(lr, words):
    named(Training(lr=lr).diagnose(), "learning rate", words)


def test_eval_mode():
    training = Training(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
    assert training.diagnose().ok
    training.model.eval()
    named(training.diagnose(), "mode", "eval mode")
    training.model.train()
    training.model[1].eval()
    named(training.diagnose(), "mode", "batch norm in eval mode", ": 1")
    training.model[1].requires_grad_(False)
    assert "mode" not in training.diagnose().kinds
    plain = Training()
    plain.model.eval()          # no layer cares
    assert plain.diagnose().ok


# ---------------------------------------------------------------------------------- units and gradients
@pytest.mark.parametrize("functional", [False, True])
def test_dead_units(functional):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.act, self.last = nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)
            with fl.no_grad():
                self.first.bias[:20] = -100.0

        def forward(self, x):
            h = self.first(x)
            return self.last(F.relu(h) if functional else self.act(h))
    report = Training(Net()).diagnose()
    named(report, "dead units", "62%", "relu after 0.first" if functional else "0.act (relu)")


def test_dead_channels_of_a_convolution():
    training = with_images()
    with fl.no_grad():
        training.model[1].bias[:6] = -100.0
    named(training.diagnose(), "dead units", "75%", "2 (relu)")


@pytest.mark.parametrize("layer, name", [(nn.Tanh, "1 (tanh)"), (nn.Sigmoid, "1 (sigmoid)")])
def test_saturated_units(layer, name):
    training = Training(nn.Linear(8, 32), layer(), nn.Linear(32, 4))
    with fl.no_grad():
        training.model[0].weight.mul_(60)
    named(training.diagnose(), "saturation", name)


def test_gradients_that_vanish():
    layers = [layer for _ in range(12) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
    named(Training(*layers, nn.Linear(8, 4)).diagnose(), "gradients", "vanish", "0.weight", "24.weight")


def test_gradients_that_explode():
    layers = [nn.Linear(8, 8) for _ in range(10)]
    training = Training(*layers, nn.Linear(8, 4))
    with fl.no_grad():
        for layer in layers:
            layer.weight.mul_(8)
    named(training.diagnose(), "gradients", "explode")


def test_gradients_that_are_not_finite():
    training = Training()
    training.loss = lambda: training.model(training.x * 0).abs().sum() + (training.model[2].bias
                                                                          * 0).sqrt().sum()
    named(training.diagnose(), "gradients", "NaN or infinite", "2.bias")


def test_attention_scores_that_explode():
    training = Training(Attention(size=40.0, scale=False), make=fl.optim.Adam, lr=1e-3)
    training.x = fl.randn(32, 5, 16)
    named(training.diagnose(), "attention", "scores explode", "square root")
    words = with_words()
    with fl.no_grad():
        words.model[1].self_attn.in_proj_weight.mul_(60)
    named(words.diagnose(), "attention", "the largest score is")


# ---------------------------------------------------------------------------------- no trace
def test_everything_is_put_back():
    training = Training(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4),
                        make=fl.optim.Adam)
    schedule = fl.optim.lr_scheduler.StepLR(training.optimizer, 1, gamma=0.5)

    def step():
        loss = training.step()
        schedule.step()
        random.random(), numpy.random.rand()
        return loss
    step()
    gradient = training.model[0].weight.grad
    numpy.random.seed(1)

    def state():
        return ({name: t.tolist() for name, t in training.model.state_dict().items()}, gradient.tolist(),
                str(training.optimizer.state_dict()), str(schedule.state_dict()), fl.get_rng_state().tolist(),
                random.getstate(), numpy.random.get_state()[1].tolist(), numpy.random.get_state()[2])
    before = state()
    diagnose(step, training.model, training.optimizer, verbose=False)
    assert state() == before and training.model[0].weight.grad is gradient
    assert not training.model._forward_hooks and not training.model[0].weight.detach().requires_grad


def test_a_fresh_optimizer_and_gradients_stay_fresh():
    training = Training(make=fl.optim.Adam)
    training.diagnose()
    assert not training.optimizer.state and all(p.grad is None for p in training.model.parameters())


def test_it_is_put_back_after_an_error_too():
    training = Training()
    before = training.model[0].weight.tolist()

    def step():
        training.step()
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        diagnose(step, training.model, training.optimizer, verbose=False)
    assert training.model[0].weight.tolist() == before and not training.model._forward_hooks


# ---------------------------------------------------------------------------------- the report
def test_model_and_optimizer_are_found_in_the_step(capsys):
    model = nn.Linear(8, 4)
    optimizer = fl.optim.SGD(model.parameters(), lr=1e-9)
    x, y = fl.randn(16, 8), fl.randint(0, 4, (16,))

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss
    report = diagnose(step)
    shown = capsys.readouterr().out
    assert [row[0] for row in report.rows] == ["weight", "bias"] and report.rows[0][1] == (4, 8)
    assert "look at first:" in shown and "[learning rate]" in shown
    assert "chance level of 4 classes: 1.386" in shown
    assert "<pre>" in report._repr_html_() and not report.ok


def test_a_loss_as_a_number_will_do():
    training = Training()
    report = diagnose(lambda: training.step().item(), training.model, training.optimizer, verbose=False)
    assert report.ok and len(report.seen.losses) == 3
