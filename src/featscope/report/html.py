"""What every HTML page of ours is made with: templates, styles and scripts, and a policy that lets in nothing else."""

import json
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from featscope.report.typeset import typeset

_WIDE, _QUALITY = 760, 75  # pixels of a picture, and how near to the PNG it is, of 100


def json_inside(data: object) -> Markup:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def policy(css: str, scripts: Sequence[str], images: str = "data: blob:") -> str:
    """Nothing from anywhere but this file, and of it only our own style and scripts; pictures from ``images``."""

    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; img-src {images}; style-src {hashed(css)}; "
        f"script-src {' '.join(map(hashed, scripts))}; base-uri 'none'; form-action 'none'"
    )


@cache
def asset(name: str) -> str:
    """A style, script or template of ours."""
    return files("featscope.report").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def environment() -> Environment:
    """Templates; all that is put into them is escaped but `Markup`."""
    made = Environment(
        loader=PackageLoader("featscope.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["typeset"] = typeset
    return made


def small(png: Path) -> bytes:
    """The picture at the size of a screen, as WebP."""
    with Image.open(png) as picture:
        size = (_WIDE, round(picture.height * _WIDE / picture.width))
        reduced = picture.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    out = BytesIO()
    reduced.save(out, "WEBP", quality=_QUALITY)
    return out.getvalue()
