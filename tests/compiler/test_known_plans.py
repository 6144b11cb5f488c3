"""Plans found again: the same results from them, and nothing but a new plan where one is missing, damaged or unfit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as fl
from flambeau.base import cache
from flambeau.base.flags import override
from flambeau.compiler import known_plans, objects, pipeline, plan as planning
from flambeau.compiler.recipe import Recipe
from flambeau.ops import plans
from flambeau.ops.plans import Signature
from flambeau.ops.matmul import mm
from flambeau.ops.reduce import sum as total
from flambeau.runtime import _core

ROOT = Path(__file__).parents[2]

PROGRAM = """
import hashlib, sys
import flambeau as fl
from flambeau.compiler import plan, pointwise

made = []

def counted(module, name):
    function = getattr(module, name)
    def count(*arguments):
        made.append(name)
        return function(*arguments)
    setattr(module, name, count)

counted(plan, "plan_graph")
counted(plan, "lower_pointwise")
counted(pointwise, "lower_pointwise")
fl.manual_seed(3)
layer = fl.nn.Sequential(fl.nn.Conv2d(2, 4, 3), fl.nn.BatchNorm2d(4), fl.nn.GELU(), fl.nn.Flatten(), fl.nn.Linear(64, 5))
optimizer = fl.optim.Adam(layer.parameters())
x, y = fl.randn(3, 2, 6, 6), fl.tensor([1, 0, 4])
digest = hashlib.sha256()
for _ in range(2):
    loss = fl.nn.functional.cross_entropy(layer(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    digest.update(loss.detach().numpy().tobytes())
for t in (x.softmax(1).sum((0, 2)), x.cumsum(1), x.sort(dim=-1)[0], fl.cat((x, x[:1]), 0), x.mul(2).sub_(x).exp(),
          x.to(fl.float16), (x > 0).any(1), fl.nn.functional.dropout(x), x.permute(3, 1, 0, 2) @ x[0, 0, 0]):
    digest.update(t.contiguous().numpy().tobytes())
digest.update(b"".join(p.detach().numpy().tobytes() for p in layer.parameters()))
print(digest.hexdigest(), len(made))
"""


def run(folder, **environment):
    """(digest of the results, number of plans and kernels made) of a new process with its cache in `folder`."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300,
                          env=os.environ | {"FLAMBEAU_CACHE": str(folder), "PYTHONPATH": str(ROOT), "FLAMBEAU_NO_PACK": "1"} | environment)
    assert done.returncode == 0, done.stderr
    digest, made = done.stdout.split()
    return digest, int(made)


def test_a_second_process_plans_next_to_nothing_and_computes_the_same(tmp_path):
    cold, planned = run(tmp_path)
    warm, again = run(tmp_path)
    assert planned > 30 and again <= planned / 10
    assert warm == cold
    assert run(tmp_path, OMP_NUM_THREADS="1")[0] == cold


def test_damaged_and_foreign_entries_only_cost_time(tmp_path):
    cold, planned = run(tmp_path)
    for number, path in enumerate(sorted(tmp_path.glob("*.entry"))):
        data = path.read_bytes()
        path.write_bytes(data[:len(data) // 2] if number % 2 else data[:-1] + b"?")
    assert run(tmp_path) == (cold, planned)


@pytest.fixture
def own_cache(monkeypatch):
    """A cache in memory, which no other test has filled."""
    own = cache.Cache(None)
    for module in (known_plans, objects):
        monkeypatch.setattr(module, "default_cache", lambda: own)
    objects.forget()
    with override(no_pack=True):
        yield own


@pytest.mark.parametrize("data", [b"", b"no JSON", b"{}", b"[]", b'{"steps": [[0, "none kernel", [], [], 1, 1]]}',
                                  b'{"steps": [[1, "no graph", [], [], 1, 1]]}', b"\xff\xfe"])
def test_an_entry_that_is_no_plan_counts_as_missing(own_cache, data):
    own_cache.put("key", data)
    assert known_plans.find("key", None, planning.pointwise_family, None) == (None, False)


def asked_by(monkeypatch, operation, *arguments):
    """(signature, graph) that the compiler is given at the first call of an op that is planned as a whole."""
    asked, real = [], plans.compiler().plan
    monkeypatch.setattr(plans.compiler(), "plan", lambda *given: (asked.append(given), real(*given))[1])
    operation.__self__.plans.clear()
    operation(*arguments)
    return asked[0]


def test_a_plan_found_again_has_the_numbers_of_the_made_one(own_cache, monkeypatch):
    signature, graph = asked_by(monkeypatch, total, fl.ones(3, 4), 1)
    x = fl.arange(35.0).reshape(5, 7)
    wanted = x.sum(1).tolist()
    with monkeypatch.context() as m:
        m.setattr(planning, "plan_graph", lambda *given: pytest.fail("planned again"))
        found = planning.compile_plan(signature, graph)
        again = planning.compile_plan(signature, graph)
    assert found is not again and found.spec["code"] == again.spec["code"]
    assert _core.execute(found, (x,))[0].tolist() == wanted


def test_a_plan_is_bound_to_layouts_and_dtypes(own_cache, monkeypatch):
    keys = set()
    x = fl.ones(3, 4)
    for operand, dim in ((x, 0), (x, 1), (x.double(), 0), (fl.ones(4, 3).T, 0), (x[:1], 0), (fl.ones(3), 0)):
        signature, graph = asked_by(monkeypatch, total, operand, dim)
        keys.add(known_plans.key_of(signature, pipeline.prepare_graph(graph)))
    assert len(keys) == 6 and None not in keys


def test_plans_that_call_python_have_no_printed_form():
    recipe = Recipe(Signature("own", (), {}), ())
    recipe.host(print, [], [])
    assert known_plans.described(recipe) is None


def test_a_kernel_that_is_gone_is_built_again(own_cache, monkeypatch):
    signature, graph = asked_by(monkeypatch, total, fl.ones(3, 4), 1)
    key = known_plans.key_of(signature, pipeline.prepare_graph(graph))
    kept = own_cache.get(key)
    own_cache.put(key, kept.replace(json.loads(kept)["steps"][0][1].encode(), b"other kernel"))
    with monkeypatch.context() as m:
        m.setattr(pipeline, "build_kernels", lambda kernels: pytest.fail("built before it is needed"))
        found = planning.compile_plan(signature, graph)
    assert _core.execute(found, (fl.ones(3, 4),))[0].tolist() == [4, 4, 4]


def test_a_kernel_is_built_when_a_call_first_needs_it(own_cache, monkeypatch):
    """A product adds up parts of a long sum by a kernel of its own, which short ones do not build."""
    made, real = [], pipeline.build_kernel
    signature, graph = asked_by(monkeypatch, mm, fl.ones(2, 2), fl.ones(2, 2))
    monkeypatch.setattr(pipeline, "build_kernel", lambda kernel: (made.append(kernel.name), real(kernel))[1])
    plan, _ = planning.plan_graph(signature, pipeline.prepare_graph(graph))
    assert made == []
    for length, wanted in ((5, ["matmul"]), (6, []), (5000, ["matmul_parts"])):
        operands = fl.ones(3, length), fl.ones(length, 4)
        made.clear()
        product, = _core.execute(plan, operands)
        assert made == wanted
        assert product.tolist() == [[length] * 4] * 3
    assert plan.pending is None
    with pipeline.all_kernels():
        assert planning.compile_plan(signature, graph).pending is None


def test_a_kernel_that_cannot_be_built_is_asked_for_again(own_cache, monkeypatch):
    signature, graph = asked_by(monkeypatch, total, fl.ones(3, 4), 1)
    plan, _ = planning.plan_graph(signature, pipeline.prepare_graph(graph))
    with monkeypatch.context() as m:
        m.setattr(pipeline, "build_kernels", lambda kernels: (_ for _ in ()).throw(MemoryError("no room")))
        for _ in range(2):
            with pytest.raises(MemoryError):
                _core.execute(plan, (fl.ones(3, 4),))
    assert _core.execute(plan, (fl.ones(3, 4),))[0].tolist() == [4, 4, 4]


def test_watchers_see_every_form_of_what_is_known(own_cache, monkeypatch):
    given = asked_by(monkeypatch, total, fl.ones(3, 4), 1)
    seen = []
    with pipeline.watch(lambda name, form: seen.append(name)):
        planning.compile_plan(*given)
    assert {"fusion", "loops", "vectorize", "expand_math"} <= set(seen), seen
