"""Studies: a config, its arms, what is watched, the claims and the figures. One study a module."""
