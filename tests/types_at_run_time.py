"""The checker of types and shapes that `conftest.py` installs."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # a whole number is a float, as for mypy
