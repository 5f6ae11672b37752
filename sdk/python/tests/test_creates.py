"""A task is created at most once, wherever a create is hit: counted in the history of the service.

`INFERSTORE_CREATES` is the number of creates at each of the 31 places, 6 by default.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cable import PLACES, Cable
from conftest import INPUTS, MODEL, PIXEL, AsyncWithoutKeys, Service, WithoutKeys

import inferstore
from inferstore import AsyncClient, ModelId, _tasks, _transport

CREATES = int(os.environ.get("INFERSTORE_CREATES", "6"))
SIDE_BY_SIDE = 10
JSON = {"headers": {"content-type": "application/json"}}
HALF = {**JSON, "body": '{"status":"success","message":"created","data":{"data":"3f'}
PAGE = {"headers": {"content-type": "text/html"}, "body": "<html><h1>a gateway</h1></html>"}
NEVER = 600_000

Faults = list[tuple[str, dict[str, Any], bool | None]]
"""The name, the fault, and whether there is a task; `None`: there may be."""

SERVICE: Faults = [
    ("hung up on", {"effect": "hang_up"}, False),
    ("done, answer lost", {"effect": "lose_response"}, True),
    ("done, answer lost late", {"effect": "lose_response", "delay_ms": 5}, True),
    ("done, answer cut", {"effect": "cut_body", "bytes": 20}, True),
    ("done, half of a JSON", {"effect": "status", "status": 200, "after_commit": True, **HALF}, True),
    ("not done, half of a JSON", {"effect": "status", "status": 200, **HALF}, False),
    ("not done, a 200 that says fail", {"effect": "status", "status": 200, **JSON, "body": '{"status":"fail"}'}, False),
    ("not answered, not done", {"effect": "delay", "delay_ms": NEVER}, False),
    ("not answered, done", {"effect": "delay", "delay_ms": NEVER, "after_commit": True}, True),
]
for _status in (408, 409, 429, 500, 502, 503, 504):
    _more = PAGE if _status in (502, 504) else {"retry_after": 0} if _status == 429 else {}
    _fault = {"effect": "status", "status": _status, **_more}
    SERVICE.append((f"not done, answered with {_status}", _fault, False))
    SERVICE.append((f"done, answered with {_status}", {**_fault, "after_commit": True}, True))
HIDDEN = ("done, answered with 409", "done, answered with 429")
REFUSED = ("not done, a 200 that says fail", "not done, answered with 409", "before connecting", *HIDDEN)
POINTS: Faults = [(place, {}, there) for place, there in PLACES.items()] + SERVICE


def picture(number: int) -> str:
    return f"https://files.example/{number}.png"


async def create(base_url: str, key: str, number: int, name: str, knows_keys: bool) -> str | inferstore.InferstoreError:
    transport = httpx.AsyncHTTPTransport() if knows_keys else AsyncWithoutKeys()
    timeout = 1.0 if name.startswith("not answered") else 30.0
    async with AsyncClient(base_url, key, read_timeout=timeout, http=httpx.AsyncClient(transport=transport)) as client:
        try:
            inputs: Mapping[str, Any] = {**INPUTS, "input_image": picture(number)}
            return await client.create_once(ModelId(MODEL), inputs)
        except inferstore.InferstoreError as error:
            return error


@pytest.mark.parametrize("knows_keys", [True, False], ids=["keys", "history"])
@pytest.mark.parametrize(("name", "fault", "is_there"), POINTS, ids=[name for name, _, _ in POINTS])
def test_no_create_is_done_twice_and_none_is_lost(
    service: Service,
    name: str,
    fault: dict[str, Any],
    is_there: bool | None,
    knows_keys: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if knows_keys:
        # Enough that half of the attempts may fail.
        monkeypatch.setattr(_transport, "MAX_ATTEMPTS", 40)
        monkeypatch.setattr(_transport, "MAX_BACKOFF", 0.1)
    service.model(then="stay_queued")
    if fault:
        share = {"probability": 0.5} if knows_keys else {"times": CREATES}
        service.fault(operation="createTask", **fault, **share)
    service.fault("hang_up", operation="listTasks", times=CREATES // 3)

    async def send() -> list[str | inferstore.InferstoreError]:
        limit = asyncio.Semaphore(SIDE_BY_SIDE)
        port = urlsplit(service.base_url).port or 0
        times = 0 if fault else CREATES

        async def one(number: int) -> str | inferstore.InferstoreError:
            async with limit, Cable(port, name, min(times, 1), number) as cable:
                at = 9 if name == "before connecting" else cable.port
                return await create(f"http://127.0.0.1:{at}/api/v1", service.api_key, number, name, knows_keys)

        return await asyncio.gather(*map(one, range(CREATES)))

    results = asyncio.run(send())
    sent = len(service.requests("createTask"))
    stored = service.tasks()
    for number, result in enumerate(results):
        tasks = stored.get(picture(number), [])
        place = f"{name}: {tasks} {result!r}"
        assert len(tasks) <= 1, f"created twice: {place}"
        if isinstance(result, str):
            assert tasks == [result], place
        elif isinstance(result, inferstore.OutcomeUnknown):
            # Only a task whose response never came may be there without being reported.
            assert is_there is not True or not tasks, place
        else:
            assert not tasks or name in HIDDEN, place
        if knows_keys and name not in REFUSED:
            assert isinstance(result, str), place
    if not knows_keys:
        assert sent <= CREATES + (CREATES if name == "at accept" else 0), f"{name}: sent {sent} times"


def test_a_task_of_this_client_is_not_taken_for_the_lost_one(service: Service) -> None:
    service.model(then="stay_queued")
    with service.client(http=httpx.Client(transport=WithoutKeys())) as client:
        first = client.create_once(ModelId(MODEL), INPUTS)
        service.fault("lose_response", operation="createTask", times=1)
        second = client.create_once(ModelId(MODEL), INPUTS)
        assert first != second
        service.fault("hang_up", operation="createTask", times=1)
        with pytest.raises(inferstore.OutcomeUnknown) as unknown:
            client.create_once(ModelId(MODEL), INPUTS)
        assert (unknown.value.candidates, unknown.value.history) == ([], "complete")
        # It may still appear, so a later lost create adopts nothing.
        service.fault("lose_response", operation="createTask", times=1)
        with pytest.raises(inferstore.OutcomeUnknown) as unknown:
            client.create_once(ModelId(MODEL), INPUTS)
        assert len(unknown.value.candidates) == 1


def test_a_lost_task_is_found_at_the_end_of_a_long_history(service: Service) -> None:
    service.model(then="stay_queued")
    with service.client() as client:
        for number in range(230):
            client.create_once(ModelId(MODEL), {**INPUTS, "angle": number % 90 + 1})
    with service.client(http=httpx.Client(transport=WithoutKeys())) as client:
        service.fault("lose_response", operation="createTask", times=1)
        task = client.create_once(ModelId(MODEL), {**INPUTS, "input_image": picture(7)})
    assert service.tasks()[picture(7)] == [task]


def test_a_run_whose_create_is_lost_costs_one_run(service: Service) -> None:
    service.model(then="succeed", output={"output_image": "https://a.example/", "output_hue": "https://a.example/"})
    with service.client(http=httpx.Client(transport=WithoutKeys())) as client:
        service.fault("lose_response", operation="createTask", times=1)
        outcome = client.run(ModelId(MODEL), {**INPUTS, "input_image": picture(1)}, deadline=60)
        assert outcome.is_adopted and service.tasks()[picture(1)] == [outcome.task]


LOST = {"effect": "lose_response"}
NAMELESS = {"effect": "set_field", "field": "/data/data"}


@pytest.mark.parametrize("fault", [LOST, NAMELESS], ids=["lost", "a 200 without a task"])
def test_a_lost_create_is_sent_again_until_its_deadline(
    service: Service, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transport, "MAX_BACKOFF", 0.01)
    monkeypatch.setattr(_transport, "RETRY_BUDGET", 0)
    service.fault(operation="createTask", times=20, **fault)
    with service.client() as client:
        task = client.create_once(ModelId(MODEL), INPUTS, deadline=60)
    assert len(service.requests("createTask")) == 21
    assert list(service.tasks().values()) == [[task]]


class Suspend(httpx.HTTPTransport):
    """The first create is sent, or not; then the machine sleeps for longer than the service remembers its key."""

    def __init__(self, arrives: bool, sleep: Callable[[], None]) -> None:
        super().__init__()
        self.arrives, self.sleep, self.is_over = arrives, sleep, False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_over or request.method != "POST":
            return super().handle_request(request)
        self.is_over = True
        if self.arrives:
            super().handle_request(request).read()
        self.sleep()
        raise httpx.ReadError("the connection was lost")


@pytest.mark.parametrize("clock", ["steady", "wall"])
@pytest.mark.parametrize("deadline", [None, 1e6])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_create_whose_key_is_forgotten_by_now_is_not_sent_again(
    service: Service, clock: str, deadline: float | None, arrives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.model(then="stay_queued")
    steady, wall, hours = time.monotonic, time.time, 25 * 3600

    def sleep() -> None:
        service.advance(hours)
        if clock == "wall":
            monkeypatch.setattr(time, "time", lambda: wall() + hours)
        else:
            for module in (_transport, _tasks):
                monkeypatch.setattr(module, "monotonic", lambda: steady() + hours)

    with service.client(http=httpx.Client(transport=Suspend(arrives, sleep))) as client:
        if arrives:
            task = client.create_once(ModelId(MODEL), INPUTS, key="invoice-17", deadline=deadline)
            assert list(service.tasks().values()) == [[task]]
        else:
            with pytest.raises(inferstore.OutcomeUnknown, match="shows no matching task") as unknown:
                client.create_once(ModelId(MODEL), INPUTS, key="invoice-17", deadline=deadline)
            assert not unknown.value.is_retryable and "billed too" in unknown.value.hint
            assert unknown.value.key is None
    assert len(service.requests("createTask")) == arrives


def test_an_unknown_outcome_has_the_key_that_finds_the_task(service: Service) -> None:
    service.fault(operation="createTask", **LOST)
    with service.client() as client:
        inputs: Mapping[str, Any] = {**INPUTS, "input_image": inferstore.File(PIXEL, "a.png")}
        for key, deadline in [(None, None), ("invoice-17", None), ("invoice-18", 1)]:
            service.clear_faults()
            service.fault(operation="createTask", **LOST)
            options: Any = {"key": key} if key else {}
            before = len(service.requests("createTask"))
            with pytest.raises(inferstore.OutcomeUnknown) as unknown:
                client.run(ModelId(MODEL), inputs, deadline=deadline, **options)
            sent = len(service.requests("createTask")) - before
            assert sent == 5 if deadline is None else sent > 0
            error = unknown.value
            assert error.is_retryable == (key is not None) and key in (None, error.key)
            assert "error.key" in error.hint and "billed too" not in error.hint
            total = client.tasks()["total"]
            service.clear_faults()
            assert client.run(ModelId(MODEL), inputs, key=error.key).stored_inputs == error.uploads
            assert client.tasks()["total"] == total


def test_without_keys_of_the_service_a_key_makes_no_call_retryable(service: Service) -> None:
    service.fault("hang_up", operation="createTask")
    with service.client(http=httpx.Client(transport=WithoutKeys())) as client:
        with pytest.raises(inferstore.OutcomeUnknown, match="shows no matching task") as unknown:
            client.create_once(ModelId(MODEL), INPUTS, key="invoice-17")
    assert not unknown.value.is_retryable and "billed too" in unknown.value.hint
    # A create with it makes another task there.
    assert unknown.value.key is None


def test_a_call_with_a_known_key_does_not_deny_the_task_of_the_first_one(service: Service) -> None:
    inputs: Mapping[str, Any] = {**INPUTS, "input_image": inferstore.File(PIXEL, "a.png")}
    with service.client() as client:
        client.create_once(ModelId(MODEL), inputs, key="invoice-17")
        service.control("PUT", "/node", {"up": False})
        service.fault("status", operation="createPresignedUpload", status=402)
        refusals: list[tuple[type[inferstore.InferstoreError], dict[str, Any]]] = [
            (inferstore.ApiError, {}),
            (inferstore.CostLimitExceeded, {"max_cost": "0.000001"}),
            (inferstore.ModelOffline, {"require_serving": True}),
            (inferstore.DeadlineReached, {"deadline": 0}),
        ]
        for kind, options in refusals:
            for key in ("invoice-17", None):
                keyed: Any = {"key": key} if key else {}
                with pytest.raises(kind) as refused:
                    client.create_once(ModelId(MODEL), inputs, **options, **keyed)
                text = f"{refused.value} {refused.value.hint} {refused.value.__notes__}"
                assert "no task was created" not in text
                assert (text.count("a task of an earlier call with this key may exist") == 2) == (key is not None)


def test_an_error_names_the_uploads_of_its_call(service: Service) -> None:
    inputs: Mapping[str, Any] = {**INPUTS, "input_image": inferstore.File(PIXEL, "a.png")}
    service.model(then="fail", message="out of memory")
    with service.client() as client:
        with pytest.raises(inferstore.TaskFailed) as failed:
            client.run(ModelId(MODEL), inputs)
        service.fault("status", operation="createTask", status=402)
        with pytest.raises(inferstore.ApiError) as refused:
            client.create_once(ModelId(MODEL), inputs)
        for error in (failed.value, refused.value):
            [url] = error.uploads
            assert client.download_bytes(url) == PIXEL
