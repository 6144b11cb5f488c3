"""GradScaler: scaled losses, unscaled gradients, steps left out, growth; numbers worked out by hand."""

import pickle

import pytest

import flambeau as fl

INF, NAN = float("inf"), float("nan")


def setting(**options):
    weight = fl.nn.Parameter(fl.zeros(2))
    return weight, fl.optim.SGD([weight], lr=1.0), fl.amp.GradScaler("cpu", **options)


def iterate(weight, optimizer, scaler, slope):
    optimizer.zero_grad()
    scaler.scale((weight * fl.tensor(slope)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_a_step_is_the_step_without_scaling():
    weight, optimizer, scaler = setting()
    scaled = scaler.scale((weight * fl.tensor([1.0, 2.0])).sum())
    scaled.backward()
    assert weight.grad.tolist() == [65536.0, 131072.0]
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [1.0, 2.0]
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-1.0,
                               -2.0] and scaler.get_scale() == 65536.0 and scaler._get_growth_tracker() == 1


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_a_step_that_is_not_finite_is_left_out(bad):
    weight, optimizer, scaler = setting(init_scale=8.0)
    iterate(weight, optimizer, scaler, [1.0, bad])
    assert weight.tolist() == [0.0, 0.0] and scaler.get_scale() == 4.0 and scaler._get_growth_tracker() == 0
    iterate(weight, optimizer, scaler, [1.0, 0.0])
    assert weight.tolist() == [-1.0, 0.0]


def test_growth_after_so_many_good_steps():
    weight, optimizer, scaler = setting(init_scale=2.0, growth_factor=3.0, backoff_factor=0.25,
                                        growth_interval=2)
    scales = []
    for slope in ([1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [INF, 0.0], [1.0, 0.0], [1.0, 0.0]):
        iterate(weight, optimizer, scaler, slope)
        scales.append(scaler.get_scale())
    assert scales == [2.0, 6.0, 6.0, 1.5, 1.5, 4.5] and weight.tolist() == [-5.0, 0.0]


def test_the_scale_stays_finite():
    weight, optimizer, scaler = setting(init_scale=2.0 ** 127, growth_interval=1)
    iterate(weight, optimizer, scaler, [1e-9, 0.0])
    assert scaler.get_scale() == 2.0 ** 127


def test_several_optimizers_share_the_scale():
    weight, optimizer, scaler = setting(init_scale=4.0)
    other = fl.nn.Parameter(fl.zeros(1))
    second = fl.optim.SGD([other], lr=1.0)
    scaler.scale((weight * fl.tensor([INF, 1.0])).sum() + other.sum()).backward()
    scaler.step(optimizer)
    scaler.step(second)
    scaler.update()
    assert weight.tolist() == [0.0, 0.0] and other.tolist() == [-1.0] and scaler.get_scale() == 2.0


def test_nested_outputs_and_a_scale_of_ones_own():
    weight, optimizer, scaler = setting(init_scale=2.0)
    one, (two,) = scaler.scale([fl.ones(1), (fl.ones(2),)])
    assert one.tolist() == [2.0] and two.tolist() == [2.0, 2.0]
    scaler.update(new_scale=16.0)
    assert scaler.get_scale() == 16.0
    scaler.update(new_scale=fl.full((1,), 8.0))
    assert scaler.get_scale() == 8.0


def test_saved_and_loaded():
    weight, optimizer, scaler = setting(init_scale=2.0, growth_interval=5)
    iterate(weight, optimizer, scaler, [1.0, 1.0])
    state = scaler.state_dict()
    assert state == {"scale": 2.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5,
                     "_growth_tracker": 1}
    fresh = fl.amp.GradScaler("cpu")
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state and pickle.loads(pickle.dumps(scaler)).state_dict() == state
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        fresh.load_state_dict({})


def test_switched_off():
    weight, optimizer, scaler = setting(enabled=False)
    loss = (weight * fl.tensor([1.0, INF])).sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-1.0, -INF] and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 3.0})
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not fl.amp.GradScaler("cuda").is_enabled()


def test_misuse():
    weight, optimizer, scaler = setting()
    with pytest.raises(AssertionError, match="there is no scale yet"):
        scaler.step(optimizer)
    scaler.scale(weight.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(optimizer, closure=lambda: 0)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    half = fl.nn.Parameter(fl.ones(1, dtype=fl.float16))
    half.grad = fl.ones(1, dtype=fl.float16)
    with pytest.raises(ValueError, match="FP16 gradients"):
        scaler.unscale_(fl.optim.SGD([half], lr=1.0))
