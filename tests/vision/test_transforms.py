"""Transforms: values against NumPy and Pillow, draws against numbers that torchvision gives for a seed."""

import pickle

import numpy
import pytest
from PIL import Image

import flambeau as fl
from flambeau.tensor.rng import using_stream
from flambeau.vision import transforms as T
from flambeau.vision.transforms import functional as F

PIXELS = numpy.random.RandomState(0).randint(0, 256, (9, 11, 3)).astype("uint8")
PICTURE = Image.fromarray(PIXELS)
TENSOR = fl.from_numpy(PIXELS.transpose(2, 0, 1).copy())

# Checksums of four results for the seed 5, by torchvision 0.28.
DRAWN = [
    ("RandomCrop(12)", [16762, 45483, 85369, 86183]),
    ("RandomCrop((10, 14), padding=3, fill=9)", [70480, 85109, 46663, 73812]),
    ("RandomCrop(26, pad_if_needed=True)", [9026, 60786, 85218, 43774]),
    ("RandomResizedCrop(8, interpolation=T.InterpolationMode.NEAREST)", [76192, 36357, 67263, 27438]),
    ("RandomHorizontalFlip()", [65247, 92271, 65247, 65247]),
    ("RandomVerticalFlip(0.3)", [65247, 15314, 65247, 65247]),
    ("RandomRotation(40)", [59871, 80333, 86821, 15551]),
    ("RandomAffine(20, (0.1, 0.2), (0.5, 1.5), (3, 4, 5, 6))", [16069, 65859, 44445, 80715]),
    ("RandomPerspective(p=0.9, interpolation=T.InterpolationMode.NEAREST)", [25380, 65247, 26792, 65247]),
    ("ColorJitter(0.4)", [72189, 97209, 30206, 16818]),
    ("ColorJitter(brightness=(0.5, 0.8), hue=0.1)", [28428, 50504, 18720, 88889]),
    ("RandomGrayscale(0.5)", [65247, 29351, 65247, 65247]),
    ("RandomInvert()", [65247, 26158, 65247, 65247]),
    ("RandomPosterize(3)", [65247, 67478, 65247, 65247]),
    ("RandomSolarize(100)", [65247, 87463, 65247, 65247]),
    ("RandomEqualize()", [65247, 72459, 65247, 65247]),
    ("RandomErasing(0.9, value=(1, 2, 3))", [67764, 71349, 78737, 78567]),
    ("AutoAugment()", [51248, 72459, 25977, 72459]),
    ("AutoAugment(T.AutoAugmentPolicy.CIFAR10)", [72459, 63356, 72459, 65247]),
    ("AutoAugment(T.AutoAugmentPolicy.SVHN)", [67797, 34466, 28838, 65247]),
    ("RandAugment()", [8665, 64806, 1282, 44979]),
    ("TrivialAugmentWide()", [75449, 41462, 46399, 0]),
    ("RandomApply([T.RandomCrop(9)], 0.5)", [65247, 54740, 65247, 5820]),
]


@pytest.mark.parametrize("text, sums", DRAWN, ids=[text.partition("(")[0] for text, _ in DRAWN])
def test_draws_are_those_of_torchvision(text, sums):
    picture = (fl.arange(3 * 20 * 24).view(3, 20, 24) * 7 % 256).to(fl.uint8)
    transform, found = eval("T." + text), []
    with using_stream("pytorch"):
        fl.manual_seed(5)
        for _ in range(4):
            result = transform(picture).long()
            found.append(int((result * fl.arange(1, result.numel() + 1).view(result.shape)).sum() % 99991))
    assert found == sums


def test_to_tensor_divides_bytes_by_255():
    for picture, want in ((PICTURE, PIXELS.transpose(2, 0, 1)), (PICTURE.convert("L"), None), (PIXELS, None)):
        want = numpy.asarray(picture).reshape(9, 11, -1).transpose(2, 0, 1) if want is None else want
        made = T.ToTensor()(picture)
        assert made.dtype == fl.float32 and made.is_contiguous()
        numpy.testing.assert_array_equal(made.numpy(), want.astype("float32") / numpy.float32(255))
    assert F.to_tensor(PICTURE.convert("1")).unique().tolist() == [0.0, 1.0]
    assert F.to_tensor(Image.fromarray(PIXELS[..., 0].astype("int32"))).dtype == fl.int32
    assert F.to_tensor(PIXELS.astype("float64")).dtype == fl.float64
    for wrong, kind in ((TENSOR, TypeError), (PIXELS[None], ValueError)):
        with pytest.raises(kind):
            F.to_tensor(wrong)


