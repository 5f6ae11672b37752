"""A run from its inputs to its outcome."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from ._errors import (
    ApiError,
    CallError,
    CostLimitExceeded,
    DeadlineReached,
    FileError,
    InvalidArgument,
    InvalidInputs,
    ModelOffline,
    shown,
)
from ._files import Source, upload
from ._inputs import check, is_file, segment
from ._tasks import create, wait
from ._transport import Core, Deadline, Flow, Work, call
from ._types import Amount, Outcome, as_object

T = TypeVar("T")
DECLARATION_TTL = 300.0


def bounded(deadline: Deadline, disposition: str, flow: Flow[T]) -> Flow[T]:
    """Reports the failure of work that its deadline has ended as that of the deadline."""
    try:
        return (yield from flow)
    except (CallError, FileError) as error:
        is_refusal = isinstance(error, ApiError) and error.is_permanent
        if deadline.is_over and not is_refusal:
            raise DeadlineReached(disposition) from error
        raise


def start(
    core: Core,
    model: str,
    inputs: Mapping[str, Any],
    deadline: Deadline,
    *,
    key: str | None = None,
    max_cost: Amount | None = None,
    require_serving: bool = False,
    folder: str = "samples",
) -> Flow[tuple[str, bool, list[str]]]:
    """Creates the task at most once. Returns its identifier, whether it was found in the history, and the uploads."""
    key = key or secrets.token_hex(16)
    limit = None if max_cost is None else amount(max_cost)
    sources: dict[str, Source] = {}
    for name, value in inputs.items():
        if is_file(value):
            sources[name] = yield Work(partial(Source, value))
    values = yield from checked(core, model, inputs, deadline)
    model_path = f"/api-key/model/{segment('model', model)}"
    if limit is not None:
        cost = as_object(
            (yield from call(core, "getModelCost", "GET", f"{model_path}/task/cost", deadline=deadline))
        ).get("cost")
        if not isinstance(cost, Decimal) or cost > limit:
            raise CostLimitExceeded(cost if isinstance(cost, Decimal) else None, limit)
    if require_serving:
        serving = yield from call(core, "getModelServing", "GET", f"{model_path}/serving", deadline=deadline)
        if as_object(serving).get("serving") is not True:
            raise ModelOffline(model)
    uploads: dict[tuple[bytes, str], str] = {}
    for name, source in sources.items():
        content = source.digest, source.mime
        if content not in uploads:
            # A name that nobody else knows, and the same one for the same key: the inputs are the same then.
            unique = hashlib.blake2b(key.encode() + source.digest, digest_size=16).hexdigest()
            source.name = f"{unique}-{source.name}"
            uploads[content] = (yield from upload(core, source, folder, None, deadline)).download_url
        values[name] = uploads[content]
    try:
        task, is_adopted = yield from create(core, model, values, key, bool(uploads), deadline)
    except ApiError as error:
        if error.is_permanent:
            core.declarations.pop(model, None)
        raise
    return task, is_adopted, list(uploads.values())


def checked(core: Core, model: str, inputs: Mapping[str, Any], deadline: Deadline) -> Flow[dict[str, Any]]:
    """Checks the inputs against the declaration, which is read again when the cached one refuses them."""
    read_at, declared = core.declarations.get(model, (float("-inf"), {}))
    if monotonic() - read_at < DECLARATION_TTL:
        try:
            return check(model, declared, inputs)
        except InvalidInputs:
            pass
    path = f"/api-key/model/{segment('model', model)}/versioning"
    version = as_object((yield from call(core, "getModelVersioning", "GET", path, deadline=deadline)))
    declared = as_object(version.get("input_format"))
    core.declarations[model] = monotonic(), declared
    return check(model, declared, inputs)


def run(
    core: Core, model: str, inputs: Mapping[str, Any], *, cancel_at_deadline: bool = False, **options: Any
) -> Flow[Outcome[Any]]:
    deadline = Deadline(options.pop("deadline", None))
    starting = start(core, model, inputs, deadline, **options)
    task, is_adopted, uploads = yield from bounded(deadline, "no task was created", starting)
    # An adopted task without an upload of this run may be that of another program.
    cancel = cancel_at_deadline and (bool(uploads) or not is_adopted)
    outcome = yield from wait(core, task, deadline, model=model, cancel=cancel, is_new=True)
    return replace(outcome, stored_inputs=uploads, is_adopted=is_adopted)


def create_once(core: Core, model: str, inputs: Mapping[str, Any], **options: Any) -> Flow[str]:
    deadline = Deadline(options.pop("deadline", None))
    starting = start(core, model, inputs, deadline, **options)
    return (yield from bounded(deadline, "no task was created", starting))[0]


def amount(value: Amount) -> Decimal:
    try:
        if isinstance(value, (float, bool)):
            raise InvalidOperation
        limit = Decimal(value)
    except (InvalidOperation, TypeError, ValueError):
        limit = Decimal("NaN")
    if not limit.is_finite() or limit < 0:
        raise InvalidArgument(
            f'max_cost: {shown(str(value))} is no amount; expected a Decimal or a text such as "0.10"'
        )
    return limit
