"""The same work done by other clients, against one service: runs, uploads, and runs in which a request or a
response is lost. Run by `cargo xtask bench peers`, and alone as `python3 tests/peers/peers.py`; it needs the
publication of `cargo xtask publish`, from which two of the clients are generated."""

import json
import os
import pathlib
import queue
import subprocess
import threading
import time
import urllib.request
import venv

from rows import is_behind, row

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target/bench/peers"
CONSUMERS = ROOT / "target/consumers"
REQUESTS = "requests==2.32.5"
ROUNDS = 3
# A backstop: no piece of work takes this long.
WORK_TIMEOUT = 120

# Models that take one file as `input`, with the seconds that each computes. Runs are counted on the first.
MODELS = [
    ("color-extraction", 0.0),
    ("background-removal", 0.7),
    ("face-mesh", 1.7),
    ("image-to-anime", 3.1),
    ("video-edge-map", 5.3),
]
RUNS = 5
# From then on a client may know how long a model takes.
LEARNING_RUNS = 3
# The largest file that is sent by PUT, and the largest that is sent as a form.
SIZES = {"put": 104_857_600, "form": 5_242_880}

SERVE = ["serve", "--port", "0", "--storage-port", "0", "--ephemeral", "--ready-json", "--balance", "1000"]
# As many tasks side by side as there are runs.
SERVE += ["--controls-port", "0", "--workers", "8"]

SENDS = "the service decides how fast it takes the bytes; ours sends them from a file piece by piece"
# The figures of a client, what they mean, their unit, which are the good ones, and why ours is behind.
METRICS = [
    (
        "first_late", "the first run of a model, beyond its time (0 to 5.3 s)", "s", "lower",
        "ours reads a task of an unknown model after 2 s first, and then at the intervals that the service suggests; "
        "the others read at once, or every half second; `PollInterval::Between` reads as often as one likes",
    ),
    ("late", "a run of a model that ran three times before, beyond its time", "s", "lower", None),
    ("requests", "requests for such a run", "requests", "lower", None),
    ("processor", "time on a processor for a run", "ms", "lower", None),
    ("put_speed", "an upload of 100 MiB, as a PUT", "MB/s", "higher", SENDS),
    ("put_memory", "memory of the process that sends it", "MB", "lower", None),
    ("form_speed", "an upload of 5 MiB, as a form", "MB/s", "higher", SENDS),
    ("form_memory", "memory of the process that sends the form", "MB", "lower", None),
    ("creates_lost", "results of 5 runs whose create was not answered", "results", "higher", None),
    ("tasks_a_run", "tasks that such a run makes and pays", "tasks", "lower", None),
    ("reads_dropped", "results of 5 runs in which a read of the task was dropped", "results", "higher", None),
]


class Service:
    """The service, with models that succeed without computing."""

    def __init__(self):
        program = [ROOT / "target/release/inferstore", *SERVE]
        self.process = subprocess.Popen(
            program, stdout=subprocess.PIPE, text=True, env=os.environ | {"INFERSTORE_LOG": "warn"}
        )
        self.ready = json.loads(self.process.stdout.readline())

    def script(self):
        for model, seconds in MODELS:
            script = {"then": "succeed", "after_ms": round(seconds * 1000), "output": {"output": "#102030"}}
            self.control("PUT", f"/models/{model}", script)

    def control(self, method, path, body=None):
        """One call of the controls, which docs/controls.md describes; returns its data."""
        url = self.ready["controls_url"].rstrip("/") + path
        request = urllib.request.Request(url, method=method)
        request.add_header("authorization", f"Bearer {self.ready['controls_token']}")
        if body is not None:
            request.add_header("content-type", "application/json")
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response).get("data")

    def add_fault(self, operation, effect):
        self.control("POST", "/faults", {"operation": operation, "effect": effect, "times": 1})

    def tasks(self):
        return sum(self.control("GET", "/")["tasks"].values())

    def requests(self):
        """The number of requests since the last call."""
        journal = self.control("GET", "/journal")
        self.control("DELETE", "/journal")
        return len(journal)


class Process:
    """A client that reads pieces of work line by line and reports how each ended."""

    def __init__(self, command, ready):
        environment = os.environ | {"BASE_URL": ready["base_url"], "API_KEY": ready["api_key"]}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment,
        )
        self.lines = queue.Queue()
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True).start()
        line = self.lines.get(timeout=WORK_TIMEOUT).strip()
        if line != "ready":
            raise RuntimeError(f"a client prints {line!r} instead of ready")

    def attempt(self, work):
        """Returns whether the work succeeded, what the client printed, and the seconds."""
        began = time.monotonic()
        self.process.stdin.write(f"{work}\n")
        self.process.stdin.flush()
        word, _, text = self.lines.get(timeout=WORK_TIMEOUT).strip().partition(" ")
        if word not in ("ok", "failed"):
            raise RuntimeError(f"a client prints {word} {text} for {work}")
        return word == "ok", text, time.monotonic() - began

    def succeed(self, work):
        succeeded, text, seconds = self.attempt(work)
        if not succeeded:
            raise RuntimeError(f"{work}: {text}")
        return seconds

    def processor_seconds(self):
        """Of all its threads."""
        files = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def most_megabytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1.024e-3

    def end(self):
        self.process.kill()
        self.process.wait()


