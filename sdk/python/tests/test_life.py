"""The life of a caller, with both clients."""

from __future__ import annotations

import asyncio
import errno
import numbers
import os
import time
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import INPUTS, MODEL, PIXEL, Service

import inferstore
from inferstore import Client, File, ModelId, _inputs, _tasks, _transport, testing


def picture(folder: Path, name: str = "a.png") -> Path:
    path = folder / name
    path.write_bytes(PIXEL)
    return path


def test_a_run_uploads_waits_and_saves_its_output(client: Client, tmp_path: Path) -> None:
    inputs = {"input_image": picture(tmp_path), "template": "v_shape", "angle": 30}
    outcome = client.run(ModelId(MODEL), inputs, deadline=60, max_cost="1")
    assert isinstance(outcome.cost, Decimal) and len(outcome.stored_inputs) == 1
    paths = client.save(outcome, tmp_path / "out")
    assert set(paths) == {"output_image", "output_hue"} and all(path.stat().st_size for path in paths.values())
    assert {path.suffix for path in paths.values()} <= {".png", ".jpg", ".webp"}
    assert client.task(outcome.task).get("input_data", {})["angle"] == "30"
    again = client.save(outcome, tmp_path / "out")
    assert not set(again.values()) & set(paths.values()), "nothing is overwritten"


def test_both_tiers_store_what_was_sent(client: Client, service: Service, tmp_path: Path) -> None:
    large = tmp_path / "é 1.mp4"
    large.write_bytes(b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 20_481)
    for file, content, mime in [
        (picture(tmp_path), PIXEL, "image/png"),
        (File(PIXEL, 'a "quoted".png'), PIXEL, "image/png"),
        (File(b"II*\0....", "a"), b"II*\0....", "image/tiff"),
        (File(b"MM\0*....", "a"), b"MM\0*....", "image/tiff"),
        (large, large.read_bytes(), "video/mp4"),
    ]:
        stored = client.upload(file, deadline=60)
        assert (stored.mime, stored.size) == (mime, len(content))
        assert client.download_bytes(stored.download_url) == content
        client.delete_file(stored.download_url)
    assert [len(service.requests(name)) for name in ("postObject", "putObject")] == [4, 1]


def test_the_asynchronous_client_does_the_same(service: Service, tmp_path: Path) -> None:
    async def life() -> None:
        async with service.async_client() as client:
            stored = await client.upload(picture(tmp_path))
            big = await client.upload(File(bytes(5_242_881), "b.bin"))
            assert await client.download_bytes(stored.download_url) == PIXEL
            assert (await client.download(big.download_url, tmp_path / "b.bin")).stat().st_size == 5_242_881
            inputs = {"input_image": stored.download_url, "template": "v_shape", "angle": "30"}
            outcomes = await asyncio.gather(*(client.run(ModelId(MODEL), inputs, deadline=60) for _ in range(3)))
            assert len({outcome.task for outcome in outcomes}) == 3
            balance = await client.balance()
            assert Decimal(balance["balance"] or "") > 0
            page = await client.models(search="harmonization", limit=1)
            assert [model["id"] for model in page["records"] or []] == [MODEL]

    asyncio.run(life())


def test_reads_of_the_catalog(client: Client) -> None:
    assert isinstance(client.model(MODEL)["price"], Decimal)
    assert set(client.declaration(MODEL)["input_format"] or {}) == set(INPUTS)
    assert isinstance(client.cost(MODEL)["cost"], Decimal)
    assert client.serving(MODEL)["serving"] is True
    assert client.files("samples")["total"] == 0
    assert client.statistics()["total_files"] == 0


def test_a_key_that_an_account_makes_is_shown_to_who_asks_for_it() -> None:
    with testing.Service.start("--owners-manage-keys", "yes") as service, service.client() as client:
        made = client.create_key("nightly", daily_limit="5")
        with service.client(api_key=made.key) as other:
            assert other.balance()["balance"]
        assert made.key not in f"{made} {made!r} {vars(client)}" and made.id in repr(made)
        [record] = [record for record in client.keys()["records"] or [] if record["id"] == made.id]
        assert (record["name"], record["daily_limit"], record["is_current"]) == ("nightly", "5", False)
        with pytest.raises(inferstore.ApiError) as twice:
            client.create_key("nightly")
        assert twice.value.status == 409
        client.revoke_key(made.id)
        with service.client(api_key=made.key) as other, pytest.raises(inferstore.ApiError, match="401"):
            other.balance()


