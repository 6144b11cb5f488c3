"""Fits the polynomials of flambeau.compiler.scalar_math and prints them as its module math_coefficients.

Each row of `fits()` asks for the polynomial p of least largest weighted error |weight * (function - p)| on an
interval. The exchange algorithm of Remez runs in 80-digit arithmetic; the coefficients are then rounded one
after another, lowest power first, and the rest is fitted again, so that rounding costs next to nothing.

    python benchmarks/fit_math.py > flambeau/compiler/math_coefficients.py
"""

import struct
from dataclasses import dataclass

import mpmath
from mpmath import mpf

mpmath.mp.dps = 80


@dataclass(frozen=True)
class Fit:
    """p(x) of `terms` coefficients near function(x) on [low, high]; the error counts `weight(x)`-fold."""

    name: str
    terms: int
    low: float
    high: float
    function: object
    weight: object
    meaning: str

    @property
    def bits(self):
        return 32 if self.name.endswith("_32") else 64


def rounded(value, bits):
    """The nearest float of `bits` bits as an mpf."""
    return mpf(struct.unpack("f", struct.pack("f", float(value)))[0] if bits == 32 else float(value))


def remez(samples, powers):
    """Least-maximum fit of rows (x, f, w) by powers of x: (coefficients, largest error)."""
    count = len(powers)
    chosen = [round(i * (len(samples) - 1) / count) for i in range(count + 1)]
    coefficients, level = [], mpf(0)
    for _ in range(12):
        system, right = mpmath.matrix(count + 1), mpmath.matrix(count + 1, 1)
        for row, place in enumerate(chosen):
            x, f, w = samples[place]
            for column, power in enumerate(powers):
                system[row, column] = w * x ** power
            system[row, count] = (-1) ** row
            right[row] = w * f
        solution = mpmath.lu_solve(system, right)
        coefficients, level = list(solution[:count]), abs(solution[count])
        errors = [w * (f - sum(c * x ** p for c, p in zip(coefficients, powers))) for x, f, w in samples]
        worst = max(abs(e) for e in errors)
        if worst < level * mpf("1.01"):
            break
        chosen = extremes(errors, count + 1)
    return coefficients, worst


