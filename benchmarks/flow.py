"""Gradient flow from 10,000 random starts to the end of phase III, against a loop over `scipy.integrate.solve_ivp`.

Both on one core, with the same tolerances. The loop's right-hand side is plain arithmetic on Python floats, which is
several times faster than NumPy on nine numbers; some starts are timed and agree with ours, the rest is extrapolated.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.integrate import solve_ivp

from featscope.streams import Streams
from featscope.studies.prediction_head import PredictionHeadStudy
from featscope.training.infinite_batches import moments
from featscope.training.rosenbrock import integrate

STARTS, SAMPLE, LATEST = 10_000, 40, 1e5
TOLERANCE = {"rtol": 1e-7, "atol": 1e-10}
METHODS = ("RK45", "LSODA")

Velocity = Callable[[float, np.ndarray], Sequence[float]]


def plain_velocity(study: PredictionHeadStudy) -> Velocity:
    """The reduced equations of two neurons, written out."""
    of, s6, rate = moments(study.data), study.data.noise_std**6, study.head.rate
    (c01, c02), (c11, c12), noise = of.same, of.own, of.noise_patches

    def velocity(t: float, y: np.ndarray) -> Sequence[float]:
        b11, b12, b21, b22, r1, r12, r2, e12, e21 = y.tolist()
        k11, k12, k21, k22 = b11**3, b12**3, b21**3, b22**3
        m11, m22, m12 = 15 * s6 * r1**3, 15 * s6 * r2**3, s6 * (9 * r1 * r2 * r12 + 6 * r12**3)
        f11, f12, f21, f22 = k11 + e12 * k21, k12 + e12 * k22, k21 + e21 * k11, k22 + e21 * k12
        n1, n2 = m11 + 2 * e12 * m12 + e12 * e12 * m22, m22 + 2 * e21 * m12 + e21 * e21 * m11
        p1, p2 = c01 * k11 * f11 + c02 * k12 * f12, c01 * k21 * f21 + c02 * k22 * f22
        u1, u2 = c11 * f11**2 + c12 * f12**2 + noise * n1, c11 * f21**2 + c12 * f22**2 + noise * n2
        v1, v2 = c11 * k11**2 + c12 * k12**2 + noise * m11, c11 * k21**2 + c12 * k22**2 + noise * m22
        q1, q2 = (u1 * v1) ** -0.5, (u2 * v2) ** -0.5
        g1, g2 = -p1 * q1 / (2 * u1), -p2 * q2 / (2 * u2)
        d11, d12 = q1 * c01 * k11 + 2 * g1 * c11 * f11, q1 * c02 * k12 + 2 * g1 * c12 * f12
        d21, d22 = q2 * c01 * k21 + 2 * g2 * c11 * f21, q2 * c02 * k22 + 2 * g2 * c12 * f22
        z1, z2 = g1 * noise, g2 * noise
        w11, w22, w12 = z1 + z2 * e21 * e21, z2 + z1 * e12 * e12, z1 * e12 + z2 * e21
        s11 = s6 * (54 * w11 * r1 * r1 + 36 * (w11 * r1 * r1 + w12 * r2 * r12))
        s22 = s6 * (54 * w22 * r2 * r2 + 36 * (w22 * r2 * r2 + w12 * r1 * r12))
        s12 = s6 * 18 * w12 * (r1 * r2 + 2 * r12 * r12)
        return (
            3 * b11 * b11 * (d11 + e21 * d21),
            3 * b12 * b12 * (d12 + e21 * d22),
            3 * b21 * b21 * (d21 + e12 * d11),
            3 * b22 * b22 * (d22 + e12 * d12),
            2 * (s11 * r1 + s12 * r12),
            (s11 + s22) * r12 + s12 * (r1 + r2),
            2 * (s12 * r12 + s22 * r2),
            rate * (d11 * k21 + d12 * k22 + 2 * z1 * (m12 + e12 * m22)),
            rate * (d21 * k11 + d22 * k12 + 2 * z2 * (m12 + e21 * m11)),
        )

    return velocity


def compare() -> dict[str, float]:
    """Seconds a start, ours and the loop's by method; the loop's largest distance from our end points."""
    torch.set_num_threads(1)
    study = PredictionHeadStudy(starts=STARTS, duration=LATEST)
    flow = study.arm("head").recipe.build(Streams(0, range(1)))
    start = flow.learner.get_parameter("state").detach()[0].mT.clone()
    while (flow.arrived < 0).any():
        flow.advance(0)
    end = (2 * flow.rules["phases"].get_buffer("weak_learned")[0]).clamp_max(
        LATEST
    )  # settled: where B_22 shoots up errors do too

    began = time.process_time()
    ours = integrate(flow.learner.velocity, start, end, flow.learner.constants(), **TOLERANCE)
    found = {
        "featscope": (time.process_time() - began) / STARTS,
        "reached phase III's end": float((end < LATEST).sum()),
    }
    velocity = plain_velocity(study)
    for method in METHODS:
        began, apart = time.process_time(), 0.0
        for i in range(SAMPLE):
            one = solve_ivp(velocity, (0, float(end[i])), start[:, i].numpy(), method=method, **TOLERANCE)
            apart = max(apart, float(np.abs(one.y[:, -1] - ours[:, i].numpy()).max()))
        found |= {method: (time.process_time() - began) / SAMPLE, f"{method}, largest distance": apart}
    return found


if __name__ == "__main__":
    print(compare())
