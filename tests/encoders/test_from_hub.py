"""Encoders in the Hub's layout: features of three kinds of model against the models, and what is refused."""

import json
import shutil

import pytest
import torch

from featscope.encoders import HubEncoder
from featscope.options import ConfigError
from featscope.streams import Streams
from hub_encoders import DEVIATION, MEAN, saved

transformers = pytest.importorskip("transformers", reason="encoders of the Hub were not tried: no extra 'language'")
LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
LOOKS = {"image_size": 32, "patch_size": 8}


@pytest.fixture
def pixels():
    return Streams(0, [0]).at("images").uniform(3, 3, 32, 32)[0].mul(255).byte()


def scaled(pixels: torch.Tensor) -> torch.Tensor:
    """As a preprocessor does it."""
    return (pixels / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


def test_features_of_a_resnet_are_means_of_its_last_maps(small_resnet, pixels):
    encoder = HubEncoder(small_resnet).load()
    model = transformers.ResNetModel.from_pretrained(small_resnet).eval()
    expected = model(scaled(pixels)).pooler_output[..., 0, 0]
    torch.testing.assert_close(encoder(pixels), expected)
    assert (encoder.features, encoder.side) == (16, 32)
    assert not encoder(pixels).requires_grad


def test_features_of_a_transformer_are_its_first_token(tmp_path, pixels):
    model = transformers.ViTModel(transformers.ViTConfig(**LAYERS, **LOOKS), add_pooling_layer=False).eval()
    encoder = HubEncoder(saved(model, tmp_path, size={"height": 32, "width": 32})).load()
    torch.testing.assert_close(encoder(pixels), model(scaled(pixels)).last_hidden_state[:, 0])


def test_features_of_clip_are_normalised(tmp_path, pixels):
    words = LAYERS | {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1}
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=words, vision_config=LAYERS | LOOKS)).eval()
    cropped = {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": {"height": 32, "width": 32}}
    encoder = HubEncoder(saved(model, tmp_path, **cropped)).load()
    assert encoder.side == 32, "the size after the crop"
    torch.testing.assert_close(encoder(pixels), model.vision_model(scaled(pixels)).pooler_output)


def test_features_of_beit_are_normalised_means(tmp_path, pixels):
    model = transformers.BeitModel(transformers.BeitConfig(**LAYERS, **LOOKS)).eval()
    encoder = HubEncoder(saved(model, tmp_path, size=32)).load()
    torch.testing.assert_close(encoder(pixels), model(scaled(pixels)).pooler_output)
    bare = transformers.BeitModel(model.config, add_pooling_layer=False)
    with pytest.raises(ConfigError, match=r"2 weights are missing, pooler\.layernorm"):
        HubEncoder(saved(bare, tmp_path, size=32)).load()


@pytest.mark.parametrize(
    ("kind", "more", "problem"),
    [
        ("Swin", {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2}, "no token that stands for"),
        ("Data2VecVision", LAYERS, "no layer that normalises"),
        ("ViTMAE", {**LAYERS, "mask_ratio": 0.5}, "something else each time"),
    ],
)
def test_features_that_stand_for_no_whole_image_are_refused(kind, more, problem, tmp_path):
    config = getattr(transformers, f"{kind}Config")(**LOOKS | {"patch_size": 4}, **more)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    with pytest.raises(ConfigError, match=problem):
        HubEncoder(saved(model, tmp_path, size={"height": 32, "width": 32})).load()


def test_maps_with_channels_last_are_refused(small_resnet, monkeypatch):
    forward = transformers.ResNetModel.forward

    def turned(self, *args, **options):
        found = forward(self, *args, **options)
        found.last_hidden_state = found.last_hidden_state.movedim(1, -1)
        return found

    monkeypatch.setattr(transformers.ResNetModel, "forward", turned)
    with pytest.raises(ConfigError, match=r"its maps are \[1, 4, 4, 16\]: allowed is \[image, 16, row, column\]"):
        HubEncoder(small_resnet).load()


def test_another_scale_of_pixels_is_another_encoder(small_resnet, tmp_path):
    other = shutil.copytree(small_resnet, tmp_path / "other")
    change(other, image_mean=[0.5, 0.5, 0.5])
    assert HubEncoder(str(other)).load().fingerprint() != HubEncoder(small_resnet).load().fingerprint()


def test_another_nonlinearity_is_another_encoder_and_another_folder_is_not(small_resnet, tmp_path):
    folder = shutil.copytree(small_resnet, tmp_path / "other")
    known = HubEncoder(small_resnet).load().fingerprint()
    assert HubEncoder(str(folder)).load().fingerprint() == known
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "gelu"}))
    assert HubEncoder(str(folder)).load().fingerprint() != known


