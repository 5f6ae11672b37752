"""Tasks: creating one at most once, the search of the history for a lost one, and waiting for its end.

Every create carries an idempotency key. Where the service announces that it knows such keys, a create whose response
was lost is sent again with its key. Elsewhere it is looked for in the task history: the model, the inputs and the time
must match, and the task must not belong to another create of this client. Exactly one match is adopted.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from time import monotonic
from typing import Any, cast

from ._errors import (
    ApiError,
    CallError,
    DeadlineReached,
    DecodeError,
    InvalidArgument,
    OutcomeUnknown,
    TaskCanceled,
    TaskFailed,
)
from ._inputs import segment
from ._transport import INITIAL_BACKOFF, MAX_TASKS, Core, Deadline, Flow, Sleep, call, plain
from ._types import Outcome, Schedule, as_object

PAGE = 100
MAX_PAGES, MAX_SEARCHES, MAX_INPUT_READS = 12, 3, 300
MIN_DOUBT = 60.0
ADOPT_TOLERANCE = timedelta(seconds=5)
LAST_READ = 0.5
MAX_KEY = 255


def create(
    core: Core, model: str, inputs: Mapping[str, Any], key: str, has_uploads: bool, deadline: Deadline
) -> Flow[tuple[str, bool]]:
    """Creates the task, or finds the one that a lost create became. Returns its identifier, and whether it was found."""
    if not 0 < len(key) <= MAX_KEY or any(not "!" <= character <= "~" for character in key):
        raise InvalidArgument(f"key: expected 1 to {MAX_KEY} visible characters of ASCII, without spaces")
    identity = (model, fingerprint(inputs))
    with core.lock:
        now = monotonic()
        core.doubts = {other: since for other, since in core.doubts.items() if now - since < MIN_DOUBT}
        core.open_creates[identity] = core.open_creates.get(identity, 0) + 1
    is_decided = False
    try:
        created = yield from _create(core, identity, inputs, key, has_uploads, deadline)
        is_decided = True
        return created
    except CallError as error:
        is_decided = not error.in_doubt
        raise
    finally:
        # A create of unknown outcome may still add its task to the history.
        with core.lock:
            left = core.open_creates.pop(identity) - 1
            if left:
                core.open_creates[identity] = left
            if not is_decided:
                core.doubts[identity] = monotonic()


def _create(
    core: Core, identity: tuple[str, str], inputs: Mapping[str, Any], key: str, has_uploads: bool, deadline: Deadline
) -> Flow[tuple[str, bool]]:
    path = f"/api-key/model/{segment('model', identity[0])}/task"

    def send() -> Flow[str]:
        data = yield from call(
            core, "createTask", "POST", path, json_body=inputs, deadline=deadline, repeatable=False, key=key
        )
        task = as_object(data).get("data")
        if not isinstance(task, str) or not task.strip():
            problem = "createTask: the response names no task"
            raise DecodeError("createTask", problem, "look for the task in the history", status=200, in_doubt=True)
        core.claim(task)
        return task

    sent_at, shown_time = monotonic(), core.service_time()
    try:
        return (yield from send()), False
    except CallError as error:
        if not error.in_doubt:
            raise
        lost = error
    if core.knows_keys:
        raise OutcomeUnknown(lost, [], "not read") from lost

    def since(now: datetime) -> datetime:
        counted = now - timedelta(seconds=monotonic() - sent_at)
        return min(shown_time, counted) if shown_time else counted

    matches: list[str] = []
    history = "unreadable"
    for number in range(1, MAX_SEARCHES + 1):
        # Only an upload proves whose task it is when a clock of the service is wrong.
        reach = timedelta(days=1) if number == MAX_SEARCHES and has_uploads else timedelta(minutes=1)
        earlier: list[str] = []
        try:
            earlier, matches, history = yield from search(core, identity, since, reach, deadline)
        except CallError:
            history = "unreadable"
        found = earlier + matches if has_uploads else matches
        only = found[0] if len(found) == 1 and (has_uploads or history == "complete") else None
        if core.knows_keys and not (has_uploads and only):
            # A response of the search announced keys: the create can be sent again.
            try:
                return (yield from send()), False
            except CallError as error:
                # A refusal says nothing about the first create, which may still be on its way.
                raise OutcomeUnknown(error if error.in_doubt else lost, [], "not read") from error
        if only and not is_ambiguous(core, identity) and core.claim(only):
            return only, True
        matches = earlier + matches
        pause = INITIAL_BACKOFF * number
        if number == MAX_SEARCHES or (history == "complete" and len(found) > 1) or not deadline.allows(pause):
            break
        yield Sleep(pause)
    raise OutcomeUnknown(lost, matches, history) from lost


def is_ambiguous(core: Core, identity: tuple[str, str]) -> bool:
    """Returns whether a task in the history may be that of another create of this client with the same inputs."""
    with core.lock:
        in_doubt = monotonic() - core.doubts.get(identity, float("-inf")) < MIN_DOUBT
        return core.open_creates.get(identity, 0) > 1 or in_doubt


def search(
    core: Core, identity: tuple[str, str], since: Any, reach: timedelta, deadline: Deadline
) -> Flow[tuple[list[str], list[str], str]]:
    """Searches the history from its end backwards. Returns the matching tasks from before the create, those since, and
    how much was read."""

    def page(offset: int) -> Flow[tuple[list[dict[str, Any]], int]]:
        query = {"limit": PAGE, "offset": offset}
        data = as_object(
            (yield from call(core, "listTasks", "GET", "/api-key/task/histories", query=query, deadline=deadline))
        )
        total = data.get("total")
        records = [record for record in data.get("records") or [] if isinstance(as_object(record).get("task_id"), str)]
        return records, total if isinstance(total, int) else 0

    first, total = yield from page(0)
    created = since(core.service_time() or datetime.now(timezone.utc))
    earliest, adoptable = created - reach, created - ADOPT_TOLERANCE
    start = max(total - PAGE, 0)
    records = first if start == 0 else (yield from page(start))[0]
    pages = 1 + (start > 0)
    last = len(records)
    # The total may be older than the records: the history ends at a page that is not full.
    while last == PAGE and pages < MAX_PAGES:
        more, _ = yield from page(start + len(records))
        pages, last = pages + 1, len(more)
        records = records + more
    is_whole = last < PAGE and start + len(records) >= total
    while start > 0 and not (records and is_before(records[0], earliest)):
        begin = max(start - PAGE, 0)
        if begin > 0 and pages == MAX_PAGES:
            is_whole = False
            break
        before = (first if begin == 0 else (yield from page(begin))[0])[: start - begin]
        pages += begin > 0
        is_whole = is_whole and len(before) == start - begin
        records, start = before + records, begin
    candidates = {
        record["task_id"]: record
        for record in records
        if record.get("model_id") in (None, identity[0])
        and not is_before(record, earliest)
        and record["task_id"] not in core.known
    }
    if sum(task not in core.task_inputs for task in candidates) > MAX_INPUT_READS:
        return [], [], "partial"
    earlier: list[str] = []
    matches: list[str] = []
    for task, record in candidates.items():
        if task not in core.task_inputs:
            try:
                detail = as_object((yield from read(core, task, deadline)))
            except CallError:
                is_whole = False
                continue
            if not isinstance(detail.get("input_data"), dict):
                is_whole = False
                continue
            with core.lock:
                core.task_inputs[task] = fingerprint(detail["input_data"])
                if len(core.task_inputs) > MAX_TASKS:
                    core.task_inputs.popitem(last=False)
        if core.task_inputs.get(task) == identity[1]:
            (earlier if is_before(record, adoptable) else matches).append(task)
    return earlier, matches, "complete" if is_whole else "partial"


def fingerprint(value: Any) -> str:
    """Returns a text that is equal for JSON that means the same: numbers by value, members in any order, without null."""

    def canonical(value: Any) -> Any:
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value
        if isinstance(value, (int, float, Decimal)):
            return ["number", str((Decimal(repr(value)) if isinstance(value, float) else Decimal(value)).normalize())]
        if isinstance(value, Mapping):
            return {name: canonical(member) for name, member in value.items() if member is not None}
        return [canonical(item) for item in value]

    return json.dumps(canonical(value), sort_keys=True)


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


def read(core: Core, task: str, deadline: Deadline) -> Flow[Any]:
    return call(core, "getTask", "GET", f"/api-key/task/{segment('task', task)}/detail", deadline=deadline)


def wait(
    core: Core, task: str, deadline: Deadline, *, model: str | None = None, cancel: bool = False, is_new: bool = False
) -> Flow[Outcome[Any]]:
    """Reads the task until it has ended. Failures that pass do not end the wait."""
    segment("task", task)
    schedule = Schedule(core.durations.get(model or "", []), random.random())
    started = monotonic()
    status: str | None = None
    cause: CallError | None = None
    delay = schedule.delay(0.0) if is_new else 0.0
    # Before the deadline there is time for a cancel and its response.
    end = (
        Deadline(deadline.left - min(deadline.left / 5, 2.0))
        if cancel and deadline.seconds < float("inf")
        else deadline
    )
    while True:
        if not end.allows(delay):
            # One more read before the end, unless this was it.
            delay = max(end.left - LAST_READ, 0.0) if end.left > LAST_READ else end.left
        yield Sleep(delay)
        if end.is_over:
            break
        try:
            detail = as_object((yield from read(core, task, end)))
        except CallError as error:
            if (
                isinstance(error, ApiError)
                and error.is_permanent
                or isinstance(error, DecodeError)
                and error.is_too_large
            ):
                error.task = task
                raise
            cause = error
            delay = max(schedule.delay(monotonic() - started), min(error.retry_after or 0.0, 600.0))
            continue
        cause = None
        status = detail["status"] if isinstance(detail.get("status"), str) else status
        if status in ("success", "failed", "canceled"):
            return ended(core, task, status, detail, model)
        delay = schedule.delay(monotonic() - started)
    disposition = "the task has not ended" if status else "the state of the task is unknown"
    if cancel and status in (None, "in_queue"):
        disposition = "the task was canceled while it was queued"
        try:
            yield from call(
                core,
                "cancelTask",
                "DELETE",
                f"/api-key/task/{segment('task', task)}/cancel",
                deadline=deadline,
                repeatable=False,
            )
        except CallError as error:
            disposition = "the task has not ended" if not error.in_doubt else "whether the task was canceled is unknown"
            cause = error
    raise DeadlineReached(disposition, task) from cause


def ended(core: Core, task: str, status: str, detail: dict[str, Any], model: str | None) -> Outcome[Any]:
    result = as_object(detail.get("result"))
    if status == "failed":
        message = detail.get("message")
        message = core.redactor.foreign(message) if isinstance(message, str) else ""
        error = result.get("error")
        detail_text = core.redactor.foreign(json.dumps(plain(error))) if error is not None else None
        raise TaskFailed(task, message, detail_text, as_object(error).get("kind"))
    if status == "canceled":
        raise TaskCanceled(task)
    created, updated = timestamp(detail, "created_at"), timestamp(detail, "updated_at")
    if model and created and updated:
        with core.lock:
            core.durations[model] = [*core.durations.get(model, [])[-19:], (updated - created).total_seconds()]
    cost = detail.get("cost")
    output = plain(result.get("result"))
    return Outcome(task, output, cost if isinstance(cost, Decimal) else None, [], False, cast(Any, detail))
