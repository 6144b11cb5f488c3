"""Grids, drawing on pictures, reading and writing picture files."""

import io

import numpy
import pytest
from PIL import Image

import flambeau as fl
from flambeau.vision import io as files
from flambeau.vision import utils

BATCH = fl.arange(5 * 3 * 2 * 2.0).view(5, 3, 2, 2) / 60


def test_make_grid_places():
    grid = utils.make_grid(BATCH, nrow=3, padding=1, pad_value=0.5)
    assert grid.shape == (3, 7, 10)
    for index in range(5):
        top, left = 1 + 3 * (index // 3), 1 + 3 * (index % 3)
        assert fl.equal(grid[:, top:top + 2, left:left + 2], BATCH[index])
        grid[:, top:top + 2, left:left + 2] = 0.5
    assert grid.unique().tolist() == [0.5]


def test_make_grid_of_other_things():
    assert utils.make_grid(BATCH[0]).shape == (3, 2, 2)
    assert utils.make_grid(BATCH[0, 0]).shape == (3, 2, 2)
    assert utils.make_grid(BATCH[:, :1]).shape == (3, 6, 22)
    assert utils.make_grid([BATCH[0], BATCH[1]]).shape == (3, 6, 10)
    scaled = utils.make_grid(BATCH * 4 - 2, normalize=True, padding=0)
    assert scaled.min().item() == 0 and scaled.max().item() == pytest.approx(1)
    each = utils.make_grid(BATCH, normalize=True, scale_each=True, padding=0)
    assert each[:, :2, 2:4].max().item() == pytest.approx(1)
    with pytest.raises(TypeError, match="tensor or list of tensors expected"):
        utils.make_grid(numpy.zeros((1, 3, 2, 2)))


def test_save_image_rounds(tmp_path):
    utils.save_image(fl.tensor([0.0, 0.5, 1.0, 2.0, -1.0]).view(1, 1, 5).expand(3, 1, 5), tmp_path / "a.png")
    assert numpy.asarray(Image.open(tmp_path / "a.png"))[0, :, 0].tolist() == [0, 128, 255, 255, 0]
    stream = io.BytesIO()
    utils.save_image(BATCH, stream, format="png", nrow=2)
    assert Image.open(stream).size == (2 * 4 + 2, 3 * 4 + 2)


def test_boxes_masks_and_points():
    image = fl.zeros(3, 12, 12, dtype=fl.uint8)
    boxed = utils.draw_bounding_boxes(image, fl.tensor([[2, 3, 8, 9]]), colors="red")
    assert boxed[:, 3, 2].tolist() == [255, 0, 0] and boxed[:, 5, 5].tolist() == [0, 0, 0]
    assert image.max() == 0                             # a new picture
    assert utils.draw_bounding_boxes(image.float(), fl.tensor([[2, 3, 8, 9]]), colors=[(0, 255, 0)])[1, 3,
                                                                                                     2] == 1
    mask = fl.zeros(2, 12, 12, dtype=fl.bool)
    mask[0, :4], mask[1, 6:] = True, True
    painted = utils.draw_segmentation_masks(image, mask, alpha=0.5, colors=["#ff0000", "blue"])
    assert painted[:, 0, 0].tolist() == [127, 0, 0] and painted[:, 5, 0].tolist() == [0, 0, 0]
    assert painted[:, 7, 0].tolist() == [0, 0, 127]
    dotted = utils.draw_keypoints(image, fl.tensor([[[6.0, 6.0]]]), colors="blue", radius=1)
    assert dotted[:, 6, 6].tolist() == [0, 0, 255]
    with pytest.raises(ValueError, match="xmin"):
        utils.draw_bounding_boxes(image, fl.tensor([[8, 3, 2, 9]]))
    with pytest.raises(ValueError, match="dtype bool"):
        utils.draw_segmentation_masks(image, mask.long())


def test_files_of_pictures(tmp_path):
    picture = fl.from_numpy(numpy.random.RandomState(0).randint(0, 256, (3, 7, 5)).astype("uint8"))
    path = str(tmp_path / "a.png")
    files.write_png(picture, path)
    assert fl.equal(files.read_image(path), picture)
    assert fl.equal(files.decode_image(files.read_file(path)), picture)
    assert files.read_image(path, files.ImageReadMode.GRAY).shape == (1, 7, 5)
    assert files.decode_image(path, mode="RGB_ALPHA").shape == (4, 7, 5)
    smooth = fl.full((3, 16, 16), 100, dtype=fl.uint8)
    assert abs(files.decode_jpeg(files.encode_jpeg(smooth, 90)).int() - 100).max() <= 2
    with pytest.raises(FileNotFoundError):
        files.read_image(str(tmp_path / "nothing.png"))
    with pytest.raises(RuntimeError, match="not a picture"):
        files.decode_image(fl.zeros(20, dtype=fl.uint8))
    with pytest.raises(RuntimeError, match="uint8"):
        files.encode_png(picture.float())
