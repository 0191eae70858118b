"""Replica-steps per second of FeatScope's engine, of a plain PyTorch loop over seeds, and of JAX."""

import multiprocessing
import time
from collections.abc import Callable
from math import ceil, sqrt
from multiprocessing.connection import Connection

import torch

from featscope.allocator import keep_freed_memory
from featscope.streams import Streams
from featscope.threads import one_thread_where_small
from featscope.training import Training


def engine(recipe: Training, replicas: int, cores: int, steps: int) -> Callable[[], float]:
    """Our step as a run does it: shards of replicas, one a core, each stepping on its own in a forked worker."""
    size = ceil(replicas / cores)
    shards = [range(first, min(first + size, replicas)) for first in range(0, replicas, size)]
    fork = multiprocessing.get_context("fork")
    lines = []

    def work(shard: range, line: Connection) -> None:
        torch.set_num_threads(max(1, cores // len(shards)))  # a lone shard has all cores, as in a run
        keep_freed_memory()
        experiment = recipe.build(Streams(0, shard))
        done = 0
        with one_thread_where_small(sum(weights.numel() for weights in experiment.parameters())):
            while line.recv():
                for step in range(done, done + steps):
                    experiment.advance(step)
                done += steps
                line.send(True)

    for shard in shards:
        ours, theirs = fork.Pipe()
        fork.Process(target=work, args=(shard, theirs), daemon=True).start()
        lines.append(ours)

    def run() -> float:
        began = time.perf_counter()
        for line in lines:
            line.send(True)
        for line in lines:
            line.recv()
        return (time.perf_counter() - began) / steps

    return run


def plain_loop(recipe: Training, replicas: int, cores: int, steps: int) -> Callable[[], float]:
    """The script one writes first: a loop over seeds, each an ordinary PyTorch training loop on all cores."""
    data, contrast = recipe.data, recipe.objective
    d, d1, m = data.features, data.input_dim, recipe.learner.width
    k, n = contrast.anchors, contrast.negatives
    p, s = data.activity, sqrt(data.noise_variance)

    def train(seed: int) -> None:
        torch.manual_seed(seed)
        dictionary = torch.linalg.qr(torch.randn(d1, d))[0]
        weight = torch.nn.Parameter(torch.randn(m, d1) * recipe.learner.init_norm / sqrt(d1))
        bias = torch.zeros(m)
        optimizer = torch.optim.SGD([weight], lr=recipe.optimizer.lr, weight_decay=recipe.optimizer.weight_decay)

        def f(x: torch.Tensor) -> torch.Tensor:
            u = x @ weight.T
            return torch.relu(u - bias) - torch.relu(-u - bias)

        for _ in range(steps):
            sign = torch.randint(0, 2, (k + n, d)) * 2.0 - 1.0
            z = sign * (torch.rand(k + n, d) < p)
            x = z @ dictionary.T + s * torch.randn(k + n, d1)
            mask = torch.randint(0, 2, (k, d1)).float()
            anchor, positive, negatives = 2 * mask * x[:k], 2 * (1 - mask) * x[:k], x[k:]
            fa = f(anchor)
            with torch.no_grad():
                fp, fn = f(positive), f(negatives)
            logits = torch.cat([(fa * fp).sum(1, keepdim=True), fa @ fn.T], 1)
            loss = torch.nn.functional.cross_entropy(logits, torch.zeros(k, dtype=torch.long))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def run() -> float:
        torch.set_num_threads(cores)
        began = time.perf_counter()
        for seed in range(replicas):
            train(seed)
        return (time.perf_counter() - began) / steps

    return run


def jax_program(recipe: Training, replicas: int, steps: int) -> Callable[[], float]:
    """The same step hand-written in JAX: jit(scan(vmap)), compiled before it is timed."""
    import jax
    import jax.numpy as jnp

    data, contrast = recipe.data, recipe.objective
    d, d1, m = data.features, data.input_dim, recipe.learner.width
    k, n = contrast.anchors, contrast.negatives
    p, s = data.activity, sqrt(data.noise_variance)
    lr, decay = recipe.optimizer.lr, recipe.optimizer.weight_decay

    def f(weight: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
        u = x @ weight.T
        return u - jnp.clip(u, -bias, bias)

    def loss(weight: jax.Array, bias: jax.Array, dictionary: jax.Array, key: jax.Array) -> jax.Array:
        for_codes, for_noise, for_mask = jax.random.split(key, 3)
        uniform = jax.random.uniform(for_codes, (k + n, d))
        z = (uniform < p / 2).astype(jnp.float32) - (uniform >= 1 - p / 2).astype(jnp.float32)
        x = z @ dictionary.T + s * jax.random.normal(for_noise, (k + n, d1))
        bits = jax.random.bits(for_mask, (k, ceil(d1 / 32)), jnp.uint32)
        mask = 2.0 * ((bits[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1).reshape(k, -1)[:, :d1]
        fa = f(weight, bias, mask * x[:k])
        fp, fn = (jax.lax.stop_gradient(f(weight, bias, v)) for v in ((2 - mask) * x[:k], x[k:]))
        own = (fa * fp).sum(1)
        others = jax.nn.logsumexp(fa @ fn.T, axis=1)
        return (jnp.logaddexp(own, others) - own).mean()

    def step(weight: jax.Array, bias: jax.Array, dictionary: jax.Array, key: jax.Array) -> jax.Array:
        gradient = jax.grad(loss)(weight, bias, dictionary, key)
        return weight - lr * (gradient + decay * weight)

    @jax.jit
    def scan(weight: jax.Array, bias: jax.Array, dictionary: jax.Array, key: jax.Array) -> jax.Array:
        def body(w: jax.Array, step_key: jax.Array) -> tuple[jax.Array, None]:
            return jax.vmap(step)(w, bias, dictionary, jax.random.split(step_key, replicas)), None

        return jax.lax.scan(body, weight, jax.random.split(key, steps))[0]

    key = jax.random.key(0)
    weight = jax.random.normal(key, (replicas, m, d1)) * recipe.learner.init_norm / sqrt(d1)
    dictionary = jnp.linalg.qr(jax.random.normal(key, (replicas, d1, d)))[0]
    bias = jnp.zeros((replicas, m))
    scan(weight, bias, dictionary, key).block_until_ready()

    def run() -> float:
        began = time.perf_counter()
        scan(weight, bias, dictionary, key).block_until_ready()
        return (time.perf_counter() - began) / steps

    return run
