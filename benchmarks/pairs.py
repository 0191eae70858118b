"""Steps of `imbalance` and `pruning`, whose positives are pairs that the data draws: their floor, and a JAX script."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import sqrt

from benchmarks.compare import turns
from benchmarks.floor import Rates
from benchmarks.step import engine
from featscope.streams import Streams
from featscope.studies.imbalance import Imbalance
from featscope.studies.pruning import Pruning
from featscope.threads import cores
from featscope.training import MagnitudePruning, Training


def recipes() -> dict[str, Training]:
    """What is timed: training alone, without rules that only look."""
    imbalance, pruning = Imbalance().arm("imbalanced").recipe, Pruning().arm("stationary").recipe
    assert isinstance(imbalance, Training)
    assert isinstance(pruning, Training)
    return {"imbalance": replace(imbalance, rules={}), "pruning": pruning}


def floor(recipe: Training, replicas: int, rates: Rates) -> float:
    """Seconds a step: matrix products and fresh normals of every replica."""
    data, k, m = recipe.data, recipe.objective.pairs, _neurons(recipe)  # type: ignore[attr-defined]
    signals = 2 * 2 * k * data.features * data.input_dim  # type: ignore[attr-defined]
    projections, similarities = 3 * 2 * k * data.input_dim * m, 2 * 2 * k * k * m  # type: ignore[attr-defined]
    normals = 2 * k * data.input_dim  # type: ignore[attr-defined]
    return replicas * ((signals + projections + similarities) / rates.flops + normals / rates.normals)


def _neurons(recipe: Training) -> int:
    return int(recipe.build(Streams(0, range(1))).learner.weight.shape[1])


def jax_program(recipe: Training, replicas: int, steps: int) -> Callable[[], float]:
    """The same step hand-written in JAX: jit(scan(vmap)), compiled before it is timed."""
    import jax
    import jax.numpy as jnp

    made = recipe.build(Streams(0, range(replicas)))
    data, pairs, sgd = made.source, recipe.objective, recipe.optimizer
    k, d1, d, tokens = pairs.pairs, data.dictionary.shape[1], data.dictionary.shape[2], data.tokens  # type: ignore[attr-defined]
    noise_std = float(data.noise_std[0]) / sqrt(tokens)
    tau = pairs.loss.temperature  # type: ignore[attr-defined]
    bias, pruning = recipe.rules.get("bias"), recipe.rules.get("pruning")
    ratio = bias.last if bias else 0.0  # type: ignore[attr-defined]
    hidden = round(pruning.ratio * made.learner.weight.shape[1]) if isinstance(pruning, MagnitudePruning) else 0

    def f(weight: jax.Array, threshold: jax.Array, x: jax.Array) -> jax.Array:
        u = x @ weight.T
        return tokens * (u - jnp.clip(u, -threshold, threshold) if ratio else u)

    def loss(
        weight: jax.Array, threshold: jax.Array, kept: jax.Array, dictionary: jax.Array, p: jax.Array, key: jax.Array
    ) -> jax.Array:
        for_codes, for_noise = jax.random.split(key)
        uniform = jax.random.uniform(for_codes, (k, d))
        z = (uniform < p / 2).astype(jnp.float32) - (uniform >= 1 - p / 2).astype(jnp.float32)
        x = z @ dictionary.T + noise_std * jax.random.normal(for_noise, (2, k, d1))
        said, of_others = f(weight, threshold, x[0]), jax.lax.stop_gradient(f(weight, threshold, x[1]))
        # the theory's gradient: softmax weights by the pruned network, values and slopes by the whole one
        share = jax.lax.stop_gradient(jax.nn.softmax((said * kept) @ of_others.T / tau, axis=1))
        return ((share @ of_others - of_others) * said).sum(1).mean()

    def step(weight: jax.Array, dictionary: jax.Array, p: jax.Array, key: jax.Array) -> jax.Array:
        norm = jnp.linalg.norm(weight, axis=1)
        kept = jnp.ones_like(norm).at[jnp.argsort(norm)[:hidden]].set(0.0) if hidden else jnp.ones_like(norm)
        gradient = jax.grad(loss)(weight, ratio * norm, kept, dictionary, p, key)
        return weight - sgd.lr * (gradient + sgd.weight_decay * weight)  # type: ignore[attr-defined]

    dictionary, activity = jnp.asarray(data.dictionary.numpy()), jnp.asarray(data.activity.numpy())

    @jax.jit
    def scan(weight: jax.Array, key: jax.Array) -> jax.Array:
        def body(w: jax.Array, step_key: jax.Array) -> tuple[jax.Array, None]:
            return jax.vmap(step)(w, dictionary, activity, jax.random.split(step_key, replicas)), None

        return jax.lax.scan(body, weight, jax.random.split(key, steps))[0]

    key, weight = jax.random.key(0), jnp.asarray(made.learner.weight.detach().numpy())
    scan(weight, key).block_until_ready()

    def run() -> float:
        began = time.perf_counter()
        scan(weight, key).block_until_ready()
        return (time.perf_counter() - began) / steps

    return run


def compare(name: str, replicas: int, steps: int) -> dict[str, float]:
    """One line of the table, in a process that has no JAX yet, as ours fork."""
    recipe = recipes()[name]
    ours = engine(recipe, replicas, cores(), steps)
    ours()
    jax = jax_program(recipe, replicas, steps)
    return turns({"featscope": ours, "floor": lambda: floor(recipe, replicas, Rates.measure(cores())), "jax": jax})
