"""Operations on boxes against loops over numbers; regions against sampling by hand; layers."""

import math

import numpy
import pytest

import flambeau as fl
from flambeau.vision import ops


def boxes_of(count, seed, size=40):
    values = numpy.random.RandomState(seed).rand(count, 4).astype("float32") * size
    values[:, 2:] += values[:, :2] + 0.5
    return values


def overlap(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    common = width * height
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def kept_by_hand(boxes, scores, limit):
    left = sorted(range(len(boxes)), key=lambda index: -scores[index])
    kept = []
    while left:
        kept.append(left.pop(0))
        left = [index for index in left if not overlap(boxes[kept[-1]], boxes[index]) > limit]
    return kept


@pytest.mark.parametrize("count, limit", [(0, 0.5), (1, 0.5), (65, 0.3), (200, 0.1), (200, 0.7)])
def test_nms_by_hand(count, limit):
    boxes, scores = boxes_of(count, 1), numpy.random.RandomState(2).rand(count).astype("float32")
    kept = ops.nms(fl.from_numpy(boxes), fl.from_numpy(scores), limit)
    assert kept.dtype == fl.int64
    assert kept.tolist() == kept_by_hand(boxes.astype("float64"), scores, limit)


def test_nms_of_equal_boxes_keeps_the_first():
    assert ops.nms(fl.tensor([[0.0, 0, 1, 1]] * 4), fl.ones(4), 0.5).tolist() == [0]
    # no area: never too much in common
    assert ops.nms(fl.zeros(3, 4), fl.ones(3), 0.5).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="4 elements in dimension 1"):
        ops.nms(fl.zeros(3, 5), fl.ones(3), 0.5)


@pytest.mark.parametrize("count", [90, 1100])
def test_batched_nms_is_nms_of_each_class(count):
    boxes, classes = boxes_of(count, 3), numpy.random.RandomState(4).randint(0, 3, count)
    scores = numpy.random.RandomState(5).permutation(count).astype("float32")
    want = []
    for number in range(3):
        members = numpy.flatnonzero(classes == number)
        want += members[ops.nms(fl.from_numpy(boxes[members]), fl.from_numpy(scores[members]),
                                0.3).numpy()].tolist()
    found = ops.batched_nms(fl.from_numpy(boxes), fl.from_numpy(scores), fl.from_numpy(classes), 0.3)
    assert found.tolist() == sorted(want, key=lambda index: -scores[index])


def test_areas_and_overlaps():
    first, second = boxes_of(7, 1), boxes_of(5, 2)
    found = ops.box_iou(fl.from_numpy(first), fl.from_numpy(second)).numpy()
    want = [[overlap(a, b) for b in second.astype("float64")] for a in first.astype("float64")]
    numpy.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-7)
    one, two = fl.tensor([[0.0, 0, 2, 2]]), fl.tensor([[1.0, 1, 3, 3]])
    assert ops.generalized_box_iou(one, two).item() == pytest.approx(1 / 7 - 2 / 9)
    assert ops.distance_box_iou(one, two).item() == pytest.approx(1 / 7 - 2 / 18)
    assert ops.complete_box_iou(one, two).item() == pytest.approx(1 / 7 - 2 / 18)
    assert ops.generalized_box_iou_loss(one, two, "sum").item() == pytest.approx(1 - 1 / 7 + 2 / 9)
    assert ops.box_area(fl.tensor([[0, 0, 100, 100]], dtype=fl.int8)).tolist() == [10000]


def test_box_formats_and_limits():
    box = fl.tensor([[10.0, 20, 30, 60]])
    assert ops.box_convert(box, "xyxy", "xywh").tolist() == [[10, 20, 20, 40]]
    assert ops.box_convert(box, "xyxy", "cxcywh").tolist() == [[20, 40, 20, 40]]
    for form in ("xywh", "cxcywh"):
        assert fl.equal(ops.box_convert(ops.box_convert(box, "xyxy", form), form, "xyxy"), box)
    assert ops.clip_boxes_to_image(box, (50, 25)).tolist() == [[10, 20, 25, 50]]
    assert ops.remove_small_boxes(fl.tensor([[0.0, 0, 1, 9], [0, 0, 5, 5]]), 2).tolist() == [1]
    assert ops.masks_to_boxes(fl.tensor([[[False, True, True], [False, True, False]]])).tolist() == [[1, 0, 2,
                                                                                                      1]]
    with pytest.raises(ValueError):
        ops.box_convert(box, "xyxy", "abcd")


def between(picture, y, x):
    """The value at a place between pixels, 0 more than a pixel outside."""
    height, width = picture.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    low_y, low_x = int(y), int(x)
    high_y, high_x = min(low_y + 1, height - 1), min(low_x + 1, width - 1)
    part_y, part_x = y - low_y, x - low_x
    return ((1 - part_y) * ((1 - part_x) * picture[low_y, low_x] + part_x * picture[low_y, high_x])
            + part_y * ((1 - part_x) * picture[high_y, low_x] + part_x * picture[high_y, high_x]))


