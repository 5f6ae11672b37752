"""Files: uploads in two steps straight to object storage, and downloads. The API key goes to neither."""

from __future__ import annotations

import hashlib
import io
import json
import mimetypes
import os
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import httpx

from ._errors import FileError, InvalidArgument, Redactor, shown
from ._generated import UploadFolder
from ._inputs import is_web_url
from ._transport import Api, Receiver, TooLarge, retry_after
from ._types import File, FileInput, Outcome, Seconds, UploadedFile, as_object

MAX_SIZE = 104_857_600
MAX_IN_MEMORY = 256 * 1024 * 1024
MAX_REDIRECTS = 10
CHUNK = 64 * 1024
TRANSFER_TIMEOUT, MIN_THROUGHPUT = 30.0, 32 * 1024
"""The longest pause of a transfer in seconds, and the bytes per second of the slowest line, which may lie in buffers."""
PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype\s+)?html\b", re.IGNORECASE)
"""The begin of a web page, as a gateway or the portal of a network sends it."""
EXPIRED_CODES = ("ExpiredToken", "RequestTimeTooSkewed", "AccessDenied")
SIGNATURES = {
    rb"\x89PNG\r\n\x1a\n": "png",
    rb"\xff\xd8\xff": "jpeg",
    rb"GIF8": "gif",
    rb"RIFF....WEBP": "webp",
    rb"II\*\0|MM\0\*": "tiff",
}
INCOMPLETE = "the transfer is not complete"

Target = tuple[Callable[[], httpx.Request], Redactor, str]
"""What makes the request of an upload, what masks its credentials, and the URL of the file."""


