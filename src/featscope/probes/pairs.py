"""What a representation of token pairs is good for.

P: Theoretical Analysis of Contrastive Learning under Imbalanced Data, Figures 3 and 4, Appendix A.2.
"""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from featscope.data import TokenPairs
from featscope.probes.downstream import regression_errors


class PairScores(NamedTuple):
    """What test pairs say of a representation f.

    Attributes:
        cosine: of f(X) and f(Y), mean over pairs that show a signal; 0 where f vanishes.
        cosine_all: mean over all pairs.
        errors: of linear heads on f(X), one for each target: squared error over the variance of the target on test
            pairs; NaN where it never varies there.
    """

    cosine: Float[Tensor, "replica"]
    cosine_all: Float[Tensor, "replica"]
    errors: Sequence[Float[Tensor, "replica"]]


def score_pairs(
    network: nn.Module, train: TokenPairs, test: TokenPairs, targets: Sequence[Float[Tensor, "replica feature"]]
) -> PairScores:
    """Cosine of test pairs, and errors of heads that learn <v, z> from the first members of training pairs.

    Args:
        network: f.
        train: what heads learn from.
        test: what is scored.
        targets: v, one a head.
    """
    f_train, f_x, f_y = network(train.x), network(test.x), network(test.y)
    scale = f_x.norm(dim=-1) * f_y.norm(dim=-1)
    cosine = (f_x * f_y).sum(-1) / scale.where(scale > 0, 1.0)
    some = (test.codes_x != 0).any(-1)
    labels = [[(pairs.codes_x @ v[..., None]).squeeze(-1) for pairs in (train, test)] for v in targets]
    errors = [regression_errors(f_train, y, f_x, y_test) for y, y_test in labels]
    return PairScores((cosine * some).sum(-1) / some.sum(-1), cosine.mean(-1), errors)