def test_wrong_inputs_are_refused_before_anything_is_uploaded(client: Client, service: Service, tmp_path: Path) -> None:
    for change, problem in [
        ({"angle": 91}, "a whole number from 1 to 90"),
        ({"angle": "30.5"}, "a whole number from 1 to 90"),
        ({"angle": True}, "a whole number"),
        ({"template": "v_shpe"}, 'did you mean "v_shape"?'),
        ({"input_image": "photo.jpg"}, "pathlib.Path"),
        ({"input_imgae": "https://a.example/"}, 'did you mean "input_image"?'),
        ({"angle": None}, "required but not given"),
    ]:
        with pytest.raises(inferstore.InvalidInputs, match=problem.replace("?", r"\?")):
            client.run(ModelId(MODEL), {**INPUTS, "input_image": picture(tmp_path), **change})
    for file in (tmp_path / "missing", tmp_path):
        with pytest.raises(inferstore.FileError, match="cannot be read"):
            client.upload(file)
    with pytest.raises(inferstore.FileError, match="empty"):
        client.upload(File(b"", "a"))
    assert not service.requests("createPresignedUpload") and not service.requests("createTask")


def test_numbers_are_sent_as_the_samples_show_them(client: Client) -> None:
    for angle in (30, "30", 30.0, Decimal("30"), "30.0", " 30 "):
        task = client.create_once(ModelId(MODEL), {**INPUTS, "angle": angle})
        assert client.task(task)["input_data"]["angle"] == "30"