class Source:
    """A file that can be sent as often as need be."""

    def __init__(self, file: FileInput, name: str | None = None, mime: str | None = None) -> None:
        if not isinstance(file, (str, os.PathLike, File)):
            raise InvalidArgument(f"file: expected a path or a File, got an object of type {type(file).__name__}")
        given = file if isinstance(file, File) else None
        self._file, self.label = file, given.name if given else str(file)
        named = name or (given.name if given else os.path.basename(self.label))
        # A name of the file system may be no text of UTF-8.
        self.name = named.encode(errors="replace").decode()
        if given and not isinstance(given.content, (bytes, bytearray, memoryview)):
            raise InvalidArgument(f"the content of the file {shown(given.name)} is not bytes; encode text first")
        digest, self.size, head = hashlib.blake2b(digest_size=16), 0, b""
        for chunk in self.chunks():
            digest.update(chunk)
            self.size, head = self.size + len(chunk), head or chunk[:16]
            if self.size > MAX_SIZE:
                break
        self.digest = digest.digest()
        if not 0 < self.size <= MAX_SIZE:
            size = "it is empty" if self.size == 0 else f"it has {self.size} bytes"
            raise FileError(self.label, f"{size}; the storage takes 1 to {MAX_SIZE} bytes")
        signed = (f"image/{kind}" for signature, kind in SIGNATURES.items() if re.match(signature, head, re.S))
        guessed = next(signed, None) or mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        self.mime = mime or (given and given.mime) or guessed
        if not self.name.strip():
            raise InvalidArgument(f"the file {shown(self.label)} has no name to be stored under")
        if not re.fullmatch(r"[!-~]+/[ -~]+", self.mime):
            raise InvalidArgument(f"mime: {shown(self.mime)} is not a MIME type")

    def chunks(self) -> Iterator[bytes]:
        try:
            if not isinstance(self._file, File) and Path(self._file).is_fifo():
                raise FileError(self.label, "it is a pipe, which cannot be read twice")
            with io.BytesIO(self._file.content) if isinstance(self._file, File) else open(self._file, "rb") as stream:
                while chunk := stream.read(CHUNK):
                    yield chunk
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise FileError(self.label, f"it cannot be read: {reason}") from None

    def checked_chunks(self) -> Iterator[bytes]:
        """The content, with an error in place of its last part if it has changed: the store keeps nothing then."""
        digest, left = hashlib.blake2b(digest_size=16), self.size
        for chunk in self.chunks():
            digest.update(chunk)
            left -= len(chunk)
            if left < 0 or (left == 0 and digest.digest() != self.digest):
                break
            yield chunk
        if left != 0 or digest.digest() != self.digest:
            raise FileError(self.label, "it changed while it was uploaded, so the upload was stopped")


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an upload, between the head and the tail of a form."""

    def __init__(self, source: Source, until: float, head: bytes, tail: bytes) -> None:
        self._source, self._until, self._ends = source, until, ([head], [tail])

    def __iter__(self) -> Iterator[bytes]:
        head, tail = self._ends
        for chunk in filter(None, chain(head, self._source.checked_chunks(), tail)):
            if monotonic() > self._until:
                raise httpx.WriteTimeout("the deadline passed")
            yield chunk

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


async def upload(
    api: Api,
    /,
    file: FileInput,
    folder: UploadFolder = "samples",
    *,
    name: str | None = None,
    mime: str | None = None,
    org_username: str | None = None,
    deadline: Seconds = None,
) -> UploadedFile:
    """Uploads a local file, or one in memory, of at most 104,857,600 bytes."""
    api = Api(api._core, deadline)
    source = await api._core.io.work(lambda: Source(file, name, mime))
    with api._bounded(INCOMPLETE):
        return await store(api, source, folder, org_username)


async def store(api: Api, source: Source, folder: str, org_username: str | None = None) -> UploadedFile:
    """Uploads a file, again with a new target when its target was rejected."""
    target: Target | None = None

    async def send(_: int) -> UploadedFile:
        nonlocal target
        target = target or await presign(api, source, folder, org_username)
        make, redactor, url = target
        try:
            await transfer(api, source.label, make(), redactor, Receiver(api._end))
        except FileError as error:
            if error.expired:
                target, error.is_retryable = None, True
            raise
        return UploadedFile(url, source.name, source.mime, source.size)

    return await api._retried(send)


async def presign(api: Api, source: Source, folder: str, org_username: str | None) -> Target:
    """Asks for an upload target."""
    body = {"folder": folder, "mime": source.mime, "name": source.name, "size": source.size}
    body |= {"org_username": org_username} if org_username else {}
    path = "/api-key/storage/upload/create-presigned-url"
    target = as_object(await api._operation("createPresignedUpload", "POST", path, json_body=body))
    endpoint, url = target.get("endpoint"), target.get("download_url")
    try:
        fields = json.loads(target.get("fields") or "{}")
    except (ValueError, TypeError):
        fields = None
    if not is_web_url(endpoint) or not is_web_url(url) or not isinstance(fields, dict):
        report = "report it to the operator of the service"
        raise FileError(source.label, "the upload target of the service is not a URL with fields", report)
    pairs = [(str(name), str(value)) for name, value in fields.items() if isinstance(value, (str, int))]
    redactor = api._core.redactor.with_target(endpoint, pairs)
    # The target grants access: it is in no field that a `repr` shows.
    return lambda: request_of(source, endpoint, pairs, api._end), redactor, url


def request_of(source: Source, endpoint: str, fields: list[tuple[str, str]], until: float) -> httpx.Request:
    """The request of step 2, with its exact length, because object storage refuses chunked bodies."""
    method, head, tail = "PUT", b"", b""
    mime = next((value for name, value in fields if name.lower() == "content-type"), source.mime)
    if "X-Amz-Algorithm" not in endpoint:
        boundary = secrets.token_hex(16)
        parts = [f'name="{quotable(name)}"\r\n\r\n{value}\r\n' for name, value in fields]
        parts.append(f'name="file"; filename="{quotable(source.name)}"\r\nContent-Type: {source.mime}\r\n\r\n')
        head = "".join(f"--{boundary}\r\nContent-Disposition: form-data; {part}" for part in parts).encode()
        method, tail = "POST", f"\r\n--{boundary}--\r\n".encode()
        mime = f"multipart/form-data; boundary={boundary}"
    host, size = httpx.URL(endpoint).netloc.decode("ascii"), len(head) + source.size + len(tail)
    headers = {"host": host, "content-type": mime, "content-length": str(size)}
    return httpx.Request(method, endpoint, headers=headers, stream=Body(source, until, head, tail))


def quotable(name: str) -> str:
    return re.sub(r'[\x00-\x1f\x7f"\\]', "_", name)


async def transfer(
    api: Api, label: str, request: httpx.Request, redactor: Redactor, receiver: Receiver, mime: str | None = ""
) -> httpx.Response:
    """One exchange with object storage. `mime`: the type of the response by the URL, `None` if that shows none."""
    timeout = TRANSFER_TIMEOUT + int(request.headers.get("content-length", 0)) / MIN_THROUGHPUT
    try:
        response = await api._exchange(request, receiver, timeout)
    except TooLarge:
        raise FileError(label, f"the content has more than {receiver.max_size} bytes") from None
    except httpx.RequestError as error:
        problem = f"object storage gave no response: {redactor.reason(error)}"
        raise FileError(label, problem, is_retryable=api._left > 0) from None
    status, encoding = response.status_code, response.headers.get("content-encoding", "identity")
    is_page = media_type(response) == "text/html" or PAGE.match(receiver.body)
    if response.is_success and is_page and mime not in (None, "text/html"):
        raise FileError(label, f"a web page in place of object storage responded with {status}", is_retryable=True)
    if response.is_success and receiver.write and encoding != "identity":
        raise FileError(label, f"the content came encoded as {shown(encoding)}, against the request")
    if response.is_success or (response.next_request and receiver.write):
        return response
    text = receiver.body.decode(errors="replace")
    code, message = (re.findall(f"<{name}>([^<]*)</{name}>", text)[:1] for name in ("Code", "Message"))
    said = redactor.foreign(" ".join(code + message) or text, 300)
    raise FileError(
        label,
        f"object storage responded with {status}" + (f": {said}" if said else ""),
        "check the URL, the size and the type of the file",
        is_retryable=code in (["RequestTimeout"], ["SlowDown"]) or status >= 500 or status in (408, 429),
        expired=status == 403 or (400 <= status < 500 and any(name in EXPIRED_CODES for name in code)),
        status=status,
        retry_after=retry_after(response.headers),
    )


def media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).split(";")[0].strip().lower()


async def fetch(api: Api, url: str, sink: BinaryIO, max_size: int = 2**63) -> httpx.Response:
    """Downloads a URL into a file, from its begin in each attempt, and follows redirects without the key."""
    if not is_web_url(url):
        raise InvalidArgument("url: the download is not a URL with http or https")
    label, mime = urlsplit(url).hostname or "", mimetypes.guess_type(urlsplit(url).path)[0]

    async def follow(_: int) -> httpx.Response:
        request = httpx.Request("GET", url, headers={"accept-encoding": "identity"})
        for _ in range(MAX_REDIRECTS + 1):
            redactor = api._core.redactor.with_target(url).with_target(str(request.url))
            sink.truncate(sink.seek(0))
            response = await transfer(api, label, request, redactor, Receiver(api._end, max_size, sink.write), mime)
            if response.status_code == 206:
                raise FileError(label, "the server sent a part of the content only")
            if response.next_request is None:
                return response
            scheme, request = request.url.scheme, response.next_request
            if request.url.scheme not in ("https", scheme):
                raise FileError(label, f"a redirect leads from {scheme} to {request.url.scheme}")
        raise FileError(label, f"there are more than {MAX_REDIRECTS} redirects")

    return await api._retried(follow)


async def download_bytes(api: Api, /, url: str, *, max_size: int = MAX_IN_MEMORY, deadline: Seconds = None) -> bytes:
    """Downloads into memory."""
    api, content = Api(api._core, deadline), io.BytesIO()
    with api._bounded(INCOMPLETE):
        await fetch(api, url, content, max_size)
    return content.getvalue()


async def download(
    api: Api, /, url: str, path: str | os.PathLike[str], *, overwrite: bool = False, deadline: Seconds = None
) -> Path:
    """Downloads to a path. The file appears when it is complete."""
    return await fetch_file(Api(api._core, deadline), url, Path(path), overwrite)


async def save(
    api: Api, /, outcome: Outcome[Any], folder: str | os.PathLike[str], *, deadline: Seconds = None
) -> dict[str, Path]:
    """Downloads every URL of an output into a folder. Returns the paths by names such as `image` and `images/0`."""
    api, paths = Api(api._core, deadline), {}
    try:
        await api._core.io.work(lambda: os.makedirs(folder, exist_ok=True))
    except OSError as error:
        raise FileError(str(folder), str(error.strerror), "name another folder; the task is paid") from None
    for name, url in urls_of(outcome.output):
        # A name of a model must not lead out of the folder.
        stem = Path(folder) / re.sub(r"[/\\:]", "_", f"{outcome.task}-{name}")
        paths[name] = await fetch_file(api, url, stem, is_stem=True)
    return paths


def urls_of(output: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Returns every URL of an output with its place."""
    if is_web_url(output):
        yield place or "output", output
    parts = output.items() if isinstance(output, dict) else enumerate(output) if isinstance(output, list) else ()
    for name, part in parts:
        yield from urls_of(part, f"{place}/{name}" if place else str(name))


