"""Claims of contrastive fine-tuning on answers by chance, and what is read out beside the trainings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr

from featscope.losses import NTXent
from featscope.streams import Streams
from featscope.studies.contrastive_fine_tuning import (
    ContrastiveFineTuning,
    clusters,
    pretraining,
    published,
    recipe,
    source,
)
from featscope.studies.contrastive_fine_tuning.recipe import METHODS, FineTuning
from featscope.testing import Fault, Trial, by_name

STUDY = ContrastiveFineTuning(data="a folder")
ASKED = {"labels": 3, "views": 1, "classes": 1}


def by_chance(**axes: int) -> xr.DataArray:
    """Three replicas."""
    draws = np.random.default_rng(list(axes.values()))
    return xr.DataArray(draws.random((3, *axes.values())), dims=("replica", *axes))


@pytest.fixture(scope="module")
def runs() -> dict[str, xr.Dataset]:
    asked = xr.Dataset(
        {
            "accuracy": by_chance(**ASKED, method=len(METHODS)),
            "first_term": by_chance(**ASKED) + 1,
            "cold_term": by_chance(**ASKED) + 2,
            "last_term": by_chance(**ASKED, viewed=6),
        }
    )
    unions = {"accuracy": by_chance(share=2, sets=4, target=4), "similarity": by_chance(share=2, sets=4) / 2}
    return {
        "images": asked,
        "clusters": xr.Dataset({"silhouette": by_chance(labels=1, views=1, classes=1, features=5)}),
        "unions": xr.Dataset(unions),
        "kinds": xr.Dataset(
            {
                "accuracy": by_chance(part=3),
                "kinds": (("replica", "part"), [[3.0, 7.0, 21.0]] * 3),
                "beside": (("replica", "part"), [[190.0, 190.0, 188.0]] * 3),
            }
        ),
        "few-views": xr.Dataset({"last_term": by_chance(labels=1, views=2, classes=1, viewed=6)}),
        "few-classes": xr.Dataset({"accuracy": by_chance(labels=1, views=1, classes=2, method=len(METHODS))}),
    }


def measured(runs: dict[str, xr.Dataset], arm: str) -> dict[str, float]:
    """What each claim on an arm measures."""
    tests = [test for test in ContrastiveFineTuning.tests if arm in test.arms(STUDY)]
    return {test.statement.id: test.judge(STUDY, arm, runs).measured for test in tests}


def test_claims_on_the_term_are_differences_of_the_methods_that_they_name(runs):
    at = dict(zip(METHODS, 100 * runs["images"].accuracy[:, 0, 0, 0].values.mean(0), strict=True))
    most = dict(zip(METHODS, 100 * runs["images"].accuracy[:, -1, 0, 0].values.mean(0), strict=True))
    strong, one, two = "one view and term, 1", "one view", "two views"
    expected = {
        "the-term-beats-fine-tuning": at[strong] - at[one],
        "the-weaker-term-beats-fine-tuning": at["one view and term, 0.1"] - at[one],
        "the-term-beats-two-views": at["two views and term, 1"] - at[two],
        "the-weaker-term-beats-two-views": at["two views and term, 0.1"] - at[two],
        "a-second-view-helps": at[two] - at[one],
        "the-term-helps-most-with-few-labels": (at[strong] - at[one]) - (most[strong] - most[one]),
        "fine-tuning-beats-a-probe": at[one] - at["linear probe"],
        "augmentation-helps": at[one] - at["no augmentation"],
        "contrastive-training-helps-a-probe": at["contrastive, then probe"] - at["linear probe"],
        "contrastive-training-does-something": at["contrastive, then probe"] - at["untrained adapter, then probe"],
        "the-term-is-there": runs["images"].first_term[:, 0].values.mean(),
        "a-cold-term-is-there": runs["images"].cold_term[:, 0].values.mean(),
        "training-lowers-the-term": float(np.subtract(*runs["images"].last_term[:, 0, 0, 0, [0, 2]].values.mean(0))),
    }
    assert measured(runs, "images") == pytest.approx(expected)


def test_claims_on_clusters_are_differences_of_the_features_that_they_name(runs):
    encoder, plain, term, both, both_term = runs["clusters"].silhouette[:, 0, 0, 0].values.mean(0)
    assert measured(runs, "clusters") == pytest.approx(
        {
            "fine-tuning-makes-clusters": plain - encoder,
            "the-term-makes-cleaner-clusters": term - plain,
            "cleaner-clusters-beyond-two-views": both_term - both,
        }
    )


def test_claims_on_pre_training_are_of_the_target_but_for_what_serves_all(runs):
    """The first share is all of the target, the last a fifth of it."""
    accuracy, similar = 100 * runs["unions"].accuracy.values.mean(0), runs["unions"].similarity.values.mean(0)
    (all_of_it, fifth), (alike, _) = accuracy[..., 0], similar
    assert measured(runs, "unions") == pytest.approx(
        {
            "more-sets-cost-the-target": all_of_it[0] - all_of_it[3],
            "more-sets-serve-all": accuracy[0, 3].mean() - accuracy[0, 0].mean(),
            "features-move-away": alike[1] - alike[3],
            "less-of-the-target-costs": all_of_it[0] - fifth[0],
            "other-sets-stand-in-for-the-target": (fifth[3] - fifth[0]) - (all_of_it[3] - all_of_it[0]),
            "pretraining-does-something": all_of_it[3] - (random := untrained(runs)),
        }
    )
    kinds = 100 * runs["kinds"].accuracy.values.mean(0)
    assert measured(runs, "kinds") == pytest.approx(
        {
            "more-kinds-cost-the-target": kinds[0] - kinds[2],
            "pretraining-does-something": kinds[2] - random,
            "kinds-are-ever-more": 4,
            "as-many-images-of-more-kinds": 2,
        }
    )


def untrained(runs: dict[str, xr.Dataset]) -> float:
    """Accuracy of a probe of the random adapter, in percent."""
    at = METHODS.index("untrained adapter, then probe")
    return 100 * runs["images"].accuracy[:, 0, 0, 0, at].values.mean()


def test_claims_on_fewer_views_and_classes_are_of_the_fewest_and_the_most(runs):
    five, two = (runs["few-views"].last_term[:, 0, at, 0, 2].values.mean() for at in (1, 0))
    assert measured(runs, "few-views") == pytest.approx({"few-views-are-learned-by-heart": five - two})
    at = METHODS.index("one view")
    two, five = 100 * runs["few-classes"].accuracy[:, 0, 0, :, at].values.mean(0)
    assert measured(runs, "few-classes") == pytest.approx({"few-classes-are-told-apart": two - five})


def test_printed_claims_are_of_the_least_gain_that_is_printed(runs):
    """They are those of +ImageNet32, of AGNews, and of ImageNet with a fifth of the labels and ten views."""
    printed = {key: claim for key, claim in by_name(STUDY.claims(runs)).items() if key[0].startswith("printed")}
    for table, least in (("Table 7.1", 0.74), ("Table 7.2", 0.37), ("Tables F.5 to F.8", -0.28)):
        assert printed["printed-gains-are-all-above-zero", table].measured == pytest.approx(least, abs=1e-9), table
    before, after = published.PROBES["+SVHN"]
    assert printed["printed-probes-gain", "+SVHN"].measured == pytest.approx(after - before)


def asked(monkeypatch: pytest.MonkeyPatch, samples: source.Samples) -> dict[str, list[float]]:
    """What a training of one step answers of these samples."""
    monkeypatch.setattr(recipe, "samples_of", lambda *_: samples)
    sizes = {"units": 16, "batch": 20, "steps_each": 1, "rate": 0.01}
    tuned = FineTuning("images", source.Data(source.MADE_UP), (60,), (10,), (0,), **sizes)
    return tuned.asker(Streams(0, [0]))(60, 10, 0)


def test_the_cold_term_is_at_its_temperature_and_of_two_views_of_a_batch(monkeypatch):
    samples = source.made_up("images")
    found = asked(monkeypatch, samples)
    rows = recipe.balanced(samples.labels, samples.classes, 60, Streams(0, [0]).at("labelled", 0))[:20]
    one, other = samples.views[rows, 0].double(), samples.views[rows, 1].double()
    assert found["cold_term"] == pytest.approx(float(NTXent(0.05)(one, other)))
    cosines = (one * other).sum(1) / (one.norm(dim=1) * other.norm(dim=1))
    assert found["cosine"] == pytest.approx(float(cosines.mean()))


def test_contrastive_training_is_on_all_of_the_pool_and_probes_on_what_has_labels(monkeypatch):
    samples, pulled, probed = source.made_up("images"), [], []
    pull, probe = FineTuning._pull, recipe.linear_probe
    monkeypatch.setattr(FineTuning, "_pull", lambda self, w, views, b: pulled.append(views) or pull(self, w, views, b))
    monkeypatch.setattr(recipe, "linear_probe", lambda *given: probed.append(given) or probe(*given))
    asked(monkeypatch, samples)
    (views,) = pulled
    assert torch.equal(views, samples.views[:, :10])
    assert [[len(part) for part in given] for given in probed] == 3 * [[60, 60, 300, 300]]
    assert all(torch.equal(given[3], samples.test_labels) for given in probed)


# --- Faults of one line in what is trained, on made-up samples --------------------------------------------------------

TRAINED = Trial(ContrastiveFineTuning(units=16, steps=60, rate=3e-3), replicas=4)
answer, pretrained, kinds_asker = FineTuning.answer, pretraining.Pretraining.pretrained, pretraining.Kinds.asker


def of_all_views(self, samples, rows, views, *draws):
    return answer(self, samples, rows, source.VIEWS, *draws)


def of_all_kinds(self, streams):
    ask = kinds_asker(self, streams)
    return lambda part: ask(self.parts[-1])


def without_steps(self, pool, streams):
    return pretrained(replace(self, steps_each=0), pool, streams)


FAULTS = {
    "all stored views are used": Fault(
        FineTuning, "answer", of_all_views, "few-views-are-learned-by-heart", "few-views"
    ),
    "all classes are there": Fault(
        recipe, "_of_classes", lambda samples, *_: samples, "few-classes-are-told-apart", "few-classes"
    ),
    "features are not trained": Fault(
        clusters.Clusters, "fit", lambda *_: 0.0, "fine-tuning-makes-clusters", "clusters"
    ),
    **{
        f"adapters are not pre-trained: {arm}": Fault(
            pretraining.Pretraining, "pretrained", without_steps, "pretraining-does-something", arm
        )
        for arm in ("unions", "kinds")
    },
    "always all kinds": Fault(pretraining.Kinds, "asker", of_all_kinds, "kinds-are-ever-more", "kinds"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_what_is_trained_is_noticed_on_made_up_samples(name, monkeypatch):
    TRAINED.require_noticed(FAULTS[name], monkeypatch)
