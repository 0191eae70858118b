"""What `gemfilter` claims. Sections are those of Shi 2024 (dissertation)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, Claim, bound, identity, ordering
from featscope.figures import Figure
from featscope.language.methods import METHODS
from featscope.studies import Runs, Story
from featscope.studies.gemfilter import figures, mechanics
from featscope.studies.gemfilter.arms import GemFilterArms
from featscope.studies.gemfilter.cost import BYTES, FILTER, GEOMETRY, KEEP
from featscope.studies.summaries import percent, verdict
from featscope.theory import token_selection as theory

SAME = "Tolerance: none; the same kernels on the same numbers."
COUNTED = "Counted by torch's counter of operations, with the CPU's attention added to it."
RATIO, LAYER = FILTER / GEOMETRY.layers, 1 / GEOMETRY.layers  # r/m, 1/m
ON_TOP = "Tolerance: 15 % of the ratio, a stated choice: the projections of layer r and the choice come on top."
NEARLY = "Bound: five points in a hundred worse, a stated choice. Paired by prompt."
NO_TIE = "Bound: one point in a hundred, a stated choice, so that a tie is no gain. Paired by prompt."
CLEARLY = "Bound: a fifth, a stated choice (the paper's differences are 0.64 and 0.71)."
CONTROL = "Control: random weights of the same shapes."

exactly = partial(identity, on="mechanics", within=0.0, because=SAME, range=POSITIVE)
wholly = partial(exactly, equals=1.0, range=SHARE)
by_formula = partial(identity, on="cost", equals=1.0)
the_ratio = partial(identity, on="cost", equals=RATIO, within=0.15 * RATIO, because=ON_TOP, range=POSITIVE)
no_worse = partial(ordering, on="retrieval", at_least=-0.05, because=NEARLY, range=COSINE)
better = partial(ordering, on="retrieval", at_least=0.01, because=NO_TIE, range=COSINE)
nine_tenths = partial(bound, at_least=0.9, because="Bound: nine tenths, a stated choice.", range=SHARE)
clearly_less = partial(ordering, on="retrieval", at_most=-0.2, because=CLEARLY, range=COSINE)


@dataclass(frozen=True)
class GemFilterStudy(GemFilterArms):
    """GemFilter: an early layer chooses the tokens of a long prompt (dissertation, Chapter 9).

    Options and arms are `GemFilterArms`'.
    """

    asks = "Does an early layer know which few words of a long text the answer needs?"

    # --- What is exact (P Section 9.3) --------------------------------------------------------------------------------

    @wholly("derived, from Algorithm 2")
    def keep_all_is_identity(self, run: xr.Dataset) -> xr.DataArray:
        """With every token kept, GemFilter answers as the model does.

        With every token kept, the second pass is the model's own generation. Measured: share of equal new tokens.
        """
        return run["identical"]  # Dataset.identical is a method

    @exactly("derived, from Algorithm 2", equals=0.0)
    def keep_all_same_logits(self, run: xr.Dataset) -> xr.DataArray:
        """With every token kept, the first new token's logits are the model's own.

        With every token kept, they are the same bit by bit. Measured: the largest difference.
        """
        return run.logit_difference

    @bound(
        "derived, for Section 9.3.1",
        on="mechanics",
        at_most=1e-5,
        because="Bound: rounding of float32 in another order of sums.",
        range=POSITIVE,
    )
    def grouped_query_identity(self, run: xr.Dataset) -> xr.DataArray:
        """Heads that share keys can sum their queries first.

        Summing queries over the heads of a group gives the scores that repeating keys gives. Measured: the largest
        difference over the largest score.
        """
        return run.grouping_error

    @wholly("derived, from Section G.4.2")
    def lone_spike(self, run: xr.Dataset) -> xr.DataArray:
        """A token that stands out is chosen with its neighbours.

        A lone spike, averaged over $5$ neighbours, makes five tokens equal: with $5$ kept, it is chosen with two
        neighbours on either side. Measured: share of places where it is so.
        """
        return run.spike

    @wholly(
        "derived, from Section 9.3.1",
        because="Tolerance: none; rounding could swap two tokens of nearly equal scores, and did not in 2,000 seeds.",
    )
    def scale_invariance(self, run: xr.Dataset) -> xr.DataArray:
        r"""Scaling all queries leaves the choice as it is.

        Scaling queries by a positive number, $1/\sqrt{d}$ say, does not change it. Measured: the share that remains.
        """
        return run.scaled_overlap

    @wholly(
        "derived, against Section 9.3.1",
        on=(),
        not_on="mechanics",
        note="A softmax weighs heads anew: what is written as raw products must not be read as attention weights.",
    )
    def softmax_keeps_the_choice(self, run: xr.Dataset) -> xr.DataArray:
        """A softmax for each head before the sum leaves the choice as it is. Measured: the share that remains."""
        return run.softmax_overlap

    @exactly("Section 9.3.2", equals=0.0)
    def cache_length_is_keep(self, run: xr.Dataset) -> xr.DataArray:
        """The cache of the second pass holds the kept tokens alone.

        After it has read its prompt, every layer's cache has exactly $k$ entries. Measured: the largest difference.
        """
        return run.cache_excess

    @exactly("Section 9.3.1", equals=0.0)
    def positions_are_compact(self, run: xr.Dataset) -> xr.DataArray:
        """In the second pass kept tokens stand side by side.

        They have positions $0$ to $k - 1$ there, and new ones follow. Measured: the largest difference.
        """
        return run.position_error

    @exactly("Section 9.3.1", equals=mechanics.FILTER)
    def layers_run(self, run: xr.Dataset) -> xr.DataArray:
        """The first pass runs the layers below the filter layer alone.

        It runs the $r$ layers below the filter layer and no other to the end. Measured: layers run.
        """
        return run.blocks_run

    @exactly(
        "Section 9.3.1",
        equals=mechanics.FILTER + 1,
        note="That layer's values are projected too, as models hand all three to their attention at once.",
    )
    def projections_run(self, run: xr.Dataset) -> xr.DataArray:
        """Of the filter layer the first pass runs the projections alone.

        The first pass runs the projections of $r + 1$ layers. Measured: layers whose keys were projected.
        """
        return run.projections_run

    @wholly("Section G.4.5")
    def one_run_equal_selection(self, run: xr.Dataset) -> xr.DataArray:
        """GemFilter-One-Run keeps what GemFilter keeps. Measured: the share of the choice that both make."""
        return run.one_run_overlap

    # --- What it costs, at the longest prompt (P Theorem 9.3) ---------------------------------------------------------

    @by_formula(
        "derived, with Theorem 9.3",
        within=1e-3,
        because="Tolerance: what choosing costs, which the formula leaves out.",
        note=COUNTED,
        range=POSITIVE,
    )
    def operations_by_formula(self, run: xr.Dataset) -> xr.DataArray:
        """The first pass takes the operations that formulas with projections and MLP say.

        Measured: its operations over those of reading the prompt in all layers, over the ratio of the formulas.
        """
        formula = theory.first_pass_share(GEOMETRY, self.cost_lengths[-1], FILTER)
        return _longest(run.first_operations / run.full_operations) / formula

    @the_ratio("Theorem 9.3", note=COUNTED)
    def prompt_cost_ratio(self, run: xr.Dataset) -> xr.DataArray:
        """The first pass takes as large a part of the operations as of the layers.

        The first pass takes $r/m$ of the operations of reading the prompt in all layers. Measured: the ratio.
        """
        return _longest(run.first_operations / run.full_operations)

    @the_ratio("Theorem 9.3, Section 9.4.5")
    def prompt_time_ratio(self, run: xr.Dataset) -> xr.DataArray:
        """The first pass takes as large a part of the time as of the layers.

        The first pass takes $r/m$ of the time of reading the prompt in all layers. Measured: the ratio.
        """
        return _longest(run.first_seconds / run.full_seconds)

    @bound(
        "Section 9.3.2", on="cost", at_most=0.02, because="Bound: two in a hundred, a stated choice.", range=POSITIVE
    )
    def choice_is_cheap(self, run: xr.Dataset) -> xr.DataArray:
        """Scores, pooling and the choice take little of the first pass's time. Measured: their share."""
        return _longest(run.choice_seconds / run.first_seconds)

    @by_formula(
        "Theorem 9.3, mended",
        within=LAYER,
        because="Tolerance: the keys and values of one layer, which the first pass holds too while it is at work.",
        note="The source prints 2mhd; its row on generation has the n.",
    )
    def memory_model(self, run: xr.Dataset) -> xr.DataArray:
        """A full cache needs more memory than the first pass by what it holds.

        Reading a prompt with a full cache needs $2 m h_{kv} n d$ numbers more than the first pass, whose activations
        are the same. Measured: what it needs more, over the formula.
        """
        return _beyond("full_bytes", run, theory.prompt_memory_full(GEOMETRY, self.cost_lengths[-1]))

    @by_formula(
        "Theorem 9.3, mended", within=0.1, because="Tolerance: a tenth, for what SnapKV holds while it chooses."
    )
    def memory_model_snapkv(self, run: xr.Dataset) -> xr.DataArray:
        """SnapKV needs more memory than the first pass by what it keeps.

        SnapKV needs $2 m h_{kv} k d$ numbers more than the first pass. Measured: what it needs more, over the formula.
        """
        return _beyond("snapkv_bytes", run, theory.cache_numbers(GEOMETRY, KEEP))

    @by_formula("Theorem 9.3, as printed", on=(), not_on="cost", within=LAYER, because="Tolerance: as of memory-model.")
    def printed_memory(self, run: xr.Dataset) -> xr.DataArray:
        """A full cache needs as much more memory for a long prompt as for a short one.

        Reading a prompt with a full cache needs $2 m h d$ numbers more than the first pass, however long it is.
        Measured: what it needs more, over the formula.
        """
        return _beyond("full_bytes", run, 2 * GEOMETRY.layers * GEOMETRY.heads * GEOMETRY.channels)

    @by_formula(
        "Theorem 9.3", within=0.0, because="Tolerance: none; operations are counted.", note=COUNTED, range=POSITIVE
    )
    def generation_cost(self, run: xr.Dataset) -> xr.DataArray:
        """A new token takes as many operations after GemFilter as after SnapKV.

        After both it takes those of the formula for $k$ entries. Measured: each over the formula, the one further off.
        """
        formula = theory.decoding_operations(GEOMETRY, KEEP + 1)
        gem, snap = (_longest(run[f"{name}_decoding_operations"]) / formula for name in ("gemfilter", "snapkv"))
        return gem.where(abs(gem - 1) >= abs(snap - 1), snap)

    @bound("Section 9.4.5", on="cost", at_most=1.0, because="Bound: 1, no difference.", range=POSITIVE)
    def generation_is_faster(self, run: xr.Dataset) -> xr.DataArray:
        """A new token takes less time after GemFilter than after full attention. Measured: the ratio of the times."""
        return _longest(run.gemfilter_decoding_seconds / run.full_decoding_seconds)

    # --- What it finds: means over prompts of lengths that the model was trained on (P Section 9.4) -------------------

    @bound(
        "derived here",
        on="retrieval",
        at_least=0.95,
        because="Bound: what the retriever was to reach at the longest length it was trained on.",
        note="What the comparison of methods rests on.",
        range=SHARE,
    )
    def full_attention_retrieves(self, run: xr.Dataset) -> xr.DataArray:
        """With full attention the retriever gives the answer.

        Measured: its normalised score, mean over prompts of lengths that it was trained on.
        """
        return _of("full", self.mean(run.score))

    @nine_tenths("Section 9.4.3, Figure 9.5", on="retrieval", not_on={"untrained": CONTROL})
    def early_layer_finds_needle(self, run: xr.Dataset) -> xr.DataArray:
        """The filter layer, which is not the last, chooses tokens of the needle. Measured: share of such prompts."""
        return self.mean(run.covered).isel(layer=self.reading.layer)

    @clearly_less("Section 9.4.3, Figure 9.5")
    def first_layer_does_not(self, run: xr.Dataset) -> xr.DataArray | None:
        """The first layer does not choose tokens of the needle yet.

        Measured: the share of prompts in which it does, less that of the filter layer.
        """
        covered, layer = self.mean(run.covered), self.reading.layer
        return covered.isel(layer=0) - covered.isel(layer=layer) if layer else None

    @no_worse("Section 9.4.1")
    def gemfilter_is_no_worse(self, run: xr.Dataset) -> xr.DataArray:
        """GemFilter answers as well as full attention. Measured: difference of mean scores at trained lengths."""
        return self.ahead(run, "gemfilter", "full")

    @better("Section 9.4.1, Figure 9.4")
    def gemfilter_beats_snapkv(self, run: xr.Dataset) -> xr.DataArray:
        """GemFilter answers better than SnapKV with as many kept entries.

        Measured: difference of mean scores at lengths that the model was trained on.
        """
        return self.ahead(run, "gemfilter", "snapkv")

    @nine_tenths("Section 9.3.1", not_on="retrieval", note="The source relies on it; nothing in the rule makes it so.")
    def last_token_is_chosen(self, run: xr.Dataset) -> xr.DataArray:
        """The last token is chosen, so that the second pass ends on the question. Measured: share of such prompts."""
        return self.mean(run.last_kept).isel(layer=self.reading.layer)

    @no_worse("derived, for Section 9.4.1", note="No part of the paper's rule: force_keep.")
    def question_kept_is_no_worse(self, run: xr.Dataset) -> xr.DataArray:
        """GemFilter that keeps the question answers as well as full attention.

        GemFilter keeps the last tokens in any case, as SnapKV does. Measured: difference of mean scores at lengths
        that the model was trained on.
        """
        return self.ahead(run, "question-kept", "full")

    @better("derived, for Section 9.4.1")
    def question_kept_beats_snapkv(self, run: xr.Dataset) -> xr.DataArray:
        """GemFilter that keeps the question answers better than SnapKV.

        GemFilter keeps the last tokens in any case, as SnapKV does. Measured: difference of mean scores at lengths
        that the model was trained on.
        """
        return self.ahead(run, "question-kept", "snapkv")

    @better("Section 9.3.2")
    def gemfilter_reads_further(self, run: xr.Dataset) -> xr.DataArray | None:
        """Reading fewer tokens helps beyond the lengths that the model was trained on.

        Beyond these lengths compact positions help. Measured: the score of GemFilter (with the question kept) less that
        of full attention, at the longest length.
        """
        farthest = run.score.isel(length=-1)
        beyond = self.lengths[-1] > self.trained
        return _of("question-kept", farthest) - _of("full", farthest) if beyond else None

    @clearly_less("Section 9.4.4, Figure G.3")
    def middle_row_fails(self, run: xr.Dataset) -> xr.DataArray:
        """The prompt's middle row chooses badly. Measured: its mean score less GemFilter's, at trained lengths."""
        return self.ahead(run, "middle-row", "gemfilter")

    @clearly_less("Section 9.4.4, Figure G.3")
    def largest_row_fails(self, run: xr.Dataset) -> xr.DataArray:
        """The row of largest scores chooses badly. Measured: its mean score less GemFilter's, at trained lengths."""
        return self.ahead(run, "largest-row", "gemfilter")

    @no_worse("Section G.4.5, Figure G.4")
    def one_run_is_close(self, run: xr.Dataset) -> xr.DataArray:
        """Without the second pass answers are no worse.

        Measured: mean score of GemFilter-One-Run less GemFilter's, at lengths that the model was trained on.
        """
        return self.ahead(run, "one-run", "gemfilter")

    def mean(self, values: xr.DataArray) -> xr.DataArray:
        """Mean over the lengths that the model was trained on."""
        known = [place for place, length in enumerate(self.lengths) if length <= self.trained]
        return values.isel(length=known).mean("length")

    def ahead(self, run: xr.Dataset, one: str, other: str) -> xr.DataArray:
        """Mean score of one method less that of another."""
        scores = self.mean(run.score)
        return _of(one, scores) - _of(other, scores)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Scores, layers, kept tokens; then cost."""
        at = {"length": list(self.lengths), "method": list(METHODS), "keep": list(self.keeps)}
        trained, untrained = (runs[arm].assign_coords(at) for arm in ("retrieval", "untrained"))
        yield figures.scores(trained.score, self.trained, self.reading)
        yield figures.layers(trained, untrained, self.reading)
        yield figures.keeps(trained.score_of_keep, self.reading)
        yield figures.cost(runs["cost"].assign_coords(length=list(self.cost_lengths)))

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether a layer's choice has what is asked for, and whether it is enough."""
        run, layer = runs["retrieval"], self.reading.layer
        touched, by_chance = (percent(self.mean(runs[arm].covered)[..., layer]) for arm in ("retrieval", "untrained"))
        of = {name: percent(_of(name, self.mean(run.score))) for name in METHODS}
        ids = ("early-layer-finds-needle", "gemfilter-is-no-worse")
        found, worse = (verdict(claims, f"{id}@retrieval") for id in ids)
        finds = {"holds": "finds", "fails": "often misses", "undecided": "may find"}[found]
        is_good = {"holds": "is as good as", "fails": "is worse than", "undecided": "may be worse than"}[worse]
        return Story(
            f"One layer {finds} the hidden sentence ({touched} of texts). Reading its choice {is_good} reading all "
            f"({of['gemfilter']} against {of['full']}); with the question kept {of['question-kept']}.",
            f"Passwords are hidden in texts, and one is asked for at the end. GemFilter has layer {layer} (of 0 to "
            f"{run.sizes['layer'] - 1}) choose {self.keep} tokens (pieces of words) and reads those alone; others keep "
            "as much in their own ways, full attention keeps all. A curve shows how much of the answer came back.",
            {
                "early-layer-finds-needle@retrieval": f"In {touched} of texts; with random weights in {by_chance}.",
                "gemfilter-is-no-worse@retrieval": f"{of['gemfilter']} of the answer against {of['full']}. It keeps "
                f"the end of the question in {percent(self.mean(run.last_kept)[..., layer])} of texts.",
                "question-kept-is-no-worse@retrieval": f"{of['question-kept']} against {of['full']}.",
                "gemfilter-beats-snapkv@retrieval": f"{of['gemfilter']} against {of['snapkv']}; H2O has {of['h2o']}.",
                "prompt-time-ratio@cost": "",
            },
        )


def _longest(values: xr.DataArray) -> xr.DataArray:
    """At the longest prompt."""
    return values.isel(length=-1)


def _of(method: str, scores: xr.DataArray) -> xr.DataArray:
    """Those of one method."""
    return scores.isel(method=list(METHODS).index(method))


def _beyond(name: str, run: xr.Dataset, numbers: float) -> xr.DataArray:
    """What is held at the longest prompt beyond what the first pass holds, over so many numbers."""
    return _longest(run[name] - run.first_bytes) / (BYTES * numbers)
