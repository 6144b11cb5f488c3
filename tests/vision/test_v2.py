"""Whole samples: parts are changed alike, kinds are kept."""

import numpy
import pytest
from PIL import Image

import flambeau as fl
from flambeau.vision import tv_tensors
from flambeau.vision.transforms import v2

PIXELS = numpy.random.RandomState(0).randint(0, 256, (10, 12, 3)).astype("uint8")
IMAGE = tv_tensors.Image(fl.from_numpy(PIXELS.transpose(2, 0, 1).copy()))
MASK = tv_tensors.Mask(fl.from_numpy((PIXELS[..., 0] > 128).astype("uint8")))
BOXES = tv_tensors.BoundingBoxes([[2.0, 3, 6, 8]], format="XYXY", canvas_size=(10, 12))


@pytest.mark.parametrize("transform, want", [
    (v2.RandomHorizontalFlip(1.0), [6, 3, 10, 8]), (v2.RandomVerticalFlip(1.0), [2, 2, 6, 7]),
    (v2.Pad((1, 2)), [3, 5, 7, 10]), (v2.Resize((20, 6)), [1, 6, 3, 16]), (v2.CenterCrop(8), [0, 2, 4, 7]),
    (v2.RandomHorizontalFlip(0.0), [2, 3, 6, 8])])
def test_boxes_move_with_the_picture(transform, want):
    image, (boxes, mask), label = transform(IMAGE, (BOXES, MASK), "label")
    assert boxes.tolist() == [want] and label == "label"
    assert boxes.canvas_size == image.shape[-2:] == mask.shape[-2:]
    assert [type(part) for part in (image, boxes, mask)] == [tv_tensors.Image, tv_tensors.BoundingBoxes,
                                                             tv_tensors.Mask]


def test_random_parts_are_the_same_for_all():
    pair = tv_tensors.Mask(IMAGE[0].clone().as_subclass(fl.Tensor))
    for seed in range(4):
        fl.manual_seed(seed)
        sample = v2.Compose([v2.RandomCrop(6, padding=1), v2.RandomHorizontalFlip(),
                             v2.RandomVerticalFlip()])(
            {"image": IMAGE, "mask": pair, "label": 3})
        assert fl.equal(sample["image"][0], sample["mask"]) and sample["label"] == 3


def test_colours_leave_masks_and_boxes():
    image, mask, boxes = v2.ColorJitter(brightness=(0.1, 0.2))(IMAGE, MASK, BOXES)
    assert fl.equal(mask, MASK) and fl.equal(boxes,
                                             BOXES) and image.float().mean() < 0.3 * IMAGE.float().mean()


def test_only_the_first_plain_tensor_is_a_picture():
    image, label = v2.CenterCrop(4)(fl.zeros(3, 10, 12), fl.tensor(3))
    assert image.shape == (3, 4, 4) and label == 3
    image, other = v2.CenterCrop(4)(Image.fromarray(PIXELS), fl.zeros(3, 10, 12))
    assert image.size == (4, 4) and other.shape == (3, 10, 12)


def test_conversions():
    made = v2.Compose([v2.ToImage(), v2.ToDtype(fl.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)])
    for picture in (Image.fromarray(PIXELS), PIXELS):
        image = made(picture)
        assert type(image) is tv_tensors.Image
        numpy.testing.assert_allclose(image.numpy(), (PIXELS.transpose(2, 0, 1) / 255 - 0.5) / 0.5, atol=1e-6)
    assert type(v2.ToPureTensor()(IMAGE)) is fl.Tensor
    assert v2.ToDtype({tv_tensors.Mask: fl.int64, "others": None})(IMAGE, MASK)[1].dtype == fl.int64
    assert v2.ToPILImage()(IMAGE).tobytes() == Image.fromarray(PIXELS).tobytes()
    assert type(IMAGE + 1) is fl.Tensor


def test_boxes_of_a_sample():
    many = tv_tensors.BoundingBoxes([[0.0, 0, 9, 9], [5, 5, 5.5, 9], [1, 1, 30, 9]], format="XYXY",
                                    canvas_size=(10, 12))
    kept = v2.SanitizeBoundingBoxes()({"boxes": many, "labels": fl.tensor([1, 2, 3])})
    assert kept["boxes"].tolist() == [[0, 0, 9, 9]] and kept["labels"].tolist() == [1]
    assert v2.ClampBoundingBoxes()(many)[2].tolist() == [1, 1, 12, 9]
    middle = v2.ConvertBoundingBoxFormat("CXCYWH")(many)
    assert middle.format is tv_tensors.BoundingBoxFormat.CXCYWH and middle[0].tolist() == [4.5, 4.5, 9, 9]
    with pytest.raises(NotImplementedError, match="cannot move BoundingBoxes"):
        v2.RandomRotation(10)(BOXES)


@pytest.mark.parametrize("make", [v2.MixUp, v2.CutMix])
def test_mixed_labels_are_shares(make):
    images, labels = make(num_classes=4)(fl.rand(6, 3, 8, 8), fl.tensor([0, 1, 2, 3, 0, 1]))
    assert images.shape == (6, 3, 8, 8) and labels.shape == (6, 4)
    numpy.testing.assert_allclose(labels.sum(1).numpy(), 1, rtol=1e-6)
    share = labels[1, 1].item()
    assert labels[1, 0].item() == pytest.approx(1 - share, abs=1e-6)
    with pytest.raises(ValueError, match="num_classes"):
        make()(fl.rand(6, 3, 8, 8), fl.tensor([0, 1, 2, 3, 0, 1]))


def test_chains_take_pictures_only():
    assert type(v2.RandAugment()(IMAGE)) is tv_tensors.Image
    assert v2.AutoAugment()(Image.fromarray(PIXELS)).size == (12, 10)
    with pytest.raises(TypeError, match="only pictures"):
        v2.TrivialAugmentWide()(IMAGE, BOXES)
