"""How many kernels the demo meets: one more than needed costs every user compile time."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEP_BUDGET = 35        # a training step: forward, loss, backward, optimizer, counting of right answers
WHOLE_BUDGET = 55       # and all around it: initial values, data, prediction

PROGRAM = """
import sys
sys.path.insert(0, "demo")
import flambeau as fl
import digits
from flambeau.compiler import objects

def count():
    made = objects.statistics()
    return made.compiled + made.from_cache

network = digits.make_network()
optimizer = fl.optim.AdamW(network.parameters(), lr=1e-3)
images, labels = fl.rand(96, 1, 8, 8), fl.randint(10, (96,))
before = count()
digits.train_one_step(network, optimizer, images, labels)
step = count() - before
digits.train_one_step(network, optimizer, images[:29], labels[:29])        # another batch size: nothing new
assert count() - before == step, "a smaller batch compiled kernels of its own"
digits.predict(network, images)
print(step, count())
"""


def test_the_demo_keeps_to_its_kernel_budget():
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    step, whole = map(int, done.stdout.split())
    assert 5 < step <= STEP_BUDGET and whole <= WHOLE_BUDGET, (step, whole)
