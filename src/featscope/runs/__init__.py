"""Run folders: start, store, resume."""
