"""What methods that drop most of a prompt lose on the tasks of LongBench.

Sections and tables are those of the dissertation. Scores are in points from 0 to 100, as in its tables. A mean is over
tasks of the mean over a task's examples.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from featscope.claims import POSITIVE, Claim, Found, bound, identity, ordering
from featscope.claims.averages import by_cluster, evenly_over, heaviest, ratio_of_means
from featscope.figures import Figure, Table
from featscope.language.longbench import SUITES, Benchmark
from featscope.language.longbench.published import TABLES, farthest_average, farthest_pair
from featscope.studies import Runs, Story
from featscope.studies.longbench import figures
from featscope.studies.longbench.arms import LongBenchArms
from featscope.studies.summaries import counted, in_words, percent, verdict

MARGIN = 2.0
"""Points that scores called comparable may differ by; a stated choice, as P names none."""
POINTS = 100.0
"""The largest score of an example, which is one thing."""
PAPER_SAYS_NOTHING = "The paper says nothing of these data, so that nothing is expected."
MADE_UP_DATA = "MADE-UP DATA: these scores say nothing about LongBench. "


@dataclass(frozen=True)
class LongBench(LongBenchArms):
    """GemFilter, SnapKV, H2O and the full cache on LongBench's English tasks (dissertation, Section 9.4.2).

    Options and arms are `LongBenchArms`'.
    """

    asks = "What does a model lose that keeps only a small part of each text it is asked about?"

    @identity(
        "Section 9.4.2, Table 9.1",
        on="gemfilter",
        not_on="middle-row",
        equals=0.0,
        within=MARGIN,
        given=lambda study: study.of_paper,
        things=lambda study: 1,
        note=f"Tolerance: {MARGIN:g} points, a stated choice. Where all methods find next to nothing "
        "(something-to-lose), scores are close for want of anything to lose, and nothing is decided.",
        corrects="published-scores-are-comparable",
    )
    def gemfilter_is_comparable_to_snapkv(self, runs: Runs, arm: str) -> Found | None:
        """GemFilter scores as SnapKV does where both keep as much.

        At equal $k$ GemFilter scores as SnapKV does. Measured: the difference of means, paired by example; the
        interval is over texts.
        """
        return self._against(runs, arm, "snapkv")

    @identity(
        "derived, for Section 9.4.2",
        on="question-kept",
        equals=0.0,
        within=MARGIN,
        given=lambda study: study.of_paper,
        things=lambda study: 1,
        note=f"Tolerance: {MARGIN:g} points, a stated choice. SnapKV keeps the same last tokens.",
    )
    def question_kept_is_comparable_to_snapkv(self, runs: Runs, arm: str) -> Found | None:
        """GemFilter that keeps the question scores as SnapKV does where both keep as much.

        Measured: the difference of means, paired by example; the interval is over texts.
        """
        return self._against(runs, arm, "snapkv")

    @ordering(
        "Section 9.4.2, Table 9.1",
        on="gemfilter",
        not_on="middle-row",
        more_than=0.0,
        things=lambda study: 1,
        given=lambda study: study.of_paper,
        note="The paper says significantly better, and compares with H2O at k = 4096 and prompts cut to 8192 tokens; "
        "here both "
        "have one k and one prompt. Undecided where something-to-lose does not hold.",
    )
    def gemfilter_is_no_worse_than_h2o(self, runs: Runs, arm: str) -> Found | None:
        """GemFilter scores at least what H2O does.

        Measured: the difference of means, paired by example; the interval is over texts.
        """
        return self._against(runs, arm, "h2o")

    @bound(
        "derived here",
        on="full",
        at_least=2 * MARGIN,
        things=lambda study: 1,
        note=f"Bound: twice the tolerance of {MARGIN:g} points. It asks whether this model and these tasks can tell "
        "methods apart at all.",
    )
    def something_to_lose(self, runs: Runs) -> Found:
        """The model scores enough for a method to lose something.

        The model with all keys and values scores so much that to lose all of it would be more than the tolerance.
        Measured: mean score with all of each text, in points.
        """
        return Found(self._means(runs, "full"), range=(POINTS - (most := self._most(runs, "full")), most))

    @identity(
        "derived here",
        on="full",
        equals=POINTS,
        within=1e-3,
        because="Tolerance: rounding.",
        given=lambda study: study.is_made_up,
        note="Of real data some right answers have fewer: a class whose name has another's in it, a text that ROUGE "
        "gives up on.",
        law="exact",
        range=(0.0, POINTS),
    )
    def right_answers_have_all_points(self, run: xr.Dataset) -> float:
        """A right answer, word for word, has a hundred points.

        Measured: the least score of any example's first right answer, as if it had been said.
        """
        return float(run.perfect.min())

    @identity(
        "Section 9.4.2",
        on="gemfilter",
        relation="=",
        given=lambda study: study.of_paper and not (study.tasks or study.examples or study.context),
        note="8 % times k/1024, as 32 is 4 times 8. Tolerance: a tenth, as one number stands for three tokenizers. "
        "Expected of the whole benchmark and uncut prompts alone.",
    )
    def compression(self, runs: Runs) -> Found:
        """GemFilter reads a small part of the prompt.

        It reads 8 % of the prompt's tokens at $k = 1024$ and 32 % at 4096. Measured: mean $k$ over mean $n$, over
        examples.
        """
        of, predicted = self.found(runs)["gemfilter"], 0.08 * self.keep / 1024
        cut = int((of["cut"] > 0).sum())
        says = (
            f"k = {self.keep}.",
            "" if self.of_paper else PAPER_SAYS_NOTHING,
            f"{cut} of {of['cut'].size} prompts were cut to fit." if cut else "",
        )
        share = by_cluster(ratio_of_means(of["kept"], of["tokens"]), of["text_of"].astype(np.int64))
        why = " ".join(filter(None, says))
        return Found(share, why, predicted, predicted / 10, expected=False if cut else None)

    @identity(
        "Algorithm 2 and Section G.4.2",
        on=lambda study: [name for name in study.methods if name != "full"],
        equals=0.0,
        within=0.0,
        note="Whole numbers: no tolerance.",
        law="exact",
        range=POSITIVE,
    )
    def kept_is_k(self, runs: Runs, arm: str) -> Found:
        r"""Every method keeps as much of a prompt as it was told to.

        Of a prompt of $n$ tokens exactly $\min(k, n)$ are kept. Measured: largest difference between tokens kept and
        asked for, over examples.
        """
        of = self.found(runs)[arm]
        return Found(float(np.abs(of["kept"] - np.minimum(of["tokens"], self.keep)).max()), f"k = {self.keep}.")

    # --- What P prints ------------------------------------------------------------------------------------------------

    @bound(
        "Tables 9.1, 9.2 and G.1",
        on=tuple(TABLES),
        at_most=0.005 + 1e-9,
        note="Bound: half of the last printed digit, and 10⁻⁹ for the sum in floating point.",
        law="exact",
        range=POSITIVE,
    )
    def published_averages_are_means(self, arm: str) -> float:
        """The average that a row of the paper's tables prints is the mean of its scores.

        Measured: largest difference of a printed average and the mean of its row, in points.
        """
        return farthest_average(arm)

    @bound(
        "Section 9.4.2, Table 9.1; Section G.4.7, Table G.1",
        not_on=("Table 9.1", "Table G.1"),
        at_most=MARGIN,
        note=f"Bound: the {MARGIN:g} points of gemfilter-is-comparable-to-snapkv. Not expected: the tables have "
        "-2.51 (Phi 3.5, k = 2048) and -3.10 (Llama 3.1 with chat template).",
        law="exact",
        range=POSITIVE,
    )
    def published_scores_are_comparable(self, arm: str) -> float:
        """GemFilter scores as SnapKV does in the paper's own tables.

        Its own averages of GemFilter and SnapKV are comparable at every $k$. Measured: the largest difference of
        averages at equal $k$, in points.
        """
        return farthest_pair(arm)

    # --- From examples to means ---------------------------------------------------------------------------------------

    def found(self, runs: Runs) -> Mapping[str, Mapping[str, Float[np.ndarray, " example"]]]:
        """Arm -> answer -> its values of all examples.

        On data that are the same in every replica those of the first replica alone: copies are no evidence.
        """
        replicas = slice(None if self.is_made_up else 1)
        found = {}
        for arm, run in runs.items():
            of = {a: run[a].values[replicas] for a in Benchmark.answers if a in run}
            apart = np.arange(of["score"].size, dtype=float).reshape(of["score"].shape)
            # Each replica has texts of its own. Runs before 2026-11-30 do not say which text is whose.
            of["text_of"] = of["text_of"] + apart[:, :1] if "text_of" in of else apart
            found[arm] = {a: values.reshape(-1) for a, values in of.items()}
        return found

    def _means(self, runs: Runs, arm: str, other: str = "") -> Float[np.ndarray, " text"]:
        """Scores on ``arm``, less those on the ``other`` if there is one, such that all tasks count alike."""
        found = self.found(runs)
        return self._evenly(runs, arm, found[arm]["score"] - (found[other]["score"] if other else 0.0))

    def _evenly(self, runs: Runs, arm: str, values: Float[np.ndarray, " example"]) -> Float[np.ndarray, " text"]:
        """One number a text, whose mean is the mean over tasks of what examples have."""
        tasks, texts = self._sorted(runs, arm)
        return by_cluster(evenly_over(values, tasks), texts)

    def _sorted(self, runs: Runs, arm: str) -> list[Int[np.ndarray, " example"]]:
        """The task and the text of each example."""
        return [self.found(runs)[arm][of].astype(np.int64) for of in ("task_of", "text_of")]

    def _most(self, runs: Runs, arm: str) -> float:
        """What the best answers of a text may count, in points: more than 100 where tasks or texts differ in size."""
        return POINTS * heaviest(*self._sorted(runs, arm))

    def _against(self, runs: Runs, arm: str, other: str) -> Found | None:
        """How much better ``arm`` is; NaN where nothing says that the model finds enough for methods to be told apart.

        None where the other was not run.
        """
        if other not in runs:
            return None
        better, most = self._means(runs, arm, other), 2 * self._most(runs, arm) - POINTS
        why = [] if self.of_paper else [PAPER_SAYS_NOTHING]
        if (lost := self._nothing_to_lose(runs)) is not None:
            better, why = np.full_like(better, np.nan), [*why, lost]
        return Found(better, " ".join(why), range=(-most, most))

    def _nothing_to_lose(self, runs: Runs) -> str | None:
        """Why methods cannot be told apart; None where they can."""
        if "full" not in runs:
            return "Without the arm full nothing says that the model finds enough to lose: add it to --methods."
        if (points := self._means(runs, "full").mean()) >= 2 * MARGIN:
            return None
        return f"With all of each text the model has {points:.1f} points, too few for a method to lose some."

    # --- What is shown ------------------------------------------------------------------------------------------------

    def figures(self, runs: Runs) -> Iterable[Figure]:
        """Scores, differences, what the paper reports, compression."""
        found, said = self.found(runs), MADE_UP_DATA if self.is_made_up else ""
        yield figures.scores(found, self.names, said, self.keep, self.reading.layer)
        printed = self.published if self.suite == "longbench" else None
        yield from figures.differences(found, self.names, said, self.keep, printed)
        if printed:
            yield figures.printed(self.names, printed, self.keep)
        yield figures.lengths(found, said, self.keep)

    def tables(self, runs: Runs) -> Iterable[Table]:
        """Scores beside those that are printed, scores and exact matches, and some answers of all methods."""
        found, said = self.found(runs), MADE_UP_DATA if self.is_made_up else ""
        if self.of_paper:
            yield figures.beside_printed(found, self.names, self.published, self.keep)
        yield from figures.points_and_exact(found, self.names, said)
        yield from figures.answers(runs, self.names)

    def story(self, runs: Runs, claims: Sequence[Claim]) -> Story:
        """How GemFilter scores beside SnapKV and the full cache, and what data that is of."""
        of = {arm: in_words(run.mean_score, "{:.1f}") for arm, run in runs.items()}
        examples = next(iter(runs.values())).sizes["example"]
        kept = percent(runs["gemfilter"].compression) if "gemfilter" in runs else ""
        found = f"Of 100 points: {', '.join(f'{self.arm(arm).label} {points}' for arm, points in of.items())}."
        if {"gemfilter", "snapkv", "full"} <= of.keys():
            scores = {
                "holds": "GemFilter scores as SnapKV does",
                "fails": "GemFilter does not score as SnapKV does",
                "undecided": "Whether GemFilter scores as SnapKV does is open",
            }[verdict(claims, "gemfilter-is-comparable-to-snapkv@gemfilter")]
            both = f"{of['gemfilter']} and {of['snapkv']} of 100 with {kept} of a text"
            found = f"{scores}: {both}, {of['full']} with all."
        if verdict(claims, "something-to-lose@full") == "fails":
            found = f"The model finds too little to compare anything: {of['full']} of 100 points with all of a text."
        before, after = "", ""
        if self.is_made_up:
            before = "MADE-UP DATA. "
            after = " These scores say nothing about LongBench; for that, give --data and --model."
        ways = {
            "gemfilter": f"GemFilter has layer {self.reading.layer} choose them and reads those alone",
            "snapkv": "SnapKV keeps what the last tokens attend to",
            "h2o": "H2O keeps what all attend to",
        }
        said = "; ".join(way for arm, way in ways.items() if arm in of)
        shorter = min(float(of["tokens"].min()) for of in self.found(runs).values()) < self.keep
        most = f"{'up to ' if shorter else ''}{self.keep} tokens"
        cut = f", of which it keeps {most} (pieces of words)" if {*of} - {"full"} else ""
        keeps = f"{cut}: {said}" if said else cut
        pairs = (("gemfilter-is-comparable-to-snapkv", "snapkv"), ("gemfilter-is-no-worse-than-h2o", "h2o"))
        headlines = {
            f"{claim}@gemfilter": f"{of['gemfilter']} against {of[other]} points."
            for claim, other in pairs
            if {"gemfilter", other} <= of.keys()
        }
        if "full" in of:
            headlines["something-to-lose@full"] = f"{of['full']} points with all of a text."
        if kept:
            headlines["compression@gemfilter"] = f"{kept} of it, {most}."
        return Story(
            before + found,
            f"A model answers {counted(examples, 'question')} of {counted(len(self.names), 'kind')} "
            f"({SUITES[self.suite].title}) on long texts{keeps}. Bars are mean scores, from 0 to 100, of a kind of "
            f"question, and last of all kinds.{after}",
            headlines | {"published-scores-are-comparable@Table 9.1": ""},
        )
