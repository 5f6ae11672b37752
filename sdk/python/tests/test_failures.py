"""Responses that the document allows, failures of gateways, and secrets."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gzip
import json
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from conftest import INPUTS, MODEL, OUTPUT, PIXEL, Service

import inferstore
from inferstore import AsyncClient, Client, File, ModelId, _files, _transport

HTML = {"headers": {"content-type": "text/html"}, "body": "<html><h1>502 Bad Gateway</h1></html>"}


def test_a_gateway_does_not_end_a_wait(client: Client, service: Service) -> None:
    service.model(then="succeed", output=OUTPUT)
    task = client.create_once(ModelId(MODEL), INPUTS)
    for effect in (
        {"effect": "status", "status": 502, **HTML, "times": 6},
        {"effect": "status", "status": 500, "times": 2},
        {"effect": "status", "status": 302, "headers": {"location": "https://login.example/"}, "times": 1},
        {"effect": "cut_body", "bytes": 20, "times": 1},
        {"effect": "hang_up", "times": 1},
        {"effect": "set_field", "field": "/data/status", "value": "migrating", "times": 1},
        {"effect": "set_field", "field": "/data/status", "times": 1},
        {"effect": "set_field", "field": "/data", "value": {"new": [1]}, "times": 1},
    ):
        service.fault(operation="getTask", **effect)
    assert client.wait(task, deadline=120).output == OUTPUT


def test_reads_are_retried_and_the_error_says_what_to_try(client: Client, service: Service) -> None:
    service.fault("status", operation="getBalance", status=502, times=4, **HTML)
    assert client.balance()["balance"]
    service.fault("status", operation="getBalance", status=502, **HTML)
    with pytest.raises(inferstore.ApiError, match="502 Bad Gateway") as failed:
        client.balance()
    error = failed.value
    assert (error.operation, error.status, error.attempts, error.is_retryable) == ("getBalance", 502, 5, True)
    assert "try again later" in error.hint and any(error.hint in note for note in error.__notes__)


def test_retry_after_is_waited_for_as_seconds_and_as_a_date(client: Client, service: Service) -> None:
    service.fault("status", operation="getBalance", status=429, retry_after=1, times=1)
    begun = time.monotonic()
    client.balance()
    assert 1 <= time.monotonic() - begun < 2
    service.fault("status", operation="getBalance", status=503, retry_after=61)
    begun = time.monotonic()
    with pytest.raises(inferstore.ApiError) as failed:
        client.balance()
    assert failed.value.retry_after == 61 and time.monotonic() - begun < 0.5
    # By the clock of the service, not that of this machine.
    date = {"date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    for value, seconds in [("Wed, 21 Oct 2015 07:28:30 GMT", 30), ("Wed, 21 Oct 2015 07:00:00 GMT", 0), ("soon", None)]:
        assert _transport.retry_after(httpx.Headers({**date, "retry-after": value})) == seconds


def test_a_cancel_and_a_delete_are_sent_once(client: Client, service: Service) -> None:
    service.fault("lose_response", operation="deleteFile", times=1)
    url = client.upload(File(PIXEL, "a.png")).download_url
    with pytest.raises(inferstore.TransportError) as failed:
        client.delete_file(url)
    assert failed.value.in_doubt and not failed.value.is_retryable
    assert len(service.requests("deleteFile")) == 1


def test_an_upload_survives_a_store_that_fails(client: Client, service: Service) -> None:
    for content in (PIXEL, bytes(5_242_881)):
        for effect in (
            {"effect": "hang_up"},
            {"effect": "lose_response"},
            {"effect": "status", "status": 503, "retry_after": 0},
            {"effect": "status", "status": 403},
            {"effect": "status", "status": 400, "body": "<Error><Code>RequestTimeTooSkewed</Code></Error>"},
        ):
            service.fault(operation="postObject" if content is PIXEL else "putObject", times=1, **effect)
            stored = client.upload(File(content, "a.png"), deadline=60)
            assert client.download_bytes(stored.download_url) == content
    service.fault("cut_body", operation="getObject", bytes=1000, times=1)
    assert len(client.download_bytes(stored.download_url)) == 5_242_881
    with pytest.raises(inferstore.FileError, match="more than 10 bytes"):
        client.download_bytes(stored.download_url, max_size=10)


PAGES = [
    {"headers": {"content-type": "text/html; charset=utf-8"}, "body": "Sign in to the network."},
    {"headers": {"content-type": "text/plain"}, "body": "\n<!DOCTYPE HTML><title>Sign in</title>" + 100_000 * " "},
    {"headers": {"content-type": "text/plain"}, "body": "<html><h1>Sign in</h1></html>"},
]


def test_a_web_page_is_no_response_of_object_storage(
    client: Client, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_transport, "MAX_BACKOFF", 0.01)
    for content, operation in ((PIXEL, "postObject"), (bytes(5_242_881), "putObject")):
        for page in PAGES:
            service.fault("status", operation=operation, status=200, times=1, **page)
            stored = client.upload(File(content, "a.png"))
            assert client.download_bytes(stored.download_url) == content
    service.fault("status", operation="postObject", status=200, **PAGES[0])
    with pytest.raises(inferstore.FileError, match="a web page in place of object storage") as failed:
        client.upload(File(PIXEL, "a.png"))
    assert failed.value.is_retryable
    service.fault("status", operation="getObject", status=200, times=1, **PAGES[0])
    outcome = inferstore.Outcome("t", {"image": stored.download_url}, None, [], False, {})
    assert [path.name for path in client.save(outcome, tmp_path).values()] == ["t-image.png"]
    service.fault("status", operation="getObject", status=200, **PAGES[0])
    with pytest.raises(inferstore.FileError, match="a web page in place of object storage") as failed:
        client.save(outcome, tmp_path)
    assert failed.value.is_retryable and os.listdir(tmp_path) == ["t-image.png"]


def test_a_body_in_single_bytes_delays_no_end(client: Client, service: Service) -> None:
    task = client.create_once(ModelId(MODEL), INPUTS)
    service.fault("drip_body", operation="getTask", bytes=1, pause_ms=300)
    begun = time.monotonic()
    with pytest.raises(inferstore.DeadlineReached, match="the state of the task is unknown"):
        client.wait(task, deadline=1)
    assert time.monotonic() - begun < 2


def test_the_response_to_a_large_upload_has_more_time(
    client: Client, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "TRANSFER_TIMEOUT", 0.2)
    monkeypatch.setattr(_files, "MIN_THROUGHPUT", 1_000_000)
    monkeypatch.setattr(_transport, "MAX_ATTEMPTS", 1)
    # As on a slow line, where megabytes lie in buffers when the last of them is written.
    for operation in ("putObject", "postObject"):
        service.fault("delay", operation=operation, delay_ms=1_000)
    client.upload(File(bytes(5_242_881), "b.bin"))
    with pytest.raises(inferstore.FileError, match="timed out"):
        client.upload(File(PIXEL, "a.png"))


def test_a_web_page_is_downloaded_where_no_extension_denies_it() -> None:
    headers = {"content-type": "text/html"}
    with scripted(lambda _: (200, headers, b"<html>")) as url, Client(f"{url}/api/v1", "k") as client:
        for path in ("a", "a.html?as=.png", "a.unknown"):
            assert client.download_bytes(f"{url}/{path}") == b"<html>"


def test_a_download_with_an_encoding_is_refused() -> None:
    headers = {"content-encoding": "gzip"}
    with scripted(lambda _: (200, headers, gzip.compress(PIXEL))) as url, Client(f"{url}/api/v1", "k") as client:
        with pytest.raises(inferstore.FileError, match='encoded as "gzip"') as failed:
            client.download_bytes(f"{url}/a.png")
        assert not failed.value.is_retryable


def test_inputs_that_are_no_json_are_refused_before_an_upload(client: Client) -> None:
    declared = {"input_image": {"type": "file"}, "note": {"type": "string"}}
    client._api._core.declarations["of-test"] = time.monotonic(), declared
    before = [file["key"] for file in client.files("samples")["files"]]
    with pytest.raises(inferstore.InvalidArgument, match="cannot be sent as JSON"):
        client.run("of-test", {"input_image": File(PIXEL, "a.png"), "note": {1, 2}})
    assert [file["key"] for file in client.files("samples")["files"]] == before


def test_a_folder_that_cannot_be_made_is_named(client: Client, service: Service, tmp_path: Path) -> None:
    service.model(then="succeed", output={"output_image": "https://files.example/o.png"})
    outcome = client.run(MODEL, INPUTS)
    (tmp_path / "file").touch()
    with pytest.raises(inferstore.FileError, match="file/outputs"):
        client.save(outcome, tmp_path / "file" / "outputs")


def test_a_download_that_fails_leaves_no_file(client: Client, service: Service, tmp_path: Path) -> None:
    stored = client.upload(File(PIXEL, "a.png"))
    service.fault("status", operation="getObject", status=404)
    with pytest.raises(inferstore.FileError):
        client.download(stored.download_url, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
    service.clear_faults()
    client.download(stored.download_url, tmp_path / "a.png")
    with pytest.raises(inferstore.FileError, match="exists already"):
        client.download(stored.download_url, tmp_path / "a.png")


def test_a_file_that_changes_is_not_stored(client: Client, service: Service, tmp_path: Path) -> None:
    from inferstore import _client, _files

    path = tmp_path / "a.bin"
    path.write_bytes(b"before")
    source = _files.Source(path)
    path.write_bytes(b"after!")
    with pytest.raises(inferstore.FileError, match="it changed while it was uploaded"):
        _client._blocking(_files.store)(client, source, "samples")
    assert client.files("samples")["total"] == 0


@contextlib.contextmanager
def scripted(respond: Callable[[BaseHTTPRequestHandler], tuple[int, dict[str, str], bytes]]) -> Iterator[str]:
    """A server that responds as it is told."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, headers, body = respond(self)
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = handle_one

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def envelope(data: object) -> bytes:
    return json.dumps({"status": "success", "message": None, "new": {}, "data": data}).encode()


