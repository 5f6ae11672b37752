"""Files: uploads in two steps straight to object storage, and downloads. The API key goes to neither."""

from __future__ import annotations

import hashlib
import json
import mimetypes
import os
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from ._errors import FileError, InvalidArgument, Redactor, shown
from ._inputs import is_web_url
from ._transport import Attempts, Core, Deadline, Flow, Reply, Secret, Send, TooLarge, call
from ._transport import retry_after as retry_after_of
from ._types import File, UploadedFile, as_object

MAX_SIZE = 104_857_600
MAX_IN_MEMORY = 256 * 1024 * 1024
MAX_REDIRECTS = 10
MAX_FRESH_TARGETS = 2
CHUNK = 64 * 1024
TRANSFER_TIMEOUT = 30.0
EXPIRED_CODES = ("ExpiredToken", "RequestTimeTooSkewed", "AccessDenied")
SIGNATURES = [(b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif")]


class Source:
    """A file that can be sent as often as need be."""

    def __init__(self, file: File | str | os.PathLike[str], name: str | None = None, mime: str | None = None) -> None:
        self._content = file.content if isinstance(file, File) else None
        self._path = None if isinstance(file, File) else Path(file)
        given = file if isinstance(file, File) else None
        self.name = name or (given.name if given else os.path.basename(os.fspath(str(self._path))))
        self.label = self.name if given else str(self._path)
        try:
            self.digest, self.size, head = self._read_once()
        except OSError as error:
            raise FileError(self.label, f"it cannot be read: {error.strerror}") from None
        if not 0 < self.size <= MAX_SIZE:
            size = "it is empty" if self.size == 0 else f"it has {self.size} bytes"
            raise FileError(self.label, f"{size}; the storage takes 1 to {MAX_SIZE} bytes")
        signed = next((mime for signature, mime in SIGNATURES if head.startswith(signature)), None)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            signed = "image/webp"
        guessed = signed or mimetypes.guess_type(self.name)[0] or "application/octet-stream"
        self.mime = mime or (given.mime if given and given.mime else guessed)
        if not self.name.strip():
            raise InvalidArgument(f"the file {shown(self.label)} has no name to be stored under")
        if not re.fullmatch(r"[!-~]+/[ -~]+", self.mime):
            raise InvalidArgument(f"mime: {shown(self.mime)} is not a MIME type")

    def chunks(self) -> Iterator[bytes]:
        if self._path is None:
            content = self._content or b""
            yield from (content[at : at + CHUNK] for at in range(0, len(content), CHUNK))
            return
        with open(self._path, "rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def _read_once(self) -> tuple[bytes, int, bytes]:
        digest, size, head = hashlib.blake2b(digest_size=16), 0, b""
        for chunk in self.chunks():
            digest.update(chunk)
            size, head = size + len(chunk), head or chunk[:16]
            if size > MAX_SIZE:
                break
        return digest.digest(), size, head

    def checked_chunks(self) -> Iterator[bytes]:
        """The content, with an error in place of its last part if it has changed: the store keeps nothing then."""
        digest, sent, held = hashlib.blake2b(digest_size=16), 0, b""
        for chunk in self.chunks():
            digest.update(chunk)
            sent += len(chunk)
            if sent > self.size:
                break
            if held:
                yield held
            held = chunk
        if sent != self.size or digest.digest() != self.digest:
            raise FileError(self.label, "it changed while it was uploaded, so the upload was stopped")
        yield held


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an upload, between the head and the tail of a form."""

    def __init__(self, source: Source, until: float, head: bytes = b"", tail: bytes = b"") -> None:
        self._source, self._until, self._head, self._tail = source, until, head, tail
        self.size = len(head) + source.size + len(tail)

    def __iter__(self) -> Iterator[bytes]:
        if self._head:
            yield self._head
        for chunk in self._source.checked_chunks():
            if monotonic() > self._until:
                raise httpx.WriteTimeout("the deadline passed")
            yield chunk
        if self._tail:
            yield self._tail

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def upload(core: Core, source: Source, folder: str, org_username: str | None, deadline: Deadline) -> Flow[UploadedFile]:
    """Uploads a file, again with a new target when its target was rejected."""
    attempts, fresh = Attempts(core, deadline), 0
    send, redactor, url = yield from presign(core, source, folder, org_username, deadline)
    while True:
        try:
            yield from transfer(core, source.label, send, redactor, deadline)
            return UploadedFile(url, source.name, source.mime, source.size)
        except FileError as error:
            may_retry = error.is_retryable or (error.expired and fresh < MAX_FRESH_TARGETS)
            if not may_retry or not (yield from attempts.backoff(error.retry_after)):
                raise
            if error.expired:
                fresh += 1
                send, redactor, url = yield from presign(core, source, folder, org_username, deadline)


def presign(
    core: Core, source: Source, folder: str, org_username: str | None, deadline: Deadline
) -> Flow[tuple[Callable[[], httpx.Request], Redactor, str]]:
    """Asks for an upload target. Returns what makes its request, what masks its credentials, and the URL of the file."""
    body = {"folder": folder, "mime": source.mime, "name": source.name, "size": source.size}
    body |= {"org_username": org_username} if org_username else {}
    path = "/api-key/storage/upload/create-presigned-url"
    target = as_object(
        (yield from call(core, "createPresignedUpload", "POST", path, json_body=body, deadline=deadline))
    )
    endpoint, fields = target.get("endpoint"), target.get("fields")
    report = "report it to the operator of the service"
    if not is_web_url(endpoint) or not is_web_url(target.get("download_url")) or not isinstance(fields, str):
        raise FileError(source.label, "the upload target of the service is not a URL with fields", report)
    try:
        members = json.loads(fields or "{}")
        pairs = [
            (name, value if isinstance(value, str) else json.dumps(value))
            for name, value in members.items()
            if value is not None and not isinstance(value, (list, dict))
        ]
    except (ValueError, AttributeError):
        raise FileError(source.label, "the fields of the upload target are not a JSON object", report) from None
    # The target grants access: no local variable shows it.
    secret, form = Secret(str(endpoint)), Secret(json.dumps(pairs))

    def make() -> httpx.Request:
        return request_of(source, secret.expose(), json.loads(form.expose()), deadline.at)

    return make, core.redactor.with_target(str(endpoint), pairs), str(target["download_url"])


def request_of(source: Source, endpoint: str, fields: list[tuple[str, str]], until: float) -> httpx.Request:
    """The request of step 2, with its exact length, because object storage refuses chunked bodies."""
    host = httpx.URL(endpoint).netloc.decode("ascii")
    if "X-Amz-Algorithm" in endpoint:
        mime = next((value for name, value in fields if name.lower() == "content-type"), source.mime)
        body = Body(source, until)
        headers = {"host": host, "content-type": mime, "content-length": str(body.size)}
        return httpx.Request("PUT", endpoint, headers=headers, stream=body)
    boundary = secrets.token_hex(16)
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{quotable(name)}"\r\n\r\n{value}\r\n'
        for name, value in fields
    )
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{quotable(source.name)}"\r\n'
    head += f"Content-Type: {source.mime}\r\n\r\n"
    body = Body(source, until, head.encode(), f"\r\n--{boundary}--\r\n".encode())
    mime = f"multipart/form-data; boundary={boundary}"
    headers = {"host": host, "content-type": mime, "content-length": str(body.size)}
    return httpx.Request("POST", endpoint, headers=headers, stream=body)


def quotable(name: str) -> str:
    return re.sub(r'[\x00-\x1f\x7f"\\]', "_", name)


def transfer(
    core: Core,
    label: str,
    make: Callable[[], httpx.Request],
    redactor: Redactor,
    deadline: Deadline,
    sink: Callable[[bytes], object] | None = None,
    max_size: int = 64 * 1024,
) -> Flow[Reply]:
    """One exchange with object storage."""
    until = deadline.at
    try:
        reply: Reply = yield Send(make(), min(TRANSFER_TIMEOUT, deadline.left), until, max_size, sink)
    except TooLarge:
        raise FileError(label, f"the content has more than {max_size} bytes") from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        reason = redactor.foreign(str(error) or type(error).__name__, 200)
        raise FileError(label, f"object storage gave no response: {reason}", retryable=monotonic() < until) from None
    if reply.is_success or 300 <= reply.status < 400 and sink:
        return reply
    text = reply.body.decode(errors="replace")
    code, message = (re.search(f"<{name}>([^<]*)</{name}>", text) for name in ("Code", "Message"))
    found = code[1] if code else ""
    said = redactor.foreign(f"{found} {message[1] if message else ''}" if code or message else text, 300)
    raise FileError(
        label,
        f"object storage responded with {reply.status}" + (f": {said}" if said else ""),
        "check the URL, the size and the type of the file",
        retryable=found in ("RequestTimeout", "SlowDown") or reply.status >= 500 or reply.status in (408, 429),
        expired=reply.status == 403 or (400 <= reply.status < 500 and found in EXPIRED_CODES),
        status=reply.status,
        retry_after=retry_after_of(reply.headers),
    )


def fetch(
    core: Core, url: str, deadline: Deadline, open_sink: Callable[[], Callable[[bytes], object]], max_size: int
) -> Flow[Reply]:
    """Downloads a URL into a sink, which is opened anew for each attempt, and follows redirects without the key."""
    if not is_web_url(url):
        raise InvalidArgument("url: the download is not a URL with http or https")
    label = urlsplit(url).hostname or ""
    attempts = Attempts(core, deadline)
    while True:
        current = url
        try:
            for _ in range(MAX_REDIRECTS + 1):

                def make(current: str = current) -> httpx.Request:
                    return httpx.Request("GET", current, headers={"accept-encoding": "identity"})

                redactor = core.redactor.with_target(url).with_target(current)
                reply = yield from transfer(core, label, make, redactor, deadline, open_sink(), max_size)
                if reply.is_success:
                    if reply.status == 206:
                        raise FileError(label, "the server sent a part of the content only")
                    return reply
                target = urljoin(current, reply.headers.get("location", ""))
                if not is_web_url(target) or target == current:
                    raise FileError(label, "a redirect leads to no URL with http or https")
                if current.startswith("https:") and not target.startswith("https:"):
                    raise FileError(label, "a redirect leads from https to unencrypted http")
                current = target
            raise FileError(label, f"there are more than {MAX_REDIRECTS} redirects")
        except FileError as error:
            if not error.is_retryable or not (yield from attempts.backoff(error.retry_after)):
                raise


def fetch_bytes(core: Core, url: str, deadline: Deadline, max_size: int) -> Flow[bytes]:
    content = bytearray()

    def open_sink() -> Callable[[bytes], object]:
        content.clear()
        return content.extend

    yield from fetch(core, url, deadline, open_sink, max_size)
    return bytes(content)


def fetch_file(
    core: Core, url: str, target: Path, deadline: Deadline, overwrite: bool, as_stem: bool = False
) -> Flow[Path]:
    """Downloads to a path. The file appears when it is complete. `as_stem`: the type of the content adds the extension."""
    if not as_stem and target.exists() and not overwrite:
        raise FileError(str(target), "it exists already", "name another path, or set overwrite=True")
    try:
        descriptor, name = tempfile.mkstemp(prefix=".inferstore-", suffix=".part", dir=target.parent)
    except OSError as error:
        raise FileError(str(target), f"it cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb") as file:

            def open_sink() -> Callable[[bytes], object]:
                file.seek(0)
                file.truncate()
                return file.write

            reply = yield from fetch(core, url, deadline, open_sink, 2**63)
        os.chmod(name, 0o644)
        if as_stem:
            mime = reply.headers.get("content-type", "").split(";")[0].strip()
            extension = mimetypes.guess_extension(mime) or Path(urlsplit(url).path).suffix[:9]
            stem, target, number = target, target.with_name(target.name + extension), 1
            while target.exists() and not overwrite:
                number += 1
                target = stem.with_name(f"{stem.name}-{number}{extension}")
        os.replace(name, target) if overwrite else os.link(name, target)
        return target
    except OSError as error:
        raise FileError(str(target), f"it cannot be written: {error.strerror}") from None
    finally:
        if os.path.exists(name):
            os.unlink(name)


def urls_of(output: Any) -> Iterator[tuple[str, str]]:
    """The URLs among the members of an output, each with its name."""
    members = output.items() if isinstance(output, dict) else [("output", output)]
    return ((str(name), value) for name, value in members if is_web_url(value))
