"""Small encoders of images in the Hub's layout."""

import json
from pathlib import Path
from typing import Any

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def saved(model: Any, folder: Path, **about: object) -> str:
    """Write ``model`` into ``folder``, and what its preprocessor's file says; the folder's name."""
    model.save_pretrained(folder)
    said = {"image_mean": MEAN, "image_std": DEVIATION, **about}
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
    return str(folder)
