"""The blocking and the asynchronous client: both drive the same flows."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio
import httpx

from . import _files, _run, _tasks
from ._errors import InferstoreError, InvalidArgument
from ._generated import AsyncOperations, Operations, UploadFolder
from ._transport import Core, Deadline, Flow, Reply, Send, Sleep, TooLarge, Work, call
from ._types import FileInput, Outcome, UploadedFile

T = TypeVar("T")
Seconds = float | timedelta | None
CONNECT_TIMEOUT = 10.0


class _MaskPresigned(logging.Filter):
    """Masks presigned URLs in the logs of the HTTP library: their queries grant access."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "X-Amz-" in text:
            record.msg, record.args = re.sub(r"(X-Amz-[A-Za-z-]+=)[^&\s'\"]+", r"\1…", text), ()
        return True


for _name in ("httpx", "httpcore.http11", "httpcore.http2"):
    logging.getLogger(_name).addFilter(_MaskPresigned())


class _Body:
    """Collects the body of a response, up to the limit and the time of its effect."""

    def __init__(self, send: Send, response: httpx.Response) -> None:
        self._send, self._size, self._kept = send, 0, bytearray()
        self._response = response
        self._sink: Callable[[bytes], object] = send.sink if send.sink and response.is_success else self._kept.extend

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._send.max_size:
            if not self._response.is_success:
                return
            raise TooLarge
        if monotonic() > self._send.until:
            raise httpx.ReadTimeout("the deadline passed, or the response was not complete in time")
        self._sink(chunk)

    def reply(self) -> Reply:
        return Reply(self._response.status_code, self._response.headers, bytes(self._kept))


class _Settings:
    def __init__(self, base_url: str | None = None, api_key: str | None = None, *, read_timeout: float = 60.0) -> None:
        """`base_url` ends in the versioned root, such as `/api/v1`. Default: `INFERSTORE_BASE_URL` and
        `INFERSTORE_API_KEY` of the environment."""
        base_url = base_url or os.environ.get("INFERSTORE_BASE_URL")
        api_key = api_key or os.environ.get("INFERSTORE_API_KEY")
        if not base_url or not api_key:
            missing = "base_url, INFERSTORE_BASE_URL" if not base_url else "api_key, INFERSTORE_API_KEY"
            raise InvalidArgument(f"neither {missing.replace(', ', ' nor ')} is set")
        self._core = Core(base_url, api_key, read_timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._core.base_url!r})"

    def _upload(
        self,
        file: FileInput,
        folder: str,
        name: str | None,
        mime: str | None,
        org_username: str | None,
        seconds: Seconds,
    ) -> Flow[UploadedFile]:
        deadline = Deadline(seconds)
        source = yield Work(lambda: _files.Source(file, name, mime))
        uploading = _files.upload(self._core, source, folder, org_username, deadline)
        return (yield from _run.bounded(deadline, "the transfer is not complete", uploading))

    def _wait(self, task: str, seconds: Seconds, cancel_at_deadline: bool) -> Flow[Outcome[Any]]:
        return _tasks.wait(self._core, task, Deadline(seconds), cancel=cancel_at_deadline)

    def _download(self, url: str, path: str | os.PathLike[str], overwrite: bool, seconds: Seconds) -> Flow[Path]:
        deadline = Deadline(seconds)
        fetching = _files.fetch_file(self._core, url, Path(path), deadline, overwrite)
        return (yield from _run.bounded(deadline, "the transfer is not complete", fetching))

    def _download_bytes(self, url: str, max_size: int, seconds: Seconds) -> Flow[bytes]:
        deadline = Deadline(seconds)
        fetching = _files.fetch_bytes(self._core, url, deadline, max_size)
        return (yield from _run.bounded(deadline, "the transfer is not complete", fetching))

    def _save(self, outcome: Outcome[Any], folder: str | os.PathLike[str], seconds: Seconds) -> Flow[dict[str, Path]]:
        deadline, paths = Deadline(seconds), {}
        yield Work(lambda: os.makedirs(folder, exist_ok=True))
        for name, url in _files.urls_of(outcome.output):
            # A name of a model must not lead out of the folder.
            stem = Path(folder) / f"{outcome.task}-{name}".replace("/", "_").replace("\\", "_").replace(":", "_")
            fetching = _files.fetch_file(self._core, url, stem, deadline, False, as_stem=True)
            paths[name] = yield from _run.bounded(deadline, "the transfer is not complete", fetching)
        return paths


