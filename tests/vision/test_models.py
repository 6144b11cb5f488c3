"""Models: names and shapes of parameters, starting values, outputs, weights from files."""

import numpy
import pytest

import flambeau as fl
from flambeau.tensor.rng import using_stream
from flambeau.vision import models

# name -> (entries of the state dict, parameters for 1000 classes), as published
SIZES = {"alexnet": (16, 61100840), "vgg11": (22, 132863336), "vgg16_bn": (97, 138365992),
         "resnet18": (122, 11689512),
         "resnet50": (320, 25557032), "resnext50_32x4d": (320, 25028904), "wide_resnet50_2": (320, 68883240),
         "squeezenet1_0": (52, 1248424), "densenet121": (727, 7978856), "googlenet": (364, 13004888),
         "inception_v3": (580, 27161264), "mobilenet_v2": (314, 3504872),
         "mobilenet_v3_large": (312, 5483032),
         "mobilenet_v3_small": (244, 2542856), "shufflenet_v2_x1_0": (338, 2278604),
         "mnasnet1_0": (314, 4383312),
         "efficientnet_b0": (360, 5288548), "efficientnet_b7": (1200, 66347960),
         "efficientnet_v2_s": (782, 21458488),
         "regnet_y_400mf": (384, 4344144), "regnet_x_32gf": (446, 107811560), "vit_b_16": (152, 86567656),
         "vit_l_32": (296, 306535400), "convnext_tiny": (182, 28589128), "swin_t": (185, 28288354)}


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name):
    with fl.device("meta"):
        model = models.get_model(name, weights=None)
    entries, count = SIZES[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert len(model.state_dict()) == entries


def test_names_of_parameters():
    with fl.device("meta"):
        keys = {name: list(models.get_model(name).state_dict()) for name in (
            "resnet50", "densenet121", "vit_b_16", "mobilenet_v3_small", "efficientnet_b0", "swin_t",
            "regnet_y_400mf",
            "inception_v3", "convnext_tiny")}
    for name, wanted in (
            ("resnet50", "layer1.0.downsample.1.running_var"), ("densenet121",
                                                                "features.denseblock3.denselayer24.conv2.weight"),
            ("vit_b_16", "encoder.layers.encoder_layer_11.self_attention.in_proj_weight"),
            ("vit_b_16", "encoder.pos_embedding"),
            ("mobilenet_v3_small", "features.1.block.1.fc1.weight"),
            ("efficientnet_b0", "features.2.0.block.2.fc1.bias"),
            ("swin_t", "features.1.1.attn.relative_position_index"),
            ("regnet_y_400mf", "trunk_output.block3.block3-5.f.se.fc1.bias"),
            ("inception_v3", "Mixed_6e.branch7x7dbl_5.bn.num_batches_tracked"),
            ("convnext_tiny", "features.5.8.layer_scale")):
        assert wanted in keys[name]
    assert keys["resnet50"][:2] == ["conv1.weight", "bn1.weight"] and keys["resnet50"][-1] == "fc.bias"


# Outputs for the seed 0, four classes and the picture below, by torchvision 0.28.
OUTPUTS = {"resnet18": [-0.14866, 0.07273, -0.15074, -0.01071], "squeezenet1_1": [0.0063, 0.0, 0.05342,
                                                                                  0.00499],
           "shufflenet_v2_x0_5": [0.00992, -0.01277, -0.01269, 0.02136]}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_for_a_seed(name):
    with using_stream("pytorch"), fl.no_grad():
        fl.manual_seed(0)
        model = models.get_model(name, num_classes=4).eval()
        output = model(fl.linspace(-1, 1, 3 * 64 * 64).view(1, 3, 64, 64))
    numpy.testing.assert_allclose(output[0].numpy(), OUTPUTS[name], atol=3e-5)


def small(name, **options):
    return models.get_model(name, num_classes=3, **options)


@pytest.mark.parametrize("make", [
    lambda: small("mobilenet_v3_small"), lambda: small("regnet_y_400mf"), lambda: small("mnasnet0_5"),
    lambda: small("googlenet", init_weights=False), lambda: models.VisionTransformer(64, 16, 2, 2, 32, 64,
                                                                                     num_classes=3),
    lambda: models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=3),
    lambda: models.convnext.ConvNeXt([models.convnext.CNBlockConfig(8, 16, 1),
                                      models.convnext.CNBlockConfig(16, None, 1)],
                                     num_classes=3)],
    ids=["mobilenet", "regnet", "mnasnet", "googlenet", "vit", "swin", "convnext"])
