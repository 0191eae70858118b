"""The step loop: when it measures, stops, resumes and gives up."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys import experiment, squared_distance

from featscope.training import DivergedError, FirstTime, Measurement, Record, probe_steps, train


def values(e):
    return {"value": Measurement(e.learner.value[:, 0])}


@given(steps=st.integers(1, 5000), every=st.integers(1, 6000))
def test_probes_begin_at_0_end_at_the_end_and_keep_to_both_grids(steps, every):
    probes = probe_steps(steps, every)
    assert probes == sorted(set(probes))
    assert (probes[0], probes[-1]) == (0, steps)
    assert set(range(0, steps, every)) <= set(probes)
    extra = set(probes) - {*range(0, steps, every), steps}
    assert len(extra) <= 4 * 4 + 1  # four a decade


def test_log_spaced_probes():
    assert probe_steps(100, 1000) == [0, 1, 2, 3, 6, 10, 18, 32, 56, 100]


def test_it_follows_the_recursion_that_the_draws_dictate():
    e, record = experiment(), Record()
    assert train(e, 5, values, [0, 2, 5], record) == 5
    w, seen = torch.zeros(3), {0: torch.zeros(3)}
    for step in range(5):
        batch = torch.arange(3.0)[:, None] + e.streams.at("batch", step).normal(4, 1)[..., 0]
        w = w - 0.5 * (w - batch.mean(1))
        seen[step + 1] = w
    data = record.to_dataset(range(3))
    assert data["step"].values.tolist() == [0, 2, 5]
    for step in (0, 2, 5):
        assert data["value"].sel(step=step).values == pytest.approx(seen[step].numpy(), abs=1e-6)


def test_measuring_draws_nothing_from_training():
    often, seldom = experiment(), experiment()
    train(often, 5, values, range(6), Record())
    train(seldom, 5, values, [5], Record())
    assert torch.equal(often.learner.value, seldom.learner.value)


def test_the_recorded_loss_is_on_fresh_data():
    e, record = experiment(), Record()
    train(e, 1, values, [0], record)
    expected = squared_distance(experiment().learner, e.source, e.streams.at("evaluate", 0))
    assert record.to_dataset(range(3))["loss"].sel(step=0).values.tolist() == expected.tolist()


def test_a_name_of_what_an_experiment_measures_of_itself_cannot_be_watched():
    with pytest.raises(ValueError, match="'loss' is what the experiment measures of itself: watch another name"):
        train(experiment(), 1, lambda e: {"loss": Measurement(torch.full((3,), 7.0), "mine")}, [0, 1], Record())


def test_stopping_in_the_middle_and_going_on_changes_nothing():
    whole, record = experiment(), Record()
    train(whole, 6, values, [0, 3, 6], record)
    part, again = experiment(), Record()
    train(part, 3, values, [0, 3], again)
    train(part, 6, values, [0, 3, 6], again, start=3)
    assert again.to_dataset(range(3)).identical(record.to_dataset(range(3)))


def test_it_stops_once_the_event_has_happened_in_every_replica_and_measures_there():
    near = FirstTime("near", lambda e: e.learner.value[:, 0] > 0.8, every=1)
    e, record = experiment(range(2, 4), rules={"near": near}, lr=0.1), Record()
    last = train(e, 50, values, [0], record, stop_at="near")
    assert 1 < last < 50
    assert record.steps == [0, last]
    events = e.events()["near"]
    assert int(events.max()) == last
    assert int(events.min()) > 0


def test_after_every_step_the_caller_is_told():
    told = []
    train(experiment(), 3, values, [0], Record(), after_step=told.append)
    assert told == [1, 2, 3]


def broken_loss(learner, source, draws):
    loss = squared_distance(learner, source, draws)
    broken = (source.target[:, 0] == 6) & (learner.value[:, 0].detach() > 3)
    return loss + torch.where(broken, torch.nan, 0.0)


def test_a_loss_that_is_not_finite_names_step_replica_and_quantity_and_keeps_the_weights():
    e = experiment(range(4, 8), objective=broken_loss)
    steps = []
    with pytest.raises(DivergedError) as raised:
        train(e, 50, values, [50], Record(), after_step=steps.append)
    assert (raised.value.quantity, raised.value.replica, raised.value.step) == ("the loss", 6, steps[-1])
    assert str(raised.value) == f"the loss of replica 6 is not finite at step {steps[-1]}"
    assert e.learner.value.isfinite().all()


def test_weights_that_are_not_finite_are_found_at_the_next_look():
    class Break:
        def build(self, e):
            return Breaking()

    class Breaking(torch.nn.Module):
        def forward(self, e, step):
            if step == 2:
                e.learner.value[1] = torch.inf

    constant = lambda learner, source, draws: learner.value[:, 0] * 0 + 1  # noqa: E731
    e = experiment(rules={"break": Break()}, objective=lambda *a: torch.nan_to_num(constant(*a), nan=1.0))
    with pytest.raises(DivergedError) as raised:
        train(e, 10, values, [0, 5, 10], Record())
    assert (raised.value.quantity, raised.value.replica, raised.value.step) == ("learner.value", 1, 5)


def test_large_but_finite_values_do_not_count_as_diverged():
    e = experiment()
    with torch.no_grad():
        e.learner.value.fill_(3e38)
    e.require_sound(0)  # their sum is infinite in float32
