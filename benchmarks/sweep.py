"""The papers' Figures 1-2 as a sweep: seconds a step of one block of runs, ours and a JAX script's, and their floor."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from multiprocessing.connection import Connection

import torch

from benchmarks.compare import turns
from benchmarks.floor import Rates
from featscope.allocator import keep_freed_memory
from featscope.axes import Axis, points
from featscope.streams import Streams
from featscope.studies.imbalance import Imbalance
from featscope.training import Training
from featscope.training.stack import stack

AXES = (
    Axis("data.eps_min", tuple(round(0.1 * i, 1) for i in range(1, 11))),
    Axis("data.noise_std", (0.01, 0.03, 0.05)),
)
POINTS, REPLICAS = 30, 2  # what one worker trains at a time


def floor(recipe: Training, cores: int) -> float:
    """Seconds a step of one block for each core: matrix products and fresh normals for every run."""
    data, k, m = recipe.data, recipe.objective.pairs, recipe.learner.width
    rates = Rates.measure(cores)
    signals = 2 * 2 * k * data.features * data.input_dim
    projections, similarities = 3 * 2 * k * data.input_dim * m, 2 * 2 * k * k * m
    run = (signals + projections + similarities) / rates.flops + 2 * k * data.input_dim / rates.normals
    return cores * POINTS * REPLICAS * run


def engine(recipe: Training, cores: int, steps: int) -> Callable[[], float]:
    """Blocks as a sweep trains them: one a core, each in a forked worker."""
    fork = multiprocessing.get_context("fork")
    lines = []

    def work(core: int, line: Connection) -> None:
        torch.set_num_threads(1)
        keep_freed_memory()
        replicas = range(core * REPLICAS, (core + 1) * REPLICAS)
        whole = stack([point.build(Streams(0, replicas)) for _, point in points(recipe, AXES)])
        done = 0
        while line.recv():
            for step in range(done, done + steps):
                whole.advance(step)
            done += steps
            line.send(True)

    for core in range(cores):
        ours, theirs = fork.Pipe()
        fork.Process(target=work, args=(core, theirs), daemon=True).start()
        lines.append(ours)

    def run() -> float:
        began = time.perf_counter()
        for line in lines:
            line.send(True)
        for line in lines:
            line.recv()
        return (time.perf_counter() - began) / steps

    return run


def jax_program(recipe: Training, cores: int, steps: int) -> Callable[[], float]:
    """The same runs hand-written in JAX: jit(scan(vmap)) over all of them, on all cores."""
    import jax
    import jax.numpy as jnp

    data, k, m = recipe.data, recipe.objective.pairs, recipe.learner.width
    d, d1, tokens = data.features, data.input_dim, data.tokens
    lr, decay = recipe.optimizer.lr, recipe.optimizer.weight_decay
    runs = cores * POINTS * REPLICAS
    settings = [(p["eps_min"], p["noise_std"]) for p, _ in points(recipe, AXES) for _ in range(cores * REPLICAS)]
    eps, std = (jnp.array(column) for column in zip(*settings, strict=True))

    def loss(weight: jax.Array, dictionary: jax.Array, p: jax.Array, s: jax.Array, key: jax.Array) -> jax.Array:
        for_codes, for_noise = jax.random.split(key)
        uniform = jax.random.uniform(for_codes, (k, d))
        z = (uniform < p / 2).astype(jnp.float32) - (uniform >= 1 - p / 2).astype(jnp.float32)
        noise = s / sqrt(tokens) * jax.random.normal(for_noise, (2, k, d1))
        x = z @ dictionary.T + noise
        f, keys = tokens * x[0] @ weight.T, jax.lax.stop_gradient(tokens * x[1] @ weight.T)
        similarity = f @ keys.T
        return (jax.nn.logsumexp(similarity, axis=1) - (f * keys).sum(1)).mean()

    def step(weight: jax.Array, dictionary: jax.Array, eps: jax.Array, s: jax.Array, key: jax.Array) -> jax.Array:
        p = data.activity * jnp.ones(d).at[-1].set(eps)
        gradient = jax.grad(loss)(weight, dictionary, p, s, key)
        return weight - lr * (gradient + decay * weight)

    @jax.jit
    def scan(weight: jax.Array, dictionary: jax.Array, key: jax.Array) -> jax.Array:
        def body(w: jax.Array, step_key: jax.Array) -> tuple[jax.Array, None]:
            return jax.vmap(step)(w, dictionary, eps, std, jax.random.split(step_key, runs)), None

        return jax.lax.scan(body, weight, jax.random.split(key, steps))[0]

    key = jax.random.key(0)
    weight = jax.random.normal(key, (runs, m, d1)) * recipe.learner.init_norm / sqrt(d1)
    dictionary = jnp.linalg.qr(jax.random.normal(key, (runs, d1, d)))[0]
    scan(weight, dictionary, key).block_until_ready()

    def run() -> float:
        began = time.perf_counter()
        scan(weight, dictionary, key).block_until_ready()
        return (time.perf_counter() - began) / steps

    return run


def compare(cores: int, steps: int) -> dict[str, float]:
    """Seconds a step of all programs, in turns; ours also with projected noise."""
    recipe = Imbalance().arm("imbalanced").recipe
    projected = replace(recipe, objective=replace(recipe.objective, noise="projected"))
    programs = {"featscope": engine(recipe, cores, steps), "projected": engine(projected, cores, steps)}
    for program in programs.values():
        program()
    programs["floor"] = lambda: floor(recipe, cores)
    programs["jax"] = jax_program(recipe, cores, steps)
    return turns(programs)
