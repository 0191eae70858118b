"""Tests that need a GPU: `make test-gpu`. Elsewhere they are skipped, and say so."""

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.path.parent.name == "gpu":
                item.add_marker(pytest.mark.skip(reason="torch sees no GPU of CUDA"))
