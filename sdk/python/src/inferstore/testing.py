"""An ephemeral service for tests of other programs, with controls that make it fail.

In pytest, the fixture `inferstore_service` is a `Service`. Elsewhere, `Service.start()` starts one. It is the command
`inferstore`, which the package inferstore-bin puts beside Python; `INFERSTORE_COMMAND` names another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sysconfig
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import httpx

from ._client import AsyncClient, Client

__all__ = ["Service"]

_COMMAND_VARIABLE = "INFERSTORE_COMMAND"
_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 15.0
_SERVE = ("serve", "--ephemeral", "--port=0", "--storage-port=0", "--controls-port=0", "--ready-json", "--no-console")


class Service:
    """A running service. Leaving its `with` block stops it, and removes its data; so does the end of this process, except
    on Windows."""

    base_url: str
    """The root of the API, which ends in `/api/v1`."""
    api_key: str
    """The key of the account `demo`."""
    data_folder: str
    """The folder of the data, which the end of the service removes."""

    def __init__(self, process: _Process, ready: dict[str, Any]) -> None:
        """Takes a service that runs: see `start`."""
        self._process = process
        self.base_url = ready["base_url"]
        self.api_key = ready["api_key"]
        self.data_folder = ready["data_dir"]
        self._controls = httpx.Client(
            base_url=ready["controls_url"],
            headers={"authorization": f"Bearer {ready['controls_token']}"},
            timeout=30,
            trust_env=False,
        )
        self.environment: dict[str, str] = {
            "INFERSTORE_BASE_URL": self.base_url,
            "INFERSTORE_API_KEY": self.api_key,
            "INFERSTORE_CONTROLS_URL": ready["controls_url"],
            "INFERSTORE_CONTROLS_TOKEN": ready["controls_token"],
        }
        """Variables for a program that calls the service, and for one that controls it."""

    @classmethod
    def start(cls, *options: str) -> Self:
        """Starts a service on free ports. `options` are those of `inferstore serve`, such as `--port=8787`."""
        command = _command()
        # Settings of the person who runs the tests, such as a first key, are not those of the test.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("INFERSTORE_")}
        environment["INFERSTORE_LOG"] = "error"
        given = {option.partition("=")[0] for option in options}
        serve = [option for option in _SERVE if option.partition("=")[0] not in given]
        with tempfile.TemporaryFile("w+") as log, ThreadPoolExecutor(1) as pool:
            # Ctrl-C does not interrupt a thread halfway.
            starting = pool.submit(_Process, [command, *serve, *options], environment, log)
            try:
                process = starting.result()
                line = process.first_line()
                if not line:
                    code = process.wait()
                    log.seek(0)
                    raise RuntimeError(f"{command} serve did not start, exit code {code}: {log.read().strip()}")
                try:
                    ready = json.loads(line)
                except ValueError:
                    problem = "printed something else than where it serves"
                    raise RuntimeError(f"{command} serve {problem}: {line.strip()[:200]}") from None
                return cls(process, ready)
            except BaseException:
                if starting.exception() is None:
                    starting.result().stop()
                raise

    def stop(self) -> None:
        """Stops the service. A second call has no effect."""
        self._controls.close()
        self._process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def client(self, **options: Any) -> Client:
        """Returns a client of the service, with these options of `Client`."""
        return Client(**{"base_url": self.base_url, "api_key": self.api_key, **options})

    def async_client(self, **options: Any) -> AsyncClient:
        """Returns a client of the service for asyncio and trio."""
        return AsyncClient(**{"base_url": self.base_url, "api_key": self.api_key, **options})

    def reset(self) -> None:
        """Restores the state of the start: money, tasks, files, clock; without faults and scripts."""
        self.control("POST", "/reset")

    def fault(self, effect: str, **fields: Any) -> int:
        """Adds a fault, such as `fault("lose_response", operation="createTask", times=1)`; returns its identifier."""
        added: dict[str, int] = self.control("POST", "/faults", {"effect": effect, **fields})
        return added["id"]

    def clear_faults(self) -> None:
        """Removes all faults."""
        self.control("DELETE", "/faults")

    def script(self, model: str, then: str, **fields: Any) -> None:
        """Sets the end of each task of a model, such as `script("haze-removal", "fail", message="out of memory")`."""
        self.control("PUT", f"/models/{model}", {"then": then, **fields})

    def advance(self, seconds: float) -> None:
        """Sets the clock of the service ahead."""
        self.control("POST", "/clock/advance", {"seconds": seconds})

    def requests(self, operation: str | None = None) -> list[dict[str, Any]]:
        """Returns the requests that the service received since the last reset, those of an operation or all."""
        found: list[dict[str, Any]] = self.control(
            "GET", f"/journal?operation={operation}" if operation else "/journal"
        )
        return found

    def control(self, method: str, path: str, body: object = None) -> Any:
        """Sends any request of `docs/controls.md`, and returns `data` of its response.

        Raises `ValueError` when the service rejects the request.
        """
        response = self._controls.request(method, path, json=body)
        if not response.is_success:
            raise ValueError(f"{method} {path} is rejected: {response.json().get('message', response.text)}")
        return response.json().get("data")


class _Process:
    """A process that ends with this one, however that ends, where there is a shell."""

    def __init__(self, command: list[str], environment: dict[str, str], log: IO[str]) -> None:
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        try:
            # Ctrl-C of a terminal reaches the tests alone, and their end is that of the service.
            self._process = subprocess.Popen(
                command, stdout=pipe, stderr=log, text=True, env=environment, start_new_session=True
            )
        except OSError as error:
            origin = f"{_COMMAND_VARIABLE} names it" if os.environ.get(_COMMAND_VARIABLE) else "PATH leads to it"
            raise RuntimeError(f"the command {command[0]} cannot be started: {error.strerror}; {origin}") from None
        self.pid = self._process.pid
        # A process that is killed runs no code of its own, but the standard input of a program that it started ends.
        watch = ["sh", "-c", 'read -r _; kill "$0"', str(self.pid)]
        self._watch = None
        with contextlib.suppress(OSError):
            self._watch = subprocess.Popen(watch, stdin=pipe, stdout=null, stderr=null, start_new_session=True)

    def first_line(self) -> str:
        """Returns the first line of the output, or nothing if the process ends before or is late."""
        stdout = self._process.stdout
        assert stdout is not None
        timeout = threading.Timer(_START_TIMEOUT, self._process.kill)
        timeout.start()
        try:
            # Ctrl-C just before a read does not end it, so this waits in steps. Windows cannot wait for a pipe.
            while os.name == "posix" and not select.select([stdout], [], [], 0.1)[0]:
                pass
            return stdout.readline()
        finally:
            timeout.cancel()

    def wait(self) -> int:
        return self._process.wait()

    def stop(self) -> None:
        if self._watch is not None and self._watch.stdin is not None:
            self._watch.kill()
            self._watch.wait()
            self._watch.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _command() -> str:
    """Returns the command that `INFERSTORE_COMMAND` names, that beside this Python or package, or that of PATH."""
    named = os.environ.get(_COMMAND_VARIABLE)
    # `pip install --target` puts it beside the packages.
    beside = os.pathsep.join([sysconfig.get_path("scripts"), str(Path(__file__).parents[1] / "bin")])
    found = named or shutil.which("inferstore", path=beside) or shutil.which("inferstore")
    if not found:
        raise FileNotFoundError(
            f"there is no command inferstore: put it in PATH, as the package inferstore-bin does, or set {_COMMAND_VARIABLE} "
            "to the path of a built one, such as target/debug/inferstore"
        )
    return found
