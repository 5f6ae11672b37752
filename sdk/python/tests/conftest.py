"""The local service with its controls, one for all tests. `INFERSTORE_COMMAND` names the command, else that of PATH."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from inferstore import AsyncClient, Client

MODEL = "color-harmonization"
INPUTS = {"input_image": "https://files.example/a.png", "template": "v_shape", "angle": 30}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OUTPUT = {"output_image": "https://files.example/o.png", "output_hue": "https://files.example/h.png"}


class Service:
    """A running service, its faults and its journal."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.base_url: str = ready["base_url"]
        self.api_key: str = ready["api_key"]
        self._controls = httpx.Client(
            base_url=ready["controls_url"], headers={"authorization": f"Bearer {ready['controls_token']}"}, timeout=30
        )

    def control(self, method: str, path: str, body: object = None) -> Any:
        response = self._controls.request(method, path, json=body)
        assert response.is_success, response.text
        return response.json().get("data")

    def reset(self) -> None:
        self.control("POST", "/reset")

    def fault(self, operation: str, effect: str, **fields: object) -> None:
        self.control("POST", "/faults", {"operation": operation, "effect": effect, **fields})

    def model(self, model: str = MODEL, **script: object) -> None:
        self.control("PUT", f"/models/{model}", script)

    def requests(self, operation: str) -> list[dict[str, Any]]:
        return self.control("GET", f"/journal?operation={operation}")

    def client(self, **options: Any) -> Client:
        return Client(self.base_url, self.api_key, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(self.base_url, self.api_key, **options)

    def tasks(self) -> dict[str, list[str]]:
        """The tasks by the picture that they were created with, read without faults."""
        self.control("DELETE", "/faults")
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
    command = os.environ.get("INFERSTORE_COMMAND", "inferstore")
    arguments = "serve --ephemeral --port 0 --storage-port 0 --controls-port 0 --ready-json --balance 1000"
    process = subprocess.Popen(
        [command, *arguments.split()], stdout=subprocess.PIPE, text=True, env={**os.environ, "INFERSTORE_LOG": "error"}
    )
    assert process.stdout is not None
    try:
        yield Service(json.loads(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait()


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
