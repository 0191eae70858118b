"""The mean of models that went on from one another, or from the same one.

    python -m featscope.language.retriever.average FIRST SECOND --out DIR

Weights of two trainings with a common beginning lie on a line along which a model loses little, and their mean often
answers more than either (Wortsman et al. 2022, "Model soups").
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from safetensors import SafetensorError
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from featscope.files import atomic_write
from featscope.language.retriever.model import fits
from featscope.options import ConfigError, require, require_output_folder


@dataclass(frozen=True)
class Average:
    """Which models.

    Attributes:
        models: folders, as the training makes them.
        out: folder that receives the mean, the tokenizer, and how each of them was made.
    """

    models: tyro.conf.Positional[tuple[Path, ...]]
    out: Path

    def __post_init__(self) -> None:
        made = all((folder / "training.json").is_file() for folder in self.models)
        require(self, "models", len(self.models) >= 2 and made, "two folders or more, as the training makes them")
        own = self.out.resolve() in [folder.resolve() for folder in self.models]
        require(self, "out", not own, "none of the models", "Nothing is written over what is read.")
        require_output_folder(self, "out")


def average(asked: Average) -> None:
    """Write the mean.

    Raises:
        ConfigError: a model cannot be read, has weights that are not finite, or differs in shape or tokenizer.
    """
    try:
        models = [LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in asked.models]
        tokenizers = [PreTrainedTokenizerFast.from_pretrained(folder) for folder in asked.models]
    except (OSError, ValueError, SafetensorError) as error:
        require(asked, "models", False, f"models that can be read ({str(error).splitlines()[0]})")
    sound = all(bool(value.isfinite().all()) for model in models for value in model.state_dict().values())
    require(asked, "models", sound, "models of finite weights")
    first, tokenizer = models[0], tokenizers[0]
    alike = all(fits(model, first) and fits(first, model) for model in models)
    alike = alike and all(other.get_vocab() == tokenizer.get_vocab() for other in tokenizers)
    require(asked, "models", alike, "models of one shape and tokenizer")
    states = [model.state_dict() for model in models]
    first.load_state_dict({name: sum(state[name] for state in states) / len(states) for name in states[0]})
    tokenizer.save_pretrained(asked.out)
    first.save_pretrained(asked.out)
    made = {"mean of": [json.loads((folder / "training.json").read_text()) for folder in asked.models]}
    atomic_write(asked.out / "training.json", (json.dumps(made, indent=1) + "\n").encode())


if __name__ == "__main__":
    try:
        average(tyro.cli(Average))
    except ConfigError as error:
        sys.exit(str(error))