def test_models_learn(make):
    model = make()
    output = model(fl.randn(2, 3, 64, 64))
    output = output[0] if isinstance(output, tuple) else output
    assert output.shape == (2, 3)
    output.sum().backward()
    used = [parameter for key, parameter in model.named_parameters() if not key.startswith("aux")]
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in used)


def test_pixels_get_labels():
    model = models.segmentation.lraspp_mobilenet_v3_large(weights_backbone=None, num_classes=5).eval()
    assert model(fl.randn(1, 3, 64, 48))["out"].shape == (1, 5, 64, 48)
    with fl.device("meta"):
        keys = models.segmentation.fcn_resnet50(weights_backbone=None, aux_loss=True).state_dict()
    assert "backbone.layer4.2.conv3.weight" in keys and "aux_classifier.4.bias" in keys
    assert len(models.list_models(models.segmentation)) == 6


def test_registry():
    assert models.list_models(include="resnet*") == ["resnet101", "resnet152", "resnet18", "resnet34",
                                                     "resnet50"]
    assert "vgg11" not in models.list_models(exclude=["vgg*"])
    best = models.get_weight("ResNet50_Weights.DEFAULT")
    assert best is models.ResNet50_Weights.IMAGENET1K_V2 and str(best) == "ResNet50_Weights.IMAGENET1K_V2"
    assert best.url.endswith("resnet50-11ad3fa6.pth") and best.meta["num_params"] == 25557032
    assert best.transforms().resize_size == [232]
    assert models.get_model_weights("vit_b_16") is models.ViT_B_16_Weights
    with pytest.raises(ValueError, match="Unknown model foo"):
        models.get_model("foo")
    with pytest.raises(KeyError):
        models.resnet18(weights="foo")
    with pytest.raises(TypeError, match="expected ResNet18_Weights but received ResNet34_Weights"):
        models.resnet18(weights=models.ResNet34_Weights.DEFAULT)
    with pytest.raises(NotImplementedError, match="torch.fx"):
        models.feature_extraction


def test_the_dict_of_the_module_has_the_builders():
    found = [name for name in models.__dict__ if name.islower() and not name.startswith("_")
             and callable(models.__dict__[name])]
    assert {"resnet18", "vit_b_16", "googlenet", "alexnet"} <= set(found)
    assert set(models.list_models()) - set(models.list_models(models.segmentation)) <= set(found)
    import flambeau.vision.models.alexnet
    assert flambeau.vision.models.alexnet is models.get_model_builder("alexnet")


def test_transforms_of_weights():
    from PIL import Image
    prepare = models.ResNet18_Weights.DEFAULT.transforms()
    prepared = prepare(Image.new("RGB", (300, 500), (124, 116, 104)))
    assert prepared.shape == (3, 224, 224) and prepared.abs().max() < 0.01


def test_weights_come_from_the_folder_of_checkpoints(tmp_path, monkeypatch):
    import urllib.error
    import urllib.request
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))

    def unreachable(*args, **options):
        raise urllib.error.URLError("no network")
    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    path = tmp_path / "hub" / "checkpoints" / "squeezenet1_1-b8a52dc0.pth"
    with pytest.raises(RuntimeError, match="no network") as caught:
        models.squeezenet1_1(weights="DEFAULT")
    assert str(path) in str(caught.value) and "weights=None" in str(caught.value)
    source = models.squeezenet1_1()
    fl.save(source.state_dict(), path)
    with pytest.warns(UserWarning, match="'pretrained' is deprecated"):
        loaded = models.squeezenet1_1(pretrained=True)
    assert all(fl.equal(a, b) for a, b in zip(source.state_dict().values(), loaded.state_dict().values()))
    with pytest.raises(ValueError, match="expected value 1000 but got 10"):
        models.squeezenet1_1(weights="IMAGENET1K_V1", num_classes=10)


def test_old_names_in_files_of_densenet():
    from flambeau.vision.models.densenet import _renamed
    assert list(_renamed({"features.denseblock1.denselayer1.norm.1.weight": 0, "classifier.bias": 1})) == [
        "features.denseblock1.denselayer1.norm1.weight", "classifier.bias"]
