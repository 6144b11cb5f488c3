"""Files: what PyTorch writes we load equal, and what we write PyTorch loads equal, in both formats."""

import collections
import io

import numpy
import pytest
import torch

import flambeau as fl
from flambeau.tensor import serialization
from flambeau.types import dtype as dtypes

OURS = pytest.importorskip("flambeau.torch")
DTYPES = [dtype.name for dtype in dtypes.ALL]
FORMS = [True, False]


def sample(t, dtype):
    return t.tensor([[0, 1, 2], [1, 0, 3]]).to(getattr(t, dtype))


def shared(t):
    x = t.arange(24.0).reshape(4, 6)
    return {
        "all": x,
        "rows": x[1:3],
        "columns": x.t()[::2],
        "one": x[2, 3],
        "none": x[0:0],
        "wide": x[0].expand(3, 6),
        "again": x,
    }


def tied(t):
    layer = t.nn.Linear(3, 3)
    return {"a": layer.weight, "b": layer.weight, "data": layer.weight.data}


def trained(t, make):
    t.manual_seed(0)
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4), t.nn.Linear(4, 2))
    optimizer = make(t, model.parameters())
    for step in range(2):
        optimizer.zero_grad()
        model(t.arange(12.0).reshape(4, 3) / 7 + step).square().sum().backward()
        optimizer.step()
    scheduler = t.optim.lr_scheduler.StepLR(optimizer, 3)
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": 3,
        "loss": 0.5,
    }


def attributes(t):
    parameter = t.nn.Parameter(t.ones(2))
    parameter.tag = "first"
    return parameter


VALUES = {
    **{f"dtype {name}": (lambda t, name=name: sample(t, name)) for name in DTYPES},
    "shared": shared,
    "tied": tied,
    "attributes": attributes,
    "scalars": lambda t: [
        None,
        True,
        1,
        2**70,
        -1.5,
        "h\u00e9",
        b"\0\xff",
        bytearray(b"ab"),
        1 - 2j,
        {1, 2},
        frozenset([3]),
        range(3),
        slice(1, 2),
        (),
        (1,),
        (1, 2, 3, 4),
    ],
    "containers": lambda t: {
        "o": collections.OrderedDict(b=1, a=2),
        "c": collections.Counter("aab"),
        "d": collections.defaultdict(list, {1: [2]}),
    },
    "named": lambda t: [
        t.float16,
        t.int64,
        t.device("cpu"),
        t.device("cuda:1"),
        t.Size([2, 3]),
        t.strided,
        t.sparse_coo,
    ],
    "requires grad": lambda t: [
        t.ones(2, requires_grad=True),
        t.nn.Parameter(t.ones(1), requires_grad=False),
    ],
    "empty": lambda t: [t.zeros(0), t.zeros(2, 0, 3), t.tensor(5)],
    "channels last": lambda t: t.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=t.channels_last),
    "meta": lambda t: t.zeros(2, 3, device="meta"),
    "coo": lambda t: t.eye(3).to_sparse(),
    "csr": lambda t: t.eye(3).to_sparse_csr(),
    "csc": lambda t: t.eye(3).to_sparse_csc(),
    "bsr": lambda t: t.eye(4).to_sparse_bsr((2, 2)),
    "nested": lambda t: t.nested.nested_tensor([t.ones(2, 2), t.zeros(1, 2)]),
    "conjugated": lambda t: t.tensor([1 + 2j]).conj(),
    "negated": lambda t: t.tensor([1 + 2j]).conj().imag,
    "numpy": lambda t: [
        numpy.arange(6).reshape(2, 3),
        numpy.arange(6.0).reshape(2, 3).T,
        numpy.float32(2),
        numpy.array(["ab", "c"]),
        numpy.zeros((0, 2)),
        numpy.int8(3),
        numpy.array(True),
        numpy.arange(3, dtype=">i4"),
        numpy.array(["2020-01-02"], "datetime64[D]"),
    ],
    "storages": lambda t: [t.arange(3.0).untyped_storage(), t.arange(3).storage()],
    "state dict": lambda t: t.nn.Sequential(t.nn.Linear(2, 3), t.nn.BatchNorm1d(3)).state_dict(),
    "sgd": lambda t: trained(t, lambda t, p: t.optim.SGD(p, 0.1, momentum=0.9)),
    "adam": lambda t: trained(t, lambda t, p: t.optim.Adam(p, 0.1)),
    "adamw": lambda t: trained(t, lambda t, p: t.optim.AdamW(p, 0.1, amsgrad=True)),
    "rmsprop": lambda t: trained(t, lambda t, p: t.optim.RMSprop(p, 0.1)),
    "adagrad": lambda t: trained(t, lambda t, p: t.optim.Adagrad(p, 0.1)),
}
# What PyTorch cannot load of its own in the older format: bytes as a storage, nested tensors.
NEW_ONLY = {"dtype uint16", "dtype uint32", "dtype uint64", "nested", "storages"}


