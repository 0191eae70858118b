"""What the operating system refuses, in words."""

_NO_MEMORY = "allocate memory"  # in what torch says of it


def refused_by_system(error: BaseException) -> str:
    """Why the system did not do what it was asked, in a sentence; empty if that is not what went wrong."""
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _NO_MEMORY in str(error)):
        return f"the system has no memory left ({str(error).strip() or 'none was to be had'})."
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"the system says {error.strerror or error}{where}."
    return ""
