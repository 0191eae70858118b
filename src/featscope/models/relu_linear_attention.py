"""Linear attention with many heads and a ReLU on each (Shi 2024, dissertation, Section 5.5).

    g(X, y, x_q) = Σ_h a_h ReLU[(yᵀX/N) W_h x_q]

A head is the reduced layer of `featscope.models.linear_self_attention`; there is no residual and no bias.
"""

from jaxtyping import Float
from torch import Tensor, nn

from featscope.models.linear_self_attention import prompt_moment


class ReLULinearAttention(nn.Module):
    """Networks of one size, one a replica. Signs are not trained: a ReLU takes any other size of a into W.

    Args:
        signs: a, +1 or -1.
        weights: W.
    """

    signs: Float[Tensor, "replica head"]

    def __init__(self, signs: Float[Tensor, "replica head"], weights: Float[Tensor, "replica head d d"]) -> None:
        super().__init__()
        self.register_buffer("signs", signs)
        self.weights = nn.Parameter(weights)

    def forward(self, prompts: Float[Tensor, "replica prompt token channel"]) -> Float[Tensor, "replica prompt"]:
        """The answers; tokens are rows (x, y), then the query (x_q, 0)."""
        return self.answer(prompt_moment(prompts), prompts[..., -1, :-1])

    def answer(
        self, moments: Float[Tensor, "replica prompt d"], queries: Float[Tensor, "replica prompt d"]
    ) -> Float[Tensor, "replica prompt"]:
        """The answers to ``queries`` after prompts of which yᵀX/N is ``moments``."""
        heads = ((moments[:, None] @ self.weights) * queries[:, None]).sum(-1)
        return (self.signs[:, None] @ heads.relu())[:, 0]

    def answer_all(
        self, moments: Float[Tensor, "replica task d"], queries: Float[Tensor, "replica query d"]
    ) -> Float[Tensor, "replica task query"]:
        """The answers to every one of ``queries`` after every one of ``moments``."""
        heads = (moments[:, None] @ self.weights) @ queries[:, None].mT
        return (self.signs[:, None] @ heads.relu().flatten(2)).view(-1, *heads.shape[2:])


def in_dictionary(
    diagonals: Float[Tensor, "head d"], dictionary: Float[Tensor, "replica d d"]
) -> Float[Tensor, "replica head d d"]:
    """W = G V Gᵀ for diagonal V."""
    return (dictionary[:, None] * diagonals[:, None]) @ dictionary[:, None].mT
