"""The pytest plugin: the fixture `inferstore_service`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import Service


@pytest.fixture(scope="session")
def _inferstore_process() -> Iterator[Service]:
    with Service.start() as service:
        yield service


@pytest.fixture
def inferstore_service(_inferstore_process: Service) -> Service:
    """An `inferstore.testing.Service`: one process for all tests, reset before each of them."""
    _inferstore_process.reset()
    return _inferstore_process
