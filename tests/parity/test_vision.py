"""flambeau.vision against torchvision: values of transforms, boxes and grids, names and outputs of models."""

import numpy
import pytest
import torch

import flambeau as fl
from flambeau import vision
from flambeau.vision import models, ops, transforms, utils

torchvision = pytest.importorskip("torchvision")
pytest.importorskip("torchvision.transforms.v2")

PIXELS = numpy.random.RandomState(0).randint(0, 256, (3, 4, 3)).astype("uint8").repeat(9, 0).repeat(9, 1)


def both(values):
    """An array (nested in lists) as tensors of flambeau and of torch."""
    if isinstance(values, (list, tuple)):
        pairs = [both(value) for value in values]
        return [first for first, _ in pairs], [second for _, second in pairs]
    if isinstance(values, numpy.ndarray):
        return fl.from_numpy(values.copy()), torch.from_numpy(values.copy())
    return values, values


def agree(ours, theirs, bytes_apart=0, rtol=1e-5):
    if isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs)
        for first, second in zip(ours, theirs):
            agree(first, second, bytes_apart, rtol)
        return
    ours, theirs = (numpy.asarray(value) for value in (ours, theirs))
    assert ours.dtype == theirs.dtype
    exact = theirs.dtype.kind != "f"
    numpy.testing.assert_allclose(ours.astype("float64"), theirs.astype("float64"), rtol=0 if exact else rtol,
                                  atol=bytes_apart if exact else 1e-5)


CALLS = [("resize", [13, 17]), ("resize", 20), ("resize", [60, 50]), ("center_crop", [40, 15]),
         ("crop", -3, 30, 20, 11),
         ("pad", [1, 2, 3, 4], 5), ("pad", 3, 0, "symmetric"), ("pad", 3, 0, "reflect"), ("five_crop", 10),
         ("hflip",),
         ("adjust_brightness", 1.7), ("adjust_contrast", 0.3), ("adjust_saturation", 1.7),
         ("adjust_hue", -0.2),
         ("adjust_sharpness", 1.7), ("adjust_gamma", 0.3, 0.9), ("rotate", 33),
         ("affine", 20, [3, -2], 1.2, [10, 5]),
         ("perspective", [[0, 0], [35, 0], [35, 26], [0, 26]], [[3, 2], [30, 4], [33, 20], [2, 25]]),
         ("gaussian_blur", [5, 3]), ("invert",), ("posterize", 3), ("solarize", 120), ("autocontrast",),
         ("equalize",),
         ("rgb_to_grayscale", 3)]


@pytest.mark.parametrize("call", CALLS, ids=[call[0] for call in CALLS])
def test_functions_of_pictures(call):
    from PIL import Image
    name, *arguments = call
    ours, theirs = (getattr(home.transforms.functional, name) for home in (vision, torchvision))
    agree(ours(Image.fromarray(PIXELS), *arguments), theirs(Image.fromarray(PIXELS), *arguments))
    first, second = both(PIXELS.transpose(2, 0, 1))
    agree(ours(first, *arguments), theirs(second, *arguments), bytes_apart=1)


DRAWN = ["RandomCrop(14)", "RandomCrop((20, 30), padding=(1, 2, 3, 4))", "RandomResizedCrop(12)",
         "RandomRotation(30)",
         "RandomAffine(20, (.1, .2), (.5, 1.5), (3, 4, 5, 6))", "RandomPerspective(p=.9)",
         "ColorJitter(.4, .3, .2, .1)",
         "GaussianBlur(3)", "ElasticTransform(80.)", "AutoAugment()", "RandAugment()", "TrivialAugmentWide()",
         "RandomErasing(.9)", "v2.RandomResizedCrop(12)", "v2.ColorJitter(.4)", "v2.RandomAffine(20)",
         "v2.AutoAugment()"]


@pytest.mark.parametrize("text", DRAWN)
def test_draws(text):
    pictures = both(PIXELS.transpose(2, 0, 1))
    found = []
    for home, library, picture in zip((vision, torchvision), (fl, torch), pictures):
        library.manual_seed(3)
        transform = eval("transforms." + text, {"transforms": home.transforms})
        found.append([transform(picture) for _ in range(4)])
    agree(*found, bytes_apart=2)
    assert repr(eval("transforms." + text)) == repr(eval("torchvision.transforms." + text)) or "v2" in text


