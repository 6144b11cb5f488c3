/* Draws by rejection: each number takes as many uniform ones as it needs.
 *
 * Poisson and binomial numbers by Hoermann's transformed rejection (Insurance: Mathematics and Economics 12, 1993; Journal
 * of Statistical Computation and Simulation 46, 1993), gamma numbers by Marsaglia and Tsang (ACM Transactions on
 * Mathematical Software 26, 2000). */
#ifndef FLAMBEAU_TWISTER_COUNTS_H
#define FLAMBEAU_TWISTER_COUNTS_H

#include "twister.h"

static double twister_poisson_large(Twister *t, double rate) {
    double root = sqrt(rate), log_rate = log(rate);
    double b = 0.931 + 2.53 * root;
    double a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    double edge = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = twister_double(t) - 0.5;
        double v = twister_double(t);
        double inside = 0.5 - fabs(u);
        double k = floor((2 * a / inside + b) * u + rate + 0.43);
        if (inside >= 0.07 && v <= edge)
            return k;
        if (k < 0 || (inside < 0.013 && v > inside))
            continue;
        if (log(v) + log(inverse_alpha) - log(a / (inside * inside) + b) <= -rate + k * log_rate - lgamma(k + 1))
            return k;
    }
}

static double twister_poisson(Twister *t, double rate) {
    double limit, product = 1.0, events = 0.0;
    if (!(rate >= 0))
        return NAN;
    if (rate >= 10)
        return twister_poisson_large(t, rate);
    if (rate == 0)
        return 0.0;
    limit = exp(-rate);
    for (;;) {
        product *= twister_double(t);
        if (product <= limit)
            return events;
        events += 1;
    }
}

static double twister_gamma(Twister *t, double concentration) {
    double scale = 1.0, d, c;
    if (!(concentration > 0) || concentration == INFINITY)
        return concentration == 0 ? 0.0 : concentration == INFINITY ? INFINITY : NAN;
    if (concentration < 1) {
        scale = pow(1 - twister_double(t), 1 / concentration);
        concentration += 1;
    }
    d = concentration - 1.0f / 3;
    c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y, v, u;
        do {
            x = twister_normal(t);
            y = 1 + c * x;
        } while (y <= 0);
        v = y * y * y;
        u = 1 - twister_double(t);
        if (u < 1 - 0.0331 * (x * x) * (x * x))
            return scale * d * v;
        if (log(u) < 0.5 * (x * x) + d * (1 - v + log(v)))
            return scale * d * v;
    }
}

/* log(k!) less Stirling's formula. */
static double stirling_rest(double k) {
    static const double first[] = {
        0.08106146679532726, 0.04134069595540929, 0.02767792568499834, 0.02079067210376509, 0.01664469118982119,
        0.01387612882307075, 0.01189670994589177, 0.01041126526197209, 0.009255462182712733, 0.008330563433362871};
    double square;
    if (k <= 9)
        return first[(int)k];
    square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

static double twister_binomial_large(Twister *t, double count, double p) {
    double deviation = sqrt(count * p * (1 - p));
    double b = 1.15 + 2.53 * deviation;
    double a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = count * p + 0.5;
    double edge = 0.92 - 4.2 / b;
    double odds = p / (1 - p);
    double alpha = (2.83 + 5.1 / b) * deviation;
    double mode = floor((count + 1) * p);
    for (;;) {
        double u = twister_double(t) - 0.5;
        double v = twister_double(t);
        double inside = 0.5 - fabs(u);
        double k = floor((2 * a / inside + b) * u + c), bound;
        if (inside >= 0.07 && v <= edge)
            return k;
        if (k < 0 || k > count)
            continue;
        v = log(v * alpha / (a / (inside * inside) + b));
        bound = (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1))) +
                (count + 1) * log((count - mode + 1) / (count - k + 1)) +
                (k + 0.5) * log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) + stirling_rest(count - mode) -
                stirling_rest(k) - stirling_rest(count - k);
        if (v <= bound)
            return k;
    }
}

/* Successes in `count` trials; where few are expected by the waiting times between them. */
static double twister_binomial(Twister *t, double count, double p) {
    double waited = 0.0, successes = 0.0, log_failure;
    if (!(count > 0) || p <= 0)
        return isnan(count) || isnan(p) ? NAN : 0.0;
    if (isnan(p))
        return NAN;
    if (p >= 1)
        return count;
    if (p > 0.5)
        return count - twister_binomial(t, count, 1 - p);
    if (count * p >= 10)
        return twister_binomial_large(t, count, p);
    log_failure = log1p(-p);
    for (;;) {
        waited += ceil(log(twister_double(t)) / log_failure);
        if (waited > count)
            return successes;
        successes += 1;
    }
}
#endif