@pytest.mark.parametrize(
    ("said", "shift", "scale"),
    [
        ({"do_normalize": False, "image_mean": None}, [0.0] * 3, [255.0] * 3),
        ({"do_rescale": False}, MEAN, DEVIATION),
        ({"rescale_factor": 1 / 128}, [128 * one for one in MEAN], [128 * one for one in DEVIATION]),
    ],
)
def test_pixels_enter_as_the_preprocessor_s_file_says(small_resnet, tmp_path, said, shift, scale):
    folder = shutil.copytree(small_resnet, tmp_path / "other")
    change(folder, **said)
    encoder = HubEncoder(str(folder)).load()
    assert (encoder.shift, encoder.scale) == (pytest.approx(shift), pytest.approx(scale))


@pytest.mark.parametrize("top", [True, False])
@pytest.mark.parametrize(("rescales", "offset"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("normalises", [True, False])
def test_pixels_enter_as_efficientnet_s_processor_has_them(
    small_resnet, tmp_path, pixels, top, rescales, offset, normalises
):
    folder = shutil.copytree(small_resnet, tmp_path / "other")
    kind = {"image_processor_type": "EfficientNetImageProcessor", "size": {"height": 32, "width": 32}}
    said = {"do_rescale": rescales, "rescale_offset": offset, "do_normalize": normalises}
    change(folder, **kind, **said, **({} if top else {"include_top": False}))  # which is True where nothing is said
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    encoder = HubEncoder(str(folder)).load()
    shift, scale = (torch.tensor(of)[:, None, None] for of in (encoder.shift, encoder.scale))
    expected = processor(list(pixels.float()), return_tensors="pt", input_data_format="channels_first").pixel_values
    torch.testing.assert_close((pixels - shift) / scale, expected.float(), rtol=1e-4, atol=1e-4)


def change(folder, **said) -> None:
    file = folder / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | said))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({"size": None}, "size of None"),
        ({"size": {"height": 2}}, "size of 2"),
        ({"image_mean": None}, "no image_mean"),
        ({"image_std": [1.0, 0.0, 1.0]}, "no image_mean and image_std"),
        ({"image_std": "wide"}, "no image_mean and image_std"),
        ({"rescale_factor": 0}, "rescale_factor of 0"),
        ({"include_top": True, "do_normalize": False, "image_std": None}, "no image_mean and image_std"),
        ({"do_flip_channel_order": True}, "red comes first"),
        ({"image_processor_type": "MobileViTImageProcessor"}, "red comes first"),
    ],
)
def test_a_file_that_does_not_say_how_pixels_enter_is_refused(small_resnet, tmp_path, said, problem):
    folder = shutil.copytree(small_resnet, tmp_path / "other")
    change(folder, **said)
    with pytest.raises(ConfigError, match=problem):
        HubEncoder(str(folder)).load()


def test_weights_that_are_missing_are_not_made_up(tmp_path):
    model = transformers.ViTModel(transformers.ViTConfig(**LAYERS, **LOOKS), add_pooling_layer=False)
    folder = saved(model, tmp_path, size=32)
    transformers.ViTConfig(**LAYERS | {"num_hidden_layers": 3}, **LOOKS).save_pretrained(folder)
    with pytest.raises(ConfigError, match="weights are missing"):
        HubEncoder(folder).load()


def test_a_layer_that_is_not_used_and_came_without_weights_changes_no_fingerprint(tmp_path):
    model = transformers.ViTModel(transformers.ViTConfig(**LAYERS, **LOOKS), add_pooling_layer=False)
    folder = saved(model, tmp_path, size=32)
    assert HubEncoder(folder).load().fingerprint() == HubEncoder(folder).load().fingerprint()


def test_a_model_of_texts_is_refused(tmp_path):
    model = transformers.BertModel(transformers.BertConfig(vocab_size=50, **LAYERS))
    with pytest.raises(ConfigError, match="It takes input_ids"):
        HubEncoder(saved(model, tmp_path, size=32)).load()


@pytest.mark.parametrize("name", ["no/such-model", "/no/such/folder", "."])
def test_what_is_not_there_is_named(name, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        HubEncoder(name).load()
