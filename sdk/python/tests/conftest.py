"""The local service, one for all tests."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from inferstore import Client, testing

MODEL = "color-harmonization"
INPUTS = {"input_image": "https://files.example/a.png", "template": "v_shape", "angle": 30}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OUTPUT = {"output_image": "https://files.example/o.png", "output_hue": "https://files.example/h.png"}


class Service(testing.Service):
    """A service whose tasks are counted by their pictures."""

    def model(self, model: str = MODEL, **script: Any) -> None:
        self.script(model, **script)

    def tasks(self) -> dict[str, list[str]]:
        """The tasks by the picture that they were created with, read without faults."""
        self.clear_faults()
        by_picture: dict[str, list[str]] = {}
        with self.client() as client:
            offset = 0
            while records := client.tasks(limit=100, offset=offset).get("records") or []:
                offset += len(records)
                for record in records:
                    inputs = client.task(record["task_id"]).get("input_data") or {}
                    by_picture.setdefault(str(inputs.get("input_image")), []).append(record["task_id"])
        return by_picture


@pytest.fixture(scope="session")
def running() -> Iterator[Service]:
    with Service.start("--balance", "1000") as service:
        yield service


@pytest.fixture
def service(running: Service) -> Service:
    running.reset()
    return running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as client:
        yield client


class WithoutKeys(httpx.HTTPTransport):
    """A service that knows no idempotency keys."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers.pop("idempotency-key", None)
        response = super().handle_request(request)
        response.headers.pop("idempotency-key-retention", None)
        return response


class AsyncWithoutKeys(httpx.AsyncHTTPTransport):
    """A service that knows no idempotency keys."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers.pop("idempotency-key", None)
        response = await super().handle_async_request(request)
        response.headers.pop("idempotency-key-retention", None)
        return response
