"""What all ways of generating have in common."""

import copy
import inspect
from collections.abc import Mapping
from functools import wraps
from time import monotonic
from typing import Any, Protocol, runtime_checkable

from transformers import MaxLengthCriteria, PreTrainedModel

from featscope.options import ConfigError

GREEDY: Mapping[str, Any] = {
    "do_sample": False,
    "num_beams": 1,
    "num_return_sequences": 1,
    "return_dict_in_generate": False,
}
"""Options of ``generate`` for one answer, of the likeliest token at each step, as a tensor.

What else a model's own settings ask for stays, such as penalties, which change what is likeliest.
"""
_BY_DEFAULT = 20  # new tokens, where nothing says how many
_IN_BATCHES = ("generate_batch", "init_continuous_batching", "continuous_batching_context_manager")


@runtime_checkable
class Method(Protocol):
    """A way of generating: a model and what of the prompt it keeps."""

    model: Any

    def generate(self, input_ids: Any = None, attention_mask: Any = None, **options: Any) -> Any:
        """What ``model.generate`` returns, with the attribute ``kept``."""


def setting(model: PreTrainedModel, options: Mapping[str, Any], name: str) -> Any:
    """What ``generate`` would take for ``name``: of its options, of their ``generation_config``, of the model's own.

    None among the options is what it takes; in the ``generation_config`` it is nothing said.
    """
    if name in options:
        return options[name]
    given = getattr(options.get("generation_config"), name, None)
    return getattr(model.generation_config, name, None) if given is None else given


def new_tokens(model: PreTrainedModel, options: Mapping[str, Any], prompt: int) -> int:
    """How many tokens ``generate`` may write behind a prompt of ``prompt`` tokens."""
    own = [one.max_length for one in options.get("stopping_criteria") or () if type(one) is MaxLengthCriteria]
    if own:  # in place of what transformers would make of the settings
        return max(min(own) - prompt, 0)
    most = setting(model, options, "max_new_tokens")
    if most is None:
        length = setting(model, options, "max_length")
        most = _BY_DEFAULT if length is None else length - prompt
    return max(int(most), 0)


def counted_from(prompt: int, model: PreTrainedModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``generate`` for a part of a prompt: lengths that count the prompt count its ``prompt`` tokens.

    `max_length` and `min_length`, of the options, of their ``generation_config`` or of the model's own, become
    `max_new_tokens` and `min_new_tokens`.

    Raises:
        ConfigError: `max_length` leaves no room for a new token.
    """
    counts: dict[str, int | None] = {}
    for kind, none in (("max", None), ("min", 0)):  # with None the model's own least length would count again
        length, new = f"{kind}_length", f"{kind}_new_tokens"
        asked = setting(model, options, length)
        if not asked:
            continue
        if setting(model, options, new) is not None:
            counts |= {length: none}
            continue
        if kind == "max" and asked <= prompt:
            raise ConfigError(
                f"max_length = {asked} leaves no room behind a prompt of {prompt} tokens: allowed is more than "
                f"{prompt}. Use max_new_tokens"
            )
        counts |= {length: none, new: max(asked - prompt, 0)}
    return with_settings(options, counts)


def with_settings(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``generate`` with ``values``, which go into their ``generation_config`` where they have one."""
    rest = {name: value for name, value in options.items() if name not in values}
    if not values or (given := rest.get("generation_config")) is None:
        return {**rest, **values}
    config = copy.deepcopy(given)  # transformers warns of options beside it
    config.update(**values)
    return rest | {"generation_config": config}


def timed_from(began: float, model: PreTrainedModel, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of ``generate`` whose `max_time`, if it is asked for, counts from ``began``, a time of `monotonic`."""
    asked = setting(model, options, "max_time")
    if asked is None:
        return {**options}
    left, config = max(asked - (monotonic() - began), 0.0), options.get("generation_config")
    if config is None or "max_time" in options:
        return {**options, "max_time": left}
    config = copy.deepcopy(config)  # transformers warns of options beside it
    config.max_time = left
    return {**options, "generation_config": config}


def require_own_input(model: PreTrainedModel, options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for options of ``generate`` that read another prompt, add images, or ignore its mask."""
    for name in ("pixel_values", "pixel_values_videos", "input_features", "image_sizes", "image_grid_thw"):
        if options.get(name) is not None:
            raise ConfigError(
                f"{name} cannot be given: the method reads text alone, by the text half of a model of text and images. "
                "Ask the model itself about images."
            )
    for name in ("cache", "past_key_values", "inputs_embeds", "position_ids"):
        if options.get(name) is not None:
            raise ConfigError(f"{name} cannot be given: the method reads the prompt itself. Give input_ids alone.")
    if healing := setting(model, options, "token_healing"):
        raise ConfigError(
            f"token_healing = {healing!r} cannot be used: transformers writes the prompt anew from its text, with "
            "other tokens than those that were read: allowed is False. Set it to False, or ask the model itself"
        )
    if options.get("cache_implementation") == "paged":
        raise ConfigError(
            "cache_implementation = 'paged' cannot be used: transformers' continuous batching looks at neither masks "
            "nor positions. Leave it out"
        )


class OfModel:
    """A method's other half: what it does not do itself, its model does, so that a pipeline takes it for the model.

    Where the model's own would return the model (``to``, ``eval``, ``half``), the method is returned.
    """

    model: Any

    def __getattr__(self, name: str) -> Any:
        """What the model has of that name: ``config``, ``device``, ``generation_config`` and so on."""
        if name == "model" or name.startswith("__"):
            raise AttributeError(name)
        if name in _IN_BATCHES:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: the model's own would read whole prompts. Use generate, or ask "
                f"for full attention by model.{name}"
            )
        found = getattr(self.model, name)
        if not inspect.ismethod(found):
            return found

        @wraps(found)
        def own(*arguments: Any, **options: Any) -> Any:
            result = found(*arguments, **options)
            return self if result is self.model else result

        return own

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a part of the method, or what its model has of that name.

        What another class adds is set before ``model`` is, or has a value in the class.

        Raises:
            AttributeError: nobody has it, so that it would be looked at by nobody.
        """
        its = vars(self)
        if "model" not in its or name in its or hasattr(type(self), name):
            super().__setattr__(name, value)
        elif hasattr(self.model, name):
            setattr(self.model, name, value)
        else:
            raise AttributeError(
                f"{name} = {value!r:.60} cannot be set: neither {type(self).__name__} nor its model has it. Allowed is "
                f"one of {', '.join(its)}, or what the model has. Options belong to the parts "
                f"(gem.selector.keep): make a new {type(self).__name__} with others"
            )
