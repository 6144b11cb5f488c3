"""Backward passes from several threads: over one graph, into shared leaves, and inside one another."""

import threading

import flambeau as fl


def in_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:      # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads), errors


def test_one_graph_walked_by_many_threads():
    x = fl.linspace(-1, 1, 60_000).reshape(300, 200).requires_grad_()
    y = x
    for _ in range(30):
        y = (y * 1.01).sin() + x
    loss = y.sum()
    wanted, = fl.autograd.grad(loss, x, retain_graph=True)
    found = [None] * 6

    def work(number):
        for _ in range(5):
            found[number], = fl.autograd.grad(loss, x, retain_graph=True)
            assert (found[number] == wanted).all()

    in_threads(6, work)
    assert all(f is not None for f in found)


def test_gradients_of_shared_leaves_add_up():
    w = fl.ones(64, 64, requires_grad=True)

    def work(number):
        for _ in range(20):
            (w * float(number + 1)).sum().backward()

    in_threads(4, work)
    assert (w.grad == 20 * (1 + 2 + 3 + 4)).all()


def test_a_walk_inside_a_walk():
    x = fl.ones(3, requires_grad=True)
    y = x * 2
    inner = []

    def hook(gradient):
        z = fl.ones(2, requires_grad=True)
        with fl.enable_grad():              # a backward pass records nothing by itself
            (z * 3).sum().backward()
        inner.append(z.grad.tolist())

    y.register_hook(hook)

    in_threads(1, lambda number: y.sum().backward())
    assert inner == [[3.0, 3.0]] and x.grad.tolist() == [2.0] * 3


def test_modes_belong_to_the_thread():
    seen = []

    def work(number):
        seen.append(fl.is_grad_enabled())

    with fl.no_grad():
        in_threads(1, work)
    assert seen == [True]
