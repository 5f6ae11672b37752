"""The blocking and the asynchronous client: every operation is written once, as a coroutine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

import httpx

from . import _files, _tasks
from ._generated import Operations, Runs
from ._transport import Api, AsyncIo, BlockingIo, Core

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    operation: Callable[Concatenate[Api, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Returns the blocking method of a coroutine, which never suspends over blocking I/O."""

    @functools.wraps(operation)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            operation(self._api, *args, **options).send(None)
        except StopIteration as end:
            return cast(T, end.value)
        raise AssertionError("blocking I/O was awaited")

    return method


class Client(Operations, Runs):
    """A client of the service. Threads can share it, and a forked process gets connections of its own.

    `base_url` ends in the versioned root, such as `/api/v1`. Default: `INFERSTORE_BASE_URL` and `INFERSTORE_API_KEY` of
    the environment. Plain http to another machine needs `allow_insecure_http`, because it shows the key. A client in
    `http` is used as it is, with its proxies, also after a fork.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        read_timeout: float = 60.0,
        allow_insecure_http: bool = False,
        http: httpx.Client | None = None,
    ) -> None:
        self._io = BlockingIo(http)
        self._api = Api(Core(self._io, base_url, api_key, read_timeout, allow_insecure_http))

    def __repr__(self) -> str:
        return f"Client({self._api._core.base_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._io.http.close()

    wait = _blocking(_tasks.wait)
    upload = _blocking(_files.upload)
    download = _blocking(_files.download)
    download_bytes = _blocking(_files.download_bytes)
    save = _blocking(_files.save)
    _run = _blocking(_tasks.run)
    _create_once = _blocking(_tasks.create_once)
    _operation = _blocking(Api._operation)


class AsyncClient(Api):
    """A client of the service for asyncio and trio. Tasks can share it. Its settings are those of `Client`."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        read_timeout: float = 60.0,
        allow_insecure_http: bool = False,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._io = AsyncIo(http)
        super().__init__(Core(self._io, base_url, api_key, read_timeout, allow_insecure_http))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._io.http.aclose()

    wait = _tasks.wait
    upload = _files.upload
    download = _files.download
    download_bytes = _files.download_bytes
    save = _files.save
    _run = _tasks.run
    _create_once = _tasks.create_once