def check_free(target: Path, overwrite: bool) -> None:
    """Refuses to replace a file without `overwrite`, and anything but a regular file with it."""
    if target.is_symlink() or target.exists():
        if not overwrite:
            raise FileError(str(target), "it exists already", "name another path, or set overwrite=True")
        if target.is_symlink() or not target.is_file():
            raise FileError(str(target), "only a regular file is replaced", "name another path")


async def fetch_file(api: Api, url: str, target: Path, overwrite: bool = False, is_stem: bool = False) -> Path:
    """Downloads to a path. The file appears when it is complete. `is_stem`: the type of the content adds the extension."""
    if not is_stem:
        check_free(target, overwrite)
    try:
        with tempfile.TemporaryDirectory(prefix=".inferstore-", dir=target.parent) as folder:
            part = Path(folder, "part")
            with open(part, "wb") as file, api._bounded(INCOMPLETE):
                response = await fetch(api, url, file)
            if is_stem:
                extension = mimetypes.guess_extension(media_type(response)) or Path(urlsplit(url).path).suffix[:9]
                stem, target, number = target, target.with_name(target.name + extension), 1
                while target.exists():
                    number += 1
                    target = stem.with_name(f"{stem.name}-{number}{extension}")
            try:
                os.link(part, target)
            except OSError:
                # There is a file, or the file system has no hard links. An exclusive create overwrites nothing.
                if overwrite:
                    check_free(target, overwrite)
                else:
                    open(target, "xb").close()
                os.replace(part, target)
            return target
    except OSError as error:
        raise FileError(str(target), f"it cannot be written: {error.strerror}") from None