def test_null_fields_new_words_new_fields_and_many_digits_are_read() -> None:
    digits = "128.507300000000000001"
    replies: dict[str, bytes] = {
        "/balance": envelope({"balance": digits, "free_balance": None, "color": {"new": 1}}),
        "/model/list": b'{"status":"success","data":{"records":null,"total":null}}',
        "/model/m": b'{"status":"success","data":{"id":"m","visibility":"secret","price":0.100000000000000000001}}',
        "/model/m/task/cost": b'{"status":"success","data":{"cost":123456789012345678901}}',
        "/task/t/detail": b'{"status":"success","data":{"task_id":"t","status":"success","result":'
        b'{"result":{"score":0.5,"count":3,"list":[1.25]},"error":null},"cost":null,"message":null}}',
    }
    with (
        scripted(lambda request: (201, {}, replies[request.path.removeprefix("/api/v1/api-key")])) as url,
        Client(url + "/api/v1", "key") as client,
    ):
        assert client.balance()["balance"] == digits
        assert client.models() == {"records": None, "total": None}
        assert client.model("m")["price"] == Decimal("0.100000000000000000001")
        assert client.cost("m")["cost"] == Decimal("123456789012345678901")
        outcome = client.wait("t")
        assert (outcome.cost, outcome.output) == (None, {"score": 0.5, "count": 3, "list": [1.25]})
        assert json.dumps(outcome.output)


