"""`inferstore.testing` and the pytest fixture, as the tests of other programs use them."""

from __future__ import annotations

import os
import re
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from conftest import PIXEL, Service

import inferstore
from inferstore import testing

ROOT = Path(__file__).parent.parent
# The page is beside a copy of this package too.
PAGE = next(path for path in (ROOT / "docs/testing.md", ROOT.parent.parent / "docs/testing.md") if path.exists())
DOCUMENTED = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S))
PROGRAM = """
import sys
from pathlib import Path
import inferstore

with inferstore.Client() as client:
    client.run("haze-removal", {"input_image": Path(sys.argv[1])})
"""
NEXT_TEST = """
import os, subprocess, sys


def test_begins_afresh(inferstore_service):
    assert inferstore_service.requests() == []
    program = "import inferstore; print(inferstore.Client().tasks()['total'])"
    environment = {**os.environ, **inferstore_service.environment}
    assert subprocess.check_output([sys.executable, "-c", program], env=environment).strip() == b"0"
"""


def test_a_test_needs_no_more_than_the_name_of_the_fixture(tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(PIXEL)
    (tmp_path / "enhance.py").write_text(PROGRAM)
    (tmp_path / "test_user.py").write_text(DOCUMENTED + NEXT_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_user.py"]
    # A setting of the person who runs the tests.
    environment = {**os.environ, "INFERSTORE_FIRST_KEY": "a key of somebody else", "INFERSTORE_LOG": "trace"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0 and "3 passed" in ran.stdout, ran.stdout + ran.stderr


def test_a_program_is_tested_at_a_later_time_and_with_a_model_that_fails(service: Service) -> None:
    service.script("color-extraction", "fail", message="out of memory")
    with service.client() as client, pytest.raises(inferstore.TaskFailed, match="out of memory"):
        client.run("color-extraction", {"input": "https://files.example/a.png"})
    before = service.control("GET", "/")["time"]
    service.advance(86400)
    assert service.control("GET", "/")["time"] > before
    assert [request["operation"] for request in service.requests("createTask")] == ["createTask"]


def test_a_fault_that_can_never_fire_is_rejected(service: Service) -> None:
    with pytest.raises(ValueError, match="POST /faults is rejected: .*createTsk"):
        service.fault("hang_up", operation="createTsk")


def test_a_service_leaves_nothing_behind() -> None:
    with testing.Service.start() as service:
        folder = Path(service.data_folder)
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.base_url, trust_env=False)
    service.stop()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no pidfd reports the end of another process")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_service_ends_with_the_process_that_started_it(number: int) -> None:
    program = """
import os, sys
from inferstore import testing
service = testing.Service.start()
print(service._process.pid, flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), int(sys.argv[1]))
"""
    command = [sys.executable, "-c", program, str(number)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        end = os.pidfd_open(int(process.stdout.readline()))
        process.stdin.write(b".")
        process.stdin.close()
        try:
            assert select.select([end], [], [], 30)[0]
        finally:
            os.close(end)


def test_a_service_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"exit code 2: (.|\n)*--no-such-option"):
        testing.Service.start("--no-such-option")
    monkeypatch.delenv("INFERSTORE_COMMAND")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match="inferstore-bin does, or set INFERSTORE_COMMAND to the path of a built one"
    ):
        testing.Service.start()
    program = tmp_path / "inferstore"
    program.write_text("#!/bin/sh\necho it is the one of PATH >&2\nexit 7\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(RuntimeError, match="exit code 7: it is the one of PATH"):
        testing.Service.start()
    monkeypatch.setenv("INFERSTORE_COMMAND", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="none cannot be started: No such file .*; INFERSTORE_COMMAND names it"):
        testing.Service.start()


def test_an_option_takes_the_place_of_the_usual_one() -> None:
    with testing.Service.start("--port=0", "--no-console") as service:
        assert service.base_url


def test_a_start_that_fails_or_is_interrupted_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, pid, ended = tmp_path / "program", tmp_path / "pid", tmp_path / "ended"
    monkeypatch.setenv("INFERSTORE_COMMAND", str(program))
    # Python raises nothing where SIGINT is ignored, as in a background job of a shell.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not pid.exists() or not pid.read_text().strip():
            time.sleep(0.01)
        # To this thread: what the main thread waits for does not end by it, as with Ctrl-C just before a wait.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    for says, expected, match in (
        ("echo hello", RuntimeError, "serve printed something else than where it serves: hello"),
        (":", KeyboardInterrupt, None),
    ):
        endless = "while :; do sleep 0.05; done"
        program.write_text(f"#!/bin/sh\ntrap 'echo > {ended}; exit' TERM\necho $$ > {pid}\n{says}\n{endless}\n")
        program.chmod(0o700)
        if expected is KeyboardInterrupt:
            threading.Thread(target=interrupt).start()
        with pytest.raises(expected, match=match):
            testing.Service.start()
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)
        pid.unlink()
        # It was told to end, and not killed when the time of a start was over.
        ended.unlink()
    signal.signal(signal.SIGINT, before)
