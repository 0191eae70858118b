"""What several tests of the retriever need."""

import pytest
from retriever_task import TEXTS

from featscope.language.retriever.texts import train_tokenizer


@pytest.fixture(scope="package")
def tokenizer():
    """As the retriever's is made, of fewer entries."""
    return train_tokenizer(TEXTS, 1024)
