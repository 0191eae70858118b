"""What pairs pull neurons by, against P Lemma F.3."""

import pytest
import torch

from featscope.data import SparseTokens, SparseTokensSource
from featscope.models import TokenMLP
from featscope.probes.pull import first_pull
from featscope.streams import Streams

DATA = SparseTokens(features=4, input_dim=8, minority=2, eps_min=0.5, activity=0.4, tokens=2, noise_std=0.5)
STREAMS = Streams(0, range(4))


def pull(data: SparseTokens = DATA, attention: str = "uniform"):
    source = data.build(STREAMS.at("dictionary"))
    network = TokenMLP(width=50, attention="uniform").build(source, STREAMS.at("weights"))
    source.means = attention == "uniform"
    with torch.no_grad():
        return first_pull(source, network, STREAMS, 4000, 5)


@pytest.mark.parametrize("given", ["mean tokens", "tokens"])
def test_features_pull_by_their_frequency_and_nothing_else_does(given):
    """a_j = L² p_j. 20,000 pairs a replica: a standard error of 2 % of a_j; 10 % are allowed to the mean of four."""
    found = pull(attention="uniform" if given == "mean tokens" else "linear")
    a = 4 * torch.tensor([0.4, 0.4, 0.2, 0.2])
    torch.testing.assert_close(found.along_features.mean(0), a, rtol=0.05, atol=0)
    assert abs(float(found.of_negatives.mean())) < 0.05
    assert abs(float(found.off_features.mean())) < 0.05
    assert float(found.noise.mean()) == pytest.approx(1, abs=0.02)


def test_noise_in_common_pulls_off_the_features_by_the_unit_it_is_measured_in(monkeypatch):
    drawn = SparseTokensSource.pairs

    def with_the_noise_of_x(self, draws, count, dtype=torch.float32):
        batch = drawn(self, draws, count, dtype)
        return batch._replace(y=batch.x)

    monkeypatch.setattr(SparseTokensSource, "pairs", with_the_noise_of_x)
    assert float(pull().off_features.mean()) == pytest.approx(1, abs=0.05)


def test_without_noise_there_is_no_unit_to_measure_in():
    found = pull(SparseTokens(features=4, input_dim=8, minority=2, noise_std=0.0))
    assert found.off_features.isnan().all()
    assert found.noise.isnan().all()
    assert found.along_features.isfinite().all()


def test_other_pairs_that_are_the_same_pull_as_a_pair_s_own(monkeypatch):
    drawn = SparseTokensSource.pairs

    def one_for_all(self, draws, count, dtype=torch.float32):
        batch = drawn(self, draws, count, dtype)
        return batch._replace(x=batch.x[:, :1].expand_as(batch.x), y=batch.y[:, :1].expand_as(batch.y))

    monkeypatch.setattr(SparseTokensSource, "pairs", one_for_all)
    found = pull()
    torch.testing.assert_close(found.of_negatives, found.along_features.mean(-1))
