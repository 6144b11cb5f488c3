"""A line search for the strong Wolfe conditions (Nocedal and Wright, "Numerical optimization", algorithms 3.5 and 3.6)."""


def strong_wolfe(at, size, direction, loss, gradient, slope, decrease=1e-4, curvature=0.9, tolerance=1e-9,
                 most=25):
    """The step along `direction` that lowers the loss enough and flattens its slope.

    Args:
        at: function of a step that returns (loss, gradient) there.
        size: the first trial.
        direction: a flat tensor.
        loss, gradient, slope: at step 0.

    Returns:
        (loss, gradient, step, calls of `at`).
    """
    def trial(step):
        value, found = at(step)
        return step, value, found, float((found * direction).sum())

    def too_high(point):
        return point[1] > loss + decrease * point[0] * slope

    def flat(point):
        return abs(point[3]) <= -curvature * slope

    before = (0.0, loss, gradient, slope)
    now, calls, bracket = trial(size), 1, None
    for count in range(most):
        if too_high(now) or (count > 0 and now[1] >= before[1]):
            bracket = [before, now]
        elif flat(now):
            return now[1], now[2], now[0], calls
        elif now[3] >= 0:
            bracket = [before, now]
        if bracket is not None or calls >= most:
            break
        low, high = now[0] + 0.01 * (now[0] - before[0]), now[0] * 10
        following = cubic_minimum(before, now, low, high)
        before, now = now, trial(following)
        calls += 1
    best, used = _zoom(trial, bracket or [(0.0, loss, gradient, slope), now], too_high, flat, direction,
                       tolerance,
                       most - calls)
    return best[1], best[2], best[0], calls + used


def _zoom(trial, bracket, too_high, flat, direction, tolerance, most):
    """Narrow a bracket until a point in it is good: (point, calls)."""
    low, high = sorted(bracket, key=lambda point: point[1])
    longest, stuck, calls = float(direction.abs().max()), False, 0
    while calls < most and abs(high[0] - low[0]) * longest >= tolerance:
        first, last = sorted((low[0], high[0]))
        step = cubic_minimum(low, high, first, last)
        margin = 0.1 * (last - first)
        if min(last - step, step - first) < margin:
            if stuck or step >= last or step <= first:
                step = last - margin if abs(step - last) < abs(step - first) else first + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        now = trial(step)
        calls += 1
        if too_high(now) or now[1] >= low[1]:
            high = now
            low, high = (high, low) if high[1] < low[1] else (low, high)
            continue
        if flat(now):
            return now, calls
        if now[3] * (high[0] - low[0]) >= 0:
            high = low
        low = now
    return low, calls


def cubic_minimum(a, b, low, high):
    """Where the cubic through two points (step, value, _, slope) is smallest in [low, high]; else the middle."""
    (x1, f1, _, g1), (x2, f2, _, g2) = (a, b) if a[0] <= b[0] else (b, a)
    if x1 == x2:
        return (low + high) / 2
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = square ** 0.5
    if g2 - g1 + 2 * d2 == 0:
        return (low + high) / 2
    return min(max(x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)), low), high)
