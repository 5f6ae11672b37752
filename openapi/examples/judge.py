#!/usr/bin/env python3
"""Judges a program that uses the API: does it survive lost responses, gateways, rate limits and broken transfers?

    python3 judge.py -- python3 my_program.py photo.png

starts an ephemeral service, and runs the program once without a fault and once for each fault, at the addresses and with
the key of BASE_URL and API_KEY (the same in INFERSTORE_BASE_URL and INFERSTORE_API_KEY). The program ends with 0 when it
has its result, and with another code when it has none: a last run, in which the service refuses its key, sees to that. The
exit code is 0 if the program survives every fault that it meets and reports the refusal, 1 if not, 2 if there is nothing
to judge.

Needs the standard library and the command `inferstore`, in PATH or as INFERSTORE_COMMAND.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request

HTML = {"headers": {"content-type": "text/html"}, "body": "<html><h1>502 Bad Gateway</h1></html>"}
# The operation, what happens to it, and the fault: see controls.md.
FAULTS = [
    ("createTask", "response lost, task made", {"effect": "lose_response"}),
    ("createTask", "connection closed, no task", {"effect": "hang_up"}),
    ("createTask", "response cut, task made", {"effect": "cut_body", "bytes": 20}),
    ("createTask", "502 in HTML, task made", {"effect": "status", "status": 502, "after_commit": True, **HTML}),
    ("createTask", "503, no task", {"effect": "status", "status": 503}),
    ("createTask", "429 with Retry-After", {"effect": "status", "status": 429, "retry_after": 1}),
    ("getTask", "connection closed", {"effect": "hang_up"}),
    ("getTask", "502 in HTML", {"effect": "status", "status": 502, **HTML}),
    ("getTask", "429 with Retry-After", {"effect": "status", "status": 429, "retry_after": 1}),
    ("getTask", "response cut", {"effect": "cut_body", "bytes": 20}),
    ("getTask", "a status that is new", {"effect": "set_field", "field": "/data/status", "value": "migrating"}),
    ("getTask", "no price", {"effect": "set_field", "field": "/data/cost", "times": None}),
    ("createPresignedUpload", "connection closed", {"effect": "hang_up"}),
    ("createPresignedUpload", "502 in HTML", {"effect": "status", "status": 502, **HTML}),
    ("postObject", "connection closed", {"effect": "hang_up"}),
    ("postObject", "503", {"effect": "status", "status": 503}),
    ("putObject", "connection closed", {"effect": "hang_up"}),
    ("putObject", "503", {"effect": "status", "status": 503}),
    ("getObject", "connection closed", {"effect": "hang_up"}),
    ("getObject", "503", {"effect": "status", "status": 503}),
]
# No program survives this one. One that ends with 0 lets its caller take the lack of a result for a result.
REFUSAL = ("every call: 401, no result", {"side": "api", "effect": "status", "status": 401})
SERVE = ["serve", "--ephemeral", "--port=0", "--storage-port=0", "--controls-port=0", "--ready-json", "--no-console"]
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Service:
    def __init__(self, command: str) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("INFERSTORE_")}
        own["INFERSTORE_LOG"] = "error"
        arguments = [command, *SERVE, "--balance=1000"]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, env=own, text=True)
        self.ready = json.loads(self.process.stdout.readline() or "null")
        if not self.ready:
            raise OSError(f"{command} serve does not start")
        address = {"BASE_URL": self.ready["base_url"], "API_KEY": self.ready["api_key"]}
        self.environment = {**own, **address, **{f"INFERSTORE_{name}": value for name, value in address.items()}}

    def control(self, method: str, path: str, body: object = None):
        headers = {"authorization": f"Bearer {self.ready['controls_token']}", "content-type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.ready["controls_url"] + path, content, headers, method=method)
        with DIRECT.open(request, timeout=30) as response:
            return json.load(response).get("data")

    def run(self, program: list[str], timeout: float) -> tuple[int | None, int, str]:
        """Runs the program. Returns its exit code, the number of its paid tasks, and its last line."""
        self.program = subprocess.Popen(
            program,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = self.program.communicate(timeout=timeout)
            code = self.program.returncode
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(self.program.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if code is None:
            output, _ = self.program.communicate()
        lines = output.decode(errors="replace").strip().splitlines()
        counts = self.control("GET", "/")["tasks"]
        paid = sum(count for status, count in counts.items() if status not in ("failed", "canceled"))
        return code, paid, lines[-1] if lines else "no output"


def verdict(code: int | None, paid: int, wanted: int) -> str:
    if paid > wanted:
        return "billed twice"
    return "hung" if code is None else "survived" if code == 0 and paid == wanted else "lost"


def is_reported(service: Service, program: list[str], timeout: float) -> bool:
    name, fault = REFUSAL
    service.control("POST", "/reset")
    service.control("POST", "/faults", fault)
    begun = time.monotonic()
    code, _, last = service.run(program, timeout)
    found = "hung" if code is None else "reported" if code != 0 else "unreported"
    more = "" if found == "reported" else f"  exit code {code}: {last}"
    print(f"{found:13}{time.monotonic() - begun:5.1f} s  {name}{more}"[:150], flush=True)
    return found == "reported"


def judge(service: Service, program: list[str], timeout: float, only: str) -> int:
    code, wanted, last = service.run(program, timeout)
    if code != 0 or not wanted:
        problem = f"it does not end in {timeout:g} s" if code is None else f"exit code {code}, {wanted} tasks"
        print(f"judge: without a fault, {problem}: {last}", file=sys.stderr)
        return 2
    verdicts = []
    for operation, name, fault in FAULTS:
        if only not in f"{operation}: {name}":
            continue
        service.control("POST", "/reset")
        times = {"times": 1, **fault}
        service.control("POST", "/faults", {"operation": operation, **{k: v for k, v in times.items() if v is not None}})
        begun = time.monotonic()
        code, paid, last = service.run(program, timeout)
        is_met = any(fault["met"] for fault in service.control("GET", "/faults"))
        found = verdict(code, paid, wanted) if is_met else "not met"
        verdicts.append(found)
        more = "" if found in ("survived", "not met") else f"  exit code {code}, {paid} paid of {wanted}: {last}"
        print(f"{found:13}{time.monotonic() - begun:5.1f} s  {operation}: {name}{more}"[:150], flush=True)
    is_refused = only in REFUSAL[0]
    is_good = not is_refused or is_reported(service, program, timeout)
    survived, not_met = verdicts.count("survived"), verdicts.count("not met")
    print(f"{survived} of {len(verdicts) - not_met} survived" + (f", {not_met} not met" if not_met else ""))
    if is_good and not_met == len(verdicts) and (verdicts or not is_refused):
        return 2
    return int(not is_good or survived + not_met < len(verdicts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=120, metavar="S", help="a run that takes longer hangs (120)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the faults whose line contains it: getTask")
    parser.add_argument("program", nargs="+", help="the program with its arguments, after --")
    options = parser.parse_args()
    service = None
    try:
        service = Service(os.environ.get("INFERSTORE_COMMAND", "inferstore"))
        sys.exit(judge(service, options.program, options.timeout, options.only))
    except OSError as error:
        print(f"judge: {error}", file=sys.stderr)
        sys.exit(2)
    finally:
        if service:
            service.process.terminate()
            service.process.wait()
