"""What the study puts to the test. P is Wen & Li 2022, D what is derived here (`featscope.theory.tensor_power`)."""

from featscope.claims import Statement

STATEMENTS = (
    Statement(
        "lower-bound",
        "P Lemma G.1",
        "Σ η C_t over steps with x_t <= A is at least the printed lower bound without its error term. Measured: the "
        "sum less the bound, over the limit; the smallest over sequences and δ.",
        "bound",
        note="The error term is not needed: limit-is-a-floor is stronger.",
    ),
    Statement(
        "upper-bound",
        "P Lemma G.1",
        "Σ η C_t is at most the printed upper bound. Measured: the sum less the bound, over the limit; the largest "
        "over sequences and δ. O(η A^q) is η A^q max C_t.",
        "bound",
    ),
    Statement(
        "upper-bound-any-factor",
        "P Lemma G.1",
        "The same with O(η A^q) read as η A^q, for any C_t > 0 as printed.",
        "bound",
        note="P says C_t > 0 and no more; the bound needs C_t = O(1), which P has where it is used.",
    ),
    Statement(
        "limit-is-a-floor",
        "D, for P Lemma G.1",
        "Σ η C_t >= (x_0^-(q-1) - A^-(q-1))/(q-1) for every η and C_t > 0. Measured: their ratio less 1, the smallest "
        "over sequences.",
        "bound",
    ),
    Statement(
        "limit-has-a-ceiling",
        "D, for P Lemma G.1",
        "Σ η C_t <= r^q (x_0^-(q-1) - x_T^-(q-1))/(q-1), r the largest x_{t+1}/x_t and x_T the first beyond A. "
        "Measured: their ratio less 1, the largest over sequences.",
        "bound",
    ),
    Statement(
        "small-step-limit",
        "D, for P Lemma G.1",
        "As η goes to 0, Σ η C_t goes to (x_0^-(q-1) - A^-(q-1))/(q-1). Measured: their ratio at the smallest η, mean "
        "over sequences.",
        "identity",
    ),
    Statement(
        "error-is-first-order",
        "D, for P Lemma G.1",
        "What Σ η C_t exceeds its limit by goes as η. Measured: exponent in η of the mean over sequences.",
        "scaling",
    ),
    Statement(
        "first-order-term",
        "D, for P Lemma G.1",
        "That excess is η (q log(A/x_0) + 1)/2 · E[C²]/E[C]. Measured: their ratio at the smallest η, means over "
        "sequences.",
        "identity",
        note="P's error term is larger by a factor of order (A/x_0)^q.",
    ),
    Statement(
        "time-goes-as-power",
        "P Lemma G.1",
        "Time to reach A goes as x_0^-(q-1). Measured: exponent of Σ η C_t in x_0, with A^-(q-1)/(q-1) added for "
        "what is beyond A.",
        "scaling",
    ),
    Statement(
        "rival-follows-law",
        "D, for P Corollary G.2",
        "With constant S, y^-(q-1) = y_0^-(q-1) - S (x_0^-(q-1) - x^-(q-1)) as η goes to 0. Measured: left less right "
        "side over y_0^-(q-1) when x passes A, smallest η, mean over sequences.",
        "identity",
    ),
    Statement(
        "rival-stays-small",
        "P Corollary G.2",
        "If x_0 >= 1.1 y_0 (max S)^(1/(q-1)), then y stays within a factor of y_0 while x_t <= A. Measured: largest "
        "y/y_0 over sequences.",
        "bound",
        note="Bound: (1 - 1.1^-(q-1))^(-1/(q-1)), P's polylogarithm in closed form (D).",
    ),
    Statement(
        "rival-stands-still",
        "P Corollary G.2",
        "If x_0 >= y_0 (max S)^(1/(q-1)) log d, then y stays where it is. Measured: largest (y - y_0)/y_0 over "
        "sequences, d = 100.",
        "bound",
        note="Bound: (log d)^-(q-1), a stated reading of P's 1/polylog(d); by D it is this over q - 1 for large d.",
    ),
    Statement(
        "weighted-limit",
        "P Lemma G.3",
        "As η goes to 0, Σ η C_t x_t^q' goes to (x_0^-k - A^-k)/k, k = q - q' - 1. Measured: their ratio at the "
        "smallest η, mean over sequences.",
        "identity",
        note="The constant in P's Θ(x_0^-k) is D.",
    ),
    Statement(
        "weighted-goes-as-power",
        "P Lemma G.3",
        "Σ η C_t x_t^q' = Θ(x_0^-k), k = q - q' - 1. Measured: exponent in x_0, with A^-k/k added for what is "
        "beyond A.",
        "scaling",
    ),
    Statement(
        "weighted-upper-bound",
        "P Lemma G.3",
        "Σ η C_t x_t^q' is at most the printed upper bound. Measured: the sum less the bound, over the limit; the "
        "largest over sequences and δ. O(1) is 1/(q-q'-1), from the proof.",
        "bound",
    ),
    Statement(
        "weighted-lower-bound",
        "P Lemma G.3",
        "Σ η C_t x_t^q' is at least the printed lower bound. Measured: the sum less the bound, over the limit; the "
        "smallest over sequences and δ.",
        "bound",
        note="The last line of P's proof loses a factor (1+δ)^-(q-q'-1); for q' = 3 that shows from about q = 12 on.",
    ),
    Statement(
        "weighted-lower-bound-mended",
        "D, for P Lemma G.3",
        "The same with the factor (1+δ)^-(q-q'-1) put back.",
        "bound",
    ),
    Statement(
        "sum-is-square",
        "P proof of Claim E.8",
        "If Σ x_t (x_{t+1} - x_t) = C, then |x_T² - C| <= δ² + x_0² + log(d)/d. Measured: left over right side, d = "
        "x_0^-2 and δ = x_0, mean over sequences at the smallest start.",
        "bound",
        expected=False,
        note="The proof's sum over levels, Σ δ(1+δ)^(2g-1), is half of what it says.",
    ),
    Statement(
        "sum-is-end",
        "P Claim E.8",
        "The same with |x_T - C|, as the claim itself is printed.",
        "bound",
        expected=False,
        note="Statement and proof of P differ.",
    ),
    Statement(
        "sum-is-half-the-square",
        "D, for P Claim E.8",
        "x_T² = 2C + x_0² + O(η). Measured: 1 - (x_0² + 2C)/x_T², mean over sequences.",
        "identity",
    ),
)
