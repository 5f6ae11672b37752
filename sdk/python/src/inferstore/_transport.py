"""Transport: every call to the API, its retries, and how failures become errors.

Nothing here does I/O. A *flow* is a generator that yields effects (`Send`, `Sleep`) and is driven by a client, so that
the blocking and the asynchronous client share all decisions.
"""

from __future__ import annotations

import json
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx

from ._errors import ApiError, CallError, DecodeError, InvalidArgument, Redactor, TransportError, shown
from ._generated import DECIMALS

T = TypeVar("T")
RETENTION = "idempotency-key-retention"
MAX_RESPONSE = 16 * 1024 * 1024
MAX_ATTEMPTS, INITIAL_BACKOFF, MAX_BACKOFF, MAX_RETRY_AFTER = 5, 0.2, 10.0, 60.0
RETRY_BUDGET = 100
MAX_TASKS = 100_000
CHECK_BASE_URL = "check that the base URL leads to the service and ends in its versioned root, such as /api/v1"


@dataclass
class Send:
    """Effect: sends a request once, and returns its reply."""

    request: httpx.Request
    timeout: float
    """Limits each pause between two reads."""
    until: float
    """Limits the whole exchange, as a monotonic time."""
    max_size: int = MAX_RESPONSE
    sink: Callable[[bytes], object] | None = None
    """Takes the body of a success instead of the reply."""


@dataclass
class Sleep:
    """Effect: waits so many seconds."""

    seconds: float


@dataclass
class Work:
    """Effect: runs blocking work, such as reading a file."""

    work: Callable[[], Any]


@dataclass
class Reply:
    status: int
    headers: httpx.Headers
    body: bytes = field(repr=False)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


Flow: TypeAlias = Generator[Send | Sleep | Work, Any, T]


class TooLarge(Exception):
    """The body of a response is larger than the limit."""


