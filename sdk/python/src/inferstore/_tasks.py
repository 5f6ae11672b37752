"""Tasks: creating one at most once, the search of the history for a lost one, waiting for its end, and whole runs.

Every create carries an idempotency key. While the service certainly remembers the key, as it announces, a create whose
response was lost is sent again until its deadline. Otherwise it is looked for in the task history: the model, the
inputs and the time must match, and the task must not belong to another create of this client. Exactly one match is
adopted.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Any, cast

from . import _errors as errors
from ._files import Source, store
from ._inputs import check, is_file, number, numeric, segment
from ._transport import INITIAL_BACKOFF, LAST_ATTEMPT, Api, Core, OpenCreate, encode, plain, timestamp
from ._types import Amount, Outcome, Seconds, as_object

DECLARATION_TTL = 300.0
PAGE = 100
MAX_PAGES, MAX_SEARCHES, MAX_INPUT_READS = 12, 3, 300
MIN_DOUBT = 60.0
ADOPT_TOLERANCE = timedelta(seconds=5)
EARLY_READS = (0.1, 0.25, 0.5, 1.0)
NO_TASK = "this call created no task"

Record = dict[str, Any]


async def create(api: Api, model: str, inputs: Mapping[str, Any], key: str) -> tuple[str, bool]:
    """Creates the task, or finds the one that a lost create became. Returns its identifier, and whether it was found."""
    core, this = api._core, OpenCreate(model, fingerprint(inputs))
    with core.lock:
        core.creates = [other for other in core.creates if other.until > monotonic()] + [this]
    sent_at, shown_time = (monotonic(), time.time()), core.service_time()

    def created_at() -> datetime:
        counted = (core.service_time() or datetime.now(timezone.utc)) - timedelta(seconds=monotonic() - sent_at[0])
        return min(shown_time or counted, counted)

    try:
        path = f"/api-key/model/{segment('model', model)}/task"
        data = await api._operation("createTask", "POST", path, json_body=inputs, repeatable=False, key=key)
        task = str(data["data"])
        core.claim(task)
        this.until = 0.0
        return task, False
    except errors.CallError as lost:
        if not lost.in_doubt:
            this.until = 0.0
            raise
        if core.remembers(sent_at):
            raise errors.OutcomeUnknown(lost, [], "not read", key) from lost
        task = await find(api, this, created_at, lost)
        this.until = 0.0
        return task, True
    finally:
        # The task of a create of unknown outcome may still appear in the history.
        this.until = min(this.until, monotonic() + MIN_DOUBT)


async def find(api: Api, this: OpenCreate, created_at: Callable[[], datetime], lost: errors.CallError) -> str:
    """Finds the task of a lost create in the history."""
    matches: list[str] = []
    history, has_uploads = "unreadable", bool(api._uploads)
    reach = timedelta(minutes=1) if has_uploads else ADOPT_TOLERANCE
    for attempt in range(1, MAX_SEARCHES + 1):
        if attempt == MAX_SEARCHES and has_uploads:
            # Only an upload proves whose task it is when a clock of the service is wrong.
            reach = timedelta(days=1)
        history = "unreadable"
        with suppress(errors.CallError):
            matches, history = await search(api, this, created_at, reach)
        is_proof = len(matches) == 1 and (has_uploads or history == "complete")
        if is_proof and not api._core.has_rival(this) and api._core.claim(matches[0]):
            return matches[0]
        is_hopeless, pause = history == "complete" and len(matches) > 1, INITIAL_BACKOFF * attempt
        if attempt == MAX_SEARCHES or is_hopeless or pause >= api._left:
            break
        await api._core.io.sleep(pause)
    raise errors.OutcomeUnknown(lost, matches, history) from lost


async def search(
    api: Api, this: OpenCreate, created_at: Callable[[], datetime], reach: timedelta
) -> tuple[list[str], str]:
    """Searches the history from its end backwards. Returns the matching tasks, and how much was read."""
    core, pages = api._core, 1
    data = as_object(await api.tasks(limit=1))
    total = data["total"] if isinstance(data.get("total"), int) else 0
    earliest = created_at() - reach
    records: list[Record] = []
    is_whole = True
    # The last page reaches beyond the total, which may be older than the records.
    end = max(total + PAGE // 2, PAGE)

    def is_before(record: Record) -> bool:
        created = timestamp(datetime.fromisoformat, record.get("created_at"))
        # A record without a readable time may match.
        return created is not None and created < earliest

    def reaches_back() -> bool:
        return not end or (bool(records) and is_before(records[0]))

    while not reaches_back() and pages < MAX_PAGES:
        limit, pages = min(end, PAGE), pages + 1
        found = as_object(await api.tasks(limit=limit, offset=end - limit)).get("records") or []
        page = [record for record in found if isinstance(as_object(record).get("task_id"), str)]
        # Nothing is missing when a page is full, and the last one has room for more.
        is_full = len(page) < limit and end - limit + len(page) >= total if end > total else len(page) == limit
        is_whole = is_whole and is_full
        records, end = page + records, end - limit
    recent = {
        record["task_id"]: None
        for record in records
        if record.get("model_id") in (None, this.model) and not is_before(record)
    }
    candidates = [task for task in recent if task not in core.known]
    unread = [task for task in candidates if task not in core.task_inputs]
    for task in unread if len(unread) <= MAX_INPUT_READS else ():
        with suppress(errors.CallError):
            inputs = as_object(await api.task(task)).get("input_data")
            if isinstance(inputs, dict):
                core.remember(core.task_inputs, task, fingerprint(inputs))
    is_whole = is_whole and reaches_back() and all(task in core.task_inputs for task in candidates)
    matches = [task for task in candidates if core.task_inputs.get(task) == this.inputs]
    return matches, "complete" if is_whole else "partial"


def fingerprint(value: Any) -> str:
    """Returns a text that is equal for JSON that means the same: numbers by value, members in any order, without null."""
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)}:{fingerprint(value[name])}" for name in value if value[name] is not None)
        return "{" + ",".join(sorted(members)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(fingerprint, value)) + "]"
    exact = number(value)
    if exact is not None:
        return str(Decimal(str(exact)).normalize())
    return json.dumps(value)


def poll_delay(waited: float, jitter: float) -> float:
    """Returns the delay before the next read: four early reads, then the intervals that the service suggests."""
    early = [read * jitter - waited for read in EARLY_READS if read * jitter > waited]
    if early:
        return max(early[0], 0.01)
    return min(max(waited * 0.08, 10), 30) if waited >= 60 else min(max(waited * 0.45, 2), 5)


async def wait(api: Api, /, task: str, *, deadline: Seconds = None, cancel_at_deadline: bool = False) -> Outcome[Any]:
    """Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded."""
    return await wait_for(Api(api._core, deadline), task, cancel_at_deadline)


async def wait_for(api: Api, task: str, cancel: bool, is_new: bool = False) -> Outcome[Any]:
    """Reads the task until it has ended."""
    core, jitter, started = api._core, 1 + 0.2 * random.random(), monotonic()
    status: str | None = None
    cause: errors.CallError | None = None

    async def read(caller: Api) -> Outcome[Any] | None:
        """Reads the status. Returns the outcome of a success; raises a failure."""
        nonlocal status
        status = None
        detail = as_object(await caller.task(task))
        status = detail["status"] if isinstance(detail.get("status"), str) else None
        return ended(core, task, status, detail) if status in ("success", "failed", "canceled") else None

    # Before the deadline there is time for a cancel and its response.
    reserve = min(api._left / 5, 2.0) if cancel else 0.0
    reader = Api(core, max(api._left - reserve, 0.0), is_wait=True)
    delay = poll_delay(0.0, jitter) if is_new else 0.0
    while True:
        if delay >= reader._left:
            # One more read before the end, unless this was it.
            delay = reader._left - LAST_ATTEMPT if reader._left > LAST_ATTEMPT else reader._left
        await core.io.sleep(delay)
        if not reader._left:
            break
        cause, wished = None, 0.0
        try:
            if outcome := await read(reader):
                return outcome
        except errors.CallError as error:
            if error.is_permanent or (isinstance(error, errors.DecodeError) and error.is_too_large):
                error.task = task
                raise
            cause, wished = error, min(error.retry_after or 0.0, 600.0)
        delay = max(poll_delay(monotonic() - started, jitter), wished)
    disposition = None
    if cancel and status in (None, "in_queue"):
        try:
            await api.cancel(task)
            disposition = "the task was canceled while it was queued"
        except errors.CallError as error:
            cause = error
            if error.in_doubt:
                disposition = "whether the task was canceled is unknown"
            else:
                # The task is computing, or it has ended.
                with suppress(errors.CallError):
                    if outcome := await read(api):
                        return outcome
    disposition = disposition or ("the task has not ended" if status else "the state of the task is unknown")
    raise errors.DeadlineReached(disposition, task) from cause


def ended(core: Core, task: str, status: str, detail: dict[str, Any]) -> Outcome[Any]:
    result, message = as_object(detail.get("result")), detail.get("message")
    if status == "failed":
        error = result.get("error")
        text = core.redactor.foreign(json.dumps(plain(error))) if error is not None else None
        said = core.redactor.foreign(message) if isinstance(message, str) else ""
        raise errors.TaskFailed(task, said, text, as_object(error).get("kind"))
    if status == "canceled":
        raise errors.TaskCanceled(task)
    cost = detail["cost"] if isinstance(detail.get("cost"), Decimal) else None
    return Outcome(task, plain(result.get("result")), cost, [], False, cast(Any, detail))


async def start(
    api: Api,
    model: str,
    inputs: Mapping[str, Any],
    key: str | None = None,
    max_cost: Amount | None = None,
    require_serving: bool = False,
    folder: str = "samples",
) -> tuple[str, bool]:
    """Creates the task at most once. Returns its identifier, and whether it was found in the history."""
    key, core = secrets.token_hex(16) if key is None else key, api._core
    if not isinstance(key, str) or not re.fullmatch("[!-~]{1,255}", key):
        raise errors.InvalidArgument("key: expected 1 to 255 visible characters of ASCII, without spaces")
    limit = None if isinstance(number(max_cost), float) else numeric(max_cost)
    if max_cost is not None and (limit is None or limit < 0):
        expected = 'expected a Decimal or a text such as "0.10"'
        raise errors.InvalidArgument(f"max_cost: {errors.shown(str(max_cost))} is no amount; {expected}")
    files = [name for name in inputs if is_file(inputs[name])]
    sources = {name: await core.io.work(partial(Source, inputs[name])) for name in files}
    values = await checked(api, model, inputs)
    # Inputs that are no JSON fail before an upload.
    encode({name: value for name, value in values.items() if name not in sources})
    if limit is not None:
        cost = as_object(await api.cost(model)).get("cost")
        if not isinstance(cost, Decimal) or cost > limit:
            raise errors.CostLimitExceeded(cost if isinstance(cost, Decimal) else None, limit)
    if require_serving and as_object(await api.serving(model)).get("serving") is not True:
        raise errors.ModelOffline(model)
    uploads: dict[tuple[bytes, str], str] = {}
    for name, source in sources.items():
        content = source.digest, source.mime
        if content not in uploads:
            # A name that nobody else knows, and the same one for the same key: the inputs are the same then.
            unique = hashlib.blake2b(key.encode() + source.digest, digest_size=16).hexdigest()
            source.name = f"{unique}-{source.name}"
            uploads[content] = (await store(api, source, folder)).download_url
            api._uploads.append(uploads[content])
        values[name] = uploads[content]
    return await create(api, model, values, key)


async def checked(api: Api, model: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the inputs against the declaration, which is read again when the cached one refuses them."""
    read_at, declared = api._core.declarations.get(model, (float("-inf"), {}))
    if monotonic() - read_at < DECLARATION_TTL:
        with suppress(errors.InvalidInputs):
            return check(model, declared, inputs)
    declared = as_object(as_object(await api.declaration(model)).get("input_format"))
    declared = {name: as_object(descriptor) for name, descriptor in declared.items()}
    api._core.declarations[model] = monotonic(), declared
    return check(model, declared, inputs)


