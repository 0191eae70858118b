"""Figures as plain data for the page's script, with one value a replica where a study keeps them."""

import zlib
from base64 import b64encode
from collections.abc import Sequence
from functools import singledispatch
from math import log10
from typing import Any

import numpy as np

from featscope.figures import (
    Agreement,
    Bars,
    Curve,
    Curves,
    Figure,
    Heatmaps,
    ImageGrids,
    MatrixMovie,
    Panel,
    Scatters,
    Verdicts,
)
from featscope.report.geometry import not_drawn, value_range
from featscope.report.look import scale
from featscope.report.typeset import typeset

_FRAMES, _LEVELS = 18, 32  # of a movie, as the page keeps it
_ROOM = 400_000  # letters of a movie, so that a page stays below 1.5 MB: as many of the first replicas as fit, or one
_NONE, _ABOVE, _BELOW = 255, 254, 253  # in place of a level: where there is no value, and beyond the ends of the scale
_DIGITS = 4  # of what was measured: more than a picture shows of values that are not close together
_PLACES = 12  # of places along an axis, such as steps, which are told to the last digit

Plain = dict[str, Any]


@singledispatch
def figure_data(figure: Figure) -> Plain:
    """What the page's script draws of ``figure``: {} for a kind that it does not draw."""
    return {}


@figure_data.register
def _(figure: Curves) -> Plain:
    return {"kind": "curves", "panels": [_panel(panel) for panel in figure.panels]}


def _panel(panel: Panel) -> Plain:
    return {
        "title": _words(panel.title),
        "x": _words(panel.x_label),
        "y": _words(panel.y_label),
        "logx": panel.log_x,
        "logy": panel.logarithmic,
        "left_out": _words(not_drawn(panel)),
        "marks": [[float(x), _words(label)] for x, label in panel.marks if np.isfinite(x)],
        "curves": [
            {
                "label": _words(curve.label),
                "dashed": curve.dashed,
                "x": _numbers(curve.x, _PLACES),
                "digits": digits,
                "y": _numbers(curve.y, digits),
                "low": _numbers(curve.low, digits),
                "high": _numbers(curve.high, digits),
                "samples": _numbers(curve.samples, digits),
            }
            for curve, digits in zip(panel.curves, _digits(panel.curves), strict=True)
        ],
    }


def _digits(curves: Sequence[Curve]) -> list[int]:
    """For each curve, as many as show its course where values lie close together: beside all others, and alone."""
    every = [y[np.isfinite(y)] for y in (np.asarray(curve.y, dtype=float) for curve in curves)]
    found = []
    with np.errstate(over="ignore"):  # of values at the ends of float64
        whole = np.ptp(np.concatenate(every)) if any(y.size for y in every) else 0.0
        for y in every:
            ranges = [float(one) for one in (whole, np.ptp(y) if y.size else 0.0) if one > 0]
            times = np.clip(np.abs(y).max(initial=0) / min(ranges, default=np.inf), 1, 10.0**_PLACES)
            found.append(min(_PLACES, _DIGITS + int(log10(times))))
    return found


@figure_data.register
def _(figure: Bars) -> Plain:
    return {
        "kind": "bars",
        "groups": [_words(group) for group in figure.groups],
        "unit": _words(figure.y_label),
        "references": [[float(at), _words(label)] for at, label in figure.references if np.isfinite(at)],
        "series": [
            {
                "label": _words(label),
                "y": _numbers(bars[0]),
                "low": _numbers(bars[1]),
                "high": _numbers(bars[2]),
                "samples": _numbers(figure.samples.get(label)),
            }
            for label, bars in figure.series.items()
        ],
    }


@figure_data.register
def _(figure: MatrixMovie) -> Plain:
    keep = np.unique(np.linspace(0, len(figure.steps) - 1, min(_FRAMES, len(figure.steps))).round().astype(int))
    panels, shown = figure.frames, scale(figure.low, figure.high, figure.value_label)
    count = len(next(iter(panels.values())))
    replicas: list[str] = []
    while len(replicas) < count:
        one = _packed([movie[len(replicas), keep] for movie in panels.values()], shown.low, shown.high)
        if replicas and sum(map(len, replicas)) + len(one) > _ROOM:
            break
        replicas.append(one)
    return {
        "kind": "movie",
        "levels": _LEVELS,
        "none": _NONE,
        "above": _ABOVE,
        "below": _BELOW,
        "low": shown.low,
        "high": shown.high,
        "around_zero": shown.low < 0 < shown.high,
        "steps": [int(figure.steps[i]) for i in keep],
        "replicas": replicas,
        "of": count,
        "panels": [
            {"label": _words(k), "rows": v.shape[2], "columns": v.shape[3], "last": figure.last_steps.get(k)}
            for k, v in panels.items()
        ],
        "row": _words(figure.row_label),
        "column": _words(figure.column_label),
        "value": _words(figure.value_label),
    }


