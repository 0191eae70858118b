"""Forward magnitude pruning with unmasked updates (P, Algorithm 1).

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data: From Training Dynamics to a Pruning Solution.

The loss sees the network without its smallest weights, and the update is of all weights. P derives it for whole
neurons of a shallow network and uses it on deep ones; the two need different gradients, see `MagnitudePruning`.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from featscope.losses.similarity import Masked
from featscope.modules import kept as copy_of
from featscope.numbers import place_of_doubles, wide
from featscope.options import require, require_word
from featscope.training.batch_norm import batch_statistics, estimate_statistics
from featscope.training.called_with import called_with
from featscope.training.checkpointing import require_no_checkpointing
from featscope.training.magnitudes import (
    all_but_smallest,
    biases_by_weight,
    energy_along,
    making_weights,
    require_prunable,
    weights_of,
)
from featscope.training.misused import IN_A_PART, LEFT_WHOLE, require_shown, why_lost


@dataclass(frozen=True)
class MagnitudePruning:
    """Hide the smallest weights from the loss, and train all.

    In an experiment it is a rule. In any other PyTorch loop::

        pruner = MagnitudePruning(0.5, granularity="entry", gradient="straight-through").on(encoder)
        for images in loader:
            loss = contrastive(head(pruner(images)))  # where encoder(images) stood
            ...  # backward, optimizer.step()
            pruner.update()
        pruner.refresh(loader)  # where encoder has BatchNorm, before it is measured, used or saved

    Attributes:
        ratio: share α that is pruned. Networks with ``replica_axis`` are pruned replica by replica.
        granularity: "neuron": rows of weight matrices and filters of convolutions, with their biases, by Euclidean
            norm, the share α in each layer; "entry": single entries of all weight matrices and filters, by absolute
            value, ranked over the whole network. Taken are weights of torch's linear, convolutional, recurrent and
            embedding layers, and other parameters with two axes longer than 1, that of replicas not counted; by
            "neuron" none whose first axis is 1, such as position embeddings or the weights of a single output. Biases,
            parameters of norms, class tokens and factors of channels (layer scale, GRN) are no such weights.
        gradient: "theory": the logits come from the pruned network, activations and their derivatives from the whole
            one (P (5), (184)); the pruned network gives `Masked` pairs, which only a loss of inner products such as
            `InfoNCE` takes. "straight-through": the gradient at the pruned weights is given to all weights, through
            any head and loss; see `Pruner` on activation checkpointing. Straight-through does nothing for whole
            neurons: a hidden one does not fire, so its gradient is exactly zero and only decay is left.
        score: how whole neurons are ranked. "norm": by ||w_i||, as in P. "direction": by Σ_k <w_k, ŵ_i>², the energy
            that all neurons of a layer have along neuron i. Where several neurons hold a feature, that is the feature's
            energy, and neurons of the weakest feature are hidden together; norms say nothing of how many there are.
        every: training steps from one choice of weights to the next.
        start: training steps before the first choice; Algorithm 1 begins at once, Theorem F.1 after convergence.
    """

    ratio: float = 0.1
    granularity: Literal["neuron", "entry"] = "neuron"
    gradient: Literal["theory", "straight-through"] = "theory"
    score: Literal["norm", "direction"] = "norm"
    every: int = 1
    start: int = 0

    def __post_init__(self) -> None:
        require(self, "ratio", 0 <= self.ratio < 1, ">= 0 and < 1")
        for name in ("granularity", "gradient", "score"):
            require_word(self, name)
        by_neuron = self.granularity == "neuron" or self.score == "norm"
        require(self, "score", by_neuron, "'norm' for granularity 'entry'", "Entries have no direction.")
        require(self, "every", self.every >= 1, ">= 1")
        require(self, "start", self.start >= 0, ">= 0")

    def on(self, module: nn.Module) -> "Pruner":
        """``module`` with its smallest weights pruned: chosen now, or after ``start`` calls of `Pruner.update`."""
        mask = PruningMask(self, module)
        if self.start == 0:
            mask.choose(module)
        return Pruner(mask, module)

    def build(self, experiment: Any) -> "PruningMask":
        """The rule for ``experiment``."""
        mask = PruningMask(self, experiment.learner)
        if self.start == 0:
            mask.choose(experiment.learner, step=0)
        return mask


class PruningMask(nn.Module):
    """Which weights of a module are kept, chosen by the magnitudes of its weights as they are; a rule.

    Args:
        config: how to choose. Numbers that may differ between replicas are in buffers, so that sweeps can stack them.
        module: shows the shapes; it is handed in again where it is used.

    Attributes:
        kept: whether each neuron, or each entry, is kept; in the order of ``module.named_parameters()``. One row for
            each replica of a module with ``replica_axis``, one row for any other.
        began: step of the first choice; -1 before.

    Raises:
        ValueError: the module has no weight matrix and no filter, or a layer that makes its weight of other parameters
            (weight_norm, a parametrisation), or neurons are asked for of a part whose rows are inputs (a transposed
            convolution, an embedding, transformers' Conv1D) or of a parameter with more axes that is of no layer.
    """

    kept: Bool[Tensor, "replica unit"]
    ratio: Float[Tensor, "replica"]
    began: Int[Tensor, "replica"]

    def __init__(self, config: MagnitudePruning, module: nn.Module) -> None:
        super().__init__()
        self.granularity, self.gradient = config.granularity, config.gradient
        self.score, self.every, self.start = config.score, config.every, config.start
        self._stacked = bool(getattr(module, "replica_axis", False))
        names = [name for name, _ in self._weights(module)]
        require_prunable(module, names, self.granularity == "neuron", self._stacked)
        if made := making_weights(module):
            warnings.warn(LEFT_WHOLE.format(", ".join(map(repr, made)), type(module).__name__), stacklevel=4)
        magnitudes = self._magnitudes(module)
        if not magnitudes:
            raise ValueError(f"{type(module).__name__} has no weight matrix and no filter to prune")
        replicas, device = len(magnitudes[0]), magnitudes[0].device
        units = sum(each.shape[1] for each in magnitudes)
        self.register_buffer("kept", torch.ones(replicas, units, dtype=torch.bool, device=device))
        ratio = torch.full((replicas,), config.ratio, dtype=torch.float64, device=place_of_doubles(device))
        self.register_buffer("ratio", ratio)
        self.register_buffer("began", torch.full((replicas,), -1, dtype=torch.int64, device=device))

    def _weights(self, module: nn.Module) -> Iterator[tuple[str, Float[Tensor, "replica unit entry"]]]:
        """Weight matrices and filters by their names, whether or not ``module`` has a replica axis."""
        for name, weight in weights_of(module, self._stacked):
            if self.granularity == "entry" or weight.shape[1] > 1:
                yield name, weight

    def _magnitudes(self, module: nn.Module) -> list[Float[Tensor, "replica unit"]]:
        if self.granularity == "neuron":
            rows = (wide(weight.detach()) for _, weight in self._weights(module))  # half precision has many equal norms
            return [energy_along(each) if self.score == "direction" else each.norm(dim=-1) for each in rows]
        return [weight.detach().abs().flatten(1) for _, weight in self._weights(module)]

    @torch.no_grad()
    def choose(self, module: nn.Module, step: int = 0) -> None:
        """Keep all but the smallest: the share ``ratio`` of each layer's neurons, or of all entries."""
        magnitudes = self._magnitudes(module)
        ranked_together = magnitudes if self.granularity == "neuron" else [torch.cat(magnitudes, 1)]
        self.kept.copy_(torch.cat([all_but_smallest(each, self.ratio) for each in ranked_together], 1))
        self.began.masked_fill_(self.began < 0, step)

    def pruned_parameters(self, module: nn.Module) -> dict[str, Tensor]:
        """The parameters of ``module`` that are pruned, with zeros in place of what is not kept.

        By "straight-through", what is done to them in the backward pass is done to the parameters as if nothing were
        hidden.
        """
        parameters, pruned, first = dict(module.named_parameters()), {}, 0
        biases = biases_by_weight(module) if self.granularity == "neuron" else {}
        for name, weight in self._weights(module):
            units = weight.shape[:2] if self.granularity == "neuron" else weight.shape
            last = first + units[1:].numel()
            kept = self.kept[:, first:last].reshape(units).to(parameters[name].device)
            pruned[name] = self._hide(parameters[name], kept)
            for bias in biases.get(name, ()):
                pruned[bias] = self._hide(parameters[bias], kept)  # or a neuron without weights would give it out
            first = last
        return pruned

    def _hide(self, parameter: Tensor, kept: Bool[Tensor, "replica unit *entry"]) -> Tensor:
        kept = kept if self._stacked else kept[0]
        if self.granularity == "entry":
            kept = kept.reshape(parameter.shape)
        else:
            kept = kept.reshape(*kept.shape, *[1] * (parameter.ndim - kept.ndim))
        if self.gradient == "straight-through":
            return parameter + (parameter * kept - parameter).detach()
        return parameter * kept

    def forward(self, experiment: Any, step: int) -> None:
        """Choose anew, if it is time."""
        self.choose_if_due(experiment.learner, step)

    def choose_if_due(self, module: nn.Module, step: int) -> None:
        """`choose`, if ``start`` and ``every`` say so of this step."""
        if step >= self.start and (step - self.start) % self.every == 0:
            self.choose(module, step)

    def seen(self, learner: nn.Module) -> nn.Module:
        """The learner as the objective sees it: itself until the first choice, then pruned."""
        return learner if bool((self.began < 0).all()) else Pruner(self, learner)

    def events(self) -> dict[str, Int[Tensor, "replica"]]:
        """The step of the first choice; -1 before."""
        return {"pruning_began": self.began}


class Pruner(nn.Module):
    """A module with pruned weights: call it where the module was called.

    It has no parameters and no state of its own, so that a checkpoint loads with it and without it: masks are chosen by
    the weights as they are. Give the module to what clips, freezes, casts or saves: given this it would do nothing.
    Statistics of BatchNorm are those of two networks. The pruned one has its own here, which begin as the module's are
    at the first choice; and the module's stay as they are from then until `refresh`, but where a pass of the whole
    module by "theory" moves them.

    Activation checkpointing computes activations anew in the backward pass, where the module's weights are whole again:
    by "straight-through" a call of this object would give the gradient of another network. It is refused where parts of
    the module say that they do so; a bare ``torch.utils.checkpoint.checkpoint(...)`` says nothing. `hidden` is right
    with both.
    """

    def __init__(self, mask: PruningMask, module: nn.Module) -> None:
        super().__init__()
        self._held = (mask, module)  # in a tuple, torch registers neither
        self._whole: dict[str, Tensor] = {}
        self._told = False  # whoever has this as a part
        self._begin(0)

    def _begin(self, step: int) -> None:
        """Take the module's statistics as they are for those of both networks at the start, which is ``step``."""
        require_shown(self._whole)
        self._statistics = self._of_module()
        self._at_start = self._of_module()
        self.step = self._first = step

    def _of_module(self) -> dict[str, Tensor]:
        """The module's statistics as they are now."""
        return {name: buffer.clone() for name, buffer in batch_statistics(self.module)}

    @property
    def mask(self) -> PruningMask:
        """Which weights are kept."""
        return self._held[0]

    @property
    def module(self) -> nn.Module:
        """What is pruned, whole."""
        return self._held[1]

    def train(self, mode: bool = True) -> "Pruner":
        """Put the module into training mode, or, by ``eval``, into evaluation mode."""
        self.module.train(mode)
        return super().train(mode)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Take gradients off the module, whose parameters are not this object's own."""
        self.module.zero_grad(set_to_none)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """This object alone; as a part of another that has not the module itself, with a warning."""
        if memo and self.module not in memo and not self._told:
            self._told = True
            warnings.warn(IN_A_PART.format(prefix, type(self.module).__name__), stacklevel=2)
        yield from super().named_modules(memo, prefix, remove_duplicate)

    def update(self) -> None:
        """After a step of training: choose anew by the weights as they are now, if it is time; none may be hidden."""
        require_shown(self._whole)
        mask, module = self._held
        self.step += 1
        first = not self.began
        mask.choose_if_due(module, self.step)
        if first and self.began:
            self._statistics = self._of_module()

    def resume(self, step: int) -> None:
        """Go on after ``step`` steps of a training that was left, once its checkpoint is loaded into the module.

        ``start`` and ``every`` then count from that training's first step. From ``start`` on weights are chosen at
        once, by what they are now: what was chosen before is in no checkpoint. Refused as `update` is.
        """
        mask, module = self._held
        self._begin(step)
        if step >= mask.start:
            mask.choose(module, step)

    @property
    def began(self) -> bool:
        """Whether weights have been chosen yet."""
        return bool((self.mask.began >= 0).all())

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the module gives without its pruned weights; by "theory", a `Masked` pair. With all before ``start``.

        Both of a pair draw the same random numbers, such as those of dropout: afterwards it is as if one pass had drawn
        from torch's generators, of the CPU and of the module's CUDA devices.

        Raises:
            ValueError: by "straight-through", with gradients, a part of the module has activation checkpointing on.
        """
        mask, module = self._held
        if not self.began:
            return module(*inputs, **named)
        seen = mask.pruned_parameters(module) | self._own(module)
        if mask.gradient == "straight-through":
            require_no_checkpointing(module)
            return called_with(module, seen, inputs, named)
        places = {parameter.device for parameter in module.parameters() if parameter.is_cuda}
        with torch.no_grad(), torch.random.fork_rng(places):
            pruned = called_with(module, seen, copy_of(inputs), copy_of(named))  # the module may work on them in place
        torch.clear_autocast_cache()  # until some torch after 2.6 copies made without gradients would be used again
        return Masked(pruned, module(*inputs, **named))

    def _own(self, module: nn.Module) -> dict[str, Tensor]:
        """The pruned network's statistics, on the device where the module's are by now."""
        for name, buffer in batch_statistics(module):
            self._statistics[name] = self._statistics[name].to(buffer.device)
        return self._statistics

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Within, the module itself has zeros in place of what is pruned: the straight-through gradient without a call
        of this object, see `hide`. Within another such block it changes nothing."""
        within_another = bool(self._whole)
        self.hide()
        try:
            yield
        finally:
            if not within_another:
                self.show()

    @torch.no_grad()
    def hide(self) -> None:
        """Put zeros in place of what is pruned, and the pruned network's statistics in, until `show`.

        Between the two the loss is computed and differentiated; the optimizer steps after `show`. Gradients are then
        those by "straight-through", through whatever the loss is.

        Raises:
            ValueError: the gradient is that by "theory", which needs both networks at once.
        """
        mask, module = self._held
        if mask.gradient != "straight-through":
            raise ValueError("gradient = 'theory' needs both networks at once: allowed here is 'straight-through'")
        if self._whole or not self.began:
            return
        parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
        for name, pruned in mask.pruned_parameters(module).items():
            self._whole[name] = parameters[name].clone()
            parameters[name].copy_(pruned)
        for name, own in self._own(module).items():
            self._whole[name] = buffers[name].clone()
            buffers[name].copy_(own)
        torch.clear_autocast_cache()  # it holds what the weights were at their first use within a region

    @torch.no_grad()
    def show(self) -> None:
        """Put back what `hide` hid; nothing where nothing is hidden.

        Raises:
            ValueError: an optimizer, say, has changed hidden weights meanwhile, which is lost.
        """
        _, module = self._held
        lost = why_lost(module, self._whole)
        buffers = dict(module.named_buffers())
        for name in self._statistics.keys() & self._whole.keys():
            self._statistics[name] = buffers[name].clone()
        for name, whole in self._whole.items():
            (buffers[name] if name in buffers else module.get_parameter(name)).copy_(whole)
        self._whole.clear()
        torch.clear_autocast_cache()
        if lost:
            raise ValueError(lost)

    def refresh(self, batches: Iterable[Any], *, call: Callable[[nn.Module, Any], Any] | None = None) -> bool:
        """Estimate the whole network's statistics of BatchNorm anew, see `estimate_statistics`.

        Norms whose statistics did not move while others' did, or while `update` was called, were in evaluation mode and
        keep them. Of a model that was trained before it came here nothing is known: all are taken anew.

        Returns:
            Whether there were any.
        """
        norms = self.moved()
        if not norms and self.step == self._first:
            norms = {name.rpartition(".")[0] for name, _ in batch_statistics(self.module)}
        estimate_statistics(self._held[1], batches, call=call, only=norms)
        return bool(norms)

    def moved(self) -> set[str]:
        """Names of the norms whose statistics, of either network, are not those at the start."""
        found = set[str]()
        for name, buffer in batch_statistics(self.module):
            began = self._at_start[name].to(buffer.device)
            if not all(torch.equal(one.to(buffer.device), began) for one in (buffer, self._statistics[name])):
                found.add(name.rpartition(".")[0])
        return found
