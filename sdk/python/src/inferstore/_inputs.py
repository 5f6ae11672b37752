"""Local validation: checks inputs against the declared parameters of a model, and writes each value in the JSON type
that the model takes. Only what the declaration makes certain is refused; the service decides on the rest."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from os import PathLike
from typing import Any
from urllib.parse import quote, urlsplit

from ._errors import InvalidArgument, InvalidInputs, shown
from ._types import File, as_object


class Problem(Exception):
    """Why an input does not fit."""


def is_file(value: object) -> bool:
    return isinstance(value, (File, PathLike))


def check(model: str, declared: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values as they are sent; files stay as they are. A model that declares nothing takes everything."""
    given = {name: value for name, value in inputs.items() if value is not None}
    problems: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if declared and name not in declared:
            near = difflib.get_close_matches(name, declared, 1)
            hint = f"did you mean {shown(near[0])}?" if near else "expected one of " + ", ".join(map(shown, declared))
            problems[name] = f"the model declares no such input, {hint}"
            continue
        try:
            values[name] = fit(as_object(declared.get(name)), value)
        except Problem as problem:
            problems[name] = str(problem)
    for name, descriptor in declared.items():
        if as_object(descriptor).get("required") is True and name not in given:
            problems[name] = f"required but not given, expected {expected(as_object(descriptor))}"
    if problems:
        raise InvalidInputs(model, problems)
    return values


def fit(descriptor: Mapping[str, Any], value: Any) -> Any:
    kind = descriptor.get("type")
    samples = descriptor.get("samples") or []
    wrong = Problem(f"expected {expected(descriptor)}, got {described(value)}")
    if is_file(value):
        if kind in ("int", "float", "options"):
            raise wrong
        return value
    if kind in ("file", "int", "float", "options", "string") and isinstance(value, (list, dict)):
        raise wrong
    if kind in ("int", "float"):
        number = numeric(value)
        config = as_object(descriptor.get("num_config"))
        low, high = numeric(config.get("min")), numeric(config.get("max"))
        if low is not None and high is not None and low > high:
            low = high = None
        if number is None or (kind == "int" and number != number.to_integral_value()):
            raise wrong
        if (low is not None and number < low) or (high is not None and number > high):
            raise wrong
        return spelled(number, kind == "int", takes_numbers(samples), value)
    if kind == "options" and samples and value not in samples:
        text = str(value)
        if text not in map(str, samples):
            near = difflib.get_close_matches(text, map(str, samples), 1)
            raise Problem(f"{wrong}, did you mean {shown(near[0])}?") if near else wrong
        return next(sample for sample in samples if str(sample) == text)
    if kind == "file" and not is_web_url(value):
        is_text = isinstance(value, str)
        raise Problem(f"{wrong}; pass pathlib.Path({shown(value)}) to upload a local file") if is_text else wrong
    if kind == "string" and isinstance(value, (bool, int, float, Decimal)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def numeric(value: Any) -> Decimal | None:
    """Returns the exact value of a number, or of a text that is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 400 else None


def takes_numbers(samples: list[Any]) -> bool | None:
    """Returns whether the samples show bare numbers; `None` without samples."""
    if any(isinstance(sample, (int, float, Decimal)) and not isinstance(sample, bool) for sample in samples):
        return True
    return False if samples and all(isinstance(sample, str) for sample in samples) else None


def spelled(number: Decimal, is_int: bool, as_number: bool | None, given: Any) -> Any:
    """Writes a number as the samples of the model show it; without samples as text, which the document asks for."""
    text = str(int(number)) if is_int else format(number, "f")
    if isinstance(given, str) and not is_int and numeric(given) and set(given.strip()) <= set("-.0123456789"):
        text = given.strip()
    if not as_number:
        return text
    return int(number) if is_int else number


def is_web_url(value: Any) -> bool:
    if not isinstance(value, str) or value != value.strip() or any(ord(character) < 32 for character in value):
        return False
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname)


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