def plain(value):
    """A value with its tensors as lists of what they are, the same for both frameworks."""
    if isinstance(value, (torch.Tensor, fl.Tensor)):
        if value.is_nested:
            return ["nested", str(value.dtype).split(".")[1], [plain(each) for each in value.unbind()]]
        kind = "Parameter" if isinstance(value, (torch.nn.Parameter, fl.nn.Parameter)) else "Tensor"
        facts = [
            kind,
            str(value.dtype).split(".")[1],
            tuple(value.shape),
            bool(value.requires_grad),
            str(value.device),
        ]
        layout = str(value.layout).split(".")[1]
        if value.device.type == "meta":
            return facts
        value = value.detach()
        if layout != "strided":
            return [*facts, layout, value.to_dense().tolist()]
        value = value.resolve_neg() if hasattr(value, "resolve_neg") and value.is_neg() else value
        return [*facts, tuple(value.stride()) if value.numel() > 1 else None, value.tolist()]
    if isinstance(value, dict):
        return [
            type(value).__name__,
            {key: plain(each) for key, each in value.items()},
            plain(dict(value._metadata)) if hasattr(value, "_metadata") else None,
        ]
    if isinstance(value, (torch.Size, fl.Size)):
        return ["Size", *value]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, numpy.ndarray):
        return [str(value.dtype.newbyteorder("=")), value.shape, value.tolist()]
    if hasattr(value, "nbytes") and not isinstance(value, numpy.generic):
        return ["storage", value.nbytes(), list(value)]
    if isinstance(value, numpy.generic):
        return [type(value).__name__, value.item()]
    if isinstance(
        value, (set, frozenset, range, slice, bytes, bytearray, str, int, float, complex, bool, type(None))
    ):
        return [type(value).__name__, value]
    return str(value).replace("flambeau.", "torch.")


def theirs_to_ours(make, zipped, **options):
    stream = io.BytesIO()
    written = make(torch)
    torch.save(written, stream, _use_new_zipfile_serialization=zipped, **options)
    stream.seek(0)
    return written, serialization.load(stream)


