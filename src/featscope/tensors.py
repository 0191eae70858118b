"""Tensors with a description as the bytes of a safetensors file, and a checksum over both.

The checksum stands before the description, in the one entry of the file's metadata: entries of several are written in
no fixed order, and equal runs should leave equal files.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

_CHECKED = "checked"  # what is checked begins with its checksum
_UNCHECKED = "about"  # of older versions: the description alone


class DamagedError(Exception):
    """A file does not hold what was written to it. The message says what is wrong, after the name of the file."""


def packed(tensors: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> bytes:
    """The file that holds ``tensors`` and the JSON-able ``about``; equal ones for equal content."""
    contiguous = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    text = json.dumps(about)
    return save(contiguous, metadata={_CHECKED: f"{_checksum(contiguous, text)} {text}"})


def unpacked(file: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """What `packed` was given. A file of an older version, without a checksum, is taken as it is.

    Raises:
        DamagedError: it is not what was written.
        OSError: it is missing, or cannot be read.
    """
    if file.exists() and not file.is_file():
        raise DamagedError("is no file")
    with file.open("rb"):
        pass  # says whether it may be read at all
    try:
        with safe_open(file, framework="pt") as opened:
            tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
            said = opened.metadata() or {}
    except (SafetensorError, ValueError, TypeError) as error:
        raise DamagedError(f"is not a whole safetensors file ({error})") from None
    text = said.get(_UNCHECKED)
    if text is None:
        checksum, _, text = said.get(_CHECKED, "").partition(" ")
        if checksum != _checksum(tensors, text):
            raise DamagedError("does not agree with its checksum")
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedError("has a description that is not JSON") from None
    if not isinstance(about, dict):
        raise DamagedError("has a description that is no JSON object")
    return tensors, about


def _checksum(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    """Over ``text``, and name, type, shape and bytes of each tensor."""
    state = blake2b(text.encode(), digest_size=32)
    for name, tensor in sorted(tensors.items()):
        state.update(f"\0{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        row = tensor.reshape(-1).clone(memory_format=torch.contiguous_format)  # one number may have any stride
        state.update(row.view(torch.uint8).numpy().data)
    return state.hexdigest()
