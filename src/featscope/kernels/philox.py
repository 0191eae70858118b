"""Random words as functions of a counter and a key, and numbers made of them: Philox 4x32-10 (Salmon et al. 2011).

Stated once, for machine code and for torch: words and numbers are whatever has these operations. Each is exact or
rounded correctly, in an order that nothing may change, so that every machine has the same bits.
"""

from collections.abc import Sequence
from math import pi
from typing import Any, Literal

_FACTORS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # golden ratio, root of 3
_ROUNDS = 10
_ROOT_OF_HALF = 0x3F3504F3  # the bits of its float32
_LOG_2 = 0.693359375, -2.12194440e-4  # their sum; a product of the first with a small whole number is exact
_LOG = (  # of (log(1 + x) - x + x²/2)/x³, from the highest power (Moshier, Cephes)
    *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
    *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
)
_SIN = -1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1  # of (sin x - x)/x³ in x², up to π/4
_COS = 2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2  # of (cos x - 1 + x²/2)/x⁴

Kind = Literal["word", "uniform", "normal"]
Lanes = Any
"""Two words, each in the lower half of 64 bits whose upper half means nothing, or many such pairs: `Lanes` in
`featscope.kernels.draws` and in `featscope.kernels.torch_words`."""
Word = Any
"""A whole number from 0 below 2³², whose sums are modulo 2³², or many: the `Word` of either module."""
Number = Any
"""A float32, or many: the `Number` of either module."""


def round_keys(key: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The key of each round, two words whose upper halves mean nothing, from a key of two words."""
    return [(key[0] + round_ * _KEY_STEPS[0], key[1] + round_ * _KEY_STEPS[1]) for round_ in range(_ROUNDS)]


def words(x: Lanes, y: Lanes, keys: Sequence[Lanes]) -> tuple[Lanes, Lanes]:
    """A block from its counter and the key of each round; of both the first and third word, the second and fourth."""
    for key in keys:
        upper, lower = x.wide_product(_FACTORS)
        x, y = upper.turned() ^ y ^ key, lower.turned()
    return x, y


def numbers(kind: Kind, one: Word, other: Word) -> tuple[Word, Word]:
    """The bits of the two numbers that two words make, the first and second or third and fourth of a block.

    - word: the words.
    - uniform: float32 on [0, 1), multiples of 2⁻²⁴.
    - normal: float32, standard, at most 6.8 in size (Box and Muller 1958).
    """
    if kind == "word":
        return one, other
    if kind == "uniform":
        return ((one >> 8).number() * 2.0**-24).bits(), ((other >> 8).number() * 2.0**-24).bits()
    radius = (_log(one.number() + 0.5) * -2.0).sqrt()
    along, across = _turn(other)
    return (radius * along).bits(), (radius * across).bits()


def _log(x: Number) -> Number:
    """log(x/2³²) for 0.5 ≤ x ≤ 2³²."""
    bits = x.bits() + 0x00800000
    power = (bits - _ROOT_OF_HALF) >> 23
    y = (bits - (power << 23)).as_float() - 1.0
    e = power.number() - 33.0
    square = y * y
    total = y * _LOG[0] + _LOG[1]
    for coefficient in _LOG[2:]:
        total = total * y + coefficient
    return total * y * square + e * _LOG_2[1] - square * 0.5 + y + e * _LOG_2[0]


def _turn(word: Word) -> tuple[Number, Number]:
    """Cosine and sine of 2π word/2³²."""
    ahead = word + (1 << 29)
    quarter = ahead >> 30
    x = ((ahead & ((1 << 30) - 1)) - (1 << 29)).signed() * (pi * 2.0**-31)
    square = x * x
    sine = ((square * _SIN[0] + _SIN[1]) * square + _SIN[2]) * square * x + x
    cosine = ((square * _COS[0] + _COS[1]) * square + _COS[2]) * square * square - square * 0.5 + 1.0
    along, across = quarter.choose(sine, cosine), quarter.choose(cosine, sine)
    turned = ((quarter + 1) & 2) << 30, (quarter & 2) << 30  # sign bits
    return (along.bits() ^ turned[0]).as_float(), (across.bits() ^ turned[1]).as_float()
