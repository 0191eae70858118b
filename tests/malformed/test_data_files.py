"""Data that are not what they should be: images, texts, weights and tables with other bytes are refused by name."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from broken_bytes import BYTES
from calling import call, require_refused
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fuzz import damaged, damages

pytestmark = pytest.mark.timeout(1200)


def images(folder: Path) -> Path:
    """Two classes of small pictures in the layout of the Hub; the file that is to be spoiled."""
    from io import BytesIO

    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    def png(seed: int) -> bytes:
        out = BytesIO()
        Image.fromarray(np.random.default_rng(seed).integers(0, 256, (32, 32, 3), np.uint8)).save(out, "png")
        return out.getvalue()

    for split in ("train", "test"):
        pictures = [{"bytes": png(seed), "path": None} for seed in range(40)]
        table = pa.table({"img": pictures, "label": [seed % 2 for seed in range(40)]})
        pq.write_table(table, folder / f"{split}-00000-of-00001.parquet")
    return folder / "train-00000-of-00001.parquet"


def sentences(folder: Path) -> Path:
    """A table of labelled sentences."""
    lines = [f"a {'good' if n % 2 else 'bad'} film number {n}\t{n % 2}" for n in range(120)]
    (folder / "sst.tsv").write_text("sentence\tlabel\n" + "\n".join(lines) + "\n")
    return folder / "sst.tsv"


def published(folder: Path) -> Path:
    """A table of published means."""
    (folder / "table.csv").write_text(TABLE)
    return folder / "table.csv"


TABLE = """\
# Three runs a side, standard errors.
id,source,statement,arm,mean,error,n,error_is,relation,bound,against_mean,against_error,against_n
sure,Table 1,A beats B,one [b]set[/b],2.0,0.05,3,mean,>,0,1.0,0.05,3
barely,Table 1,A beats B,another,1.35,0.05,3,mean,>,0,1.0,0.05,3
lost,Table 2,A beats B,a third,0.0,0.05,3,mean,>,0,1.0,0.05,3
near,Table 2,A beats B,a fourth,1.1,0.05,3,mean,>,0,1.0,0.05,3
alone,Table 2,C is small,,0.5,0.1,,sample,<=,1,,,
"""
KINDS: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "images": (images, ("run", "longtail-images", "--data", ".", "--largest", "8", "--imbalance", "2", "--out", "out")),
    "sentences": (sentences, ("run", "icl-flipped-labels", "--data", "sst.tsv", "--out", "out")),
    "table": (published, ("judge", "table.csv")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", BYTES)
def test_a_file_of_data_with_other_bytes(tmp_path, kind, how):
    made, words = KINDS[kind]
    file = made(tmp_path)
    file.write_bytes(BYTES[how](file.read_bytes()))
    ended = call(*words, within=tmp_path, goes="one step")
    if kind == "sentences" and how == "without its end":  # a label less
        assert ended.code in (None, 2), ended
        return
    require_refused(ended, [file.name, "--data", "data = "])


@pytest.mark.parametrize("study", ["input-structure", "learned-filters"])
@pytest.mark.parametrize("option", ["--digits", "--photographs"])
def test_data_that_are_not_there_are_named_by_their_option(tmp_path, study, option):
    ended = call("run", study, option, "./nowhere", "--out", "out", within=tmp_path, goes="one step")
    require_refused(ended, [f"{option} = './nowhere'", "allowed is an existing folder"])


few = settings(
    max_examples=settings.default.max_examples // 10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@few
@given(st.sampled_from(["sentences", "table"]), damages())
def test_bytes_of_data_at_random(tmp_path_factory, kind, damage):
    folder = tmp_path_factory.mktemp(kind)
    made, words = KINDS[kind]
    file = made(folder)
    file.write_bytes(damaged(file.read_bytes(), damage))
    ended = call(*words, within=folder, goes="one step")
    if ended.code not in (None, 0):  # what was spoiled may be a letter of a sentence
        require_refused(ended, [file.name, "data = ", words[1]])