class Secret:
    """A text that no `repr` shows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def expose(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"


class Deadline:
    """A time limit of an operation."""

    def __init__(self, seconds: float | timedelta | None) -> None:
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        self.seconds = float("inf") if seconds is None else float(seconds)
        if not self.seconds >= 0:
            raise InvalidArgument(f"deadline: {seconds} is no number of seconds; expected 0 or more")
        self.at = monotonic() + self.seconds

    @property
    def left(self) -> float:
        return max(self.at - monotonic(), 0.0)

    @property
    def is_over(self) -> bool:
        return monotonic() >= self.at

    def allows(self, delay: float) -> bool:
        return monotonic() + delay < self.at


class Core:
    """Settings of a client and its memory, shared by its threads."""

    def __init__(self, base_url: str, api_key: str, read_timeout: float) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise InvalidArgument(
                f"base_url: {shown(base_url)} is not the root of an API; expected a URL such as https://host/api/v1"
            )
        if not api_key or any(not "!" <= character <= "~" for character in api_key):
            raise InvalidArgument("api_key: it is empty, or has characters that a header cannot carry")
        self.base_url = base_url.rstrip("/")
        self.key = Secret(api_key)
        self.redactor = Redactor([api_key])
        self.read_timeout = read_timeout
        self.knows_keys = False
        """Whether the service announces that it knows idempotency keys."""
        self.lock = threading.Lock()
        self.budget = float(RETRY_BUDGET)
        self._date: tuple[datetime, float] | None = None
        self.known: OrderedDict[str, None] = OrderedDict()
        """Tasks of this client: a lost create must not adopt one of them."""
        self.task_inputs: OrderedDict[str, str] = OrderedDict()
        self.open_creates: dict[tuple[str, str], int] = {}
        self.doubts: dict[tuple[str, str], float] = {}
        self.durations: dict[str, list[float]] = {}
        self.declarations: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def note(self, reply: Reply) -> None:
        """Notes what a response announces: the clock of the service, and whether it knows idempotency keys."""
        if reply.is_success:
            date = http_date(reply.headers.get("date"))
            self._date = (date, monotonic()) if date else self._date
            self.knows_keys = RETENTION in reply.headers
        elif RETENTION in reply.headers:
            self.knows_keys = True

    def service_time(self) -> datetime | None:
        """Returns the time by the clock of the service, if a response has shown it."""
        return self._date and self._date[0] + timedelta(seconds=monotonic() - self._date[1])

    def claim(self, task: str) -> bool:
        """Remembers a task of this client; `False` if it was known."""
        with self.lock:
            if task in self.known:
                return False
            self.known[task] = None
            if len(self.known) > MAX_TASKS:
                self.known.popitem(last=False)
            return True

    def request(
        self,
        method: str,
        path: str,
        json_body: object = None,
        query: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> httpx.Request:
        if isinstance(json_body, dict):
            json_body = {name: value for name, value in json_body.items() if value is not None}
        content = None if json_body is None else encode(json_body)
        headers = [
            ("x-api-key", self.key.expose()),
            ("accept", "application/json"),
            ("user-agent", "inferstore-python"),
        ]
        headers += [("content-type", "application/json")] if content is not None else []
        headers += [("idempotency-key", key)] if key else []
        parameters = {name: str(value) for name, value in (query or {}).items() if value is not None}
        url = httpx.URL(self.base_url + path, params=parameters)
        return httpx.Request(method, url, headers=headers, content=content)


@dataclass
class Attempts:
    """The attempts of one operation."""

    core: Core
    deadline: Deadline
    count: int = 1

    def backoff(self, retry_after: float | None) -> Flow[bool]:
        """Waits for the backoff; `False` when there must be no further attempt."""
        longest = min(INITIAL_BACKOFF * 2 ** (self.count - 1), MAX_BACKOFF)
        delay = max(random.random() * longest, retry_after or 0.0)
        if self.count >= MAX_ATTEMPTS or (retry_after or 0.0) > MAX_RETRY_AFTER or not self.deadline.allows(delay):
            return False
        with self.core.lock:
            if self.core.budget < 1:
                return False
            self.core.budget -= 1
        self.count += 1
        yield Sleep(delay)
        return True


def call(
    core: Core,
    operation: str,
    method: str,
    path: str,
    *,
    json_body: object = None,
    query: Mapping[str, object] | None = None,
    deadline: Deadline | None = None,
    repeatable: bool = True,
    key: str | None = None,
) -> Flow[Any]:
    """Sends a call, retries it as far as it is safe, and returns the `data` of its envelope."""
    deadline = deadline or Deadline(None)
    attempts = Attempts(core, deadline)
    in_doubt = False
    while True:
        request = core.request(method, path, json_body, query, key)
        try:
            data = yield from attempt(core, operation, request, deadline)
        except CallError as failure:
            error = failure
        else:
            with core.lock:
                core.budget = min(core.budget + 0.5, RETRY_BUDGET)
            return data
        # With a key, whatever leaves a doubt is sent again.
        is_keyed = key is not None and core.knows_keys
        may_retry = error.unsent or ((repeatable or is_keyed) and passes(error)) or (is_keyed and error.in_doubt)
        in_doubt = in_doubt or error.in_doubt
        if not may_retry or not (yield from attempts.backoff(error.retry_after)):
            error.attempts, error.in_doubt = attempts.count, in_doubt
            error.is_retryable = may_retry and not (isinstance(error, ApiError) and error.is_permanent)
            if attempts.count > 1:
                error.args = (f"{error} (after {attempts.count} attempts)",)
            raise error


def passes(error: CallError) -> bool:
    """Returns whether the failure of a read may pass."""
    if isinstance(error, DecodeError):
        return not error.is_too_large
    return not isinstance(error, ApiError) or error.status in (408, 429, 502, 503, 504)


def attempt(core: Core, operation: str, request: httpx.Request, deadline: Deadline) -> Flow[Any]:
    """Sends a request once, and returns the `data` of its envelope."""
    check = "check the network and the base URL, then try again"
    if deadline.is_over:
        raise TransportError(operation, f"{operation}: the deadline passed before it was sent", check, unsent=True)
    timeout = min(core.read_timeout, deadline.left)
    try:
        reply: Reply = yield Send(request, timeout, min(monotonic() + 10 * core.read_timeout, deadline.at))
    except TooLarge:
        error = DecodeError(operation, f"{operation}: the response is larger than {MAX_RESPONSE} bytes", CHECK_BASE_URL)
        error.is_too_large = error.in_doubt = True
        raise error from None
    except httpx.TransportError as cause:
        unsent = isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        reason = core.redactor.foreign(str(cause) or type(cause).__name__, 200)
        message = f"{operation} got no response: {reason}"
        raise TransportError(operation, message, check, in_doubt=not unsent, unsent=unsent) from None
    core.note(reply)
    return open_envelope(core, operation, reply)


def open_envelope(core: Core, operation: str, reply: Reply) -> Any:
    """Returns the `data` of a success; raises the error of anything else."""
    try:
        body = decode(reply.body)
    except (ValueError, RecursionError):
        body = None
    envelope = body if isinstance(body, dict) else {}
    if reply.is_success and envelope.get("status") == "success":
        return envelope.get("data")
    message = envelope.get("message")
    message = core.redactor.foreign(message) if isinstance(message, str) else None
    request_id = core.redactor.foreign(reply.headers.get("x-request-id", ""), 200) or None
    if reply.is_success and not isinstance(envelope.get("status"), str):
        excerpt = core.redactor.foreign(reply.body.decode(errors="replace"), 200)
        problem = f"{operation}: the response with {reply.status} is none of this service: {excerpt}"
        raise DecodeError(operation, problem, CHECK_BASE_URL, status=reply.status, in_doubt=True)
    reason = message or core.redactor.foreign(reply.body.decode(errors="replace"), 200)
    status = "" if reply.is_success else f" with {reply.status}"
    raise ApiError(
        operation,
        f"{operation} failed{status}" + (f": {reason}" if reason else ""),
        hint_of(reply.status),
        status=reply.status,
        service_message=message,
        request_id=request_id,
        retry_after=retry_after(reply.headers),
        in_doubt=reply.status == 408 or reply.status >= 500,
    )


def hint_of(status: int) -> str:
    known = {
        401: "check the API key, and that the base URL leads to its service",
        402: "top up the balance of the account",
        404: "check the identifier, and that the base URL ends in the versioned root, such as /api/v1",
        409: "read the message of the service; the present state does not allow the call",
    }
    later = "try again later; where the call changes something, check first whether it had its effect"
    if status in (408, 429) or status >= 500:
        return later
    return known.get(status, "fix what the service names, or the arguments; the same call fails again")


def retry_after(headers: httpx.Headers) -> float | None:
    """Returns the delay that a response asks for. A date is compared with the `Date` of the same response."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    date = http_date(value)
    now = http_date(headers.get("date")) or datetime.now(timezone.utc)
    return max((date - now).total_seconds(), 0.0) if date else None


def http_date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)


def decode(body: bytes) -> Any:
    """Parses JSON without losing a digit."""
    return json.loads(body, parse_float=Decimal, object_hook=_exact)


def _exact(members: dict[str, Any]) -> dict[str, Any]:
    for name in DECIMALS & members.keys():
        value = members[name]
        if isinstance(value, int) and not isinstance(value, bool):
            members[name] = Decimal(value)
    return members


def plain(value: Any) -> Any:
    """Returns the output of a model with the numbers that `json` would make of it."""
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def encode(value: object) -> bytes:
    """Writes JSON. A decimal that no double holds becomes text."""

    def other(value: object) -> object:
        if isinstance(value, Decimal) and value.is_finite():
            number = float(value)
            return number if Decimal(repr(number)) == value else format(value, "f")
        raise InvalidArgument(f"a value of type {type(value).__name__} cannot be sent as JSON")

    try:
        return json.dumps(value, default=other, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"the inputs cannot be sent as JSON: {error}") from None