def test_no_key_reaches_another_host_and_no_secret_reaches_a_text(
    service: Service, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    seen: list[dict[str, str]] = []
    key = "isk_secret-key-0123456789"

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        seen.append(dict(request.headers))
        if request.path.startswith("/elsewhere"):
            return 200, {}, PIXEL
        if request.path.startswith("/go"):
            return (
                302,
                {
                    "location": f"http://localhost:{request.server.server_port}/elsewhere?X-Amz-Signature=s3cr3ts1gnature"
                },
                b"",
            )  # type: ignore[attr-defined]
        if request.path.endswith("create-presigned-url"):
            endpoint = f"http://{request.headers['host']}/bucket?X-Amz-Algorithm=a&X-Amz-Signature=s3cr3ts1gnature"
            data = {"endpoint": endpoint, "download_url": "https://f.example/a", "fields": '{"policy": "s3cr3tp0licy"}'}
            return 200, {}, envelope(data)
        if request.path.startswith("/bucket"):
            return (
                400,
                {},
                b"<Error><Code>Bad</Code><Message>s3cr3ts1gnature s3cr3tp0licy isk_secret-key-0123456789</Message></Error>",
            )
        if request.path.endswith("/keys"):
            return 200, {}, b'{"status": 1, "data": {"id": "1", "key": "s3cr3tk3y-of-the-account'
        if request.path.endswith("/balance"):
            return 307, {"location": f"http://localhost:{request.server.server_port}/elsewhere"}, b""  # type: ignore[attr-defined]
        return (
            500,
            {},
            json.dumps({"status": "fail", "message": f"\x1b[31m{key}\n https://u:p@h.example/?sig=1"}).encode(),
        )

    with caplog.at_level(logging.DEBUG), scripted(respond) as url, Client(url + "/api/v1", key) as client:
        assert client.download_bytes(url + "/go") == PIXEL
        texts = [
            repr(client),
            str(vars(client)),
            repr(client._api),
            repr(client._api._core),
            repr(client._api._core.key),
            repr(File(b"secret-content", "a")),
        ]
        for action in (
            lambda: client.upload(File(PIXEL, "a.png")),
            client.balance,
            lambda: client.create_key("laptop"),
            lambda: client.model("m"),
            lambda: client.run(ModelId("m"), {"a": 1}),
        ):
            with pytest.raises(inferstore.InferstoreError) as failed:
                action()
            error: BaseException | None = failed.value
            while error:
                texts += [str(error), repr(error), *getattr(error, "__notes__", [])]
                error = error.__cause__ or error.__context__
    texts += [record.getMessage() for record in caplog.records]
    for text in texts:
        for secret in (key, "s3cr3ts1gnature", "s3cr3tp0licy", "u:p@", "sig=1", "\x1b", "s3cr3tk3y", "secret-content"):
            assert secret not in text, text
    for headers in seen:
        names = {name.lower() for name in headers}
        assert "x-api-key" not in names or not headers.get("Host", headers.get("host", "")).startswith("localhost")


def test_settings_that_cannot_work_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INFERSTORE_BASE_URL", raising=False)
    monkeypatch.setenv("INFERSTORE_API_KEY", "k")
    for base_url, key, problem in [
        (None, "k", "INFERSTORE_BASE_URL"),
        ("ftp://h/api/v1", "k", "root of an API"),
        ("https://h/api/v1?a", "k", "root of an API"),
        ("https://h/api/v1#a", "k", "root of an API"),
        ("https://h/api/v1", "se cret", "header cannot carry"),
        *((f"http://{host}/api/v1", "k", "allow_insecure_http") for host in ("h", "127.0.0.1.h", "10.0.0.1", "[::2]")),
    ]:
        with pytest.raises(inferstore.InvalidArgument, match=problem) as refused:
            Client(base_url, key)
        assert "se cret" not in str(refused.value)
    for host in ("localhost", "a.localhost", "127.1.2.3", "[::1]"):
        Client(f"http://{host}:1/api/v1", "k").close()
    Client("http://h/api/v1", "k", allow_insecure_http=True).close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_base_url_that_redirects_is_reported_and_not_followed(status: int) -> None:
    seen: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        seen.append(request.path)
        return status, {"location": "/new" + request.path + "?sig=s3cr3t"}, b"moved"

    with scripted(respond) as url, Client(url + "/api/v1", "key") as client:
        with pytest.raises(inferstore.ApiError) as failed:
            client.balance()
        assert str(failed.value) == f"getBalance failed with {status}: the base URL redirects to {url}/new/api/v1"
        assert "base URL" in failed.value.hint and failed.value.status == status and len(seen) == 1


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "ALL_PROXY"])
def test_no_proxy_of_the_environment_is_used_to_this_machine(
    variable: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        seen.append(request.path)
        return 200, {}, envelope({})

    async def call(base_url: str) -> None:
        async with AsyncClient(base_url, "k") as client:
            await client.balance()

    monkeypatch.setattr(_transport, "MAX_ATTEMPTS", 1)
    with scripted(respond) as proxy:
        monkeypatch.setenv(variable, proxy)
        with service.client() as client:
            assert client.balance()
        for host in ("127.0.0.1", "127.0.0.2", "127.255.0.1", "localhost", "x.localhost", "X.Y.localhost", "[::1]"):
            with Client(f"http://{host}:9/api/v1", "k") as client, pytest.raises(inferstore.TransportError):
                client.balance()
            with pytest.raises(inferstore.TransportError):
                asyncio.run(call(f"http://{host}:9/api/v1"))
        assert not seen
        with Client("http://host.example/api/v1", "k", allow_insecure_http=True) as client:
            client.balance()
        assert seen


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://user:s3cr3t@proxy.example:1080"),
        ("HTTPS_PROXY", "ftp://user:s3cr3t@proxy.example"),
        ("HTTP_PROXY", "http://proxy.example:port"),
        ("NO_PROXY", "fd00::/8"),
        ("NO_PROXY", "[::1]"),
        ("SSL_CERT_FILE", "/nope"),
        ("SSL_CERT_FILE", __file__),
    ],
)
def test_an_environment_that_cannot_be_used_is_named(
    variable: str, value: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
    monkeypatch.setenv(variable, value)

    async def call() -> None:
        async with service.async_client() as client:
            await client.balance()

    def blocking() -> None:
        with service.client() as client:
            client.run(ModelId(MODEL), INPUTS)

    for work in (blocking, lambda: asyncio.run(call())):
        with pytest.raises(inferstore.InvalidArgument, match=f"environment.*{variable}") as refused:
            work()
        assert "s3cr3t" not in str(refused.value)
    assert not service.requests()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own() -> None:
    ports: list[int] = []

    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        ports.append(request.client_address[1])
        return 200, {}, envelope({})

    def in_child(work: Callable[[], object]) -> None:
        pid = os.fork()
        if not pid:
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0

    with scripted(respond) as url:
        with Client(f"{url}/api/v1", "k") as client:
            client.balance()
            in_child(client.balance)
            client.balance()
        asynchronous = AsyncClient(f"{url}/api/v1", "k")
        with asyncio.Runner() as runner:
            runner.run(asynchronous.balance())
            in_child(lambda: asyncio.new_event_loop().run_until_complete(asynchronous.balance()))
            runner.run(asynchronous.balance())
            runner.run(asynchronous.close())
    for own, of_child, again in (ports[:3], ports[3:]):
        assert own == again != of_child


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_beside_a_busy_thread_leaves_the_child_no_lock_that_is_held() -> None:
    core = Client("http://127.0.0.1:9/api/v1", "k")._api._core
    is_held = threading.Event()

    def hold() -> None:
        with core.lock:
            is_held.set()
            time.sleep(0.3)

    threading.Thread(target=hold).start()
    is_held.wait()
    pid = os.fork()
    if not pid:
        signal.alarm(5)
        core.claim("t")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def test_waits_leave_other_calls_their_retries(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "RETRY_BUDGET", 4)
    monkeypatch.setattr(_transport, "MAX_BACKOFF", 0.01)
    with service.client() as client:
        service.fault("hang_up", operation="getTask")
        with pytest.raises(inferstore.DeadlineReached):
            client.wait("t", deadline=1)
        # Five for the first read, which spends the budget of waits, and one for the last read.
        assert len(service.requests("getTask")) >= 6
        service.fault("hang_up", operation="getBalance", times=4)
        assert client.balance()


@pytest.mark.parametrize(
    "name", ["X-Amz-Signature", "AWSAccessKeyId=a&Signature", "X-Goog-Signature", "a='&sig", "x-amz-signature"]
)
def test_no_log_has_the_query_of_a_stored_file(name: str, caplog: pytest.LogCaptureFixture) -> None:
    def respond(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        location = {"location": f"/file?{name}=s3cr3t"}
        return (302, location, b"") if request.path.startswith("/go") else (200, {}, PIXEL)

    async def download(base_url: str, url: str) -> bytes:
        async with AsyncClient(base_url, "k") as client:
            return await client.download_bytes(url)

    with caplog.at_level(logging.DEBUG), scripted(respond) as url, Client(f"{url}/api/v1", "k") as client:
        assert client.download_bytes(f"{url}/go?{name}=s3cr3t") == PIXEL
        assert asyncio.run(download(f"{url}/api/v1", f"{url}/go?{name}=s3cr3t")) == PIXEL
        httpx.get(f"{url}/?of=another-program", trust_env=False)
    texts = [record.getMessage() for record in caplog.records]
    assert not [text for text in texts if "s3cr3t" in text]
    assert any("/file?…" in text for text in texts) and any("of=another-program" in text for text in texts)


def test_an_error_can_be_copied_and_pickled() -> None:
    call = inferstore.ApiError("m", "h", operation="getBalance", status=502, attempts=3)
    for error in (
        call,
        inferstore.InvalidInputs("m", {"a": "b"}),
        inferstore.OutcomeUnknown(call, ["t"], "complete"),
        inferstore.OutcomeUnknown(call, [], "not read", "k"),
        inferstore.CostLimitExceeded(None, Decimal(1)),
        inferstore.ModelOffline("m"),
        inferstore.TaskFailed("t", "out of memory", None, "limit"),
        inferstore.DeadlineReached("the task has not ended", "t"),
        inferstore.FileError("a", "b", status=403),
    ):
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(other), other.args, vars(other)) == (type(error), error.args, vars(error))


def test_a_response_that_cannot_be_decompressed_is_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transport, "MAX_BACKOFF", 0.01)
    with scripted(lambda _: (200, {"content-encoding": "gzip"}, b"no gzip")) as url:
        with Client(f"{url}/api/v1", "k") as client:
            with pytest.raises(inferstore.TransportError, match="got no response") as failed:
                client.balance()
            assert failed.value.in_doubt
            with pytest.raises(inferstore.FileError, match="gave no response"):
                client.download_bytes(f"{url}/a.png")