@pytest.mark.parametrize("ratio, aligned", [(2, True), (-1, False), (3, False)])
def test_roi_align_by_hand(ratio, aligned):
    features = numpy.random.RandomState(0).rand(2, 3, 9, 11)
    regions = numpy.array([[0, 1, 1, 8, 5], [1, -3, 2, 4, 9], [1, 5, 5, 5.2, 5.1], [0, 0, 0, 20, 18]],
                          "float64")
    found = ops.roi_align(fl.from_numpy(features), fl.from_numpy(regions), (2, 3), 0.6, ratio,
                          aligned).numpy()
    shift = 0.5 if aligned else 0.0
    for region, result in zip(regions, found):
        left, top, right, bottom = region[1:] * 0.6 - shift
        height, width = bottom - top, right - left
        if not aligned:
            height, width = max(height, 1.0), max(width, 1.0)
        down, across = (ratio, ratio) if ratio > 0 else (math.ceil(height / 2), math.ceil(width / 3))
        for channel in range(3):
            for row in range(2):
                for column in range(3):
                    points = [between(features[int(region[0]), channel],
                                      top + (row + (i + 0.5) / down) * height / 2,
                                      left + (column + (j + 0.5) / across) * width / 3)
                              for i in range(down) for j in range(across)]
                    assert result[channel, row, column] == pytest.approx(numpy.mean(points), abs=1e-9)


def test_gradients_of_regions():
    features = fl.rand(1, 2, 6, 6, dtype=fl.float64, requires_grad=True)
    regions = fl.tensor([[0.0, 0.5, 0.7, 5.2, 4.9]], dtype=fl.float64)
    assert fl.autograd.gradcheck(lambda x: ops.roi_align(x, regions, 2, 1.0, 2, True), (features,))
    assert fl.autograd.gradcheck(lambda x: ops.roi_pool(x, regions, 2), (features,))


def test_roi_pool_takes_maxima():
    features = fl.arange(36.0).view(1, 1, 6, 6)
    assert ops.roi_pool(features, [fl.tensor([[0.0, 0, 3, 3]])], 2)[0, 0].tolist() == [[7, 9], [19, 21]]
    assert ops.RoIPool(2, 1.0)(features, fl.zeros(0, 5)).shape == (0, 1, 2, 2)
    assert ops.RoIAlign(2, 1.0, 2)(features, fl.zeros(0, 5)).shape == (0, 1, 2, 2)


def test_focal_loss_without_focus_is_half_the_cross_entropy():
    logits, targets = fl.randn(6), fl.tensor([0.0, 1, 0, 1, 1, 0])
    plain = fl.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    numpy.testing.assert_allclose(ops.sigmoid_focal_loss(logits, targets, 0.5, 0).numpy(), plain.numpy() / 2,
                                  rtol=1e-6)
    assert ops.sigmoid_focal_loss(logits, targets, reduction="mean").shape == ()


def test_layers():
    frozen = ops.FrozenBatchNorm2d(3)
    frozen.load_state_dict(fl.nn.BatchNorm2d(3).state_dict())
    assert not list(frozen.parameters()) and frozen(fl.ones(1, 3, 2, 2)).shape == (1, 3, 2, 2)
    assert list(ops.MLP(5, [6, 7], fl.nn.LayerNorm).state_dict()) == ["0.weight", "0.bias", "1.weight",
                                                                      "1.bias",
                                                                     "4.weight", "4.bias"]
    assert ops.Conv2dNormActivation(3, 4, (3, 5), dilation=2)(fl.ones(1, 3, 8, 8)).shape == (1, 4, 8, 8)
    assert ops.SqueezeExcitation(4, 2)(fl.ones(1, 4, 3, 3)).shape == (1, 4, 3, 3)
    pyramid = ops.FeaturePyramidNetwork([2, 3], 4)
    maps = pyramid({"fine": fl.ones(1, 2, 8, 8), "coarse": fl.ones(1, 3, 4, 4)})
    assert {name: tuple(value.shape) for name, value in maps.items()} == {"fine": (1, 4, 8, 8),
                                                                          "coarse": (1, 4, 4, 4)}


def test_dropping_keeps_the_mean():
    fl.manual_seed(0)
    rows = ops.stochastic_depth(fl.ones(4000, 2), 0.25, "row")
    assert sorted(rows.unique().tolist()) == [0.0,
                                              pytest.approx(4 / 3)] and rows.mean().item() == pytest.approx(1,
                                                                                                            abs=0.05)
    assert ops.stochastic_depth(rows, 0.5, "batch", training=False) is rows
    blocks = ops.drop_block2d(fl.ones(8, 3, 20, 20), 0.2, 3)
    assert blocks.mean().item() == pytest.approx(1,
                                                 abs=0.01) and 0.1 < (blocks == 0).float().mean().item() < 0.3