def boxes(count, seed):
    values = numpy.random.RandomState(seed).rand(count, 4).astype("float32") * 40
    values[:, 2:] += values[:, :2] + 0.5
    return values


SCORES = numpy.random.RandomState(9).rand(60).astype("float32")
MAPS = numpy.random.RandomState(8).rand(2, 3, 17, 23).astype("float32")
REGIONS = numpy.concatenate([numpy.arange(12, dtype="float32")[:, None] % 2, boxes(12, 3) / 2 - 2], 1)


@pytest.mark.parametrize("name, arguments", [
    ("nms", (boxes(60, 1), SCORES, 0.3)), ("batched_nms", (boxes(60, 1), SCORES, numpy.arange(60) % 3, 0.3)),
    ("box_iou", (boxes(9, 1), boxes(7, 2))), ("generalized_box_iou", (boxes(9, 1), boxes(7, 2))),
    ("distance_box_iou", (boxes(9, 1), boxes(7, 2))), ("complete_box_iou", (boxes(9, 1), boxes(7, 2))),
    ("complete_box_iou_loss", (boxes(9, 1), boxes(9, 2))), ("box_convert", (boxes(9, 1), "xyxy", "cxcywh")),
    ("roi_align", (MAPS, REGIONS, (5, 3), 0.7, -1, True)), ("roi_align",
                                                            (MAPS, REGIONS, (5, 3), 0.7, 2, False)),
    ("roi_pool", (MAPS, REGIONS, (5, 3), 0.7)), ("sigmoid_focal_loss", (MAPS, MAPS.round()))])
def test_operations(name, arguments):
    ours, theirs = both(list(arguments))
    try:
        wanted = getattr(torchvision.ops, name)(*theirs)
    except (NotImplementedError, RuntimeError) as error:
        pytest.skip(f"this torchvision has no compiled part: {str(error)[:60]}")
    agree(getattr(ops, name)(*ours), wanted)


def test_grids():
    batch = numpy.random.RandomState(0).rand(10, 3, 5, 7).astype("float32")
    for options in ({}, {"nrow": 3, "padding": 1, "pad_value": 0.3}, {"normalize": True},
                    {"normalize": True, "scale_each": True, "value_range": (0.0, 0.6)}):
        first, second = both(batch)
        agree(utils.make_grid(first, **options), torchvision.utils.make_grid(second, **options))


@pytest.mark.parametrize("name", models.list_models())
def test_names_and_shapes_of_models(name):
    segmentation = name in models.list_models(models.segmentation)
    options = {"weights_backbone": None} if segmentation else {}
    homes = [home.models.segmentation if segmentation else home.models for home in (vision, torchvision)]
    if "regnet" in name:
        if name[9:] not in ("400mf", "800mf", "1_6gf"):
            pytest.skip("torchvision cannot make it without memory")
        pair = [getattr(home, name)() for home in homes]
    else:
        with fl.device("meta"), torch.device("meta"):
            pair = [getattr(home, name)(**options) for home in homes]
    ours, theirs = ([(key, tuple(value.shape)) for key, value in model.state_dict().items()]
                    for model in pair)
    assert ours == theirs
    kinds = [[(key, type(module).__name__) for key, module in model.named_modules()] for model in pair]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "densenet121", "shufflenet_v2_x0_5",
                                  "efficientnet_b0",
                                  "mnasnet0_5", "squeezenet1_1"])
def test_starting_values_and_outputs(name):
    fl.manual_seed(0), torch.manual_seed(0)
    ours, theirs = (getattr(home.models, name)(num_classes=4).eval() for home in (vision, torchvision))
    for first, second in zip(ours.state_dict().values(), theirs.state_dict().values()):
        numpy.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-5, atol=1e-6)
    first, second = both(numpy.random.RandomState(0).randn(2, 3, 64, 64).astype("float32"))
    with fl.no_grad(), torch.no_grad():
        agree(ours(first), theirs(second), rtol=1e-3)


def test_all_names_of_transforms():
    for home in ("transforms", "transforms.functional"):
        path = home.split(".")
        ours, theirs = vision, torchvision
        for part in path:
            ours, theirs = getattr(ours, part), getattr(theirs, part)
        wanted = [name for name in dir(theirs) if getattr(getattr(theirs, name), "__module__", "").startswith(
            "torchvision.transforms") and not name.startswith("_")]
        missing = [name for name in wanted if not hasattr(ours, name)]
        assert not missing, missing
    assert transforms.InterpolationMode.BILINEAR.value == "bilinear"
