"""Probes of modules that FeatScope did not build."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from featscope.models import activations
from featscope.probes import collapse_of, embeddings, measure_collapse, simplified_gradient_of_layer

X = torch.randn(10, 6, generator=torch.Generator().manual_seed(0))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))


def test_batches_may_be_tensors_tuples_or_dictionaries():
    module, labels = network(), torch.zeros(10)
    expected = module.eval()(X).detach()
    batches = list(X.split(4))
    for loader, entry in (
        (batches, 0),
        ([(x, None) for x in batches], 0),
        ([[None, x] for x in batches], 1),
        ([{"label": 0, "pixels": x} for x in batches], "pixels"),
        (DataLoader(TensorDataset(X, labels), batch_size=3), 0),
    ):
        torch.testing.assert_close(embeddings(module, loader, entry=entry), expected)


def test_a_submodule_is_measured_by_its_name_and_the_hook_is_gone_after():
    module = network()
    found = embeddings(module, [X[:3], X[3:]], at="2")
    torch.testing.assert_close(found, module.eval()[:3](X).detach())
    assert not module[2]._forward_hooks


def test_a_submodule_is_measured_before_what_comes_next_works_in_place():
    first = nn.Linear(X.shape[1], 4)
    module = nn.Sequential(first, nn.ReLU(inplace=True), nn.Linear(4, 2))
    torch.testing.assert_close(embeddings(module, [X], at="0"), first(X).detach())
    assert float(embeddings(module, [X], at="0").min()) < 0


def test_modes_are_restored_and_statistics_and_gradients_untouched():
    module = network().train()
    module[3].eval()
    modes = [part.training for part in module.modules()]
    before = {name: value.clone() for name, value in module.state_dict().items()}
    found = embeddings(module, [X])
    assert not found.requires_grad
    assert [part.training for part in module.modules()] == modes
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    with pytest.raises(ValueError, match="no batches"):
        embeddings(module, iter(()))
    assert [part.training for part in module.modules()] == modes


def test_feature_maps_need_a_reduction():
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    images = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match=r"at = '1'.*\(5, 4, 6, 6\).*reduce"):
        embeddings(module, [images], at="1")
    pooled = embeddings(module, [images], at="1", reduce=lambda maps: maps.mean((-2, -1)))
    torch.testing.assert_close(pooled, module(images).mean((-2, -1)).detach())


def test_rows_of_tokens_are_not_taken_for_samples():
    module = nn.Sequential(nn.Flatten(0, 1), nn.Linear(6, 3))
    tokens = X.unflatten(0, (5, 2))
    with pytest.raises(ValueError, match=r"at = '1'.* 10 rows for an input of shape \[5, 2, 6\], .* a row a sample"):
        measure_collapse(module, [tokens], at="1")
    asked = measure_collapse(module, [tokens], at="1", reduce=lambda rows: rows)
    assert asked.samples == 10


def test_modules_that_put_out_tuples_need_a_reduction_too():
    module = nn.LSTM(6, 4, batch_first=True)
    with pytest.raises(ValueError, match="type tuple"):
        embeddings(module, [X[:, None]])
    states = embeddings(module, [X[:, None]], reduce=lambda output: output[0][:, -1])
    torch.testing.assert_close(states, module(X[:, None])[0][:, -1].detach())


def test_collapse_of_a_module_is_collapse_of_its_embeddings():
    module = network()
    pairs = [(x, x + 0.1) for x in X.split(4)]
    found = measure_collapse(module, pairs, at="0", positive=1)
    expected = collapse_of(module[0](X).detach(), module[0](X + 0.1).detach())
    assert found.effective_rank == pytest.approx(expected.effective_rank)
    assert found.alignment == pytest.approx(expected.alignment)
    assert measure_collapse(module, pairs).alignment is None


def test_a_module_with_a_projection_to_one_direction_is_caught():
    module = network()
    with torch.no_grad():
        module[4].weight.copy_(torch.outer(torch.tensor([1.0, -2.0, 0.0]), torch.ones(5)))
    found = measure_collapse(module, [X])
    assert found.effective_rank == pytest.approx(1, abs=1e-3)
    assert found.mean_correlation == pytest.approx(1)
    assert found.constant == 1


def test_a_plain_tensor_has_no_second_view_no_labels_and_no_names():
    module = network()
    with pytest.raises(ValueError, match="positive = 1 is out of range: a batch is a tensor: allowed is 0"):
        measure_collapse(module, [X], positive=1)
    with pytest.raises(ValueError, match="entry = 'pixels'"):
        embeddings(module, [X], entry="pixels")
    with pytest.raises(ValueError, match="label = 1"):
        simplified_gradient_of_layer(module, [X], at="0")
    assert measure_collapse(module, [X]).alignment is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"entry": 3}, "entry = 3"), ({"entry": "x"}, "entry = 'x'"), ({"entry": 1}, "entry = 1")],
)
def test_a_wrong_entry_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        embeddings(network(), [(X, "label")], **arguments)


def test_an_unknown_submodule_is_named():
    with pytest.raises(AttributeError, match="encoder"):
        embeddings(network(), [X], at="encoder")


def test_a_submodule_that_does_not_run_is_named():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match=r"at = 'idle'.*did not run"):
        embeddings(Idle(), [X], at="idle")


def test_rows_that_are_views_do_not_keep_all_tokens(monkeypatch):
    kept, cat = [], torch.cat
    monkeypatch.setattr(torch, "cat", lambda rows, *more: (kept.extend(rows), cat(rows, *more))[1])
    found = embeddings(nn.Identity(), [torch.randn(4, 50, 3)] * 2, reduce=lambda states: states[:, 0])
    assert found.shape == (8, 3)
    assert {row.untyped_storage().nbytes() for row in kept} == {4 * 3 * 4}


def test_a_module_behind_torch_compile_is_read_as_it_was_written():
    plain = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    compiled = torch.compile(plain, backend="eager")
    x = torch.randn(10, 8)
    compiled(x)
    for at in ("0", "_orig_mod.0"):
        assert embeddings(compiled, [x], at=at).equal(plain[0](x).detach())
        assert activations(compiled, [at], x)[at].equal(plain[0](x).detach())


def test_reading_activations_leaves_running_statistics_and_modes_as_they_were():
    module = nn.Sequential(nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 3))
    x = 3 + torch.randn(40, 5)
    read = activations(module, [""], x)
    assert float(module[0].running_mean.abs().max()) == 0
    assert all(part.training for part in module.modules())
    assert read[""].equal(activations(module, [""], x)[""]), "dropout is off"
