"""Operations and seconds, against counts by hand and a clock of our own."""

import pytest
import torch
from small_models import VOCABULARY, prompt, tiny

from featscope.language import FullCache, GemFilter, cost
from featscope.theory.token_selection import Geometry, decoding_operations, prompt_operations

SIZE = Geometry(layers=4, heads=4, kv_heads=2, channels=8, width=32, hidden=64, vocabulary=VOCABULARY)


def test_a_matrix_product_takes_two_operations_an_entry():
    a, b = torch.ones(3, 5), torch.ones(5, 7)
    assert cost.operations(lambda: a @ b) == 2 * 3 * 5 * 7


@torch.no_grad()
def test_reading_a_prompt_takes_the_operations_of_the_formula():
    model = tiny()
    assert cost.operations(lambda: model(prompt(), logits_to_keep=1)) == prompt_operations(SIZE, 60)


@torch.no_grad()
@pytest.mark.parametrize(("keep", "held"), [(60, 61), (20, 21)])
def test_a_new_token_takes_the_operations_of_what_is_held(keep, held):
    method = FullCache(tiny()) if keep == 60 else GemFilter(tiny(), layer=2, keep=keep, window=0)
    assert cost.new_token_operations(method, prompt()) == decoding_operations(SIZE, held)


@pytest.mark.parametrize("make", [FullCache, lambda model: GemFilter(model, 2, 20, window=4)])
def test_no_token_of_a_document_or_a_question_is_taken_for_padding(make):
    document, question = prompt(), torch.tensor([[0, 5, 0, 6]])
    document[0, 0] = document[0, 30] = 0  # the padding token of the model
    method = make(tiny())
    ((new, _),) = cost.timed_answers(method, document, [question], 6)
    whole = torch.cat([document, question], 1)
    expected = method.generate(whole, torch.ones_like(whole), max_new_tokens=6, do_sample=False)
    assert torch.equal(new, expected[0, 64:])
    assert torch.equal(cost.timed_answer(method, whole, 6)[0], new)


@pytest.fixture
def clock(monkeypatch):
    """Tells what time it is, and stands still otherwise."""
    now = [0.0]
    monkeypatch.setattr(cost.time, "perf_counter", lambda: now[0])
    return now


def test_the_shortest_repetition_counts_and_works_take_turns(clock):
    order = []

    def work(name, took):
        def done():
            order.append(name)
            clock[0] += took.pop(0)

        return done

    assert cost.seconds([work("a", [3.0, 1.0, 2.0]), work("b", [5.0, 6.0, 4.0])]) == [1.0, 4.0]
    assert order == ["a", "b"] * 3


def test_the_clock_waits_for_every_gpu_that_is_in_use(monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda place: (2**20, 0, 2**20)[place])
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    cost._now()
    assert waited == [0, 2]


def test_the_time_between_new_tokens_is_their_median(clock):
    took = [100.0, 1.0, 2.0, 9.0]  # the first with the prompt

    class Generates:
        model = None

        def generate(self, input_ids, stopping_criteria, **options):
            for seconds in took[: options["max_new_tokens"]]:
                clock[0] += seconds
                assert not stopping_criteria(input_ids, None).any()

    assert cost.new_token_seconds(Generates(), prompt(), 4) == 2.0
