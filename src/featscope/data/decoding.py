"""Encoded images (PNG, JPEG and what else Pillow reads) as colours."""

import io
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import PIL.Image

_PNG, _BIT_DEPTH = b"\x89PNG\r\n\x1a\n", 24  # of a channel, a byte of IHDR
_BITS_PER_SAMPLE = 258  # a tag of TIFF
_SAY_HOW_TURNED = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")  # parts of a PNG


def in_colour(data: bytes) -> "PIL.Image.Image":
    """The image that ``data`` encodes, upright as its EXIF says, in red, green and blue.

    What is transparent lies on white.

    Raises:
        ValueError: a PNG or TIFF, or an image in grey alone, has more than 8 bits a channel. What cannot be decoded
            raises other errors, too.
    """
    from PIL import Image, ImageOps

    opened: Image.Image = Image.open(io.BytesIO(data))
    if opened.mode.startswith(("I", "F")) or _bits(opened, data) > 8:
        raise ValueError(f"mode {opened.mode}: more than 8 bits a channel, of which 8 would be left; convert it")
    if _turned(opened):
        opened = ImageOps.exif_transpose(opened)
    if opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info:  # colours that are not seen may be any
        white = Image.new("RGBA", opened.size, "white")
        return Image.alpha_composite(white, opened.convert("RGBA")).convert("RGB")
    return opened.convert("RGB")


def is_turned(data: bytes) -> bool:
    """Whether the image that ``data`` encodes lies on its side, say, and is turned or mirrored to be upright."""
    from PIL import Image

    if data.startswith(_PNG) and not any(part in data for part in _SAY_HOW_TURNED):  # or all of it would be decoded
        return False
    try:
        return _turned(Image.open(io.BytesIO(data)))
    except Exception:  # of many kinds, and whoever asks for its pixels is told
        return False


@cache
def image_suffixes() -> frozenset[str]:
    """Ends of names of files that Pillow reads, in small letters."""
    from PIL import Image

    return frozenset(end for end, kind in Image.registered_extensions().items() if kind in Image.OPEN)


def _bits(opened: "PIL.Image.Image", data: bytes) -> int:
    """Of a channel; 8 where no more than that are told."""
    from PIL import TiffImagePlugin

    if data.startswith(_PNG):
        return data[_BIT_DEPTH]
    if isinstance(opened, TiffImagePlugin.TiffImageFile):
        return max(opened.tag_v2.get(_BITS_PER_SAMPLE, (8,)))
    return 8


def _turned(opened: "PIL.Image.Image") -> bool:
    from PIL import ExifTags

    try:
        return opened.getexif().get(ExifTags.Base.Orientation) in range(2, 9)
    except Exception:  # of EXIF that cannot be read; the image may be whole
        return False
