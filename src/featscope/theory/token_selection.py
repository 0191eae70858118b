"""What long prompts cost with and without token selection (dissertation, Theorem 9.3 = G.4, Section 9.3.2).

Time is counted in multiplications and additions, memory in numbers. Symbols: n prompt tokens, m layers, r the filter
layer, k kept tokens, t generated tokens, h query heads, h_kv key heads, d channels a head.

Where the source is mended: it prints 2mhd for the cache of a whole prompt, which is 2 m h n d (its own row on
generation has the n); it writes h for the heads of keys and values, which grouped queries make fewer; and its times
leave out what is linear in n (projections and MLP), which at reachable sizes is not small.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """Sizes of a Llama-like decoder.

    Attributes:
        layers: m.
        heads: h, of queries.
        kv_heads: of keys and values.
        channels: d, of a head.
        width: of the residual stream.
        hidden: of the gated MLP.
        vocabulary: tokens.
    """

    layers: int
    heads: int
    kv_heads: int
    channels: int
    width: int
    hidden: int
    vocabulary: int

    def projections(self, tokens: int) -> float:
        """Operations of a layer's query, key and value projections."""
        return 2 * tokens * self.width * (self.heads + 2 * self.kv_heads) * self.channels

    def block(self, queries: int, keys: int) -> float:
        """Operations of a whole layer; attention counts hidden keys too, as kernels' counters do."""
        attention = 4 * self.heads * queries * keys * self.channels
        rest = 2 * queries * self.width * (self.heads * self.channels + 3 * self.hidden)
        return self.projections(queries) + attention + rest

    def head(self) -> float:
        """Operations of the language head at one position."""
        return 2 * self.width * self.vocabulary


def prompt_operations(size: Geometry, prompt: int) -> float:
    """Of reading a prompt in all layers, as full attention, SnapKV and H2O do."""
    return size.layers * size.block(prompt, prompt) + size.head()


def first_pass_operations(size: Geometry, prompt: int, layer: int) -> float:
    """Of GemFilter's first pass: r layers, and the projections of layer r. Choosing tokens is left out (2 h_kv n d)."""
    return layer * size.block(prompt, prompt) + size.projections(prompt)


def first_pass_share(size: Geometry, prompt: int, layer: int) -> float:
    """Of GemFilter's first pass, over those of reading the prompt in all layers; r/m for long prompts."""
    return first_pass_operations(size, prompt, layer) / prompt_operations(size, prompt)


def decoding_operations(size: Geometry, held: int) -> float:
    """Of generating one token with ``held`` entries in each layer's cache, its own included."""
    return size.layers * size.block(1, held) + size.head()


def cache_numbers(size: Geometry, held: int) -> int:
    """Numbers in a cache of ``held`` entries a layer: 2 m h_kv held d."""
    return 2 * size.layers * size.kv_heads * held * size.channels


def prompt_memory_full(size: Geometry, prompt: int) -> int:
    """Numbers beyond weights and activations while a prompt is read with all of the cache: 2 m h_kv n d."""
    return cache_numbers(size, prompt)


def prompt_memory_evicting(size: Geometry, prompt: int, keep: int) -> int:
    """The same for SnapKV and H2O: the layer at work, and what the others kept. 2 h_kv n d + 2 m h_kv k d."""
    return 2 * size.kv_heads * prompt * size.channels + cache_numbers(size, keep)


def prompt_memory_first_pass(size: Geometry, prompt: int) -> int:
    """The same for GemFilter's first pass: the layer at work. 2 h_kv n d."""
    return 2 * size.kv_heads * prompt * size.channels
