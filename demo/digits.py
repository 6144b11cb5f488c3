"""Train a small network on handwritten digits, save it, reload it in a fresh process and predict.

    python demo/digits.py            writes digits.fl (the model) and demo.png (training curve, mistakes)

The data are the 1,797 scanned digits of 8x8 pixels that come with scikit-learn: 1,437 to train on and 360 to
test with.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import asdict

import numpy

import flambeau as fl
from flambeau import nn
from flambeau.data import DataLoader, TensorDataset
from flambeau.optim import AdamW

try:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from sklearn.datasets import load_digits
except ImportError as error:
    sys.exit(f"this demo also needs {error.name}: pip install 'flambeau[demo]'")

TEST_SIZE = 360
EPOCHS = 20
BATCH_SIZE = 64
PEAK_LEARNING_RATE = 4e-3
WARMUP_STEPS = 30
SHADES = " ░▒▓█"


def load_data():
    """(train images, train labels, test images, test labels).

    Images are (n, 1, 8, 8), float32 from 0 (paper) to 1 (ink); labels are (n,), int64.
    """
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype("float32")
    labels = digits.target.astype("int64")
    order = numpy.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_SIZE], order[TEST_SIZE:]
    return tuple(fl.from_numpy(array) for array in (images[train], labels[train], images[test], labels[test]))


def make_network():
    """Images (n, 1, 8, 8) to scores (n, 10)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),      # (n, 16, 8, 8)
        nn.MaxPool2d(2),                                                    # (n, 16, 4, 4)
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),     # (n, 32, 4, 4)
        nn.Flatten(), nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 10),           # (n, 10)
    )


# ---------------------------------------------------------------------------------- training
def learning_rate(step, steps):
    """A short linear rise to the peak, then a straight line down to zero."""
    return PEAK_LEARNING_RATE * min((step + 1) / WARMUP_STEPS, (steps - step) / (steps - WARMUP_STEPS))


def count_right(scores, labels):
    return (scores.argmax(1) == labels).sum().item()


def train_one_step(network, optimizer, images, labels):
    """Returns (loss, number of right answers) on this batch."""
    scores = network(images)
    loss = nn.functional.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), count_right(scores, labels)


def predict(network, images):
    """Probabilities (n, 10) of the ten digits."""
    network.eval()
    with fl.no_grad():
        return network(images).softmax(1)


def train(network, epochs, data, console):
    """Train in place; returns one dict(loss, train_accuracy, test_accuracy) per epoch."""
    train_images, train_labels, test_images, test_labels = data
    loader = DataLoader(TensorDataset(train_images, train_labels), batch_size=BATCH_SIZE, shuffle=True)
    optimizer = AdamW(network.parameters(), lr=PEAK_LEARNING_RATE)
    steps, step, history = epochs * len(loader), 0, []
    columns = (TextColumn("epoch {task.fields[epoch]:2d}/" + str(epochs)), BarColumn(),
               TextColumn("loss {task.fields[loss]:.4f}  accuracy {task.fields[accuracy]:5.1f} %  time left"),
               TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("train", total=steps, epoch=1, loss=float("nan"), accuracy=0.0)
        for epoch in range(1, epochs + 1):
            network.train()
            loss_sum = right = seen = 0
            for images, labels in loader:
                optimizer.param_groups[0]["lr"] = learning_rate(step, steps)
                loss, batch_right = train_one_step(network, optimizer, images, labels)
                step, seen = step + 1, seen + len(labels)
                loss_sum, right = loss_sum + loss * len(labels), right + batch_right
                progress.update(bar, advance=1, epoch=epoch, loss=loss_sum / seen,
                                accuracy=100 * right / seen)
            wrong = TEST_SIZE - count_right(predict(network, test_images), test_labels)
            history.append(dict(loss=loss_sum / seen, train_accuracy=right / seen,
                                test_accuracy=1 - wrong / TEST_SIZE))
    return history


# ---------------------------------------------------------------------------------- results to look at
def digit_art(image):
    """Eight lines of text for the (8, 8) nested list `image`, two characters a pixel."""
    return ["".join(2 * SHADES[round(value * (len(SHADES) - 1))] for value in row) for row in image]


def is_right(digit):
    return digit["prediction"] == digit["label"]


def caption(digit):
    """`7, 99.8 %` in green, or `1, 83.4 % (a 2)` in red where a 2 was misread; as wide as the picture."""
    text = f"{digit['prediction']}, {100 * digit['confidence']:.1f} %"
    if is_right(digit):
        return f"[green]{text:16}[/]"
    text += f" (a {digit['label']})"
    return f"[bold red]{text:16}[/]"


def choose_digits(digits, misread=2, count=8):
    """Some to show: `misread` of the mistakes at the end, before them right ones, each digit at most once."""
    first_of = {digit["label"]: digit for digit in reversed(digits) if is_right(digit)}
    mistakes = [digit for digit in digits if not is_right(digit)][:misread]
    return [first_of[label] for label in sorted(first_of)][:count - len(mistakes)] + mistakes


def show_digits(console, digits, columns=4):
    """Print `digits`, dicts of image, label, prediction and confidence, side by side."""
    for start in range(0, len(digits), columns):
        row = digits[start:start + columns]
        console.print()
        for line in zip(*(digit_art(digit["image"]) for digit in row)):
            console.print("   ".join(line), highlight=False)
        console.print("   ".join(caption(digit) for digit in row), highlight=False)
    console.print()


def draw(path, history, mistakes):
    """Write the training curve and the digits that were misread to the picture `path`."""
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(3, 2))
    left.suptitle("Training")
    axes = left.subplots()
    epochs = range(1, len(history) + 1)
    axes.plot(epochs, [100 * epoch["train_accuracy"] for epoch in history], label="train accuracy")
    axes.plot(epochs, [100 * epoch["test_accuracy"] for epoch in history], label="test accuracy")
    axes.set(xlabel="epoch", xticks=range(0, len(history) + 1, 5), ylabel="accuracy (%)", ylim=(70, 100.5))
    losses = axes.twinx()
    losses.plot(epochs, [epoch["loss"] for epoch in history], "k--", label="train loss")
    losses.set(ylabel="loss", ylim=(0, None))
    lines = axes.get_lines() + losses.get_lines()
    axes.legend(lines, [line.get_label() for line in lines], loc="right")
    right.suptitle(f"The {len(mistakes)} mistakes among {TEST_SIZE} test digits")
    for cell, digit in zip(right.subplots(3, 4).flat, mistakes + [None] * 12):
        cell.axis("off")
        if digit:
            cell.imshow(digit["image"], cmap="gray_r")
            cell.set_title(f"{digit['label']} read as {digit['prediction']}", fontsize=9)
    figure.savefig(path, dpi=110)