@pytest.mark.parametrize("zipped", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_what_pytorch_writes_we_load_equal(name, zipped):
    written, loaded = theirs_to_ours(VALUES[name], zipped)
    assert plain(loaded) == plain(written)


@pytest.mark.parametrize("zipped", FORMS)
@pytest.mark.parametrize("name", VALUES)
def test_what_we_write_pytorch_loads_equal(name, zipped):
    if not zipped and name in NEW_ONLY:
        pytest.skip("PyTorch does not load its own file of it")
    stream = io.BytesIO()
    written = VALUES[name](OURS)
    serialization.save(written, stream, _use_new_zipfile_serialization=zipped)
    stream.seek(0)
    assert plain(torch.load(stream, weights_only=name not in ("numpy", "scalars", "containers"))) == plain(
        written
    )


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol(protocol):
    written, loaded = theirs_to_ours(
        lambda t: [shared(t), {1, 2}, b"ab", numpy.arange(3.0)], True, pickle_protocol=protocol
    )
    assert plain(loaded) == plain(written)


# ---------------------------------------------------------------------------------- whole modules
MODULES = """
Linear(2,3)|Bilinear(2,3,4)|Conv1d(2,3,3)|Conv2d(2,3,3,padding=1,padding_mode='circular')
Conv2d(2,3,3,padding='same')|ConvTranspose2d(2,3,3)|BatchNorm1d(3)|InstanceNorm2d(3)|LayerNorm(3)
GroupNorm(1,3)|RMSNorm(3)|Embedding(3,4)|EmbeddingBag(3,4)|RNN(2,3)
LSTM(2,3,2,bidirectional=True,proj_size=2)|GRU(2,3,bias=False)|RNNCell(2,3)|LSTMCell(2,3)|GRUCell(2,3)
MultiheadAttention(4,2)|TransformerEncoder(t.nn.TransformerEncoderLayer(4,2,8,activation='gelu'),2)
Transformer(4,2,1,1,8)|Sequential(t.nn.Conv2d(1,2,1),t.nn.ReLU(),t.nn.Dropout(0.3))
ModuleList([t.nn.PReLU()])|ModuleDict({'a':t.nn.ELU()})|ParameterList([t.nn.Parameter(t.ones(2))])
ParameterDict({'a':t.nn.Parameter(t.ones(2))})|LeakyReLU(0.1)|GELU()|Softmax(dim=1)|Softplus()|Hardtanh()
Threshold(1.,2.)|MaxPool2d(2)|AvgPool1d(2)|AdaptiveAvgPool2d(1)|LPPool2d(2,2)|Flatten()|Unflatten(1,(1,2))
PixelShuffle(2)|Upsample(scale_factor=2)|ZeroPad2d(1)|ReflectionPad2d(1)
CrossEntropyLoss(weight=t.ones(3))|MSELoss()|CTCLoss()|BCEWithLogitsLoss(pos_weight=t.ones(1))|HuberLoss()
Fold((2,2),1)|LocalResponseNorm(2)|AdaptiveLogSoftmaxWithLoss(4,5,[2,3])|SyncBatchNorm(3)|Identity()
CosineSimilarity()|AlphaDropout()""".strip().replace("\n", "|").split("|")


def module(t, text):
    t.manual_seed(0)
    return eval(f"t.nn.{text}", {"t": t})


def state_of(value):
    """The attributes of a module and of those in it, comparable between the frameworks."""
    own = {}
    for name, each in vars(value).items():
        if (
            name.startswith("_flat_weight")
            or name in ("_is_full_backward_hook", "_kinds", "use_nested_tensor")
            or callable(each)
        ):
            continue
        own[name] = (
            {key: each and state_of(each) for key, each in each.items()}
            if name == "_modules"
            else plain(each)
        )
    for name in ("bias_k", "bias_v"):  # a reserved name of parameters, or an attribute
        own.pop(name, None)
        own["_parameters"] = [
            own["_parameters"][0],
            {key: each for key, each in own["_parameters"][1].items() if key != name},
            own["_parameters"][2],
        ]
    return [type(value).__name__, own]


def initialized(value):
    return not any("Uninitialized" in type(each).__name__ for each in [*value.parameters(), *value.buffers()])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", MODULES)
def test_whole_modules_both_ways(text):
    theirs, stream = module(torch, text), io.BytesIO()
    torch.save(theirs, stream)
    stream.seek(0)
    ours = serialization.load(stream, weights_only=False)
    assert type(ours) is type(module(OURS, text))
    if initialized(theirs):
        assert state_of(ours) == state_of(theirs)
    stream = io.BytesIO()
    serialization.save(ours, stream)
    stream.seek(0)
    back = torch.load(stream, weights_only=False)
    assert type(back) is type(theirs)
    assert repr(back) == repr(theirs)
    if initialized(theirs):
        assert state_of(back) == state_of(theirs)


RUNS = [
    ("LSTM(2,3,2,bidirectional=True)", (4, 2, 2)),
    ("GRU(2,3)", (4, 2, 2)),
    ("RNN(2,3)", (4, 2, 2)),
    ("Conv2d(2,3,3,padding=1,padding_mode='circular')", (1, 2, 5, 5)),
    ("TransformerEncoder(t.nn.TransformerEncoderLayer(4,2,8,0.0),2)", (3, 2, 4)),
    ("TransformerEncoder(t.nn.TransformerEncoderLayer(4,2,8,0.0,activation='gelu'),1)", (3, 2, 4)),
    ("Sequential(t.nn.Linear(2,3),t.nn.BatchNorm1d(3),t.nn.Softplus())", (4, 2)),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text, shape", RUNS)
def test_a_loaded_module_computes_the_same(text, shape):
    def first(value):
        return value[0] if isinstance(value, tuple) else value

    theirs, stream = module(torch, text), io.BytesIO()
    torch.save(theirs, stream)
    stream.seek(0)
    ours = serialization.load(stream, weights_only=False)
    stream = io.BytesIO()
    serialization.save(ours, stream)
    stream.seek(0)
    back = torch.load(stream, weights_only=False)
    given = numpy.random.RandomState(0).rand(*shape).astype("float32")
    expected = first(theirs(torch.from_numpy(given))).detach().numpy()
    assert numpy.abs(first(ours(fl.from_numpy(given))).detach().numpy() - expected).max() < 1e-5
    assert numpy.abs(first(back(torch.from_numpy(given))).detach().numpy() - expected).max() == 0


@pytest.mark.parametrize(
    "make",
    [
        "SGD(p, 0.1, momentum=0.9)",
        "Adam(p, 0.1)",
        "AdamW(p, 0.1)",
        "RMSprop(p, 0.1)",
        "Adagrad(p, 0.1)",
        "NAdam(p, 0.1)",
        "RAdam(p, 0.1)",
        "Adamax(p, 0.1)",
        "Adadelta(p)",
        "ASGD(p)",
        "Rprop(p)",
    ],
)
def test_optimizers_go_on_with_each_others_state(make):
    def run(t, model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad()
            model(t.arange(6.0).reshape(2, 3) / 5 + step).square().mean().backward()
            optimizer.step()

    def made(t, model):
        return eval(f"t.optim.{make}", {"t": t, "p": model.parameters()})

    theirs = module(torch, "Linear(3,2)")
    optimizer = made(torch, theirs)
    run(torch, theirs, optimizer, 2)
    stream = io.BytesIO()
    torch.save({"model": theirs.state_dict(), "optimizer": optimizer.state_dict()}, stream)
    stream.seek(0)
    loaded, ours = serialization.load(stream), OURS.nn.Linear(3, 2)
    ours.load_state_dict(loaded["model"])
    second = made(OURS, ours)
    second.load_state_dict(loaded["optimizer"])
    assert set(second.state_dict()["param_groups"][0]) == set(optimizer.state_dict()["param_groups"][0])
    stream = io.BytesIO()
    serialization.save({"model": ours.state_dict(), "optimizer": second.state_dict()}, stream)
    stream.seek(0)
    loaded, back = torch.load(stream), torch.nn.Linear(3, 2)
    back.load_state_dict(loaded["model"])
    third = made(torch, back)
    third.load_state_dict(loaded["optimizer"])
    run(torch, theirs, optimizer, 2)
    run(OURS, ours, second, 2)
    run(torch, back, third, 2)
    assert numpy.abs(ours.weight.detach().numpy() - theirs.weight.detach().numpy()).max() < 1e-5
    assert (back.weight == theirs.weight).all()


# ---------------------------------------------------------------------------------- files on the disk
def test_mapped_files_both_ways(tmp_path):
    torch.save(shared(torch), tmp_path / "theirs.pt")
    serialization.save(shared(OURS), tmp_path / "ours.pt")
    assert plain(serialization.load(tmp_path / "theirs.pt", mmap=True)) == plain(shared(torch))
    assert plain(torch.load(tmp_path / "ours.pt", mmap=True)) == plain(shared(torch))


def test_parts_of_large_tensors_load_in_pytorch(tmp_path):
    x = OURS.arange(100_000.0)
    serialization.save({"a": x[5001:5004], "b": x.view(OURS.int32)[5002:5006]}, tmp_path / "part.pt")
    loaded = torch.load(tmp_path / "part.pt")
    assert loaded["a"].tolist() == [5001, 5002, 5003] and loaded["b"].view(torch.float32).tolist() == [
        5002,
        5003,
        5004,
        5005,
    ]
    loaded["a"][1] = 7
    assert loaded["b"].view(torch.float32)[0] == 7


@pytest.mark.filterwarnings("ignore")
def test_weights_of_torchscript(tmp_path):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten()
    )
    torch.jit.script(model).save(tmp_path / "script.pt")
    torch.jit.trace(model.eval(), torch.ones(1, 1, 5, 5)).save(tmp_path / "trace.pt")
    for name in ("script.pt", "trace.pt"):
        loaded = serialization.load(tmp_path / name)
        assert plain(loaded)[1] == {
            key: [
                type(model.get_parameter(key)).__name__
                if "running" not in key and "num_" not in key
                else "Tensor",
                *plain(value)[1:3],
                "running" not in key and "num_" not in key,
                *plain(value)[4:],
            ]
            for key, value in model.state_dict().items()
        }


def test_pytorchs_list_of_names_is_ours(tmp_path):
    torch.save([torch.nn.Linear(1, 1), torch.ones(1), {1}], tmp_path / "x.pt")
    assert serialization.get_unsafe_globals_in_checkpoint(
        tmp_path / "x.pt"
    ) == torch.serialization.get_unsafe_globals_in_checkpoint(tmp_path / "x.pt")