class Small:
    """A number of another library."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        return f"Small({self.value})"

    def __ge__(self, other: float) -> bool:
        return self.value >= other


class SmallInt(Small):
    pass


numbers.Real.register(Small)
numbers.Integral.register(SmallInt)


def test_numbers_of_other_libraries_work_like_those_of_python(client: Client) -> None:
    inputs: Mapping[str, Any] = {**INPUTS, "angle": SmallInt(30)}
    task = client.create_once(ModelId(MODEL), inputs, deadline=SmallInt(60), max_cost=SmallInt(1))  # type: ignore[arg-type]
    assert client.task(task).get("input_data", {})["angle"] == "30"
    with pytest.raises(inferstore.InvalidArgument, match="max_cost"):
        client.create_once(ModelId(MODEL), inputs, max_cost=Small(0.5))  # type: ignore[arg-type]
    declared: dict[str, Any] = {"part": {"type": "float"}, "note": {"type": "string"}, "rest": {"type": "json"}}
    values = _inputs.check("m", declared, {"part": Small(0.5), "note": SmallInt(3), "rest": Small(0.25)})
    assert values == {"part": "0.5", "note": "3", "rest": 0.25}
    nested = {"list": [SmallInt(1), {"a": Small(0.5)}]}
    assert _transport.encode(nested) == b'{"list": [1, {"a": 0.5}]}'
    assert _tasks.fingerprint(nested) == _tasks.fingerprint({"list": [1, {"a": 0.5}]})


def test_every_url_of_an_output_is_saved(client: Client, service: Service, tmp_path: Path) -> None:
    one, two = (client.upload(File(PIXEL, name)).download_url for name in ("a.png", "b.png"))
    output = {"images": [one, {"left": two}], "main": one, "score": 1, "none": []}
    outcome = inferstore.Outcome("t", output, None, [], False, {})
    paths = client.save(outcome, tmp_path)
    assert {name: path.name for name, path in paths.items()} == {
        "images/0": "t-images_0.png",
        "images/1/left": "t-images_1_left.png",
        "main": "t-main.png",
    }
    assert {path.read_bytes() for path in paths.values()} == {PIXEL}
    outcome = inferstore.Outcome("t", one, None, [], False, {})
    assert list(client.save(outcome, tmp_path)) == ["output"]


def test_only_a_regular_file_is_replaced(client: Client, service: Service, tmp_path: Path) -> None:
    url = client.upload(File(PIXEL, "a.png")).download_url
    regular, link, dangling, pipe = (tmp_path / name for name in ("regular", "link", "dangling", "pipe"))
    regular.write_bytes(b"before")
    link.symlink_to(regular)
    dangling.symlink_to(tmp_path / "missing")
    os.mkfifo(pipe)
    for path in (link, dangling, pipe, tmp_path):
        with pytest.raises(inferstore.FileError, match="only a regular file is replaced"):
            client.download(url, path, overwrite=True)
    assert link.is_symlink() and dangling.is_symlink() and pipe.is_fifo() and regular.read_bytes() == b"before"
    assert not service.requests("getObject")
    with pytest.raises(inferstore.FileError, match="exists already"):
        client.download(url, dangling)
    assert client.download(url, regular, overwrite=True).read_bytes() == PIXEL


def test_what_is_no_file_is_refused_and_any_name_is_stored(client: Client, tmp_path: Path) -> None:
    with pytest.raises(inferstore.InvalidArgument, match="got an object of type bytes") as refused:
        client.upload(b"secret content")  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)
    with pytest.raises(inferstore.FileError, match="null byte"):
        client.upload(Path("a\0b"))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png"))
    with pytest.raises(inferstore.FileError, match="cannot be read") as missing:
        client.upload(odd)
    str(missing.value).encode()
    odd.write_bytes(PIXEL)
    assert client.upload(odd).name == "caf?.png"
    client.create_once(ModelId(MODEL), {**INPUTS, "input_image": odd})


def test_a_price_above_the_limit_creates_nothing(client: Client, service: Service) -> None:
    with pytest.raises(inferstore.CostLimitExceeded):
        client.run(ModelId(MODEL), INPUTS, max_cost="0.000001")
    with pytest.raises(inferstore.InvalidArgument, match="max_cost"):
        client.run(ModelId(MODEL), INPUTS, max_cost=0.1)  # type: ignore[arg-type]
    service.control("PUT", "/node", {"up": False})
    with pytest.raises(inferstore.ModelOffline) as offline:
        client.run(ModelId(MODEL), INPUTS, require_serving=True)
    assert offline.value.is_retryable and not service.requests("createTask")


def test_a_deadline_ends_a_run_and_can_cancel_its_task(client: Client, service: Service) -> None:
    service.model(then="stay_queued")
    for cancel, disposition in [(False, "has not ended"), (True, "was canceled while it was queued")]:
        begun = time.monotonic()
        with pytest.raises(inferstore.DeadlineReached, match=disposition) as reached:
            client.run(ModelId(MODEL), INPUTS, deadline=1.5, cancel_at_deadline=cancel)
        assert time.monotonic() - begun < 1.75
        status = client.task(reached.value.task or "")["status"]
        assert status == ("canceled" if cancel else "in_queue")


def test_a_failed_task_carries_its_message(client: Client, service: Service) -> None:
    service.model(then="fail", message="out of memory")
    with pytest.raises(inferstore.TaskFailed, match="out of memory") as failed:
        client.run(ModelId(MODEL), INPUTS)
    assert failed.value.task and "not billed" in failed.value.hint
    assert "its program failed" in failed.value.hint
    service.model(then="stay_queued")
    task = client.create_once(ModelId(MODEL), INPUTS)
    client.cancel(task)
    with pytest.raises(inferstore.TaskCanceled):
        client.wait(task)


def test_the_same_key_is_the_same_task(client: Client, tmp_path: Path) -> None:
    inputs = {**INPUTS, "input_image": picture(tmp_path)}
    tasks = {client.create_once(ModelId(MODEL), inputs, key="invoice-17") for _ in range(3)}
    assert len(tasks) == 1
    with pytest.raises(inferstore.ApiError) as conflict:
        client.create_once(ModelId(MODEL), {**inputs, "angle": 31}, key="invoice-17")
    assert conflict.value.status == 409 and not conflict.value.is_retryable


@pytest.mark.parametrize("key", ["", "a b", "é", "k" * 256, "k\n", 17, uuid.UUID(int=1)])
def test_a_key_that_cannot_be_sent_is_refused_before_anything_is_sent(
    key: str, client: Client, service: Service, tmp_path: Path
) -> None:
    with pytest.raises(inferstore.InvalidArgument, match="key: expected 1 to 255"):
        client.create_once(ModelId(MODEL), {**INPUTS, "input_image": picture(tmp_path)}, key=key)
    assert not service.requests()


def test_an_argument_of_another_type_is_refused(client: Client, service: Service) -> None:
    with pytest.raises(inferstore.InvalidArgument, match="deadline: '300' is no number"):
        client.run(ModelId(MODEL), INPUTS, deadline="300")  # type: ignore[arg-type]
    with pytest.raises(inferstore.InvalidArgument, match='"a.png" is not bytes'):
        client.upload(File("text", "a.png"))  # type: ignore[arg-type]
    for timeout in (0, -1, float("nan"), float("inf"), "60", None):
        with pytest.raises(inferstore.InvalidArgument, match="read_timeout: .* is no number of seconds"):
            service.client(read_timeout=timeout)
    assert not service.requests()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes in the file system")
def test_a_pipe_is_no_file_and_any_deadline_is_kept(client: Client, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(inferstore.FileError, match="it is a pipe, which cannot be read twice"):
        client.upload(pipe, deadline=10**400)


def test_a_download_needs_no_hard_links(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "link", link)
    url = client.upload(File(PIXEL, "a.png")).download_url
    assert client.download(url, tmp_path / "a.png").read_bytes() == PIXEL
    # Another program writes the file during the download.
    monkeypatch.setattr(Path, "exists", lambda _: False)
    with pytest.raises(inferstore.FileError, match="File exists"):
        client.download(url, tmp_path / "a.png")
    assert os.listdir(tmp_path) == ["a.png"]


def test_cancels_leave_the_connections_to_later_calls(service: Service) -> None:
    async def cancels() -> None:
        http = httpx.AsyncClient(limits=httpx.Limits(max_connections=2))
        async with service.async_client(http=http) as client:
            for number in range(60):
                run = asyncio.create_task(client.run(ModelId(MODEL), {**INPUTS, "input_image": File(PIXEL, "a.png")}))
                await asyncio.sleep(number / 2000)
                run.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await run
            assert await asyncio.wait_for(client.balance(), 5)

    asyncio.run(cancels())