@contextmanager
def reported(api: Api, key: str | None) -> Iterator[None]:
    """Adds to an error the uploads of the call, and what the caller's key means for the next one."""
    try:
        yield
    except errors.InferstoreError as error:
        error.uploads = api._uploads
        if key and isinstance(error, errors.OutcomeUnknown):
            error.is_retryable = error.history == "not read"
        elif key and not error.task:
            error.hint += "; a task of an earlier call with this key may exist"
            error.__notes__ = [f"hint: {error.hint}"]
        raise


async def create_once(api: Api, /, model: str, inputs: Mapping[str, Any], **options: Any) -> str:
    api = Api(api._core, options.pop("deadline", None))
    with reported(api, options.get("key")), api._bounded(NO_TASK):
        return (await start(api, model, inputs, **options))[0]


async def run(api: Api, /, model: str, inputs: Mapping[str, Any], **options: Any) -> Outcome[Any]:
    api, cancel = Api(api._core, options.pop("deadline", None)), options.pop("cancel_at_deadline", False)
    with reported(api, options.get("key")):
        with api._bounded(NO_TASK):
            task, is_adopted = await start(api, model, inputs, **options)
        # An adopted task without an upload of this run may be that of another program.
        outcome = await wait_for(api, task, cancel and (bool(api._uploads) or not is_adopted), is_new=True)
    return replace(outcome, stored_inputs=api._uploads, is_adopted=is_adopted)
