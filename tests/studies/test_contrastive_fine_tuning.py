"""The study contrastive-fine-tuning: its parts against slow computation, and planted answers that change verdicts."""

import io

import numpy as np
import pytest
import torch
from planted_answers import require_a_fault_each, require_judged

from featscope.data.encoded_images import EncodedImages
from featscope.losses import NTXent
from featscope.options import ConfigError
from featscope.streams import Streams
from featscope.studies.contrastive_fine_tuning import (
    ContrastiveFineTuning,
    adapter,
    arms,
    clusters,
    pretraining,
    published,
    recipe,
    source,
)
from featscope.studies.contrastive_fine_tuning.recipe import (
    CONTRASTIVE,
    METHODS,
    ONE,
    ONE_TERM,
    TWO_TERM,
    UNTRAINED,
    FineTuning,
)
from featscope.testing import Fault, Trial

# --- Parts ------------------------------------------------------------------------------------------------------------


def draws(purpose: str = "test"):
    return Streams(0, [0]).at(purpose)


def test_adapters_side_by_side_are_adapters():
    weights = adapter.start(3, 4, 5, 2, 3, draws())
    with torch.no_grad():
        for part in weights:
            part += draws("moved").normal(*part.shape)[0]
    x = draws("x").normal(6, 4)[0]
    phi = adapter.adapted(weights, x)
    for one in range(3):
        alone = (x @ weights.inner[one].T + weights.threshold[one]).relu() @ weights.outer[one].T + weights.shift[one]
        torch.testing.assert_close(phi[one], alone)
        torch.testing.assert_close(adapter.logits(weights, phi)[one], alone @ weights.head[one].T + weights.bias[one])
    torch.testing.assert_close(adapter.adapted(adapter.some(weights, 1, 3), x), phi[1:])


def test_labels_are_of_each_class_as_many():
    labels = torch.tensor([0] * 50 + [1] * 30 + [2] * 4)
    chosen = recipe.balanced(labels, 3, 24, draws())
    assert len(set(chosen.tolist())) == 24
    assert torch.bincount(labels[chosen]).tolist() == [10, 10, 4]
    assert len(recipe.balanced(labels, 3, 1000, draws())) == 84


