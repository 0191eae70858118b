"""The figures of the study."""
def figures(study, runs, claims):
    return []
