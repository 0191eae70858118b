"""What a training of one's own gives and keeps: batches that a model works on in place, masks in pairs, lazy layers."""

import pytest
import torch
from torch import nn

from featscope.integrations import Monitor
from featscope.integrations.rows import one_row_a_sample
from featscope.integrations.watch import Watch
from featscope.losses import ContrastiveRegularizer, NTXent
from featscope.probes import layer_agreement, measure_collapse
from featscope.training import MagnitudePruning


class InPlace(nn.Module):
    """Shifts its input in place, or not."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x):
        return self.net(x.sub_(3.0).mul_(0.5) if self.in_place else (x - 3.0) * 0.5)


def statistics_after_looks(in_place: bool) -> torch.Tensor:
    torch.manual_seed(0)
    model = InPlace(in_place)
    pruning = MagnitudePruning(0.3, granularity="entry", gradient="straight-through")
    watch = Watch(model, [torch.randn(32, 4)], lambda *_: None, pruning=pruning)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for seed in range(4):
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(seed)) + 3
        watch.before_loss(x)
        loss = model(x).square().mean()
        loss.backward()
        watch.before_update()
        optimizer.step()
        watch.after_step(loss)
    watch.refresh()
    watch.refresh()
    return model.net[1].running_mean.clone()


def test_statistics_are_of_batches_as_training_was_given_them():
    assert torch.equal(statistics_after_looks(True), statistics_after_looks(False))


def test_data_that_a_model_works_on_in_place_stay_as_they_are():
    torch.manual_seed(0)
    model, x = InPlace(True), torch.rand(50, 4)
    kept = x.clone()
    found = [measure_collapse(model, [x], at="net.0").effective_rank for _ in range(2)]
    assert torch.equal(x, kept)
    assert found[0] == found[1] > 1


def test_a_mask_in_a_pair_of_inputs_and_labels_counts():
    found, mask = torch.randn(2, 3, 4), torch.tensor([[1, 1, 0], [1, 0, 0]])
    batch = {"input_ids": torch.zeros(2, 3), "attention_mask": mask}
    alone, paired = (one_row_a_sample(found, one, nn.Identity()) for one in (batch, (batch, torch.zeros(2))))
    assert torch.equal(alone, paired)
    assert not torch.allclose(alone, found.mean(1))


def test_lazy_layers_begin_elsewhere_with_another_seed():
    begun = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.Linear(4, 3))
        Monitor(model, [torch.randn(32, 5)], layer="0")
        begun.append(model[0].weight.detach().clone())
    assert not torch.allclose(*begun)


@pytest.mark.parametrize("wrap", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_agreement_is_of_the_weight_that_a_pass_makes(wrap):
    torch.manual_seed(0)
    model, x = nn.Sequential(wrap(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 2)), torch.randn(64, 5)
    model(x)
    model.eval()
    model.load_state_dict({name: torch.randn_like(value) for name, value in model.state_dict().items()})
    before = layer_agreement(model, [x], at="0", output=model)
    model(x)
    assert before == pytest.approx(layer_agreement(model, [x], at="0", output=model), rel=1e-9)


def test_a_temperature_that_is_set_counts():
    one, other = torch.randn(2, 8, 4)
    term = ContrastiveRegularizer(temperature=0.5, weight=1.0)
    term.temperature = 0.05
    assert torch.equal(term.of_features(one, other), NTXent(0.05)(one, other))