def extremes(errors, wanted):
    """Places of `wanted` largest errors of alternating sign, in order."""
    runs = []
    for place, error in enumerate(errors):
        if error == 0:
            continue
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = place
        else:
            runs.append(place)
    while len(runs) > wanted:
        end = 0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1
        runs.pop(end)
    while len(runs) < wanted:       # too few alternations: fill up with the widest gap's middle
        gaps = [(runs[i + 1] - runs[i], i) for i in range(len(runs) - 1)] or [(0, 0)]
        width, i = max(gaps)
        runs.insert(i + 1, runs[i] + width // 2)
    return runs


def solve(fit):
    """(rounded coefficients, largest weighted error as log2)."""
    points = max(24 * fit.terms, 160)
    nodes = [(1 - mpmath.cos(mpmath.pi * (i + mpf(1) / 2) / points)) / 2 for i in range(points)]
    low, high = mpf(fit.low), mpf(fit.high)
    xs = [low + (high - low) * t for t in nodes]
    samples = [(x, fit.function(x), abs(fit.weight(x))) for x in xs]
    best, _ = remez(samples, list(range(fit.terms)))
    candidates = [[rounded(c, fit.bits) for c in best]]
    if fit.low >= 0:                # powers without the constant are no Chebyshev system across 0
        candidates.append(round_in_turn(samples, best, fit))
    errors = [max(abs(w * (f - sum(c * x ** i for i, c in enumerate(done)))) for x, f, w in samples)
              for done in candidates]
    error = min(errors)
    return candidates[errors.index(error)], mpmath.log(error, 2)


def round_in_turn(samples, best, fit):
    """Round the lowest coefficient and fit the others again, until all are rounded."""
    done = []
    for place in range(fit.terms):
        done.append(rounded(best[0], fit.bits))
        samples = [(x, f - done[-1] * x ** place, w) for x, f, w in samples]
        refit = place < fit.terms - 1 and (place < 3 or fit.bits == 32)
        best = remez(samples, list(range(place + 1, fit.terms)))[0] if refit else best[1:]
    return done


# ----------------------------------------------------------------------------- what is fitted
def expm1_tail(r):
    return (mpmath.expm1(r) - r) / r ** 2


def tanh_tail(z):
    x = mpmath.sqrt(z)
    return (mpmath.tanh(x) / x - 1) / z


def log1p_tail(f):
    return (mpmath.log1p(f) - f + f * f / 2) / f ** 3


def atanh_tail(z):
    """(atanh(s)/s - 1)/z with z = s*s."""
    s = mpmath.sqrt(z)
    return (mpmath.atanh(s) / s - 1) / z


def atanh_tail2(z):
    return (atanh_tail(z) - mpf(1) / 3) / z


def sin_tail(z):
    r = mpmath.sqrt(z)
    return (mpmath.sin(r) / r - 1) / z


def cos_tail(z):
    return (mpmath.cos(mpmath.sqrt(z)) - 1 + z / 2) / z ** 2


def erf_tail(z):
    x = mpmath.sqrt(z)
    return mpmath.erf(x) / x - 1


def erf_tail_weight(z):
    x = mpmath.sqrt(z)
    return x / mpmath.erf(x)


def erfc_root(x):
    return mpmath.erfc(x) ** (mpmath.mpf(1) / 8)


def erfc_root_weight(x):
    return 8 * mpmath.erfc(x) ** (mpmath.mpf(7) / 8) / mpmath.erf(x)


def atan_tail(z):
    x = mpmath.sqrt(z)
    return (mpmath.atan(x) / x - 1) / z


def asin_tail(z):
    x = mpmath.sqrt(z)
    return (mpmath.asin(x) / x - 1) / z


def scaled_erfc(t):
    """(1 + 2x) exp(x^2) erfc(x) where t = (x - 4)/(x + 4)."""
    x = 4 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mpmath.exp(x * x) * mpmath.erfc(x)


def fits():
    quarter, wide = float(mpmath.pi / 4) * 1.0001, float(mpmath.pi / 4) * 1.003
    log_z = float((3 - 2 * mpmath.sqrt(2)) ** 2) * 1.0001
    return [
        Fit("EXP_32", 6, -0.3475, 0.3475, expm1_tail, lambda r: r, "expm1(r) = r + r^2 p(r)"),
        Fit("EXP_64", 10, -0.34658, 0.34658, expm1_tail, lambda r: r, "expm1(r) = r + r^2 p(r)"),
        Fit("TANH_32", 5, 1e-9, 0.39063, tanh_tail, lambda z: z,
            "tanh(x) = x + x z p(z), z = x^2, |x| to 5/8"),
        Fit("TANH_64", 11, 1e-9, 0.39063, tanh_tail, lambda z: z, "the same"),
        Fit("LOG_32", 9, -0.2929, 0.41422, log1p_tail, lambda f: f * f, "log(1 + f) = f - f^2/2 + f^3 p(f)"),
        Fit("LOG_64", 7, 1e-9, log_z, atanh_tail, lambda z: z, "atanh(s) = s + s z p(z), z = s^2"),
        Fit("LOG_LOW_64", 5, 1e-9, log_z, atanh_tail, lambda z: z, "the same to 2^-43, for pow of float32"),
        Fit("POW_64", 7, 1e-9, log_z, atanh_tail2, lambda z: z * z,
            "atanh(s) = s + s z (1/3 + z p(z)), z = s^2"),
        Fit("CBRT_64", 8, -0.2929, 0.41422, lambda f: mpmath.cbrt(1 + f), lambda f: 1,
            "cbrt(1 + f), a first guess"),
        Fit("SIN_32", 3, 1e-9, wide ** 2, sin_tail, lambda z: z,
            "sin(r) = r + r z p(z), z = r^2, |r| to pi/4"),
        Fit("COS_32", 3, 1e-9, wide ** 2, cos_tail, lambda z: z * z,
            "cos(r) = 1 - z/2 + z^2 p(z), |r| to pi/4"),
        Fit("SIN_64", 6, 1e-9, quarter ** 2, sin_tail, lambda z: z, "as SIN_32"),
        Fit("COS_64", 6, 1e-9, quarter ** 2, cos_tail, lambda z: z * z, "as COS_32"),
        Fit("ERF_32", 7, 1e-9, 1.125 ** 2, erf_tail, erf_tail_weight, "erf(x) = x + x p(x^2), |x| to 9/8"),
        Fit("ERF_64", 17, 1e-9, 1.25 ** 2, erf_tail, erf_tail_weight, "the same, to 5/4"),
        Fit("ERF_FAR_32", 7, 1.125, 3.93, erfc_root, erfc_root_weight, "erf(x) = 1 - p(x)^8 from there on"),
        Fit("ERF_FAR_64", 17, 1.25, 5.94, erfc_root, erfc_root_weight, "the same"),
        Fit("ERFC_64", 23, -0.7778, 0.751, scaled_erfc, lambda t: 1,
            "(1 + 2x) exp(x^2) erfc(x) = p(t), t = (x - 4)/(x + 4)"),
        Fit("ATAN_64", 20, 1e-9, 1.0, atan_tail, lambda z: z, "atan(x) = x + x z p(z), z = x^2, |x| to 1"),
        Fit("ASIN_64", 12, 1e-9, 0.25, asin_tail, lambda z: z, "asin(x) = x + x z p(z), z = x^2, |x| to 1/2"),
    ]


def main():
    print('"""Polynomials of the mathematical functions, lowest power first, by benchmarks/fit_math.py."""')
    for fit in fits():
        coefficients, error = solve(fit)
        print(f"\n# {fit.meaning}; on [{fit.low:.4g}, {fit.high:.4g}], weighted error 2^{float(error):.1f}")
        print(f"{fit.name} = (")
        for value in coefficients:
            print(f"    {float(value)!r},")
        print(")", flush=True)


if __name__ == "__main__":
    main()
