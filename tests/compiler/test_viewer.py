"""`flambeau show`: every kernel once, in order, at the stage that was asked for."""

import os
import re
import subprocess
import sys

import pytest

import flambeau as fl
from flambeau.compiler import target, viewer
from flambeau.ir import graph_text, loops_text

SCRIPT = """
import flambeau as fl
x = fl.ones(4, 4, requires_grad=True)
fl.sin(x).sum().backward()
for _ in range(2):
    fl.softmax(x.detach(), 1)
print("the script speaks")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def titles(text, comment="#", what="graph|kernel"):
    return re.findall(rf"^{comment} (?:{what}) \d+: (\w+)$", text, re.MULTILINE)


def test_graphs_come_in_the_order_in_which_they_are_made(script):
    text = viewer.show(script, "graph")
    assert [t for t in titles(text) if t not in ("full_like", "cast")] == [
        "sin", "sum", "sum_backward", "sin_backward", "softmax"]
    assert "t1: f32[n] = cos(x0)\n  t2: f32[n] = scale(grad0, t1)" in text


def test_a_row_group_says_why_its_reductions_share_a_kernel(script):
    text = viewer.show(script, "graph")
    assert re.search(r"# rows of \[s0_0, s0_1\] along axes \(1,\): t2 \(amax\), t5 \(sum\), t6 \(div\)\n"
                     r"#     why: reductions over the same axes read the same rows once", text)


def test_every_printed_graph_and_kernel_parses_back(script):
    graphs = re.split(r"\n\n(?=# )", viewer.show(script, "graph"))
    kernels = re.split(r"\n\n(?=# )", viewer.show(script, "loops"))
    parsed = [graph_text.parse(g) for g in graphs if g.startswith("# graph") or g.startswith("# after")]
    assert "softmax" in [g.name for g in parsed]
    names = [loops_text.parse(k).name for k in kernels]
    assert {"k_sin", "k_cos_scale", "rows_sum_blocks", "rows_sum_fold", "rows_amax_sum_div"} <= set(names)


def test_the_stages_that_changed_a_kernel_follow_it_with_their_reason(script):
    text = viewer.show(script, "loops")
    sin = text[text.index(": k_sin\n"):text.index("rows_sum_blocks")]
    assert [line for line in sin.splitlines() if line.startswith("# after")] == [
        "# after vectorize: loops over elements run 64 bytes at a time",
        "# after expand_math: exp, tanh, ... become arithmetic, the same bits on every machine"]
    rows = text[text.index(": rows_sum_blocks\n"):text.index(": rows_sum_fold\n")]
    assert "# after" not in rows                    # made with lanes, without functions: nothing to change


def test_llvm_and_assembly_show_the_same_kernels(script):
    text = viewer.show(script, "llvm")
    kernels = titles(text, ";")
    assert len(kernels) == len(set(kernels)) and "k_sin" in kernels
    assert 'define void @"k_sin"(ptr %args, i64 %begin, i64 %end)' in text
    assembly = viewer.show(script, "asm")
    assert titles(assembly) == kernels
    if target.current().is_x86:
        assert re.search(r"^k_sin:$", assembly, re.MULTILINE) and "\tretq\n" in assembly


def test_kernels_that_a_process_has_already_are_shown_all_the_same(script):
    fl.sin(fl.ones(4, 4))
    assert "sin" in titles(viewer.show(script, "graph"))
    assert viewer.show(script, "graph") == viewer.show(script, "graph")


def test_a_failing_script_shows_what_it_had_made(script, capsys):
    with open(script, "a", encoding="utf-8") as file:
        file.write("raise KeyError('at the end')\n")
    before = list(sys.argv), list(sys.path)
    with pytest.raises(KeyError, match="at the end"):
        viewer.show(script, "graph")
    assert "sin_backward" in titles(capsys.readouterr().out)
    assert (sys.argv, sys.path) == before


def test_an_exit_ends_the_script_only(script):
    with open(script, "a", encoding="utf-8") as file:
        file.write("raise SystemExit(3)\n")
    assert "softmax" in titles(viewer.show(script, "graph"))


def test_the_command_serves_torch_and_keeps_the_scripts_own_lines_apart(tmp_path):
    path = tmp_path / "torch_script.py"
    path.write_text("import torch\nprint('speaks', __name__)\ntorch.tanh(torch.ones(3))\n")
    done = subprocess.run([sys.executable, "-m", "flambeau.cli", "show", str(path)], capture_output=True, text=True,
                          env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "speaks __main__\n"
    assert "tanh" in titles(done.stdout) and "speaks" not in done.stdout
