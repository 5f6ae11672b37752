"""Tasks: creating one at most once, the search of the history for a lost one, waiting for its end, and whole runs.

Every create carries an idempotency key. Where the service announces that it knows such keys, a create whose response
was lost is sent again with its key. Elsewhere it is looked for in the task history: the model, the inputs and the time
must match, and the task must not belong to another create of this client. Exactly one match is adopted.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from time import monotonic
from typing import Any, cast

from . import _errors as errors
from ._files import Source, store
from ._inputs import check, is_file, numeric, segment
from ._transport import INITIAL_BACKOFF, Api, Core, plain
from ._types import Amount, Outcome, Seconds, as_object

DECLARATION_TTL = 300.0
PAGE = 100
MAX_PAGES, MAX_SEARCHES, MAX_INPUT_READS = 12, 3, 300
MIN_DOUBT = 60.0
ADOPT_TOLERANCE = timedelta(seconds=5)
LAST_READ = 0.5
EARLY_READS = (0.1, 0.25, 0.5, 1.0)
MAX_KEY = 255

Identity = tuple[str, str]
Record = dict[str, Any]


@contextmanager
def open_create(core: Core, identity: Identity) -> Iterator[Callable[[], bool]]:
    """Notes a create until its outcome is known, and for a while if it stays unknown: it may still add its task to the
    history. Gives what tells whether another create with the same inputs may do so."""
    this, is_known = object(), False

    def is_ambiguous() -> bool:
        with core.lock:
            core.creates = {other: of for other, of in core.creates.items() if of[1] > monotonic()}
            return any(other is not this and of == identity for other, (of, _) in core.creates.items())

    with core.lock:
        core.creates[this] = identity, float("inf")
    try:
        yield is_ambiguous
        is_known = True
    except errors.CallError as error:
        is_known = not error.in_doubt
        raise
    finally:
        with core.lock:
            del core.creates[this]
            core.creates |= {} if is_known else {this: (identity, monotonic() + MIN_DOUBT)}


async def create(api: Api, model: str, inputs: Mapping[str, Any], key: str, has_uploads: bool) -> tuple[str, bool]:
    """Creates the task, or finds the one that a lost create became. Returns its identifier, and whether it was found."""
    if not 0 < len(key) <= MAX_KEY or any(not "!" <= character <= "~" for character in key):
        raise errors.InvalidArgument(f"key: expected 1 to {MAX_KEY} visible characters of ASCII, without spaces")
    core, identity = api._core, (model, fingerprint(inputs))
    path = f"/api-key/model/{segment('model', model)}/task"

    async def send() -> tuple[str, bool]:
        data = await api._operation("createTask", "POST", path, json_body=inputs, repeatable=False, key=key)
        task = as_object(data).get("data")
        if not isinstance(task, str) or not task.strip():
            known = {"operation": "createTask", "status": 200, "in_doubt": True}
            raise errors.DecodeError(
                "createTask: the response names no task", "look for the task in the history", **known
            )
        core.claim(task)
        return task, False

    with open_create(core, identity) as is_ambiguous:
        sent_at, shown_time = monotonic(), core.service_time()
        try:
            return await send()
        except errors.CallError as error:
            if not error.in_doubt:
                raise
            lost = error
        matches: list[str] = []
        history = "not read" if core.knows_keys else "unreadable"
        for number in range(1, MAX_SEARCHES + 1) if not core.knows_keys else ():
            # Only an upload proves whose task it is when a clock of the service is wrong.
            reach = timedelta(days=1) if number == MAX_SEARCHES and has_uploads else timedelta(minutes=1)
            earlier: list[str] = []
            try:
                earlier, matches, history = await search(api, identity, sent_at, shown_time, reach)
            except errors.CallError:
                history = "unreadable"
            found = earlier + matches if has_uploads else matches
            only = found[0] if len(found) == 1 and (has_uploads or history == "complete") else None
            if core.knows_keys and not (has_uploads and only):
                # A response of the search announced keys: the create can be sent again.
                try:
                    return await send()
                except errors.CallError as error:
                    # A refusal says nothing about the first create, which may still be on its way.
                    raise errors.OutcomeUnknown(error if error.in_doubt else lost, [], "not read") from error
            if only and not is_ambiguous() and core.claim(only):
                return only, True
            matches, pause = earlier + matches, INITIAL_BACKOFF * number
            is_hopeless = history == "complete" and len(found) > 1
            if number == MAX_SEARCHES or is_hopeless or not api._deadline.allows(pause):
                break
            await core.io.sleep(pause)
        raise errors.OutcomeUnknown(lost, matches, history) from lost


async def search(
    api: Api, identity: Identity, sent_at: float, shown_time: datetime | None, reach: timedelta
) -> tuple[list[str], list[str], str]:
    """Searches the history from its end backwards. Returns the matching tasks from before the create, those since, and
    how much was read."""

    async def page(offset: int) -> tuple[list[Record], int]:
        data = as_object(await api.tasks(limit=PAGE, offset=offset))
        records = [record for record in data.get("records") or [] if isinstance(as_object(record).get("task_id"), str)]
        return records, data["total"] if isinstance(data.get("total"), int) else 0

    core = api._core
    first, total = await page(0)
    counted = (core.service_time() or datetime.now(timezone.utc)) - timedelta(seconds=monotonic() - sent_at)
    created = min(shown_time or counted, counted)
    start = max(total - PAGE, 0)
    records = (await page(start))[0] if start else first
    pages, last = 1 + (start > 0), len(records)
    # The total may be older than the records: the history ends at a page that is not full.
    while last == PAGE and pages < MAX_PAGES:
        more = (await page(start + len(records)))[0]
        pages, last, records = pages + 1, len(more), records + more
    is_whole = last < PAGE and start + len(records) >= total
    while start and not (records and is_before(records[0], created - reach)):
        begin = max(start - PAGE, 0)
        if begin and pages == MAX_PAGES:
            is_whole = False
            break
        before = ((await page(begin))[0] if begin else first)[: start - begin]
        pages, is_whole = pages + (begin > 0), is_whole and len(before) == start - begin
        records, start = before + records, begin
    candidates = {
        record["task_id"]: is_before(record, created - ADOPT_TOLERANCE)
        for record in records
        if record.get("model_id") in (None, identity[0]) and not is_before(record, created - reach)
    }
    candidates = {task: is_early for task, is_early in candidates.items() if task not in core.known}
    matches: dict[bool, list[str]] = {True: [], False: []}
    if sum(task not in core.task_inputs for task in candidates) > MAX_INPUT_READS:
        return [], [], "partial"
    for task, is_early in candidates.items():
        inputs = core.task_inputs.get(task)
        if inputs is None:
            try:
                data = as_object(await api.task(task)).get("input_data")
            except errors.CallError:
                data = None
            if not isinstance(data, dict):
                is_whole = False
                continue
            inputs = fingerprint(data)
            core.remember(core.task_inputs, task, inputs)
        if inputs == identity[1]:
            matches[is_early].append(task)
    return matches[True], matches[False], "complete" if is_whole else "partial"


def fingerprint(value: Any) -> str:
    """Returns a text that is equal for JSON that means the same: numbers by value, members in any order, without null."""
    if isinstance(value, Mapping):
        members = (f"{json.dumps(name)}:{fingerprint(value[name])}" for name in value if value[name] is not None)
        return "{" + ",".join(sorted(members)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(fingerprint, value)) + "]"
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(Decimal(repr(value) if isinstance(value, float) else value).normalize())
    return json.dumps(value)


def timestamp(record: Mapping[str, Any], name: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(str(record.get(name)))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def is_before(record: Mapping[str, Any], earliest: datetime) -> bool:
    created = timestamp(record, "created_at")
    # A record without a readable time may match.
    return created is not None and created < earliest


def poll_delay(waited: float, durations: list[float], jitter: float) -> float:
    """Returns the delay before the next read: four early reads, then the intervals that the service suggests. It learns
    from the durations of earlier tasks of the model when the first read is worthwhile."""
    first = longest = between = 0.0
    if len(durations) >= 3:
        ordered = sorted(durations)
        median, longest = ordered[len(ordered) // 2], ordered[-1]
        between = min(max(median / 60, 2), 5) if median < 300 else min(max(median / 60, 10), 30)
        first = max(ordered[0] - between, 0) if longest - ordered[0] > 2 * between else longest
    early = [read * jitter - waited for read in EARLY_READS if read * jitter > waited >= first]
    if early:
        return max(early[0], 0.01)
    if waited < 2 * longest:
        left = first - waited
        return max(left / -(-left // 30), 0.01) if left > 0 else between
    return min(max(waited * 0.08, 10), 30) if waited >= 60 else min(max(waited * 0.45, 2), 5)


async def wait(api: Api, /, task: str, *, deadline: Seconds = None, cancel_at_deadline: bool = False) -> Outcome[Any]:
    """Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded."""
    return await wait_for(Api(api._core, deadline), task, cancel_at_deadline)


async def wait_for(api: Api, task: str, cancel: bool, model: str | None = None) -> Outcome[Any]:
    """Reads the task until it has ended. The model is that of a new task."""
    segment("task", task)
    core, jitter, started = api._core, 1 + 0.2 * random.random(), monotonic()
    status: str | None = None
    cause: errors.CallError | None = None
    # Before the deadline there is time for a cancel and its response.
    reserve = min(api._deadline.left / 5, 2.0) if cancel else 0.0
    reader = Api(core, max(api._deadline.left - reserve, 0.0))
    end = reader._deadline
    delay = 0.0 if model is None else poll_delay(0.0, core.durations.get(model, []), jitter)
    while True:
        if not end.allows(delay):
            # One more read before the end, unless this was it.
            delay = end.left - LAST_READ if end.left > LAST_READ else end.left
        await core.io.sleep(delay)
        if not end.left:
            break
        cause, wished = None, 0.0
        try:
            detail = as_object(await reader.task(task))
        except errors.CallError as error:
            if error.is_permanent or (isinstance(error, errors.DecodeError) and error.is_too_large):
                error.task = task
                raise
            cause, wished = error, min(error.retry_after or 0.0, 600.0)
        else:
            status = detail["status"] if isinstance(detail.get("status"), str) else status
            if status in ("success", "failed", "canceled"):
                return ended(core, task, status, detail, model)
        delay = max(poll_delay(monotonic() - started, core.durations.get(model or "", []), jitter), wished)
    disposition = "the task has not ended" if status else "the state of the task is unknown"
    if cancel and status in (None, "in_queue"):
        disposition = "the task was canceled while it was queued"
        try:
            await api.cancel(task)
        except errors.CallError as error:
            disposition = "whether the task was canceled is unknown" if error.in_doubt else "the task has not ended"
            cause = error
    raise errors.DeadlineReached(disposition, task) from cause


def ended(core: Core, task: str, status: str, detail: dict[str, Any], model: str | None) -> Outcome[Any]:
    result, message = as_object(detail.get("result")), detail.get("message")
    if status == "failed":
        error = result.get("error")
        text = core.redactor.foreign(json.dumps(plain(error))) if error is not None else None
        said = core.redactor.foreign(message) if isinstance(message, str) else ""
        raise errors.TaskFailed(task, said, text, as_object(error).get("kind"))
    if status == "canceled":
        raise errors.TaskCanceled(task)
    created, updated = timestamp(detail, "created_at"), timestamp(detail, "updated_at")
    if model and created and updated:
        with core.lock:
            core.durations[model] = [*core.durations.get(model, [])[-19:], (updated - created).total_seconds()]
    cost = detail.get("cost")
    output = plain(result.get("result"))
    return Outcome(task, output, cost if isinstance(cost, Decimal) else None, [], False, cast(Any, detail))


async def start(
    api: Api,
    model: str,
    inputs: Mapping[str, Any],
    key: str | None = None,
    max_cost: Amount | None = None,
    require_serving: bool = False,
    folder: str = "samples",
) -> tuple[str, bool, list[str]]:
    """Creates the task at most once. Returns its identifier, whether it was found in the history, and the uploads."""
    key, core = key or secrets.token_hex(16), api._core
    limit = None if isinstance(max_cost, float) else numeric(max_cost)
    if max_cost is not None and (limit is None or limit < 0):
        expected = 'expected a Decimal or a text such as "0.10"'
        raise errors.InvalidArgument(f"max_cost: {errors.shown(str(max_cost))} is no amount; {expected}")
    files = {name: value for name, value in inputs.items() if is_file(value)}
    sources = {name: await core.io.work(partial(Source, value)) for name, value in files.items()}
    values = await checked(api, model, inputs)
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
        values[name] = uploads[content]
    try:
        return *await create(api, model, values, key, bool(uploads)), list(uploads.values())
    except errors.CallError as error:
        if error.is_permanent:
            core.declarations.pop(model, None)
        raise


async def checked(api: Api, model: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the inputs against the declaration, which is read again when the cached one refuses them."""
    read_at, declared = api._core.declarations.get(model, (float("-inf"), {}))
    if monotonic() - read_at < DECLARATION_TTL:
        try:
            return check(model, declared, inputs)
        except errors.InvalidInputs:
            pass
    declared = as_object(as_object(await api.declaration(model)).get("input_format"))
    api._core.declarations[model] = monotonic(), declared
    return check(model, declared, inputs)


async def create_once(api: Api, /, model: str, inputs: Mapping[str, Any], **options: Any) -> str:
    api = Api(api._core, options.pop("deadline", None))
    with api._bounded("no task was created"):
        return (await start(api, model, inputs, **options))[0]


async def run(api: Api, /, model: str, inputs: Mapping[str, Any], **options: Any) -> Outcome[Any]:
    api, cancel = Api(api._core, options.pop("deadline", None)), options.pop("cancel_at_deadline", False)
    with api._bounded("no task was created"):
        task, is_adopted, uploads = await start(api, model, inputs, **options)
    # An adopted task without an upload of this run may be that of another program.
    outcome = await wait_for(api, task, cancel and (bool(uploads) or not is_adopted), model)
    return replace(outcome, stored_inputs=uploads, is_adopted=is_adopted)
