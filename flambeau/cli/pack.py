"""Builds the kernel pack: the kernels that most programs meet, compiled once at installation for this processor.

    python -m flambeau.cli.pack [FOLDER]        (or `flambeau pack [FOLDER]`)

The pack holds whatever `workload` makes the compiler build; a program that meets other kernels compiles them then.
"""

import sys

from flambeau.compiler.packfile import FOLDER, write_pack

UNARY = ("neg", "abs", "sign", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "tanh", "sigmoid", "relu", "gelu", "silu",
         "sin", "cos", "erf")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge")


def elementwise_calls():
    """Common elementwise ops in float32 with their gradients, in the usual layouts."""
    import flambeau as fl
    x = fl.rand(33, 17, requires_grad=True)
    y, row, column = fl.rand(33, 17), fl.rand(17), fl.rand(33, 1)
    for name in UNARY:
        getattr(fl, name)(x).sum().backward()
    for name in BINARY:
        function = getattr(fl, name)
        for other in (y, row, column, 2.5, x[0, 0].detach()):
            out = function(x, other)
            if out.requires_grad:
                out.sum().backward()
    for op in (lambda z: z.add_(y), lambda z: z.mul_(2.0), lambda z: z.sub_(row), lambda z: z.add_(y, alpha=0.5)):
        op(y.clone())
    for dtype in (fl.float64, fl.int64, fl.int32, fl.bool, fl.uint8):
        (y * 8).to(dtype).to(fl.float32)
    for dtype in (fl.float64, fl.int64):
        a = fl.ones(33, dtype=dtype)
        (a + a, a * a, a - 1, a == a, a.sum())


def reductions():
    """Sums, means and extremes over all, the last and the first axis."""
    import flambeau as fl
    x = fl.rand(33, 17, requires_grad=True)
    for name in ("sum", "mean", "amax", "amin"):
        for args in ((), (1,), (0,), (-1, True)):
            getattr(fl, name)(x, *args).sum().backward()
    (x.argmax(1), x.argmin(1), (x > 0.5).any(), (x > 0.5).all(), (x > 0.5).sum())


def training():
    """A small network of each kind of layer, trained for two steps with each optimizer."""
    import flambeau as fl
    from flambeau import nn, optim
    image = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3),
                          nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.Linear(32, 16), nn.GELU(), nn.LayerNorm(16),
                          nn.Linear(16, 10))
    x, y = fl.rand(6, 1, 8, 8), fl.randint(10, (6,))
    for make in (lambda p: optim.SGD(p, 0.1, momentum=0.9), lambda p: optim.AdamW(p, 1e-3), lambda p: optim.Adam(p, 1e-3)):
        optimizer = make(image.parameters())
        for _ in range(2):
            loss = nn.functional.cross_entropy(image(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    image.eval()
    with fl.no_grad():
        (image(x).softmax(1), image(x).log_softmax(1), image(x).argmax(1) == y)
    (fl.randn(9), fl.rand(9), fl.randperm(9), fl.arange(9), fl.cat([x, x]), x[y.clamp(0, 5)])


def attention():
    """What transformers call: causal or not, trained, and generating token by token."""
    import flambeau as fl
    attend = fl.nn.functional.scaled_dot_product_attention
    packed = fl.rand(2, 5, 24, requires_grad=True)
    views = [x.view(2, 5, 2, 4).transpose(1, 2) for x in packed.split(8, 2)]
    plain = [x.detach().contiguous().requires_grad_(True) for x in views]
    for operands in (views, plain):
        for causal in (True, False):
            attend(*operands, is_causal=causal).sum().backward()
            with fl.no_grad():
                attend(operands[0][:, :, :1], *operands[1:])


WORKLOAD = (elementwise_calls, reductions, training, attention)


def build(folder=FOLDER):
    """Run the workload and write the pack; returns (path, number of kernels)."""
    from flambeau.compiler import known_plans, objects, pipeline
    with pipeline.all_kernels():
        for part in WORKLOAD:
            part()
    made = objects.loaded()
    return write_pack(folder, made | known_plans.made()), len(made)


def main(arguments=None):
    """The command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    path, count = build(*arguments[:1])
    from flambeau.compiler import objects
    print(f"{count} kernels ({objects.statistics().compiled} compiled in {objects.statistics().seconds:.1f} s) in {path}")
    return 0


def run(options):
    """`flambeau pack [FOLDER]`."""
    return main([options.folder] if options.folder else [])


if __name__ == "__main__":
    sys.exit(main())