def test_to_pil_image_is_the_way_back():
    assert F.to_pil_image(TENSOR).tobytes() == PICTURE.tobytes()
    assert F.to_pil_image(F.to_tensor(PICTURE)).tobytes() == PICTURE.tobytes()
    assert F.to_pil_image(PIXELS[..., 0]).mode == "L" and F.to_pil_image(PIXELS, "HSV").mode == "HSV"
    assert F.to_pil_image(fl.rand(2, 3), "F").mode == "F"
    with pytest.raises(ValueError, match="> 4 channels"):
        F.to_pil_image(fl.rand(5, 2, 2))
    with pytest.raises(ValueError, match="Incorrect mode"):
        F.to_pil_image(TENSOR, "L")


def test_normalize_against_numpy():
    image, mean, std = F.to_tensor(PICTURE), (0.4, 0.5, 0.6), (0.1, 0.2, 0.3)
    want = (image.numpy() - numpy.array(mean, "f")[:, None, None]) / numpy.array(std, "f")[:, None, None]
    normalize = T.Normalize(mean, std)
    numpy.testing.assert_array_equal(normalize(image).numpy(), want)
    numpy.testing.assert_array_equal(F.normalize(image, mean, std).numpy(), want)
    normalize.mean = (0.0, 0.0, 0.0)                    # attributes may change later
    assert normalize(image)[0, 0, 0] == image[0, 0, 0] / fl.tensor(0.1)
    again = pickle.loads(pickle.dumps(normalize))
    assert fl.equal(again(image), normalize(image))
    with pytest.raises(TypeError, match="should be a float tensor"):
        normalize(TENSOR)
    with pytest.raises(ValueError, match="zero"):
        T.Normalize(mean, (0.1, 0.0, 0.3))(image)
    copy = image.clone()
    assert T.Normalize(mean, std, inplace=True)(copy) is copy and fl.equal(copy, fl.from_numpy(want))


@pytest.mark.parametrize("dtype, value", [(fl.uint8, 255), (fl.int16, 32767), (fl.float64, 1.0),
                                          (fl.int32, None)])
def test_white_stays_white(dtype, value):
    white = fl.ones(1, 2, 2)
    if value is None:
        with pytest.raises(RuntimeError, match="cannot be performed safely"):
            F.convert_image_dtype(white, dtype)
        return
    assert F.convert_image_dtype(white, dtype).unique().tolist() == [value]
    assert F.convert_image_dtype(F.convert_image_dtype(white, dtype), fl.float32).unique().tolist() == [1.0]
    assert F.convert_image_dtype(fl.tensor([[255, 0]], dtype=fl.uint8), fl.int16).tolist() == [[255 * 128, 0]]


@pytest.mark.parametrize("size, options, want", [
    (6, {}, (6, 7)), ([6], {}, (6, 7)), ((4, 5), {}, (4, 5)), (6, {"max_size": 7}, (6, 7)),
    (10, {"max_size": 11}, (9, 11)),
    (9, {}, (9, 11))])
def test_resize_sizes(size, options, want):
    assert F.resize(PICTURE, size, **options).size == want[::-1]
    assert F.resize(TENSOR, size, **options).shape[-2:] == want


def test_resize_of_tensors_is_pillows():
    # Pillow clips half way
    for mode, near in ((T.InterpolationMode.BILINEAR, 1), (T.InterpolationMode.BICUBIC, 10)):
        for size in ((4, 5), (20, 30)):
            ours = F.resize(TENSOR, size, mode).numpy().astype(int)
            theirs = numpy.asarray(F.resize(PICTURE, size, mode)).transpose(2, 0, 1).astype(int)
            assert abs(ours - theirs).max() <= near


@pytest.mark.parametrize("mode, numpys", [("constant", "constant"), ("edge", "edge"), ("reflect", "reflect"),
                                          ("symmetric", "symmetric")])
def test_pad_against_numpy(mode, numpys):
    fill = {"constant_values": 7} if mode == "constant" else {}
    want = numpy.pad(PIXELS, ((2, 4), (1, 3), (0, 0)), numpys, **fill)
    assert numpy.array_equal(numpy.asarray(F.pad(PICTURE, (1, 2, 3, 4), 7, mode)), want)
    assert numpy.array_equal(F.pad(TENSOR, (1, 2, 3, 4), 7, mode).numpy(), want.transpose(2, 0, 1))