class Client(_Settings, Operations):
    """A client of the service. Threads can share it."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        read_timeout: float = 60.0,
        http: httpx.Client | None = None,
    ) -> None:
        super().__init__(base_url, api_key, read_timeout=read_timeout)
        self._http = http or httpx.Client()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def wait(self, task: str, *, deadline: Seconds = None, cancel_at_deadline: bool = False) -> Outcome[Any]:
        """Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded."""
        return self._drive(self._wait(task, deadline, cancel_at_deadline))

    def upload(
        self,
        file: FileInput,
        folder: UploadFolder = "samples",
        *,
        name: str | None = None,
        mime: str | None = None,
        org_username: str | None = None,
        deadline: Seconds = None,
    ) -> UploadedFile:
        """Uploads a local file, or one in memory, of at most 104,857,600 bytes."""
        return self._drive(self._upload(file, folder, name, mime, org_username, deadline))

    def download(
        self, url: str, path: str | os.PathLike[str], *, overwrite: bool = False, deadline: Seconds = None
    ) -> Path:
        """Downloads to a path. The file appears when it is complete."""
        return self._drive(self._download(url, path, overwrite, deadline))

    def download_bytes(self, url: str, *, max_size: int = _files.MAX_IN_MEMORY, deadline: Seconds = None) -> bytes:
        """Downloads into memory."""
        return self._drive(self._download_bytes(url, max_size, deadline))

    def save(
        self, outcome: Outcome[Any], folder: str | os.PathLike[str], *, deadline: Seconds = None
    ) -> dict[str, Path]:
        """Downloads every URL of an output into a folder. Returns the paths by the names of the output."""
        return self._drive(self._save(outcome, folder, deadline))

    def _operation(self, name: str, method: str, path: str, **options: Any) -> Any:
        return self._drive(call(self._core, name, method, path, **options))

    def _run(self, model: str, inputs: Mapping[str, Any], **options: Any) -> Outcome[Any]:
        return self._drive(_run.run(self._core, model, inputs, **options))

    def _create_once(self, model: str, inputs: Mapping[str, Any], **options: Any) -> str:
        return self._drive(_run.create_once(self._core, model, inputs, **options))

    def _drive(self, flow: Flow[T]) -> T:
        """Does what the flow yields, and returns its result."""
        try:
            effect = next(flow)
            while True:
                try:
                    done = self._perform(effect)
                except (httpx.HTTPError, httpx.InvalidURL, TooLarge, InferstoreError, OSError) as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(done)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            flow.close()

    def _perform(self, effect: Send | Sleep | Work) -> Any:
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        if isinstance(effect, Work):
            return effect.work()
        timeout = httpx.Timeout(effect.timeout, connect=min(effect.timeout, CONNECT_TIMEOUT))
        effect.request.extensions["timeout"] = timeout.as_dict()
        response = self._http.send(effect.request, stream=True, follow_redirects=False)
        try:
            body = _Body(effect, response)
            for chunk in response.iter_bytes():
                body.add(chunk)
        finally:
            response.close()
        return body.reply()


class AsyncClient(_Settings, AsyncOperations):
    """A client of the service for asyncio and trio. Tasks can share it."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        read_timeout: float = 60.0,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(base_url, api_key, read_timeout=read_timeout)
        self._http = http or httpx.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def wait(self, task: str, *, deadline: Seconds = None, cancel_at_deadline: bool = False) -> Outcome[Any]:
        """Waits until the task has ended, through failures that pass, and returns its outcome if it succeeded."""
        return await self._drive(self._wait(task, deadline, cancel_at_deadline))

    async def upload(
        self,
        file: FileInput,
        folder: UploadFolder = "samples",
        *,
        name: str | None = None,
        mime: str | None = None,
        org_username: str | None = None,
        deadline: Seconds = None,
    ) -> UploadedFile:
        """Uploads a local file, or one in memory, of at most 104,857,600 bytes."""
        return await self._drive(self._upload(file, folder, name, mime, org_username, deadline))

    async def download(
        self, url: str, path: str | os.PathLike[str], *, overwrite: bool = False, deadline: Seconds = None
    ) -> Path:
        """Downloads to a path. The file appears when it is complete."""
        return await self._drive(self._download(url, path, overwrite, deadline))

    async def download_bytes(
        self, url: str, *, max_size: int = _files.MAX_IN_MEMORY, deadline: Seconds = None
    ) -> bytes:
        """Downloads into memory."""
        return await self._drive(self._download_bytes(url, max_size, deadline))

    async def save(
        self, outcome: Outcome[Any], folder: str | os.PathLike[str], *, deadline: Seconds = None
    ) -> dict[str, Path]:
        """Downloads every URL of an output into a folder. Returns the paths by the names of the output."""
        return await self._drive(self._save(outcome, folder, deadline))

    async def _operation(self, name: str, method: str, path: str, **options: Any) -> Any:
        return await self._drive(call(self._core, name, method, path, **options))

    async def _run(self, model: str, inputs: Mapping[str, Any], **options: Any) -> Outcome[Any]:
        return await self._drive(_run.run(self._core, model, inputs, **options))

    async def _create_once(self, model: str, inputs: Mapping[str, Any], **options: Any) -> str:
        return await self._drive(_run.create_once(self._core, model, inputs, **options))

    async def _drive(self, flow: Flow[T]) -> T:
        """Does what the flow yields, and returns its result."""
        try:
            effect = next(flow)
            while True:
                try:
                    done = await self._perform(effect)
                except (httpx.HTTPError, httpx.InvalidURL, TooLarge, InferstoreError, OSError) as error:
                    effect = flow.throw(error)
                else:
                    effect = flow.send(done)
        except StopIteration as end:
            return cast(T, end.value)
        finally:
            flow.close()

    async def _perform(self, effect: Send | Sleep | Work) -> Any:
        if isinstance(effect, Sleep):
            return await anyio.sleep(effect.seconds)
        if isinstance(effect, Work):
            return await anyio.to_thread.run_sync(effect.work)
        timeout = httpx.Timeout(effect.timeout, connect=min(effect.timeout, CONNECT_TIMEOUT))
        effect.request.extensions["timeout"] = timeout.as_dict()
        try:
            with anyio.fail_after(max(effect.until - monotonic(), 0)):
                response = await self._http.send(effect.request, stream=True, follow_redirects=False)
                try:
                    body = _Body(effect, response)
                    async for chunk in response.aiter_bytes():
                        body.add(chunk)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise httpx.ReadTimeout("the deadline passed, or the response was not complete in time") from None
        return body.reply()