class Stage:
    def __init__(self, service):
        self.service, self.runs, self.files = service, 0, {}
        for name, size in SIZES.items():
            self.files[name] = WORK / f"{name}.mp4"
            with open(self.files[name], "wb") as file:
                file.truncate(size)

    def run_of(self, model):
        """Every run has an input of its own, so that no two can be taken for each other."""
        self.runs += 1
        return f"run {model} https://host.example/{self.runs}.png"

    def measure(self, command, figures):
        """One round of everything."""
        processes = [Process(command, self.service.ready) for _ in range(len(MODELS) + 1 + len(SIZES))]
        try:
            self.uploads(processes[-len(SIZES):], figures)
            self.waits(processes[: len(MODELS)], figures)
            self.counts(processes[len(MODELS)], figures)
        finally:
            for process in processes:
                process.end()

    def uploads(self, processes, figures):
        for (name, size), process in zip(SIZES.items(), processes):
            seconds = process.succeed(f"upload {self.files[name]}")
            figures[f"{name}_speed"].append(size / 1e6 / seconds)
            figures[f"{name}_memory"].append(process.most_megabytes())

    def waits(self, processes, figures):
        """The first run on every model, and one after the runs from which a client may learn."""
        figures["first_late"].append(self.wait(processes)[0])
        for _ in range(LEARNING_RUNS - 1):
            self.wait(processes)
        late, requests = self.wait(processes)
        figures["late"].append(late)
        figures["requests"].append(requests)

    def wait(self, processes):
        """A run on every model at once, each in a process of its own: how late its end is seen, and its requests."""
        self.service.requests()
        late = []

        def run(process, work, length):
            late.append(process.succeed(work) - length)

        threads = [
            threading.Thread(target=run, args=(process, self.run_of(model), length))
            for process, (model, length) in zip(processes, MODELS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(late) < len(MODELS):
            raise RuntimeError("a run failed")
        return sum(late) / len(late), self.service.requests() / len(late)

    def counts(self, process, figures):
        """Runs whose time on a processor is measured, and runs that meet a fault."""
        model = MODELS[0][0]
        # The first one opens connections and loads what is loaded late.
        process.succeed(self.run_of(model))
        before = process.processor_seconds()
        for _ in range(RUNS):
            process.succeed(self.run_of(model))
        figures["processor"].append((process.processor_seconds() - before) * 1000 / RUNS)
        tasks = self.service.tasks()
        figures["creates_lost"].append(self.under(process, "createTask", "lose_response"))
        figures["tasks_a_run"].append((self.service.tasks() - tasks) / RUNS)
        figures["reads_dropped"].append(self.under(process, "getTask", "hang_up"))

    def under(self, process, operation, effect):
        """The number of runs that succeed although each meets a fault once."""
        succeeded = 0
        for _ in range(RUNS):
            self.service.add_fault(operation, effect)
            succeeded += process.attempt(self.run_of(MODELS[0][0]))[0]
        return float(succeeded)


def clients():
    """Ours, and then the others: name and command."""
    cargo = ["cargo", "build", "--quiet", "--release", "--package", "inferstore-cli", "--bin", "inferstore"]
    subprocess.run([*cargo, "--package", "inferstore-tests", "--example", "ours"], cwd=ROOT, check=True)
    subprocess.run(["cargo", "xtask", "publish"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    for consumer in ("python", "typescript"):
        prepare = ["cargo", "xtask", "contract", "--prepare", "--only", consumer]
        subprocess.run(prepare, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    by_hand = ROOT / "target/tools" / REQUESTS.replace("==", "-")
    if not (by_hand / "installed").exists():
        venv.create(by_hand, with_pip=True)
        subprocess.run([by_hand / "bin/pip", "install", "--quiet", REQUESTS], check=True)
        (by_hand / "installed").touch()
    python, typescript = CONSUMERS / "python", CONSUMERS / "typescript"
    return [
        ("inferstore", [ROOT / "target/release/examples/ours"]),
        ("openapi-python-client 0.29.1", [python / ".venv/bin/python", python / "generated.py"]),
        ("openapi-fetch 0.17.0", ["node", typescript / "generated.mjs"]),
        (
            f"{REQUESTS.replace('==', ' ')}, in the manner of SDKs",
            [by_hand / "bin/python", ROOT / "tests/peers/sdk_style.py"],
        ),
    ]


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    commands = clients()
    figures = {name: {metric[0]: [] for metric in METRICS} for name, _ in commands}
    service = Service()
    try:
        service.script()
        stage = Stage(service)
        for _ in range(ROUNDS):
            for name, command in commands:
                stage.measure(command, figures[name])
    finally:
        service.process.kill()
        service.process.wait()
    ours = figures.pop("inferstore")
    for peer, theirs in figures.items():
        for metric, what, unit, better, behind in METRICS:
            note = behind if is_behind(better, ours[metric], theirs[metric]) else None
            row("peers", what, peer, unit, better, ours[metric], theirs[metric], note)


if __name__ == "__main__":
    main()
