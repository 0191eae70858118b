"""Memory is counted tensor by tensor."""

import torch

from featscope.training.memory import peak_bytes

MIB = 2**20


def test_one_tensor():
    assert peak_bytes(lambda: torch.zeros(MIB)) == 4 * MIB


def test_tensors_that_live_together_add_up_and_the_dead_do_not():
    def both() -> torch.Tensor:
        a, b = torch.zeros(MIB), torch.zeros(MIB)
        return a[0] + b[0]

    def one_after_the_other() -> None:
        for _ in range(5):
            a = torch.zeros(MIB)
            del a

    assert 8 * MIB <= peak_bytes(both) < 8 * MIB + 100
    assert peak_bytes(one_after_the_other) == 4 * MIB


def test_views_and_in_place_operations_cost_nothing():
    def same_memory() -> torch.Tensor:
        a = torch.zeros(1024, 1024)
        a.add_(1)
        return a.mT[:5]

    assert peak_bytes(same_memory) == 4 * MIB


def test_the_backward_pass_is_counted():
    w = torch.zeros(MIB, requires_grad=True)
    assert peak_bytes(lambda: (w * w).sum().backward()) >= 8 * MIB
