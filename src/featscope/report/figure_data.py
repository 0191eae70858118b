"""Figures as plain data for the page's script, with one value a replica where a study keeps them."""

import zlib
from base64 import b64encode
from functools import singledispatch
from typing import Any

import numpy as np

from featscope.figures import Bars, Curves, Figure, Heatmaps, ImageGrids, MatrixMovie, Panel, Scatters, Verdicts
from featscope.report.look import scale
from featscope.report.typeset import typeset

_FRAMES, _LEVELS = 18, 32  # of a movie, as the page keeps it
_NONE = 255  # in place of a level, where there is no value
_DIGITS = 4  # of what was measured: more than a picture shows
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
        "logy": panel.log_y,
        "marks": [[float(x), _words(label)] for x, label in panel.marks if np.isfinite(x)],
        "curves": [
            {
                "label": _words(curve.label),
                "dashed": curve.dashed,
                "x": _numbers(curve.x, _PLACES),
                "y": _numbers(curve.y),
                "low": _numbers(curve.low),
                "high": _numbers(curve.high),
                "samples": _numbers(curve.samples),
            }
            for curve in panel.curves
        ],
    }


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
    panels = figure.frames
    replicas = len(next(iter(panels.values())))
    return {
        "kind": "movie",
        "levels": _LEVELS,
        "none": _NONE,
        "low": figure.low,
        "high": figure.high,
        "steps": [int(figure.steps[i]) for i in keep],
        "replicas": [_packed([f[r, keep] for f in panels.values()], figure.low, figure.high) for r in range(replicas)],
        "panels": [{"label": _words(k), "rows": v.shape[2], "columns": v.shape[3]} for k, v in panels.items()],
        "row": _words(figure.row_label),
        "column": _words(figure.column_label),
        "value": _words(figure.value_label),
    }


def _packed(matrices: list[np.ndarray], low: float, high: float) -> str:
    """Matrices ``[frame, row, column]`` in levels, as differences from frame to frame, deflated, base64."""
    parts = []
    for frames in matrices:
        scaled = np.nan_to_num((frames - low) / (high - low)).clip(0, 1) * (_LEVELS - 1)
        level = np.moveaxis(np.where(np.isnan(frames), _NONE, scaled.round()).astype(np.uint8), 0, -1)
        parts.append(np.diff(level, axis=-1, prepend=np.uint8(0)).tobytes())
    return b64encode(zlib.compress(b"".join(parts), 7)).decode()  # 9 takes five times as long for 3 % less


@figure_data.register
def _(figure: Heatmaps) -> Plain:
    every = np.concatenate([np.ravel(panel) for panel in figure.panels.values()])
    finite = every[np.isfinite(every)]
    low, high = figure.ends or ((float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0))
    shown = scale(low, high, figure.value_label)
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
def _(figure: Verdicts) -> Plain:
    return {
        "kind": "verdicts",
        "x": _words(figure.x_label),
        "y": _words(figure.y_label),
        "logx": figure.log_x,
        "logy": figure.log_y,
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
