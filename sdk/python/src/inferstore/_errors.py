"""Errors: the operation, what was wrong, what to try; and redaction of foreign text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = [
    "ApiError",
    "CallError",
    "CostLimitExceeded",
    "DeadlineReached",
    "DecodeError",
    "FileError",
    "InferstoreError",
    "InvalidArgument",
    "InvalidInputs",
    "ModelOffline",
    "OutcomeUnknown",
    "TaskCanceled",
    "TaskFailed",
    "TransportError",
]

MASK = "…"
MAX_MESSAGE = 1_000
_URL = re.compile(r"""([A-Za-z][A-Za-z0-9+.-]*://)([^\s/?#\\"]*@)?([^\s"'<>\\`?#]*)([?#][^\s"'<>\\`]*)?""")
_CREDENTIAL = re.compile(
    r"""(?i)((?:x-amz-(?:signature|credential|security-token)|x-api-key|policy|(?<=")key)\\?["']?\s*[:=]\s*\\?["']?)[^\s&"'<\\]+"""
)
_AUTHORIZATION = re.compile(r"""(?i)(authorization["']?\s*[:=]\s*["']?)[^"'<\\]+""")
_HARMFUL = re.compile("[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_PUBLIC_FIELDS = ("key", "bucket", "content-type", "success_action_status")


class Redactor:
    """Masks known secrets, the queries of URLs, and named credentials."""

    def __init__(self, secrets: Iterable[str]) -> None:
        found = {text for secret in secrets for text in (secret, json.dumps(secret)[1:-1]) if secret}
        self._secrets = sorted(found, key=len, reverse=True)

    def with_target(self, url: str, fields: Iterable[tuple[str, str]] = ()) -> Redactor:
        """Also masks the query of a presigned URL and the fields of its form."""
        query = urlsplit(url).query
        values = [pair.partition("=")[2] for pair in query.split("&")] + [value for _, value in parse_qsl(query)]
        values += [value for name, value in fields if name.lower() not in _PUBLIC_FIELDS]
        return Redactor([*self._secrets, *(value for value in values if len(value) >= 8)])

    def foreign(self, text: str, limit: int = MAX_MESSAGE) -> str:
        """Returns foreign text with secrets masked, on one line, without control characters, bounded."""
        text = text.encode(errors="replace").decode()
        text = " ".join(_HARMFUL.sub("", re.sub(r"\s+", " ", text[: 64 * 1024])).split())
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        text = _URL.sub(_masked_url, text)
        text = _CREDENTIAL.sub(rf"\1{MASK}", _AUTHORIZATION.sub(rf"\1{MASK}", text))
        return text if len(text) <= limit else text[:limit] + MASK

    def reason(self, error: Exception) -> str:
        return self.foreign(str(error) or type(error).__name__, 200)


def _masked_url(match: re.Match[str]) -> str:
    scheme, user, address, query = match.groups()
    return scheme + (MASK if user else "") + address + (query[0] + MASK if query else "")


def shown(text: str, limit: int = 80) -> str:
    """Returns foreign text in quotes, safe to show."""
    return json.dumps(Redactor(()).foreign(text, limit), ensure_ascii=False)


class InferstoreError(Exception):
    """An operation failed. `str(error)` is one line; `hint` says what to try."""

    hint: str
    task: str | None = None
    """The task that the operation was about, if one was created."""
    uploads: Sequence[str] = ()
    """URLs of the inputs that the call has uploaded. They are stored, and billed, until they are deleted."""
    is_retryable = False
    """Whether the same call can be sent again, without having an effect twice, and may succeed."""

    def __init__(self, message: str, hint: str, **known: Any) -> None:
        super().__init__(message)
        vars(self).update(known, hint=hint)
        self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles the error without `__init__`, whose arguments are not `args`."""
        return type(self).__new__, (type(self), *self.args), vars(self)


class InvalidArgument(InferstoreError):
    """An argument or a setting cannot be used. Nothing was sent."""

    def __init__(self, message: str, **known: Any) -> None:
        super().__init__(message, "fix what the message names and try again; nothing was sent", **known)


class InvalidInputs(InvalidArgument):
    """The inputs do not match what the model declares. Nothing was sent that costs money."""

    problems: dict[str, str]
    """The problem of each input, by its name."""

    def __init__(self, model: str, problems: dict[str, str]) -> None:
        listed = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        super().__init__(f"the inputs of {shown(model)} are not valid: {listed}", problems=problems)


class CallError(InferstoreError):
    """A call to the API failed."""

    operation: str
    """The operation, by its identifier in the OpenAPI document."""
    status: int | None = None
    service_message: str | None = None
    """The message of the service, redacted."""
    request_id: str | None = None
    retry_after: float | None = None
    """Seconds that the service asks to wait before the next attempt."""
    attempts = 1
    in_doubt = False
    """Whether the service may have done what the call asked for."""

    @property
    def is_permanent(self) -> bool:
        """Whether the service refused the call for good: a 4xx other than 408 and 429."""
        return 400 <= (self.status or 0) < 500 and self.status not in (408, 429)


class ApiError(CallError):
    """The service responded with a failure."""


class TransportError(CallError):
    """No response came, after all safe retries."""


class DecodeError(CallError):
    """A response came that cannot be decoded: it is not one of this service, or too large."""

    is_too_large = False


class OutcomeUnknown(InferstoreError):
    """A create was sent, its response was lost, and it is unknown whether it made a task."""

    HISTORIES = {
        "complete": "the task history shows no matching task",
        "partial": "the task history was read in part only",
        "unreadable": "the task history could not be read",
        "not read": "the service has not confirmed its idempotency key",
    }
    candidates: list[str]
    """Tasks in the history that may be the one."""
    history: str
    """How much of the history was read: `complete`, `partial`, `unreadable`, `not read`."""

    key: str | None
    """The idempotency key, where the service knows keys: the same call with it returns the task, or creates it."""

    def __init__(self, cause: CallError, candidates: list[str], history: str, key: str | None = None) -> None:
        listed = ", ".join(map(shown, candidates))
        found = f"these tasks may be the one: {listed}" if candidates else self.HISTORIES[history]
        problem = f"{cause}; whether a task was created is unknown: {found}"
        hint = "look for the task in the history before you create it again: a second task is billed too"
        if key is not None:
            hint = "make the same call again with the key of this error (error.key): it returns the one task"
        super().__init__(problem, hint, candidates=candidates, history=history, key=key)


class CostLimitExceeded(InferstoreError):
    """A run costs more than its limit, or the service states no price. This call created no task."""

    def __init__(self, quote: Decimal | None, max_cost: Decimal) -> None:
        self.quote, self.max_cost = quote, max_cost
        unknown = "the service states no price to compare with"
        problem = unknown if quote is None else f"a run costs {quote}, more than"
        hint = "change max_cost, or choose another model; this call created no task"
        super().__init__(f"{problem} the limit of {max_cost}", hint)


class ModelOffline(InferstoreError):
    """No node serves the model. This call created no task."""

    is_retryable = True

    def __init__(self, model: str) -> None:
        hint = "try again later, or run without require_serving; this call created no task"
        super().__init__(f"no node serves the model {shown(model)}", hint)


class TaskFailed(InferstoreError):
    """The task ended in `failed`. It is not billed."""

    HINTS = {
        "input": "fix the input that the message names",
        "limit": "send less, or ask the operator of the model for a higher limit",
        "model": "report the message to the operator of the model: its program failed",
        "service": "run it again later, or report it to the operator of the service",
    }

    def __init__(self, task: str, message: str, detail: Any, kind: object = None) -> None:
        self.message, self.detail = message, detail
        otherwise = "fix the inputs or the balance if the message names them, otherwise run it again"
        hint = f"{self.HINTS.get(str(kind), otherwise)}; the task is not billed"
        super().__init__(f"the task {shown(task)} failed" + (f": {message}" if message else ""), hint, task=task)


class TaskCanceled(InferstoreError):
    """The task ended in `canceled`. It is not billed."""

    def __init__(self, task: str) -> None:
        hint = "run it again if the cancel was not intended; the task is not billed"
        super().__init__(f"the task {shown(task)} was canceled", hint, task=task)


class DeadlineReached(InferstoreError):
    """The deadline passed."""

    HINTS = {
        "this call created no task": "allow more time; this call created no task",
        "the task was canceled while it was queued": "allow more time and run it again; the task is not billed",
        "whether the task was canceled is unknown": "read the task to see whether it was canceled",
        "the task has not ended": "wait for the task again; it is billed if it succeeds",
        "the state of the task is unknown": "check the network, the identifier and the API key, then read the task",
        "the transfer is not complete": "allow more time and transfer the file again",
    }

    def __init__(self, disposition: str, task: str | None = None) -> None:
        self.disposition = disposition
        named = f" (task {shown(task)})" if task else ""
        super().__init__(f"the deadline passed; {disposition}{named}", self.HINTS[disposition], task=task)


class FileError(InferstoreError):
    """A file could not be read, uploaded, downloaded or written."""

    expired = False
    status: int | None = None
    retry_after: float | None = None

    def __init__(self, file: str, problem: str, hint: str = "fix what the message names and try again", **known: Any):
        again = "try again later" if known.get("is_retryable") else hint
        super().__init__(f"{shown(file)}: {problem}", again, **known)
