"""Bytes at random in what is no text: parquet, models, trajectories. Each is read whole, or refused by a sentence."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from calling import call, require_refused_or_begun
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_models import prompt, tiny, word_tokenizer
from test_data_files import images
from test_fuzz import damaged, damages

from featscope.data.splits import _open, open_split
from featscope.language.load import load_model
from featscope.options import ConfigError
from featscope.runs.stored import read_trajectory

LONG_RUN = settings.default.max_examples > 1000
pytestmark = pytest.mark.timeout(7200 if LONG_RUN else 120)

some = settings(max_examples=settings.default.max_examples // 2, suppress_health_check=[HealthCheck.too_slow])


def refusing(damage: list) -> AbstractContextManager[None]:
    """Where what is damaged may be refused, and nothing else may."""
    return suppress(ConfigError) if damage else nullcontext()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[Path, bytes]:
    file = images(tmp_path_factory.mktemp("pictures"))
    return file, file.read_bytes()


@some
@given(damages())
@example([])
def test_bytes_of_parquet(pictures, damage):
    file, sound = pictures
    file.write_bytes(damaged(sound, damage))
    _open.cache_clear()
    with refusing(damage):
        found = open_split(str(file.parent), "train")
        pixels = found.pixels(torch.arange(len(found.labels)))
        assert len(pixels) == len(found.labels) > 0


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny(vocab_size=100, hidden_size=16, intermediate_size=16, num_hidden_layers=2).save_pretrained(folder)
    word_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def broken(model, tmp_path_factory) -> Iterator[Path]:
    """A copy, to be made whole again before each damage."""
    return shutil.copytree(model, tmp_path_factory.mktemp("broken") / "model")


MODEL = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json")


@some
@given(st.sampled_from(MODEL), damages())
@example("model.safetensors", [])
def test_bytes_of_a_model_folder(model, broken, name, damage):
    """A changed letter of a size or a weight may make another model; it must be one that answers with numbers."""
    for file in MODEL:
        shutil.copyfile(model / file, broken / file)
    (broken / name).write_bytes(damaged((model / name).read_bytes(), damage))
    with refusing(damage):
        loaded, _ = load_model(str(broken))
        with torch.no_grad():
            assert torch.isfinite(loaded(prompt(8) % loaded.config.vocab_size).logits).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> tuple[Path, bytes]:
    """The trajectory of a run, and its bytes."""
    place = tmp_path_factory.mktemp("run")
    words = ("run", "tensor-power", "--sequences", "6", "--steps", "8", "--replicas", "2", "--out", "run")
    assert call(*words, within=place, goes="to the end").code == 0
    file = place / "run" / "trajectory.nc"
    return file, file.read_bytes()


@given(damages())
@example([])
def test_bytes_of_a_trajectory(run, damage):
    file, sound = run
    file.write_bytes(spoiled := damaged(sound, damage))
    if spoiled == sound:
        read_trajectory(file.parent)
        return
    with pytest.raises(ConfigError, match=r"trajectory\.nc"):
        read_trajectory(file.parent)


@some
@given(damages())
def test_a_report_of_a_trajectory_of_any_bytes(run, damage):
    file, sound = run
    file.write_bytes(damaged(sound, damage))
    require_refused_or_begun(call("report", "run", within=file.parents[1]), ["trajectory.nc"])


@some
@given(damages())
@example([])
def test_bytes_of_a_picture(damage):
    """PNG and JPEG, as they stand in parquet."""
    from PIL import Image

    from featscope.data.encoded_images import EncodedImages

    pixels = np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8)
    for kind in ("png", "jpeg"):
        out = BytesIO()
        Image.fromarray(pixels).save(out, kind)
        spoiled = damaged(out.getvalue(), damage)
        found = EncodedImages("pictures", torch.tensor([0, 1]), ("a", "b"), lambda i, spoiled=spoiled: spoiled)
        with refusing(damage):
            assert found.pixels(torch.tensor([0])).shape[1] == 3