def test_two_views_differ_and_all_come_up():
    views = torch.arange(40).view(10, 4, 1).float()
    seen = set()
    for turn in range(30):
        one, other = recipe.two_of(views, draws(f"turn {turn}"))
        assert (one != other).all()
        assert torch.equal(one.long() // 4, torch.arange(10)[:, None])
        seen |= set(one.flatten().tolist())
    assert len(seen) == 40


def test_classes_that_are_chosen_become_the_first():
    every = source.made_up("images")
    some = recipe._of_classes(every, 2, draws())
    assert some.classes == 2
    assert set(some.labels.tolist()) == {0, 1}
    row = (every.features == some.features[0]).all(1).nonzero().item()
    other = (every.features == some.features[some.labels.tolist().index(1 - int(some.labels[0]))]).all(1).nonzero()
    assert every.labels[row] != every.labels[other.item()]
    assert len(some.views) == len(some.features) == len(some.labels)


def test_cka_knows_rotations_and_strangers():
    x = draws().normal(50, 3)[0]
    turn = torch.linalg.qr(draws("turn").normal(3, 3)[0]).Q
    assert pretraining.cka(x, 2 * x @ turn + 1) == pytest.approx(1)
    a, b = ((part - part.mean(0)).numpy().astype(float) for part in (x, draws("other").normal(50, 2)[0]))
    grams = a @ a.T, b @ b.T  # the same by inner products of samples
    slow = np.sum(grams[0] * grams[1]) / np.sqrt(np.sum(grams[0] ** 2) * np.sum(grams[1] ** 2))
    assert pretraining.cka(torch.tensor(a), torch.tensor(b)) == pytest.approx(slow)


def test_views_are_the_same_at_each_call_and_differ_from_each_other():
    images = (255 * draws().uniform(4, 3, 8, 8)[0]).to(torch.uint8)
    plain, one, other = source.Augmented(images), source.Augmented(images, 0), source.Augmented(images, 1)
    rows = torch.arange(4)
    assert torch.equal(plain.pixels(rows), images)
    assert torch.equal(one.pixels(rows), source.Augmented(images, 0).pixels(rows))
    assert not torch.equal(one.pixels(rows), other.pixels(rows))
    assert len({each.fingerprint() for each in (plain, one, other)}) == 3


# --- Files ------------------------------------------------------------------------------------------------------------


def test_lines_of_sentences_end_at_line_feeds_alone(tmp_path):
    (tmp_path / "sentences").mkdir()
    lines = [f"{i % 2} sentence {i} goes\x85 on\u2028 and on" for i in range(700)]
    (tmp_path / "sentences" / "rt-polarity.all").write_text("\n".join(lines) + "\n", "utf-8")
    pool, labels, test, test_labels, classes = source._sentences("mr", tmp_path)
    assert (len(pool), len(test), classes) == (600, 100, 2)
    assert not set(pool) & set(test)
    for text, label in zip(pool + test, torch.cat([labels, test_labels]).tolist(), strict=True):
        assert int(text.split()[1]) % 2 == label
        assert text.endswith("and on")


def test_the_mark_before_a_file_is_not_of_its_first_label(tmp_path):
    """As editors on Windows write it."""
    (tmp_path / "mr").write_text("\ufeff0 one\n1 two\n", "utf-8")
    assert source._lines(tmp_path / "mr") == [("0", "one"), ("1", "two")]


def test_tables_are_read(tmp_path):
    (tmp_path / "sst2").mkdir()
    for name, count in (("train", 20), ("test", 6)):
        lines = ["sentence\tlabel"] + [f"{name} {i} \t{i % 2}" for i in range(count)]
        (tmp_path / "sst2" / f"{name}.tsv").write_text("\n".join(lines))
    pool, labels, test, test_labels, _ = source._sentences("sst2", tmp_path)
    assert (len(pool), test[3], int(test_labels[3])) == (20, "test 3", 1)
    assert [int(text.split()[1]) % 2 for text in pool] == labels.tolist()


def test_a_table_without_labels_is_refused(tmp_path):
    """As GLUE's test.tsv is: a number and a sentence in each line."""
    (tmp_path / "sst2").mkdir()
    train = ["sentence\tlabel"] + [f"film {i} \t{i % 2}" for i in range(20)]
    (tmp_path / "sst2" / "train.tsv").write_text("\n".join(train))
    (tmp_path / "sst2" / "test.tsv").write_text("index\tsentence\n" + "\n".join(f"{i}\tplay {i}" for i in range(6)))
    message = r"columns of test\.tsv are index, sentence, and none is 'label': .* of GLUE's files take dev\.tsv"
    with pytest.raises(ConfigError, match=message):
        source._sentences("sst2", tmp_path)


def test_columns_of_tables_go_by_their_names_and_quotes_of_pandas_are_none(tmp_path):
    """Tables as pandas writes them, with the number of each row, and with a column behind the label."""
    (tmp_path / "sst2").mkdir()
    texts = [('plain "a film', 'plain "a film'), ('"she said ""no"" twice"', 'she said "no" twice'), ("it", "it")]
    train = ["\tsentence\tlabel"] + [f"{i}\t{texts[i % 3][0]}\t{i % 2}" for i in range(20)]
    test = ["sentence\tlabel\tidx"] + [f"{texts[i % 3][0]}\t{i % 2}\t{i}" for i in range(6)]
    for name, lines in (("train", train), ("test", test)):
        (tmp_path / "sst2" / f"{name}.tsv").write_text("\n".join(lines))
    pool, _, found, labels, classes = source._sentences("sst2", tmp_path)
    assert (set(pool), classes) == ({text for _, text in texts}, 2)
    assert (found, labels.tolist()) == ([text for _, text in texts] * 2, [0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("a film\t1\na play\t0\n", "columns of train.tsv are a film, 1, and none is 'label': name them in its first"),
        ("text\tlabel\na film\t1\n", "columns of train.tsv are text, label, and none is 'sentence'"),
        ('sentence\tlabel\na film\t1\n"a\tfilm"\t1\n', "line 3 of train.tsv has not 2 columns: '\"a\\\\tfilm"),
        ("sentence\tlabel\n", "train.tsv has no sentence"),
        ("", "train.tsv has no sentence"),
    ],
)
def test_tables_of_other_columns_are_refused(tmp_path, table, message):
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.tsv").write_text(table)
    with pytest.raises(ConfigError, match=message):
        source._sentences("sst2", tmp_path)


def test_a_line_without_a_sentence_is_named_by_its_number(tmp_path):
    (tmp_path / "sentences").mkdir()
    file = tmp_path / "sentences" / "custrev.all"
    file.write_text("0 one\n\n1 two\n0 \n")
    assert source._lines(file) == [("0", "one"), ("1", "two"), ("0", "")]
    file.write_text("0 one\n\n1 two\nbroken\n")
    with pytest.raises(ConfigError, match=r"line 4 of custrev\.all is no label with a sentence: 'broken'"):
        source._sentences("cr", tmp_path)
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2" / "train.tsv").write_text("sentence\tlabel\na film\t1\na film 0\n")
    with pytest.raises(ConfigError, match=r"line 3 of train\.tsv has not 2 columns: 'a film 0'"):
        source._sentences("sst2", tmp_path)


def test_labels_that_are_tested_on_are_in_the_pool(tmp_path):
    """Where the test is a part of the same file, too: one label is one too many."""
    (tmp_path / "sentences").mkdir()
    order = Streams(0, [0]).at("pool").choice(1600, 1600)[0].tolist()
    labels = [i % 2 for i in range(1600)]
    labels[order[700]] = 7
    (tmp_path / "sentences" / "subj.all").write_text("\n".join(f"{label} some words" for label in labels))
    with pytest.raises(ConfigError, match=r"labels that are trained on\. One is '7'\. None of the 600 "):
        source._sentences("subj", tmp_path)


def test_sentences_that_are_not_there_are_named(tmp_path):
    for place in (str(tmp_path), "\0", 300 * "x"):
        with pytest.raises(ConfigError, match="allowed is a folder with the sentences of 'trec'"):
            source.samples_of("trec", source.Data(place))


def test_images_of_other_classes_are_not_tested_on(monkeypatch):
    of = {"train": ("cat", "dog"), "test": ("dog", "cat")}

    def opened(_, split):
        return EncodedImages("data", torch.tensor([0, 1]), of[split], lambda i: b"")

    monkeypatch.setattr(
        EncodedImages, "pixels", lambda self, index: torch.zeros(len(index), 3, 4, 4, dtype=torch.uint8)
    )
    monkeypatch.setattr(source, "open_split", opened)
    with pytest.raises(ConfigError, match="Class 0 is 'cat' in train, and 'dog' in test"):
        source._images("data")
    of["test"] = ("cat", "dog", "emu")

    def with_another(_, split):
        return EncodedImages("data", torch.tensor([0, 1, *([2] if split == "test" else [])]), of[split], lambda i: b"")

    monkeypatch.setattr(source, "open_split", with_another)
    with pytest.raises(ConfigError, match=r"test images of the 2 classes that are trained on\. One has the label 2"):
        source._images("data")


def test_images_of_both_layouts_become_features(tmp_path, monkeypatch):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("datasets"), pytest.importorskip("kornia")
    from PIL import Image

    def encoded(shade: int) -> dict[str, bytes]:
        out = io.BytesIO()
        Image.new("RGB", (8, 8), (shade, 255 - shade, 0)).save(out, "PNG")
        return {"bytes": out.getvalue()}

    class Pixels:
        def load(self):
            return self

    monkeypatch.setattr(source, "EfficientNetLite0", Pixels)
    monkeypatch.setattr(
        source, "cached_features", lambda _, images: images.pixels(torch.arange(len(images))).float().mean((-2, -1))
    )
    for name in ("cifar10", "pacs"):
        (tmp_path / name).mkdir()
    for split, count in (("train", 12), ("test", 6)):
        table = {"img": [encoded(i) for i in range(count)], "label": [i % 3 for i in range(count)]}
        pq.write_table(pa.table(table), tmp_path / "cifar10" / f"{split}-0.parquet")
    rows = {"image": [encoded(i) for i in range(24)], "label": [i % 2 for i in range(24)]}
    pq.write_table(pa.table(rows | {"domain": ["photo", "sketch"] * 12}), tmp_path / "pacs" / "train-0.parquet")
    found = source.samples_of("images", source.Data(str(tmp_path)))
    assert (len(found.features), len(found.test), found.classes) == (12, 6, 3)
    assert found.views.shape == (12, 10, 3)
    photos = source.samples_of("photos", source.Data(str(tmp_path)))
    assert (len(photos.features), len(photos.test)) == (8, 4)
    table = {"img": [encoded(i) for i in range(9)], "label": [0, 1, 2] * 3}
    pq.write_table(pa.table(table), tmp_path / "cifar10" / "train-0.parquet")
    assert len(source.samples_of("images", source.Data(str(tmp_path))).features) == 9, "the folder has changed"
    with pytest.raises(ConfigError, match="a domain 'cartoon'"):
        source.samples_of("cartoons", source.Data(str(tmp_path)))


# --- Training ---------------------------------------------------------------------------------------------------------


def one(**changes) -> FineTuning:
    sizes = {"units": 16, "batch": 20, "steps_each": 60, "rate": 0.01} | changes
    return FineTuning("images", source.Data(source.MADE_UP), (60,), (10,), (0,), **sizes)


@pytest.fixture(scope="module")
def trained():
    return one().asker(Streams(0, [0]))(60, 10, 0)


def test_every_method_learns(trained):
    assert len(trained["accuracy"]) == len(METHODS)
    for name, accuracy in zip(METHODS, trained["accuracy"], strict=True):
        assert accuracy > (0.35 if name.startswith("untrained") else 0.6), name


def test_fewer_labels_and_classes_than_asked_for_are_told():
    ask = one(steps_each=1).asker(Streams(0, [0]))  # made up: 300 samples of 4 classes
    for (labels, classes), there in (((1000, 5), (300, 4)), ((60, 2), (60, 2)), ((60, 0), (60, 4))):
        found = ask(labels, 10, classes)
        assert (found["labelled"], found["told"]) == there


def test_the_first_term_is_that_of_the_start(trained):
    samples = source.made_up("images")
    streams = Streams(0, [0])
    rows = recipe.balanced(samples.labels, samples.classes, 60, streams.at("labelled", 0))
    batches = streams.at("batches", 60)
    pick = rows[batches.choice(60, 20)[0]]
    both = recipe.two_of(samples.views[pick], batches)
    weights = adapter.start(1, 24, 16, 8, samples.classes, streams.at("adapter"))
    with torch.no_grad():
        expected = NTXent(0.5)(*(adapter.adapted(weights, part)[0] for part in both))
    assert trained["first_term"] == pytest.approx(float(expected), rel=1e-5)


def test_without_a_weight_the_term_changes_nothing(monkeypatch):
    monkeypatch.setattr(recipe, "WEIGHTS", (0.0, 0.0))
    found = one(steps_each=10).asker(Streams(0, [0]))(60, 10, 0)["accuracy"]
    assert found[ONE] == found[ONE_TERM] == found[ONE_TERM + 1]
    assert found[recipe.TWO] == found[TWO_TERM] == found[TWO_TERM + 1] != found[ONE]


def first_gradients(
    asked: FineTuning, samples: source.Samples, of_equal_views: bool = False
) -> dict[int, torch.Tensor]:
    """Gradients of all weights of each method that is told classes, at its first step.

    Equal views are so but for rounding: the term refuses what is the same.
    """
    near = torch.stack([samples.features, samples.features * (1 + 1e-6)], 1)
    views = near if of_equal_views else samples.views
    weights = asked.start(samples, draws("adapter"))
    asked.fit(weights, samples.features, views, samples.labels, draws("batches"))
    found = torch.cat([part.grad.flatten(1) for part in weights], 1)
    return {recipe.BARE + place: gradient for place, gradient in enumerate(found)}


def test_each_method_has_the_term_of_its_weight_and_others_have_none(monkeypatch):
    monkeypatch.setattr(recipe, "WEIGHTS", (0.0, 1.0))
    found = first_gradients(one(steps_each=1), source.made_up("images"))
    for bare, silent in ((ONE, ONE_TERM), (recipe.TWO, TWO_TERM)):
        torch.testing.assert_close(found[bare], found[silent])
        assert (found[bare] - found[silent + 1]).norm() > 0.1 * found[bare].norm()


def test_two_views_weigh_as_much_as_one():
    """Where both are the same, two views are one, with the term and without."""
    found = first_gradients(one(steps_each=1), source.made_up("images"), of_equal_views=True)
    for single, both in ((recipe.BARE, ONE), (ONE, recipe.TWO), (ONE_TERM, TWO_TERM), (ONE_TERM + 1, TWO_TERM + 1)):
        torch.testing.assert_close(found[single], found[both])


def test_wrong_pairs_harm_what_the_term_learns(trained):
    wrong = one(wrong_pairs=True).asker(Streams(0, [0]))(60, 10, 0)["accuracy"]
    assert wrong[ONE] == trained["accuracy"][ONE], "the same training without the term"
    assert wrong[CONTRASTIVE] < trained["accuracy"][CONTRASTIVE] - 0.1


def test_a_term_that_is_silent_is_refused(monkeypatch):
    monkeypatch.setattr(recipe, "TEMPERATURE", 0.003)
    near = source.made_up("images")
    near = near._replace(views=near.features[:, None].expand(-1, 10, -1).contiguous())
    monkeypatch.setattr(recipe, "samples_of", lambda name, data: near)
    with pytest.raises(ConfigError, match="the contrastive term begins at"):
        one().asker(Streams(0, [0]))(60, 10, 0)


def test_pre_training_on_one_set_serves_it():
    ask = pretraining.Unions(source.Data(source.MADE_UP), 60, 16, 40, 60, 0.01).asker(Streams(0, [0]))
    alone, all_sets = ask(100, 1), ask(100, 4)
    assert alone["similarity"] == pytest.approx(1)
    assert all_sets["similarity"] < 0.999
    assert alone["accuracy"][0] > 0.6


def moved(before: adapter.Weights, after: adapter.Weights) -> list[bool]:
    return [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]


def test_contrastive_training_moves_all_of_the_adapter_and_no_head():
    pool = source.made_up("images").views
    still, trained = (
        pretraining.Unions(source.Data(source.MADE_UP), 60, 16, 40, steps, 0.01).pretrained(pool, Streams(0, [0]))
        for steps in (0, 1)
    )
    assert moved(still, trained) == 4 * [True] + 2 * [False]
    weights = adapter.start(1, pool.shape[-1], 16, 8, 4, draws())
    before = adapter.Weights(*(part.detach().clone() for part in weights))
    one(steps_each=1)._pull(weights, pool, draws("batches"))
    assert moved(before, weights) == 4 * [True] + 2 * [False]


def test_what_is_drawn_on_the_cpu_is_noted():
    sizes = source.Data(source.MADE_UP), 60, 16, 40, 1, 0.01
    for asked in (one(steps_each=1), pretraining.Unions(*sizes), pretraining.Kinds(*sizes)):
        streams = Streams(0, [0])
        asked.build(streams).advance(0)
        assert streams.purposes >= {"adapter", "batches", "labelled"}


def pools_of(monkeypatch, recipe, *question):
    """The samples that a question pre-trains on, as indices of rows of the sets, which are told apart by set."""
    every = [source.made_up(name) for name in pretraining.SETS]
    known = {
        row.numpy().tobytes(): (place, i) for place, one in enumerate(every) for i, row in enumerate(one.views[:, 0])
    }
    seen = []
    pretrained = recipe.pretrained
    monkeypatch.setattr(
        type(recipe), "pretrained", lambda self, pool, streams: seen.append(pool) or pretrained(pool, streams)
    )
    recipe.asker(Streams(0, [0]))(*question)
    return [known[row.numpy().tobytes()] for row in seen[-1][:, 0]]


def test_a_share_is_of_the_target_alone(monkeypatch):
    fifth = pretraining.Unions(source.Data(source.MADE_UP), 60, 16, 40, 1, 0.01, (100, 20))
    assert pools_of(monkeypatch, fifth, 20, 2) == [(0, i) for i in range(60)] + [(1, i) for i in range(300)]


def test_kinds_are_classes_of_other_sets_and_images_stay_as_many(monkeypatch):
    kinds = pretraining.Kinds(source.Data(source.MADE_UP), 60, 16, 40, 1, 0.01, (12, 3, 1))
    labels = [source.made_up(name).labels for name in pretraining.SETS]
    counts = []
    for part in kinds.parts:  # of 12
        with monkeypatch.context() as patch:
            pool = pools_of(patch, kinds, part)
        assert pool[:300] == [(0, i) for i in range(300)]
        others = pool[300:]
        assert len(set(others)) == len(others)
        assert len({(place, int(labels[place][i])) for place, i in others}) == 12 // part
        counts.append(len(others))
    assert len(set(counts)) == 1
    assert counts[0] > 40


@pytest.mark.long
def test_clusters_are_those_of_the_same_training(monkeypatch):
    sizes = ("images", source.Data(source.MADE_UP), (60,), (10,), (0,), 16, 20, 60, 0.01)
    found = clusters.Clusters(*sizes).asker(Streams(0, [0]))(60, 10, 0)
    tight = dict(zip(clusters.FEATURES, found["silhouette"], strict=True))
    assert tight["one view"] > tight["the encoder"] + 0.1, "classes are what it was trained for"
    assert tight["two views"] > tight["the encoder"] + 0.1
    seen = []
    monkeypatch.setattr(clusters, "silhouette", lambda features, _: seen.append(features) or 0.0)
    clusters.Clusters(*sizes).asker(Streams(0, [0]))(60, 10, 0)
    trained, logits = [], adapter.logits
    monkeypatch.setattr(
        recipe.adapter, "logits", lambda weights, phi: trained.append(phi.detach()) or logits(weights, phi)
    )
    FineTuning(*sizes).asker(Streams(0, [0]))(60, 10, 0)
    tested = trained[-1]  # of all methods, on the samples that are tested on
    assert torch.equal(seen[clusters.ENCODER], source.made_up("images").test)
    for place, method in ((clusters.PLAIN, ONE), (clusters.TERM, ONE_TERM + 1), (clusters.BOTH_TERM, TWO_TERM + 1)):
        assert torch.equal(seen[place], tested[method - recipe.BARE])
    assert len(found["position"]) == 3 * 200 * 2
    assert found["named"] == source.made_up("images").test_labels[:200].tolist()


# --- Claims -----------------------------------------------------------------------------------------------------------


def planted(term=-0.002, second=0.0, trained=0.2, first=3.0, cold=1e-4, fall=0.5, by_heart=0.1, few=0.1):
    """An `asker` of `FineTuning` that answers with these gains, and a little noise."""

    def asker(self, streams):
        def ask(labels, views, classes):
            accuracy = dict.fromkeys(range(len(METHODS)), 0.6 + few * (classes == 2))
            for place in (ONE_TERM, ONE_TERM + 1):
                accuracy[place] += term
            accuracy[recipe.TWO] += second
            for place in (TWO_TERM, TWO_TERM + 1):
                accuracy[place] += second + term
            accuracy[CONTRASTIVE] = accuracy[UNTRAINED] + trained
            noise = 1e-4 * streams.at(f"noise {self.source} {views} {classes}", labels).normal(len(METHODS) + 2)[0]
            found = torch.tensor(list(accuracy.values())).double() + noise[:-2]
            beginnings = {"first_term": first * (1 + float(noise[-1])), "cold_term": cold * (1 + float(noise[-2]))}
            beginnings["last_term"] = [2 + float(noise[place]) for place in range(recipe.ONE, recipe.CONTRASTIVE)]
            for place in (ONE_TERM, ONE_TERM + 1, TWO_TERM, TWO_TERM + 1):
                beginnings["last_term"][place - recipe.ONE] -= fall + by_heart * (views == 2)
            there = {"labelled": float(labels), "told": float(classes or 10)}
            return {"accuracy": found.tolist(), "cosine": 0.9, **beginnings, **there}

        return ask

    return asker


def planted_unions(all_sets=0.7, similar=0.5, fifth=0.05, back=0.02):
    def asker(self, streams):
        def ask(share, sets):
            noise = 1e-4 * streams.at(f"noise {share}", sets).normal(5)[0].double()
            level = {1: 0.6, 4: all_sets}.get(sets, 0.65)
            level += (share == 20) * (back * (sets == 4) - fifth)
            likeness = {1: 1.0, 4: similar}.get(sets, 0.8)
            return {"accuracy": (level + noise[:4]).tolist(), "similarity": likeness + float(noise[4])}

        return ask

    return asker


def planted_kinds(level=0.7, kinds=lambda part: 21 // part, beside=lambda part: 190):
    def asker(self, streams):
        def ask(part):
            accuracy = level + 1e-4 * float(streams.at("noise", part).normal(1)[0])
            return {"accuracy": accuracy, "kinds": kinds(part), "beside": beside(part)}

        return ask

    return asker


def planted_clusters(tuned=0.1):
    def asker(self, streams):
        def ask(labels, views, classes):
            noise = 1e-4 * streams.at("noise").normal(5)[0].double()
            tight = torch.tensor([0, tuned, tuned, tuned, tuned]) + noise
            return {"silhouette": tight.tolist(), "position": [0.0] * 1200, "named": [0.0] * 200}

        return ask

    return asker


@pytest.fixture(scope="module")
def trial():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters.Clusters, "asker", planted_clusters())
        patch.setattr(pretraining.Kinds, "asker", planted_kinds())
        patch.setattr(FineTuning, "asker", planted())
        patch.setattr(pretraining.Unions, "asker", planted_unions())
        found = Trial(ContrastiveFineTuning(data="a folder"), replicas=6)
        assert found.runs
        yield found


def test_expected_claims_hold_and_all_are_judged(trial):
    fails = {("printed-gains-are-all-above-zero", "Tables F.5 to F.8"), ("printed-probes-gain", "CINIC-10")}
    fails |= {("printed-trade-off", "Table F.1, all labels"), ("printed-trade-off", "Table F.2, 8k labels")}
    fails |= {("a-cold-term-is-there", name) for name in arms.TEXTS}
    require_judged(trial, fails)


ASKER, UNIONS, KINDS = ((recipe_, "asker") for recipe_ in (FineTuning, pretraining.Unions, pretraining.Kinds))
SWAPPED = {name: (after, before) for name, (before, after) in published.PROBES.items()}
REVERSED = {name: [pair[::-1] for pair in pairs] for name, pairs in published.TRADE_OFF.items()}
FAULTS = {
    f"the term is silent: {arm}": Fault(*ASKER, planted(first=0.01), "the-term-is-there", arm) for arm in arms.TARGETS
}
FAULTS |= {
    f"the term is computed and not trained on: {arm}": Fault(*ASKER, planted(fall=0.0), "training-lowers-the-term", arm)
    for arm in arms.TARGETS
}
FAULTS |= {
    "contrastive training does nothing": Fault(
        *ASKER, planted(trained=-0.01), "contrastive-training-does-something", "images"
    ),
    "more sets serve none": Fault(*UNIONS, planted_unions(all_sets=0.5), "more-sets-serve-all", "unions"),
    "a fifth is as good": Fault(*UNIONS, planted_unions(fifth=-0.01), "less-of-the-target-costs", "unions"),
    "other sets serve a fifth less": Fault(
        *UNIONS, planted_unions(back=-0.02), "other-sets-stand-in-for-the-target", "unions"
    ),
    "fine-tuning scatters": Fault(
        clusters.Clusters, "asker", planted_clusters(-0.1), "fine-tuning-makes-clusters", "clusters"
    ),
    "two views are no nearer than five": Fault(
        *ASKER, planted(by_heart=0.0), "few-views-are-learned-by-heart", "few-views"
    ),
    "two classes are as hard as five": Fault(*ASKER, planted(few=0.0), "few-classes-are-told-apart", "few-classes"),
    "pre-training on all sets does nothing": Fault(
        *UNIONS, planted_unions(all_sets=0.6), "pretraining-does-something", "unions"
    ),
    "pre-training on all kinds does nothing": Fault(
        *KINDS, planted_kinds(level=0.6), "pretraining-does-something", "kinds"
    ),
    "always as many kinds": Fault(*KINDS, planted_kinds(kinds=lambda part: 3), "kinds-are-ever-more", "kinds"),
    "more images of more kinds": Fault(
        *KINDS, planted_kinds(beside=lambda part: 630 // part), "as-many-images-of-more-kinds", "kinds"
    ),
    "features come back": Fault(*UNIONS, planted_unions(similar=0.9), "features-move-away", "unions"),
}
FAULTS |= {
    f"{table}: over the probe at 1 %": Fault(
        published, "gains", lambda *_, **__: [-0.1], "printed-gains-are-all-above-zero", table, ("cr",)
    )
    for table in ("Table 7.1", "Table 7.2")
}
FAULTS |= {
    f"{name}: before and after swapped": Fault(published, "PROBES", SWAPPED, "printed-probes-gain", name, ("cr",))
    for name in published.PROBES
    if name != "CINIC-10"
}
FAULTS |= {
    f"{name}: specific and diverse swapped": Fault(published, "TRADE_OFF", REVERSED, "printed-trade-off", name, ("cr",))
    for name in published.TRADE_OFF
    if name not in ("Table F.1, all labels", "Table F.2, 8k labels")
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_takes_holds_from_an_expected_claim(trial, monkeypatch, fault):
    trial.require_noticed(fault, monkeypatch)


def test_every_expected_claim_has_a_fault(trial):
    require_a_fault_each(trial, FAULTS.values())


def test_gains_are_seen_where_there_are_any(trial, monkeypatch):
    monkeypatch.setattr(FineTuning, "asker", planted(term=0.02, second=0.03))
    claims = trial.again("images")
    for name, points in (
        ("the-term-beats-fine-tuning", 2),
        ("the-term-beats-two-views", 2),
        ("a-second-view-helps", 3),
    ):
        assert claims[name, "images"].verdict == "holds"
        assert claims[name, "images"].measured == pytest.approx(points, abs=0.05)
    found = trial.study.story(trial.runs, list(claims.values())).found
    assert found.startswith("A contrastive term helps fine-tuning on 1 of 7 data sets, on 1 beyond")


def test_points_are_at_what_there_is(trial):
    def points(runs):
        (growth,) = (figure for figure in trial.study.figures(runs) if figure.id == "growth")
        assert all(len(curve.y) == len(curve.x) for panel in growth.panels for curve in panel.curves)
        return [panel.curves[0].x.tolist() for panel in growth.panels]

    asked = [[100, 300, 1000], [100, 300], [2, 5, 10], [2, 5, 10]]  # labels of two sets, views, classes
    assert points(trial.runs) == asked
    cut = {
        name: trial.run(name).assign(
            labelled=trial.run(name).labelled.clip(max=300), told=trial.run(name).told.clip(max=4)
        )
        for name in ("images", "few-classes")
    }
    assert points({**trial.runs, **cut}) == [[100, 300], [100, 300], [2, 5, 10], [2, 4]]
    before = {name: run.drop_vars(["labelled", "told"]) for name, run in cut.items()}  # as once stored
    assert points({**trial.runs, **before}) == asked


def test_printed_cells_are_those_of_the_tables_in_the_text():
    assert published.gains("F.5", fractions=(100,)) == [0.93, 0.91, 0.9, 0.74]
    assert len(published.gains("F.5 F.6 F.7 F.8")) == 90
    assert min(published.gains("F.5 F.6 F.7 F.8")) == -0.28
    assert published.cells("F.7 GTSRB, 10", 2)[-1] == (81.28, 0.10)


def test_what_pre_training_takes_twice_is_said():
    study = ContrastiveFineTuning(batch=30, steps=70)
    for name in (arms.UNIONS, arms.KINDS):
        assert (study.arm(name).recipe.batch, study.arm(name).recipe.steps_each) == (60, 140)
    assert "140 steps of 60 samples" in study.arm(arms.UNIONS).about
    said = str(arms.ContrastiveFineTuningArms.__doc__)
    assert said.count("on the arms `unions` and `kinds`.") == 2


def test_the_story_names_data_that_say_nothing(trial):
    assert ContrastiveFineTuning().warning.startswith("MADE-UP")
    found = trial.study.story(trial.runs, list(trial.healthy.values())).found
    assert found.startswith("No gain by a contrastive term is to be seen on any of 7 data sets; it harms on 7.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": ""}, "data = ''"),
        ({"units": 7}, "units = 7"),
        ({"batch": 1}, "batch = 1 .* negatives"),
        ({"steps": 0}, "steps = 0"),
        ({"rate": 0.0}, "rate = 0.0"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        ContrastiveFineTuning(**options)
