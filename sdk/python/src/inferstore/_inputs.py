"""Local validation: checks inputs against the declared parameters of a model, and writes each value in the JSON type
that the model takes. Only what the declaration makes certain is refused; the service decides on the rest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from numbers import Integral, Real
from os import PathLike
from typing import Any, TypeGuard
from urllib.parse import quote

import httpx

from ._errors import InvalidArgument, InvalidInputs, shown
from ._types import File, as_object


class Problem(Exception):
    """An input does not fit; the text adds what to do."""


def is_file(value: object) -> bool:
    return isinstance(value, (File, PathLike))


def check(model: str, declared: Mapping[str, Mapping[str, Any]], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values as they are sent; files stay as they are. A model that declares nothing takes everything."""
    problems: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, value in inputs.items():
        if value is not None and declared and name not in declared:
            otherwise = ", expected one of " + ", ".join(map(shown, declared))
            problems[name] = "the model declares no such input" + (near(name, declared) or otherwise)
        elif value is not None:
            descriptor = declared.get(name, {})
            try:
                values[name] = fit(descriptor, value)
            except Problem as problem:
                problems[name] = f"expected {expected(descriptor)}, got {described(value)}{problem}"
    for name, descriptor in declared.items():
        if descriptor.get("required") is True and inputs.get(name) is None:
            problems[name] = f"required but not given, expected {expected(descriptor)}"
    if problems:
        raise InvalidInputs(model, problems)
    return values


def fit(descriptor: Mapping[str, Any], value: Any) -> Any:
    kind, samples = descriptor.get("type"), descriptor.get("samples") or []
    exact = number(value)
    value = value if exact is None else exact
    if is_file(value):
        if kind in ("int", "float", "options"):
            raise Problem
        return value
    if kind in ("file", "int", "float", "options", "string") and isinstance(value, (list, dict)):
        raise Problem
    if kind in ("int", "float"):
        return fit_number(as_object(descriptor.get("num_config")), samples, value, kind == "int")
    if kind == "options" and samples and value not in samples:
        same = [sample for sample in samples if str(sample) == str(value)]
        if not same:
            raise Problem(near(str(value), map(str, samples)))
        return same[0]
    if kind == "file" and not is_web_url(value):
        is_text = isinstance(value, str)
        raise Problem(f"; pass pathlib.Path({shown(value)}) to upload a local file" if is_text else "")
    if kind == "string" and (exact is not None or isinstance(value, bool)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def fit_number(config: Mapping[str, Any], samples: list[Any], value: Any, is_int: bool) -> Any:
    """Writes a number as the samples of the model show it; without samples as text, which the document asks for."""
    exact, low, high = numeric(value), numeric(config.get("min")), numeric(config.get("max"))
    is_range = low is None or high is None or low <= high
    if exact is None or (is_int and exact != exact.to_integral_value()):
        raise Problem
    if is_range and ((low is not None and exact < low) or (high is not None and exact > high)):
        raise Problem
    if any(isinstance(sample, (int, float, Decimal)) and not isinstance(sample, bool) for sample in samples):
        return int(exact) if is_int else exact
    is_plain = isinstance(value, str) and not is_int and set(value.strip()) <= set("-.0123456789")
    return value.strip() if is_plain else str(int(exact)) if is_int else format(exact, "f")


def number(value: object) -> int | float | Decimal | None:
    """Returns a number, such as one of numpy, as a number of Python."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, Integral) else float(value)
    return value if isinstance(value, Decimal) else None


def numeric(value: object) -> Decimal | None:
    """Returns the exact value of a number, or of a text that is one."""
    try:
        exact = Decimal(str(value if isinstance(value, str) else number(value)).strip())
    except (InvalidOperation, ValueError):
        return None
    return exact if exact.is_finite() and abs(exact.adjusted()) < 400 else None


def near(name: str, names: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(names), 1)
    return f", did you mean {shown(found[0])}?" if found else ""


def is_web_url(value: object) -> TypeGuard[str]:
    try:
        url = httpx.URL(value if isinstance(value, str) and value == value.strip() else "")
    except httpx.InvalidURL:
        return False
    return url.scheme in ("http", "https") and bool(url.host)


def expected(descriptor: Mapping[str, Any]) -> str:
    """Returns the object of "expected …"."""
    config = as_object(descriptor.get("num_config"))
    low, high = config.get("min"), config.get("max")
    bounds = f" from {low} to {high}" if low is not None and high is not None else ""
    samples = ", ".join(shown(str(sample)) for sample in descriptor.get("samples") or [])
    return {
        "file": "a file, or a URL that starts with http:// or https://",
        "int": f"a whole number{bounds}",
        "float": f"a number{bounds}",
        "options": f"one of {samples}" if samples else "one of its options",
        "string": "text",
    }.get(str(descriptor.get("type")), "a value")


def described(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    return "a file" if is_file(value) else shown(value) if isinstance(value, str) else shown(str(value)).strip('"')


def segment(what: str, text: str) -> str:
    """Returns an identifier as a segment of a path."""
    if not isinstance(text, str) or not text.strip() or text in (".", ".."):
        raise InvalidArgument(f"{what}: {shown(str(text))} is no identifier")
    return quote(text, safe="")
