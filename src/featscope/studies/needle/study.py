"""Needles in a haystack, by method. Sections are those of Shi 2024 (dissertation)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import xarray as xr

from featscope.claims import COSINE, POSITIVE, SHARE, Claim, Found, bound, identity, ordering
from featscope.figures import Figure, Panel, Table
from featscope.language.haystack import OTHERS
from featscope.studies import Runs, Story
from featscope.studies.needle.arms import COMPARED, KINDS, NeedleArms
from featscope.studies.needle.unseen import LENGTHS
from featscope.studies.reductions import smallest
from featscope.studies.summaries import (
    bars,
    chart,
    counted,
    curve,
    heatmaps,
    percent,
    stored_answers,
    verdict,
)

HALF = 0.5  # of the score: what full attention must have for others to lose
ALIKE = 0.05  # of the score: what may be lost where as much is found
LENGTH, DEPTH = ("length", "length of the text (tokens)"), ("depth", "place in the text (%)")
SCORE, WHOLE = "share of the answer's words given", "share of prompts answered whole"
CLOSE = "Tolerance: five points in a hundred, a stated choice. Paired by prompt."
NO_TIE = "Bound: one point in a hundred, a stated choice, so that a tie is no gain. Paired by prompt."
REACHED = "Bound: what a retriever of any words was to reach at this length."
unseen = partial(bound, at_least=0.95, because=REACHED, law="draws", things=lambda study: study.recalled)
further = partial(bound, at_least=0.9, because=REACHED, law="draws", things=lambda study: study.recalled)
better = partial(ordering, more_than=0.01, because=NO_TIE, range=COSINE)


@dataclass(frozen=True)
class NeedleInAHaystack(NeedleArms):
    """A sentence hidden in a long text, and a question about it (dissertation, Section 9.4.1).

    Options and arms are `NeedleArms`'.
    """

    # --- Claims: differences of mean normalised scores over lengths and depths. Arms ask the same prompts. ------------

    @better("Section 9.4.1, Figure 9.4", on="gemfilter")
    def gemfilter_beats_snapkv(self, runs: Runs) -> Found | None:
        """GemFilter answers better than SnapKV. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "gemfilter", "snapkv")

    @better("derived, for Section 9.4.1", on="question-kept")
    def question_kept_beats_snapkv(self, runs: Runs) -> Found | None:
        """GemFilter that keeps the question answers better than SnapKV.

        It keeps the last tokens, as SnapKV does. Measured: difference of mean normalised scores, all prompts.
        """
        return ahead(runs, "question-kept", "snapkv")

    @better("Section 9.4.1, Figure 9.4", on="gemfilter")
    def gemfilter_beats_full(self, runs: Runs) -> Found | None:
        """GemFilter answers better than full attention. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "gemfilter", "full")

    @identity("Section 9.4.1, Figure 9.4", on="snapkv", equals=0.0, within=ALIKE, because=CLOSE, range=COSINE)
    def snapkv_is_like_full(self, runs: Runs) -> Found | None:
        """SnapKV answers as well as full attention. Measured: difference of mean normalised scores, all prompts."""
        return ahead(runs, "snapkv", "full")

    @bound(
        "Section 9.4.1",
        on=lambda study: [name for name in ("snapkv", "h2o") if name in study.methods],
        at_most=0.95,
        because="Bound: a stated choice. What is kept is a small part of the text, and a needle is not kept whole in "
        "each layer and head; a method that drops nothing keeps all of it.",
        range=SHARE,
    )
    def methods_drop_tokens(self, run: xr.Dataset) -> xr.DataArray:
        """Methods that drop keys and values drop some of the needle's, too.

        Measured: mean share of the needle that is kept, over layers and heads, all prompts.
        """
        return run.kept.mean(("length", "depth", "prompt"), skipna=False)

    @ordering(
        "derived here",
        on="full",
        more_than=HALF,
        because="Bound: a half, a stated choice. Paired by prompt but for the needle.",
        note="Words of an answer may be right by chance, or be those of another needle; scores of the methods are to "
        "be read against the score without the needle.",
        range=COSINE,
    )
    def the_needle_matters(self, runs: Runs) -> Found | None:
        """Answers come from the text. Measured: mean normalised score with the needle in it less that without."""
        return ahead(runs, "full", "no-needle")

    @bound(
        "Section 9.4.1",
        on="full",
        at_least=0.5,
        because="Bound: half of the text, a stated choice; needles lie between sentences.",
        given=lambda study: study.depths > 1 and study.lengths[-1] >= 128 and not study.needle,
        law="exact",
        range=COSINE,
    )
    def needles_lie_from_first_to_last(self, run: xr.Dataset) -> xr.DataArray:
        """Needles lie anywhere from the beginning of the text to its end.

        Measured: where the needle begins at the largest depth less where it does at the smallest, as shares of the
        longest prompts.
        """
        start = run.start.isel(length=-1, drop=True).mean("prompt", skipna=False)
        return start.isel(depth=-1, drop=True) - start.isel(depth=0, drop=True)

    @identity(
        "derived here",
        on="full",
        relation="=",
        within=0.0,
        because="Tolerance: none.",
        law="exact",
        range=POSITIVE,
    )
    def others_are_hidden_beside(self, run: xr.Dataset) -> Found:
        """The text has other passwords beside the one that is asked for.

        Measured: the least of them in a prompt; of a needle of your own there are none.
        """
        return Found(smallest(run.others), predicted=0.0 if self.needle else float(OTHERS))

    # --- What the retriever never saw, with full attention ------------------------------------------------------------

    @unseen("derived here", on="words")
    def retrieves_unseen_words(self, run: xr.Dataset) -> xr.DataArray:
        """Words that it never saw in a needle are found, in 512 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 512)

    @further("derived here", on="words")
    def retrieves_unseen_words_further(self, run: xr.Dataset) -> xr.DataArray:
        """Words that it never saw in a needle are found, in 1,024 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 1024)

    @unseen("derived here", on="wordings")
    def retrieves_unseen_wordings(self, run: xr.Dataset) -> xr.DataArray:
        """Needles in wordings that it never saw are found, in 512 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 512)

    @further("derived here", on="wordings")
    def retrieves_unseen_wordings_further(self, run: xr.Dataset) -> xr.DataArray:
        """Needles in wordings that it never saw are found, in 1,024 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 1024)

    @unseen("derived here", on="keys")
    def retrieves_random_keys(self, run: xr.Dataset) -> xr.DataArray:
        """Random keys that differ in one token are told apart, in 512 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 512)

    @further("derived here", on="keys")
    def retrieves_random_keys_further(self, run: xr.Dataset) -> xr.DataArray:
        """Random keys that differ in one token are told apart, in 1,024 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 1024)

    @unseen("derived here", on="questions")
    def retrieves_reworded_questions(self, run: xr.Dataset) -> xr.DataArray:
        """Questions in other words than the needle's are answered, in 512 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 512)

    @further("derived here", on="questions")
    def retrieves_reworded_questions_further(self, run: xr.Dataset) -> xr.DataArray:
        """Questions in other words than the needle's are answered, in 1,024 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 1024)

    @unseen("derived here", on="identifiers")
    def retrieves_identifiers(self, run: xr.Dataset) -> xr.DataArray:
        """Identifiers are given whole, in 512 tokens.

        They are 32 hexadecimal digits in five groups, some 35 tokens, of which one that is wrong is as bad as all.
        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 512)

    @further("derived here", on="identifiers")
    def retrieves_identifiers_further(self, run: xr.Dataset) -> xr.DataArray:
        """Identifiers are given whole, in 1,024 tokens.

        Measured: share of prompts whose whole answer is given.
        """
        return answered(run, 1024)

    @bound(
        "derived here",
        on="heads",
        not_on={"untrained-heads": "Control: random weights of the same shapes."},
        at_least=HALF,
        because="Bound: a half, a stated choice. Of 64 tokens one has 0.016 on average.",
        note="What finds a needle: a head that knows each token's predecessor, and one that looks for its own token "
        "among predecessors.",
        range=SHARE,
    )
    def induction_heads_formed(self, run: xr.Dataset) -> xr.DataArray:
        """A head looks where the same token was followed before.

        Measured: the share of its attention, in random tokens that are said twice, on the first to fourth token behind
        the first saying of its own (the largest of the four); mean over tokens and prompts, in the best layer.
        """
        return run.induction.mean("prompt", skipna=False).max("layer", skipna=False)

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Grids of length and depth, then means."""
        depths = [round(100 * place, 1) for place in self.places]
        at = {"length": list(self.lengths), "depth": depths}
        whole = {label: run.whole.mean("prompt") for label, run in self.labelled(runs).items() if "whole" in run}
        runs = {arm: run.assign_coords(at) for arm, run in runs.items() if "normalised" in run}
        scores = {label: run.normalised for label, run in self.labelled(runs).items()}
        exact = {label: run.exact for label, run in self.labelled(runs).items() if "exact" in run}
        keeping = {arm: run for arm, run in runs.items() if arm not in ("full", "no-needle")}
        kept = {label: run.kept for label, run in self.labelled(keeping).items()}
        grids = partial(heatmaps, rows=DEPTH, columns=LENGTH, ends=(0.0, 1.0))
        about_unseen = [test.statement.id for test in self.tests if {*test.arms(self)} <= {*KINDS}]
        claims = [test.statement.id for test in self.tests if {*test.arms(self)} <= {*COMPARED}]
        about = "Means over texts, by length and by where the sentence is hidden. 1 is a perfect answer."
        yield grids("grids", "Answers over length and place", about, scores, value_label=SCORE, claims=claims)
        means = [
            Panel(
                title,
                label,
                SCORE,
                [curve(one.mean((other, "prompt")), method, axis, within=SHARE) for method, one in scores.items()],
            )
            for title, (axis, label), other in (("Length", LENGTH, "depth"), ("Place", DEPTH, "length"))
        ]
        lines = [curve(one.mean(("depth", "prompt")), method, "length", within=SHARE) for method, one in exact.items()]
        means += [Panel("Whole answers", LENGTH[1], WHOLE, lines)] if lines else []
        about = "Means over the other axis and over prompts: of the share of the answer's words, and of whole answers."
        yield chart("means", "Answers over length, and over place", about, *means, claims=claims)
        if kept:
            about = "Means over texts; 1 keeps all of it. Where layers and heads differ, means over these, too."
            yield grids(
                "kept",
                "What was kept of the sentence",
                about,
                kept,
                value_label="share of its tokens kept",
                claims=("gemfilter-beats-snapkv", "question-kept-beats-snapkv"),
            )
        if whole:
            yield bars(
                "unseen",
                "What the model never saw",
                "Full attention. An answer counts if all of it is given.",
                list(whole),
                {
                    f"{n:,} tokens": xr.concat([w[..., i] for w in whole.values()], "kind")
                    for i, n in enumerate(LENGTHS)
                },
                WHOLE,
                within=SHARE,
                references=[(0.95, "wanted of 512 tokens"), (0.9, "of 1,024")],
                claims=about_unseen,
            )

    def tables(self, runs: Runs) -> Iterable[Table]:
        """What methods answered, where it is stored, to the prompt of each length on which they differ most."""
        sizes = len(self.lengths), len(self.places), self.prompts

        def called(question: int) -> str:
            length, place, prompt = np.unravel_index(question, sizes)
            return f"{self.lengths[length]} tokens, {100 * self.places[place]:.0f} % into the text, prompt {prompt + 1}"

        methods = self.labelled({arm: run for arm, run in runs.items() if arm in self.methods})
        of_length = np.arange(np.prod(sizes)) // np.prod(sizes[1:])
        yield from stored_answers(methods, "normalised", (SCORE, "{:.2f}"), called, of_length)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """Whether what is kept is enough, by the best and the worst method."""
        mean = {arm: float(run.normalised.mean(skipna=False)) for arm, run in runs.items() if "normalised" in run}
        right = {arm.name: f"{arm.label} {percent(mean[arm.name])}" for arm in self.arms() if arm.name in mean}
        ranked = sorted(mean.keys() - {"full", "no-needle"}, key=lambda arm: (-mean[arm], arm))
        best = float(np.max([mean[arm] for arm in ranked] or np.nan))  # not known where one is NaN
        lost = mean.get("full", np.nan) - best
        enough = ("can be" if lost <= ALIKE else "is not") if np.isfinite(lost) else "may be"
        shown = dict.fromkeys(arm for arm in (*ranked[:1], *ranked[-1:], "full") if arm in mean)
        found = (
            f"Keeping {percent(self.keep / float(np.mean(self.lengths)))} of a text {enough} enough for right answers: "
            f"{', '.join(right[arm] for arm in shown)}."
        )
        if not ranked:
            found = f"All of each text is read: {right['full']}, {right['no-needle']} of the answer's words."
        asked, whose = ("full", "Not even the whole text") if "full" in mean else (ranked[0], "No method")
        alike = "full" not in mean and best - mean["no-needle"] < HALF
        if alike or verdict(claims, "the-needle-matters@full") == "fails":
            silent = f"{whose} gives the answer ({right[asked]})"
            if mean[asked] >= HALF:
                both = f"{right[asked]}, {right['no-needle']}"
                silent = f"The hidden sentence makes too little of a difference ({both})"
            found = f"{silent}, so that nothing can be compared."
        compared = {
            "gemfilter-beats-snapkv@gemfilter": ("gemfilter", "snapkv"),
            "question-kept-beats-snapkv@question-kept": ("question-kept", "snapkv"),
            "gemfilter-beats-full@gemfilter": ("gemfilter", "full"),
            "snapkv-is-like-full@snapkv": ("snapkv", "full"),
            "the-needle-matters@full": ("full", "no-needle"),
        }
        return Story(
            found,
            f"A sentence is hidden in texts of up to {self.lengths[-1]} tokens (pieces of words), {self._where}. "
            f"{f'A method keeps {self.keep} tokens in its own way; full' if ranked else 'Full'} attention keeps all. A "
            "colour is the share of the answer's words that came back, the mean of "
            f"{counted(self.prompts * runs['no-needle'].sizes['replica'], 'text')}.",
            {key: f"{right[a]}, {right[b]}." for key, (a, b) in compared.items() if {a, b} <= mean.keys()},
        )

    @property
    def _where(self) -> str:
        """Where the sentence is hidden."""
        few = {1: "in the middle, with", 2: "at the beginning or before"}
        return f"{few.get(self.depths, f'at {self.depths} places from the beginning to')} the question at the end"


def answered(run: xr.Dataset, length: int) -> xr.DataArray:
    """Share of prompts of one length whose whole answer was given."""
    return run.whole.isel(length=LENGTHS.index(length)).mean("prompt", skipna=False)


def ahead(runs: Runs, one: str, other: str) -> Found | None:
    """Difference of mean scores; None where an arm was not run, NaN where the model does not answer.

    Whether it does, full attention says; where that was not asked, the best of the methods.
    """
    if not {one, other} <= runs.keys():
        return None
    answer = ["full"] if "full" in runs else [a for a, run in runs.items() if "normalised" in run and a != "no-needle"]
    scores = {arm: runs[arm].normalised for arm in {one, other, "no-needle", *answer}}
    means = {arm: score.mean(("length", "depth", "prompt"), skipna=False) for arm, score in scores.items()}
    best = np.max([float((means[arm] - means["no-needle"]).mean()) for arm in answer])
    told = other == "no-needle" or best >= HALF  # there is what can be lost; not known where best is NaN
    why = "" if told else f"Nobody answers: {best:.2f} more than without the needle, where {HALF:g} is asked for."
    return Found((means[one] - means[other]) * (1.0 if told else np.nan), why, trials=scores[one].isel(replica=0).size)
