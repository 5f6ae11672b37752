"""Transport: every call to the API, its retries, and how failures become errors.

Everything is written once, as coroutines over the few lines that do I/O (`AsyncIo`, `BlockingIo`). The asynchronous client
awaits them. Over `BlockingIo` they never suspend, so that the blocking client runs them in one step.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from email.utils import parsedate_to_datetime
from numbers import Real
from time import monotonic
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, Unpack

import anyio
import httpx

from . import _errors as errors
from ._generated import DECIMALS, AsyncOperations, AsyncRuns, CallOptions
from ._inputs import is_web_url, number
from ._types import Seconds, as_object

T = TypeVar("T")
Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
RETENTION = "idempotency-key-retention"
RETENTION_MARGIN = 3600.0
"""Seconds of the retention that are not relied on: the clocks of the service may differ."""
MAX_RESPONSE = 16 * 1024 * 1024
CONNECT_TIMEOUT = 10.0
MAX_TIMEOUT = 86_400
MAX_ATTEMPTS, INITIAL_BACKOFF, MAX_BACKOFF, MAX_RETRY_AFTER = 5, 0.2, 10.0, 60.0
LAST_ATTEMPT = 0.5
"""Seconds before a deadline at which a lost create is sent, and a task is read, once more."""
RETRY_BUDGET = 100.0
PASSING = (None, 408, 429, 502, 503, 504)
"""Statuses of failures that may pass, such as that of no response."""
MAX_TASKS = 100_000
LATE = "the deadline passed, or the response was not complete in time"
LOOPBACK = r"(.+\.)?localhost|127(\.[0-9]+){3}|::1"
VARIABLES = "HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR"
CHECK_BASE_URL = "check that the base URL leads to the service and ends in its versioned root, such as /api/v1"
HINTS = {
    401: "check the API key, and that the base URL leads to its service",
    402: "top up the balance, or raise the limit that the message names",
    404: "check the identifier, and that the base URL ends in the versioned root, such as /api/v1",
    409: "read the message of the service; the present state does not allow the call",
}


EXCHANGE = ContextVar("EXCHANGE", default=False)
"""Whether a request of this package is sent."""


def _mask_queries(record: logging.LogRecord) -> bool:
    """Masks the queries of this package in the logs of the HTTP library: those of stored files grant access."""
    if EXCHANGE.get():
        record.msg, record.args = re.sub(r"\?\S+", "?" + errors.MASK, record.getMessage()), ()
    return True


for _name in ("httpx", "httpcore.http11", "httpcore.http2"):
    logging.getLogger(_name).addFilter(_mask_queries)


class TooLarge(Exception):
    """The body of a response is larger than the limit."""


@dataclass
class Receiver:
    """Takes the body of a response, up to a size and a time; that of a success where it is to go."""

    until: float
    max_size: int = MAX_RESPONSE
    write: Callable[[bytes], object] | None = None
    body: bytearray = field(default_factory=bytearray, repr=False)
    size: int = 0

    def take(self, response: httpx.Response, chunk: bytes) -> None:
        self.size += len(chunk)
        if monotonic() > self.until:
            raise httpx.ReadTimeout(LATE)
        if self.size <= (self.max_size if response.is_success else MAX_RESPONSE):
            (self.write if self.write and response.is_success else self.body.extend)(chunk)
        elif response.is_success:
            raise TooLarge


@dataclass
class Connections(Generic[Http]):
    """The HTTP client of each process: two processes on one connection would read responses of each other."""

    kind: ClassVar[Callable[..., Any]]
    given: Http | None
    direct: Mapping[str, None] = field(default_factory=dict)
    """Hosts of this machine: no proxy of the environment sees the key on its way there."""
    made: dict[int, Http] = field(default_factory=dict)

    @property
    def http(self) -> Http:
        process = os.getpid()
        try:
            return self.given or self.made.get(process) or self.made.setdefault(process, self.kind(mounts=self.direct))
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            problem = f"the environment holds no usable proxies or certificates: {errors.Redactor(()).reason(error)}"
            raise errors.InvalidArgument(f"{problem}; check {VARIABLES}") from None


class BlockingIo(Connections[httpx.Client]):
    kind = httpx.Client

    async def send(self, request: httpx.Request, receiver: Receiver) -> httpx.Response:
        with closing(self.http.send(request, stream=True, follow_redirects=False)) as response:
            for chunk in response.iter_bytes():
                receiver.take(response, chunk)
        return response

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def work(self, work: Callable[[], T]) -> T:
        return work()


class AsyncIo(Connections[httpx.AsyncClient]):
    kind = httpx.AsyncClient

    async def send(self, request: httpx.Request, receiver: Receiver) -> httpx.Response:
        end: httpx.Response | Exception = httpx.ReadTimeout(LATE)

        async def exchange() -> None:
            nonlocal end
            try:
                async with aclosing(await self.http.send(request, stream=True, follow_redirects=False)) as response:
                    async for chunk in response.aiter_bytes():
                        receiver.take(response, chunk)
                end = response
            except Exception as error:
                end = error

        # httpx loses the connection of a task that asyncio cancels, but not that of one in a group that anyio cancels.
        with anyio.move_on_after(max(receiver.until - monotonic(), 0)):
            async with anyio.create_task_group() as group:
                group.start_soon(exchange)
        if isinstance(end, Exception):
            raise end
        return end

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def work(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work)


Io: TypeAlias = BlockingIo | AsyncIo


@dataclass(eq=False)
class OpenCreate:
    """A create that may still add its task to the history."""

    model: str
    inputs: str
    until: float = float("inf")


class Core:
    """Settings of a client and its memory, shared by its threads."""

    lock = threading.Lock()

    def __init__(
        self, io: Io, base_url: str | None, api_key: str | None, read_timeout: float, allow_insecure_http: bool
    ) -> None:
        base_url = base_url or os.environ.get("INFERSTORE_BASE_URL")
        api_key = api_key or os.environ.get("INFERSTORE_API_KEY")
        if not base_url or not api_key:
            missing = "api_key nor INFERSTORE_API_KEY" if base_url else "base_url nor INFERSTORE_BASE_URL"
            raise errors.InvalidArgument(f"neither {missing} is set")
        if not is_web_url(base_url) or re.search("[?#]", base_url) or httpx.URL(base_url).userinfo:
            expected = "expected a URL such as https://host/api/v1"
            raise errors.InvalidArgument(f"base_url: {errors.shown(base_url)} is not the root of an API; {expected}")
        url = httpx.URL(base_url)
        if url.scheme == "http" and not allow_insecure_http and not re.fullmatch(LOOPBACK, url.host):
            problem = "plain http shows the API key to everyone in between; use https, or allow_insecure_http=True"
            raise errors.InvalidArgument(f"base_url: {errors.shown(base_url)}: {problem}")
        if not 0 < (number(read_timeout) or 0) <= MAX_TIMEOUT:
            problem = f"is no number of seconds; expected more than 0 and at most {MAX_TIMEOUT}"
            raise errors.InvalidArgument(f"read_timeout: {read_timeout!r} {problem}")
        if any(not "!" <= character <= "~" for character in api_key):
            raise errors.InvalidArgument("api_key: it has characters that a header cannot carry")
        local = ("*localhost", "127.0.0.1", "[::1]", *([url.host] if url.host.startswith("127.") else []))
        self.io, io.direct = io, dict.fromkeys(f"all://{host}" for host in local)
        self.base_url, self.read_timeout = base_url.rstrip("/"), read_timeout
        self.redactor, key = errors.Redactor([api_key]), api_key
        # No `repr` shows what a function returns.
        self.key: Callable[[], str] = lambda: key
        self.retention = 0.0
        """Seconds for which the service remembers an idempotency key, as it announces; 0 if it knows none."""
        self.budgets = {False: float(RETRY_BUDGET), True: float(RETRY_BUDGET)}
        """Retries that are left: those of calls, and those of waits, which last as long as an outage."""
        self.date: tuple[datetime, float] | None = None
        self.known: dict[str, None] = {}
        """Tasks of this client: a lost create must not adopt one of them."""
        self.task_inputs: dict[str, str] = {}
        self.creates: list[OpenCreate] = []
        self.declarations: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def note(self, response: httpx.Response, is_wait: bool) -> None:
        """Notes what a response announces: the clock of the service, and for how long it remembers idempotency keys."""
        date, is_success = timestamp(parsedate_to_datetime, response.headers.get("date")), response.is_success
        announced = response.headers.get(RETENTION, "0" if is_success else None)
        with self.lock:
            self.date = (date, monotonic()) if date and is_success else self.date
            self.retention = self.retention if announced is None else float(announced.isdecimal() and announced)
            self.budgets[is_wait] = min(self.budgets[is_wait] + 0.5 * is_success, RETRY_BUDGET)

    def remembers(self, sent_at: tuple[float, float]) -> bool:
        """Returns whether the service remembers a key of that time, by both clocks: a suspend may stop the steady one."""
        return max(monotonic() - sent_at[0], time.time() - sent_at[1]) < self.retention - RETENTION_MARGIN

    def may_retry(self, is_wait: bool) -> bool:
        """Takes a retry from a budget of the client; `False` if there is none."""
        with self.lock:
            is_left = self.budgets[is_wait] >= 1
            self.budgets[is_wait] -= is_left
            return is_left

    def service_time(self) -> datetime | None:
        """Returns the time by the clock of the service, if a response has shown it."""
        return self.date and self.date[0] + timedelta(seconds=monotonic() - self.date[1])

    def remember(self, memory: dict[str, T], task: str, value: T) -> bool:
        """Remembers something of a task; `False` if it was known."""
        with self.lock:
            is_new = task not in memory
            memory[task] = value
            if len(memory) > MAX_TASKS:
                del memory[next(iter(memory))]
            return is_new

    def has_rival(self, create: OpenCreate) -> bool:
        """Returns whether another create with the same inputs may still add its task to the history."""
        same = [other for other in self.creates if (other.model, other.inputs) == (create.model, create.inputs)]
        return any(other is not create and other.until > monotonic() for other in same)

    def claim(self, task: str) -> bool:
        """Remembers a task of this client; `False` if it was known."""
        return self.remember(self.known, task, None)


if hasattr(os, "register_at_fork"):
    # A forked process would wait forever for a thread that it does not have.
    os.register_at_fork(before=Core.lock.acquire, after_in_parent=Core.lock.release, after_in_child=Core.lock.release)


class Api(AsyncOperations, AsyncRuns):
    """The calls of one operation of a client, within its deadline."""

    def __init__(self, core: Core, deadline: Seconds = None, is_wait: bool = False) -> None:
        seconds = deadline.total_seconds() if isinstance(deadline, timedelta) else deadline
        if seconds is not None and not (isinstance(seconds, Real) and seconds >= 0):
            raise errors.InvalidArgument(f"deadline: {deadline!r} is no number of seconds; expected 0 or more")
        self._core, self._end = core, float("inf")
        # More seconds than a `float` holds are no limit.
        with suppress(OverflowError):
            self._end = self._end if seconds is None else monotonic() + float(seconds)
        self._is_wait = is_wait
        self._uploads: list[str] = []

    @property
    def _left(self) -> float:
        """The seconds until the deadline."""
        return max(self._end - monotonic(), 0.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.base_url!r})"

    async def _operation(self, name: str, method: str, path: str, **options: Unpack[CallOptions]) -> Any:
        """Sends a call, retries it as far as it is safe, and returns the `data` of its envelope."""
        core, key, body, sent_at = self._core, options.get("key"), options.get("json_body"), (monotonic(), time.time())
        lost: errors.CallError | None = None
        parameters = {name: str(value) for name, value in options.get("query", {}).items() if value is not None}
        url = httpx.URL(core.base_url + path, params=parameters)
        headers = {"accept": "application/json", "user-agent": "inferstore-python"}
        headers |= {"content-type": "application/json"} if body is not None else {}
        headers |= {"idempotency-key": key} if key else {}
        content = None if body is None else encode({name: body[name] for name in body if body[name] is not None})

        async def attempt(number: int) -> Any:
            nonlocal lost
            if lost and key is not None and not core.remembers(sent_at):
                # It would make a second task.
                lost.is_retryable = False
                raise lost
            request = httpx.Request(method, url, headers={"x-api-key": core.key(), **headers}, content=content)
            try:
                data = await self._attempt(name, request)
                task = as_object(data).get("data")
                if key is not None and not (isinstance(task, str) and task.strip()):
                    problem = f"{name}: the response names no task"
                    raise errors.DecodeError(problem, CHECK_BASE_URL, operation=name, status=200, in_doubt=True)
                return data
            except errors.CallError as error:
                # With a key, whatever leaves a doubt is sent again.
                is_keyed = key is not None and core.remembers(sent_at)
                is_safe = is_keyed or options.get("repeatable", True)
                may_pass = not error.is_too_large if isinstance(error, errors.DecodeError) else error.status in PASSING
                is_unsent = isinstance(error, errors.TransportError) and not error.in_doubt
                error.is_retryable = is_unsent or (is_safe and may_pass) or (is_keyed and error.in_doubt)
                error.attempts, error.in_doubt = number, error.in_doubt or lost is not None
                lost = error if error.in_doubt else None
                if number > 1:
                    error.args = (f"{error} (after {number} attempts)",)
                raise

        return await self._retried(attempt, key is not None)

    async def _retried(self, work: Callable[[int], Awaitable[T]], is_keyed: bool = False) -> T:
        """Repeats work after its retryable failures, with backoff.

        A create with a key that may have made a task is repeated until its deadline, whatever other calls have spent:
        only its key returns the task.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await work(attempt)
            except (errors.CallError, errors.FileError) as error:
                wished = error.retry_after or 0.0
                delay = max(random.random() * min(INITIAL_BACKOFF * 2 ** (attempt - 1), MAX_BACKOFF), wished)
                is_lost = is_keyed and isinstance(error, errors.CallError) and error.in_doubt
                is_last = attempt >= MAX_ATTEMPTS or wished > MAX_RETRY_AFTER
                if is_lost and self._end < float("inf"):
                    delay, is_last = max(min(delay, self._left - LAST_ATTEMPT), wished), False
                is_last = is_last or not 0 <= delay < self._left
                if not error.is_retryable or is_last or not (is_lost or self._core.may_retry(self._is_wait)):
                    raise
            await self._core.io.sleep(delay)

    async def _attempt(self, name: str, request: httpx.Request) -> Any:
        """Sends a request once, and returns the `data` of its envelope."""
        core, known = self._core, {"operation": name}
        check = "check the network and the base URL, then try again"
        if not self._left:
            raise errors.TransportError(f"{name}: the deadline passed before it was sent", check, **known)
        receiver = Receiver(min(monotonic() + 10 * core.read_timeout, self._end))
        try:
            response = await self._exchange(request, receiver, core.read_timeout)
        except TooLarge:
            problem = f"{name}: the response is larger than {MAX_RESPONSE} bytes"
            raise errors.DecodeError(problem, CHECK_BASE_URL, is_too_large=True, in_doubt=True, **known) from None
        except httpx.RequestError as cause:
            unsent = isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
            problem = f"{name} got no response: {core.redactor.reason(cause)}"
            raise errors.TransportError(problem, check, in_doubt=not unsent, **known) from None
        core.note(response, self._is_wait)
        return self._open(name, response, receiver.body)

    async def _exchange(self, request: httpx.Request, receiver: Receiver, timeout: float) -> httpx.Response:
        """Sends a request once. The timeout limits each pause between two reads."""
        timeout = min(timeout, self._left)
        limits = httpx.Timeout(timeout, connect=min(timeout, CONNECT_TIMEOUT))
        request.extensions["timeout"] = limits.as_dict()
        token = EXCHANGE.set(True)
        try:
            return await self._core.io.send(request, receiver)
        finally:
            EXCHANGE.reset(token)

    def _open(self, name: str, response: httpx.Response, body: bytearray) -> Any:
        """Returns the `data` of a success; raises the error of anything else."""
        foreign, status = self._core.redactor.foreign, response.status_code
        try:
            envelope = as_object(json.loads(body, parse_float=Decimal, object_hook=exact))
        except (ValueError, RecursionError):
            envelope = {}
        if response.is_success and envelope.get("status") == "success":
            return envelope.get("data")
        excerpt = foreign(body.decode(errors="replace"), 200)
        if response.is_success and not isinstance(envelope.get("status"), str):
            problem = f"{name}: the response with {status} is none of this service: {excerpt}"
            raise errors.DecodeError(problem, CHECK_BASE_URL, operation=name, status=status, in_doubt=True)
        said = envelope.get("message")
        message = foreign(said) if isinstance(said, str) else None
        reason = message or excerpt
        is_transient = status >= 500 or status in (408, 429)
        later = "try again later; where the call changes something, check first whether it had its effect"
        wrong = HINTS.get(status, "fix what the service names, or the arguments; the same call fails again")
        if response.next_request:
            urls = response.url, response.next_request.url
            here, there = (str(url.copy_with(userinfo=b"", query=None, fragment=None)) for url in urls)
            call = here.removeprefix(self._core.base_url)
            reason = f"the base URL redirects to {foreign(there.removesuffix(call), 200)}"
            wrong = "use the address that the message names as the base URL, if it is that of the service"
        raise errors.ApiError(
            f"{name} failed" + ("" if response.is_success else f" with {status}") + (f": {reason}" if reason else ""),
            later if is_transient else wrong,
            operation=name,
            status=status,
            service_message=message,
            request_id=foreign(response.headers.get("x-request-id", ""), 200) or None,
            retry_after=retry_after(response.headers),
            in_doubt=is_transient and status != 429,
        )

    @contextmanager
    def _bounded(self, disposition: str) -> Iterator[None]:
        """Reports the failure of work that its deadline has ended as that of the deadline."""
        try:
            yield
        except (errors.CallError, errors.FileError) as error:
            if self._left or (isinstance(error, errors.CallError) and error.is_permanent):
                raise
            raise errors.DeadlineReached(disposition) from error


def retry_after(headers: httpx.Headers) -> float | None:
    """Returns the delay that a response asks for. A date is compared with the `Date` of the same response."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    date = timestamp(parsedate_to_datetime, value)
    now = timestamp(parsedate_to_datetime, headers.get("date")) or datetime.now(timezone.utc)
    return max((date - now).total_seconds(), 0.0) if date else None


def timestamp(parse: Callable[[str], datetime], text: object) -> datetime | None:
    try:
        date = parse(str(text))
    except (ValueError, TypeError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=timezone.utc)


def exact(members: dict[str, Any]) -> dict[str, Any]:
    """Makes decimals of the members of JSON that are exact."""
    whole = {name: Decimal(members[name]) for name in DECIMALS & members.keys() if type(members[name]) is int}
    return members | whole


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
        exact = number(value)
        if isinstance(exact, Decimal) and exact.is_finite():
            return float(exact) if Decimal(repr(float(exact))) == exact else format(exact, "f")
        if isinstance(exact, (int, float)):
            return exact
        raise TypeError(f"a value of type {type(value).__name__} has no form there")

    try:
        return json.dumps(value, default=other, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.InvalidArgument(f"the inputs cannot be sent as JSON: {error}") from None