# ---------------------------------------------------------------------------------- the two processes
def kernel_statistics():
    """dict(compiled, seconds, from_cache) of this process."""
    from flambeau.compiler import objects
    return asdict(objects.statistics())


def main_predict(model):
    """The fresh process: load the model, read every test digit, print the answers as JSON."""
    _, _, images, labels = load_data()
    network = make_network()
    network.load_state_dict(fl.load(model))
    digits = []
    for (image,), label, chances in zip(images.tolist(), labels.tolist(), predict(network, images).tolist()):
        confidence = max(chances)
        digits.append(dict(image=image, label=label,
                           prediction=chances.index(confidence), confidence=confidence))
    json.dump(dict(digits=digits, kernels=kernel_statistics()), sys.stdout)


def predict_in_fresh_process(model):
    """What main_predict printed: dict(digits, kernels)."""
    command = [sys.executable, __file__, "--predict", model]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main_train(model, picture, epochs):
    console = Console()
    fl.manual_seed(0)
    data = load_data()
    network = make_network()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    console.print(f"training {parameters:,} parameters on {len(data[0]):,} digits, "
                  f"testing with {len(data[2])}")
    start = time.perf_counter()
    history = train(network, epochs, data, console)
    console.print(f"trained in {time.perf_counter() - start:.1f} s; saving to {model}")
    fl.save(network.state_dict(), model)
    kernels = [kernel_statistics()]

    console.print("read by the saved model, loaded in a fresh process:")
    answers = predict_in_fresh_process(model)
    kernels.append(answers["kernels"])
    show_digits(console, choose_digits(answers["digits"]))
    mistakes = [digit for digit in answers["digits"] if not is_right(digit)]
    draw(picture, history, mistakes)
    console.print(f"training curve and mistakes: {picture}")
    accuracy = 1 - len(mistakes) / TEST_SIZE
    if accuracy != history[-1]["test_accuracy"]:
        sys.exit(f"the loaded model differs: {accuracy:.2%} of its answers are right, "
                 f"and were {history[-1]['test_accuracy']:.2%} when it was saved")

    compiled, seconds, from_cache = (sum(process[key] for process in kernels)
                                     for key in ("compiled", "seconds", "from_cache"))
    print(f"kernels: {compiled} compiled in {seconds:.1f} s, {from_cache} from cache")
    print(f"test accuracy: {100 * accuracy:.1f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="digits.fl", help="file of the trained model (%(default)s)")
    parser.add_argument("--picture", default="demo.png", help="file of the picture (%(default)s)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="how long to train (%(default)s)")
    parser.add_argument("--predict", metavar="MODEL", help="only load MODEL and print its answers as JSON")
    options = parser.parse_args()
    if options.predict:
        main_predict(options.predict)
    else:
        main_train(options.model, options.picture, options.epochs)


if __name__ == "__main__":
    main()
