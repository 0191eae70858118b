"""Types and shapes that `conftest.py` has checked at run time, in each function and data class of the package."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from inspect import isasyncgenfunction, isclass, iscoroutinefunction, isgeneratorfunction
from types import FunctionType
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeCallHintViolation

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # a whole number is a float, as for mypy
_of_a_call = jaxtyping.jaxtyped("context")  # while it lasts, a letter of shapes has one size
_at_once = jaxtyping.jaxtyped


def install(package: str) -> None:
    """Have all of ``package`` checked, if it is imported after this.

    jaxtyping's own decorator, which its import hook puts before each function, makes two more functions of each as it
    is defined, and binds and checks arguments twice a call. Of thousands of functions few are called, so here one is
    made, when it is called for the first time while `jaxtyping_disable` is off; and its arguments are checked once.
    """
    jaxtyping.jaxtyped = when_called
    jaxtyping.install_import_hook(package, f"{__name__}.check")


def when_called(part: Any = None, *, typechecker: Callable[[Any], Any]) -> Any:
    """A function or class that checks what it is given; a function within a function, made at each call, does not."""
    if part is None:
        return partial(when_called, typechecker=typechecker)
    if isclass(part):
        if is_dataclass(part) and "__init__" in vars(part):
            part.__init__ = when_called(part.__init__, typechecker=typechecker)
        return part
    if "<locals>" in part.__qualname__:
        return part
    checked: list[Callable[..., Any]] = []

    @wraps(part)
    def called(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return part(*args, **kwargs)
        if not checked:
            checked.append(_checked(part, typechecker))
        return checked[0](*args, **kwargs)

    return called


def _checked(part: FunctionType, typechecker: Callable[[Any], Any]) -> Callable[..., Any]:
    if isgeneratorfunction(part) or iscoroutinefunction(part) or isasyncgenfunction(part):
        return _at_once(part, typechecker=typechecker)
    same = FunctionType(part.__code__, part.__globals__, part.__name__, part.__defaults__, part.__closure__)
    same.__kwdefaults__, same.__module__, same.__qualname__ = part.__kwdefaults__, part.__module__, part.__qualname__
    same.__annotations__ = {name: _meant(hint, part) for name, hint in part.__annotations__.items()}
    checks = typechecker(same)

    def called(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        with _of_a_call:
            try:
                return checks(*args, **kwargs)
            except BeartypeCallHintViolation as error:
                raise jaxtyping.TypeCheckError(str(error)) from error

    return called


def _meant(hint: Any, part: FunctionType) -> Any:
    """What a hint in quotes means; anything where it names what is not there, as what is imported for mypy alone."""
    try:
        return get_type_hints(_one(hint), part.__globals__, include_extras=True)["value"]
    except Exception:
        return Any


def _one(hint: Any) -> Callable[..., Any]:
    def hinted(value): ...

    hinted.__annotations__["value"] = hint
    return hinted
