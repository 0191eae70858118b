"""What the study puts to the test. P is Shi 2024 (Chapter 9 and Appendix G), D what is derived here."""

from featscope.claims import Statement

_COUNTED = "Counted by torch's counter of operations, with the CPU's attention added to it."
_RETRIEVAL = "On the retriever; normalised score, mean over prompts of lengths that it was trained on."

STATEMENTS = (
    Statement(
        "keep-all-is-identity",
        "D, from P Algorithm 2",
        "With every token kept, the second pass is the model's own generation: all new tokens are the same.",
        "identity",
    ),
    Statement(
        "keep-all-same-logits",
        "D, from P Algorithm 2",
        "With every token kept, the logits of the first new token are the same, bit by bit. Measured: the largest "
        "difference.",
        "identity",
    ),
    Statement(
        "grouped-query-identity",
        "D, for P Section 9.3.1",
        "Summing queries over the heads of a group gives the scores that repeating keys gives. Measured: the largest "
        "difference over the largest score.",
        "bound",
    ),
    Statement(
        "lone-spike",
        "D, from P Section G.4.2",
        "A lone spike, averaged over 5 neighbours, makes five tokens equal: with 5 kept, it is chosen with two "
        "neighbours on either side. Measured: share of places where it is so.",
        "identity",
    ),
    Statement(
        "scale-invariance",
        "D, from P Section 9.3.1",
        "Scaling all queries by a positive number, 1/sqrt(d) say, leaves the choice as it is. Measured: the share of "
        "the choice that remains.",
        "identity",
    ),
    Statement(
        "softmax-keeps-the-choice",
        "D, against P Section 9.3.1",
        "A softmax for each head before the sum leaves the choice as it is, too. Measured: the share that remains.",
        "identity",
        expected=False,
        note="A softmax weighs heads anew: what is written as raw products must not be read as attention weights.",
    ),
    Statement(
        "cache-length-is-keep",
        "P Section 9.3.2",
        "After the second pass has read its prompt, every layer's cache holds exactly k entries. Measured: the largest "
        "difference.",
        "identity",
    ),
    Statement(
        "positions-are-compact",
        "P Section 9.3.1",
        "In the second pass kept tokens stand at positions 0 to k - 1, and new ones follow. Measured: the largest "
        "difference.",
        "identity",
    ),
    Statement(
        "layers-run",
        "P Section 9.3.1",
        "The first pass runs the r layers below the filter and no other to the end. Measured: layers run.",
        "identity",
    ),
    Statement(
        "projections-run",
        "P Section 9.3.1",
        "The first pass runs the projections of r + 1 layers. Measured: layers whose keys were projected.",
        "identity",
        note="That layer's values are projected too, as models hand all three to their attention at once.",
    ),
    Statement(
        "one-run-equal-selection",
        "P Section G.4.5",
        "GemFilter-One-Run keeps what GemFilter keeps. Measured: the share of the choice that both make.",
        "identity",
    ),
    Statement(
        "operations-by-formula",
        "D, with P Theorem 9.3",
        "Operations of the first pass over those of reading the prompt in all layers, over the ratio of the formulas "
        "with projections and MLP.",
        "identity",
        note=_COUNTED,
    ),
    Statement(
        "prompt-cost-ratio",
        "P Theorem 9.3",
        "The first pass takes r/m of the operations of reading the prompt in all layers.",
        "identity",
        note=_COUNTED,
    ),
    Statement(
        "prompt-time-ratio",
        "P Theorem 9.3, Section 9.4.5",
        "The first pass takes r/m of the time of reading the prompt in all layers.",
        "identity",
    ),
    Statement(
        "choice-is-cheap",
        "P Section 9.3.2",
        "Scores, pooling and the choice take little of the first pass's time.",
        "bound",
    ),
    Statement(
        "memory-model",
        "P Theorem 9.3, mended",
        "Reading a prompt with a full cache needs 2 m h_kv n d numbers more than the first pass, whose activations are "
        "the same. Measured: what it needs more, over the formula.",
        "identity",
        note="The source prints 2mhd; its row on generation has the n.",
    ),
    Statement(
        "memory-model-snapkv",
        "P Theorem 9.3, mended",
        "SnapKV needs 2 m h_kv k d numbers more than the first pass. Measured: what it needs more, over the formula.",
        "identity",
    ),
    Statement(
        "printed-memory",
        "P Theorem 9.3, as printed",
        "Reading a prompt with a full cache needs 2 m h d numbers more than the first pass, however long it is.",
        "identity",
        expected=False,
    ),
    Statement(
        "generation-cost",
        "P Theorem 9.3",
        "A new token takes as many operations after GemFilter as after SnapKV, by the formula for k entries. Measured: "
        "each over the formula, the one that is further off.",
        "identity",
        note=_COUNTED,
    ),
    Statement(
        "generation-is-faster",
        "P Section 9.4.5",
        "A new token takes less time after GemFilter than after full attention. Measured: the ratio of the times.",
        "bound",
    ),
    Statement(
        "full-attention-retrieves",
        "D",
        "With full attention the retriever gives the answer. " + _RETRIEVAL,
        "bound",
        note="What the comparison of methods rests on.",
    ),
    Statement(
        "early-layer-finds-needle",
        "P Section 9.4.3, Figure 9.5",
        "The filter layer, which is not the last, chooses tokens of the needle: the share of prompts where it does.",
        "bound",
    ),
    Statement(
        "first-layer-does-not",
        "P Section 9.4.3, Figure 9.5",
        "The first layer does not yet: the share of prompts in which it chooses tokens of the needle, less that of the "
        "filter layer.",
        "ordering",
    ),
    Statement(
        "gemfilter-is-no-worse",
        "P Section 9.4.1",
        "GemFilter answers as well as full attention: difference of scores. " + _RETRIEVAL,
        "ordering",
    ),
    Statement(
        "gemfilter-beats-snapkv",
        "P Section 9.4.1, Figure 9.4",
        "GemFilter answers better than SnapKV with as many kept entries: difference of scores. " + _RETRIEVAL,
        "ordering",
    ),
    Statement(
        "last-token-is-chosen",
        "P Section 9.3.1",
        "The last token is among the chosen ones, so that the second pass ends on the question: share of prompts.",
        "bound",
        expected=False,
        note="The source relies on it; nothing in the rule makes it so.",
    ),
    Statement(
        "question-kept-is-no-worse",
        "D, for P Section 9.4.1",
        "GemFilter that keeps the last tokens in any case, as SnapKV does, answers as well as full attention: "
        "difference of scores. " + _RETRIEVAL,
        "ordering",
        note="No part of the paper's rule: force_keep.",
    ),
    Statement(
        "question-kept-beats-snapkv",
        "D, for P Section 9.4.1",
        "GemFilter that keeps the last tokens in any case answers better than SnapKV, which does: difference of "
        "scores. " + _RETRIEVAL,
        "ordering",
    ),
    Statement(
        "gemfilter-reads-further",
        "P Section 9.3.2",
        "Beyond the lengths that the model was trained on, compact positions help: the score of GemFilter (with the "
        "question kept) less that of full attention at the longest length.",
        "ordering",
    ),
    Statement(
        "middle-row-fails",
        "P Section 9.4.4, Figure G.3",
        "The middle row chooses badly: its score less GemFilter's. " + _RETRIEVAL,
        "ordering",
    ),
    Statement(
        "largest-row-fails",
        "P Section 9.4.4, Figure G.3",
        "The row with the largest scores chooses badly: its score less GemFilter's. " + _RETRIEVAL,
        "ordering",
    ),
    Statement(
        "one-run-is-close",
        "P Section G.4.5, Figure G.4",
        "Without the second pass GemFilter's choice is nearly as good: score of GemFilter-One-Run less GemFilter's. "
        + _RETRIEVAL,
        "ordering",
    ),
)