def test_crops_and_flips_against_slices():
    def both(function):
        assert numpy.array_equal(numpy.asarray(function(PICTURE)),
                                 function(TENSOR).numpy().transpose(1, 2, 0))
        return function(TENSOR).numpy().transpose(1, 2, 0)
    assert numpy.array_equal(both(lambda img: F.crop(img, 2, 3, 4, 5)), PIXELS[2:6, 3:8])
    outside = numpy.zeros((6, 6, 3), "uint8")
    outside[2:, :3] = PIXELS[:4, 8:]
    assert numpy.array_equal(both(lambda img: F.crop(img, -2, 8, 6, 6)), outside)
    assert numpy.array_equal(both(lambda img: F.center_crop(img, 5)), PIXELS[2:7, 3:8])
    assert both(lambda img: F.center_crop(img, (12, 4))).shape == (12, 4, 3)
    assert numpy.array_equal(both(F.hflip), PIXELS[:, ::-1]) and numpy.array_equal(both(F.vflip),
                                                                                   PIXELS[::-1])
    five = [part.numpy() for part in T.FiveCrop(4)(TENSOR)]
    assert numpy.array_equal(five[3], PIXELS.transpose(2, 0, 1)[:, -4:, -4:])
    assert len(T.TenCrop(4)(PICTURE)) == 10
    with pytest.raises(ValueError, match="larger than input"):
        T.RandomCrop(20)(PICTURE)


@pytest.mark.parametrize("name, argument", [
    ("adjust_brightness", 1.4), ("adjust_contrast", 0.6), ("adjust_saturation", 1.5),
    ("adjust_sharpness", 0.4),
    ("adjust_hue", 0.2), ("adjust_gamma", 0.8), ("posterize", 3), ("solarize", 100), ("invert", None),
    ("autocontrast", None), ("equalize", None), ("rgb_to_grayscale", 1), ("rotate", 90),
    ("gaussian_blur", 3)])
def test_tensors_and_pillow_images_agree(name, argument):
    arguments = () if argument is None else (argument,)
    smooth = numpy.kron(PIXELS, numpy.ones((4, 4, 1), "uint8"))[:36, :36]
    picture, tensor = Image.fromarray(smooth), fl.from_numpy(smooth.transpose(2, 0, 1).copy())
    function = getattr(F, name)
    theirs = numpy.atleast_3d(numpy.asarray(function(picture, *arguments))).transpose(2, 0, 1).astype(int)
    ours = function(tensor, *arguments).numpy().astype(int)
    assert abs(ours - theirs).max() <= (8 if name == "adjust_hue" else 2)


def test_affine_moves_and_rotate_turns():
    assert numpy.array_equal(F.affine(TENSOR, 0, [2, 1], 1.0, [0, 0]).numpy()[:, 1:, 2:],
                             PIXELS.transpose(2, 0, 1)[:, :-1, :-2])
    assert numpy.array_equal(F.rotate(TENSOR, 90, expand=True).numpy(),
                             numpy.rot90(PIXELS).transpose(2, 0, 1))
    assert F.rotate(TENSOR, 45, expand=True).shape == (3, 15, 15)
    assert F.rotate(PICTURE, 45, fill=(9, 8, 7)).getpixel((0, 0)) == (9, 8, 7)
    corners = [[0, 0], [10, 0], [10, 8], [0, 8]]
    assert numpy.array_equal(F.perspective(TENSOR, corners, corners).numpy(), TENSOR.numpy())


def test_texts():
    made = T.Compose([T.Resize(4), T.RandomCrop(4, padding=2), T.RandomHorizontalFlip(), T.ToTensor(),
                      T.Normalize((0.5,), (0.5,)), T.ColorJitter(0.4), T.RandomErasing()])
    assert repr(made) == """Compose(
    Resize(size=4, interpolation=bilinear, max_size=None, antialias=True)
    RandomCrop(size=(4, 4), padding=2)
    RandomHorizontalFlip(p=0.5)
    ToTensor()
    Normalize(mean=(0.5,), std=(0.5,))
    ColorJitter(brightness=(0.6, 1.4), contrast=None, saturation=None, hue=None)
    RandomErasing(p=0.5, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0, inplace=False)
)"""
    assert repr(T.RandomAffine(10, (0.1, 0.2), fill=2)) == \
        "RandomAffine(degrees=[-10.0, 10.0], translate=(0.1, 0.2), fill=2)"


@pytest.mark.parametrize("make", [
    lambda: T.Resize("4"), lambda: T.RandomCrop((1, 2, 3)), lambda: T.Pad("x"), lambda: T.ColorJitter(-1),
    lambda: T.RandomRotation(-1), lambda: T.Lambda(3), lambda: T.RandomErasing(2.0),
    lambda: T.GaussianBlur(2),
    lambda: T.RandomChoice(3), lambda: F.hflip(3), lambda: F.adjust_hue(PICTURE, 0.6),
    lambda: T.ColorJitter(hue=0.6)])
def test_wrong_arguments_are_refused(make):
    with pytest.raises((TypeError, ValueError)):
        make()