class OutageUntilCancel(httpx.HTTPTransport):
    """A gateway that rejects every read until a cancel was sent."""

    is_over = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.is_over |= request.method == "DELETE"
        is_rejected = request.url.path.endswith("/detail") and not self.is_over
        return httpx.Response(503) if is_rejected else super().handle_request(request)


def test_a_refused_cancel_is_followed_by_a_read(client: Client, service: Service) -> None:
    service.model(then="succeed", output=OUTPUT)
    task = client.create_once(ModelId(MODEL), INPUTS)
    client.wait(task)
    with service.client(http=httpx.Client(transport=OutageUntilCancel())) as other:
        assert other.wait(task, deadline=3, cancel_at_deadline=True).output == OUTPUT
    assert len(service.requests("cancelTask")) == 1
    service.fault("status", operation="getTask", status=503)
    with pytest.raises(inferstore.DeadlineReached, match="the state of the task is unknown"):
        client.wait(task, deadline=1, cancel_at_deadline=True)


def test_nothing_listens_there() -> None:
    with Client("http://127.0.0.1:9/api/v1", "k") as client:
        with pytest.raises(inferstore.TransportError) as failed:
            client.balance()
        assert failed.value.is_retryable and failed.value.attempts == 5 and not failed.value.in_doubt
    with Client("http://127.0.0.1:9/api/v1", "k", http=httpx.Client()) as client:
        with pytest.raises(inferstore.DeadlineReached, match="this call created no task"):
            client.run(ModelId("m"), {}, deadline=0)