def _packed(matrices: list[np.ndarray], low: float, high: float) -> str:
    """Matrices ``[frame, row, column]`` in levels, as differences from frame to frame, deflated, base64."""
    parts = []
    for frames in matrices:
        scaled = ((frames - low) / (high - low) * (_LEVELS - 1)).round()
        known = [~np.isfinite(frames), scaled >= _LEVELS, scaled < 0]
        level = np.select(known, [_NONE, _ABOVE, _BELOW], scaled).astype(np.uint8)
        parts.append(np.diff(level, axis=0, prepend=np.uint8(0)).tobytes())
    return b64encode(zlib.compress(b"".join(parts), 5)).decode()  # 7 takes four times as long for 5 % less


@figure_data.register
def _(figure: Heatmaps) -> Plain:
    shown = scale(*(figure.ends or value_range(figure.panels)), figure.value_label)
    return {
        "kind": "heatmaps",
        "low": shown.low,
        "high": shown.high,
        "around_zero": shown.low < 0 < shown.high,
        "row": _words(figure.row_label),
        "column": _words(figure.column_label),
        "value": _words(figure.value_label),
        "rows": [_words(name) for name in figure.rows],
        "columns": [_words(name) for name in figure.columns],
        "panels": [{"label": _words(label), "cells": _numbers(cells)} for label, cells in figure.panels.items()],
    }


@figure_data.register
def _(figure: ImageGrids) -> Plain:
    panels = []
    for label, images in figure.panels.items():
        pixels = (np.nan_to_num(images).clip(0, 1) * 255).round().astype(np.uint8)
        count, height, width, _ = pixels.shape
        packed = b64encode(zlib.compress(pixels.tobytes(), 9)).decode()
        panels.append({"label": _words(label), "count": count, "height": height, "width": width, "pixels": packed})
    return {"kind": "images", "panels": panels}


@figure_data.register
def _(figure: Scatters) -> Plain:
    return {
        "kind": "scatters",
        "classes": [_words(name) for name in figure.class_names],
        "panels": [
            {
                "label": _words(label),
                "x": _numbers(at[:, 0]),
                "y": _numbers(at[:, 1]),
                "of": figure.classes[label].tolist(),
            }
            for label, at in figure.panels.items()
        ],
    }


@figure_data.register
def _(figure: Agreement) -> Plain:
    names = ("predicted", "tolerance", "measured", "low", "high")
    return {
        "kind": "agreement",
        "rows": [_words(label) for label in figure.labels],
        "verdicts": list(figure.verdicts),
        **{name: _numbers(getattr(figure, name), _PLACES) for name in names},
    }


@figure_data.register
def _(figure: Verdicts) -> Plain:
    return {
        "kind": "verdicts",
        "x": _words(figure.x_label),
        "y": _words(figure.y_label),
        "logx": figure.log_x,
        "logy": figure.logarithmic,
        "areas": figure.areas,
        "panels": [
            {
                "label": _words(panel.label),
                "x": _numbers(panel.x, _PLACES),
                "y": _numbers(panel.y, _PLACES if figure.areas else _DIGITS),
                "verdicts": list(panel.verdicts),
                "said": [_words(one) for one in panel.said],
                "low": _numbers(panel.low),
                "high": _numbers(panel.high),
                "edges": [_numbers(edge) for edge in panel.edges],
            }
            for panel in figure.panels
        ],
    }


def _words(text: str) -> str:
    return str(typeset(text))


def _numbers(values: np.ndarray | None, digits: int = _DIGITS) -> list[Any] | None:
    """Nested lists of numbers of so many digits; what is not finite is None."""
    if values is None:
        return None
    array = np.asarray(values, dtype=float)
    if array.ndim > 1:
        return [_numbers(row, digits) for row in array]
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.tolist()]
