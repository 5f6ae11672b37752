"""How long users of the client wait for the compiler, beside users of other clients: cold, and after an edit.
Every program is a package outside the workspace, so that nothing here helps ours. Run by
`cargo xtask bench build`, and alone as `python3 tests/peers/builds.py`."""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

from rows import is_behind, row

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target/bench/builds"
SOURCE = WORK / "source"
ROUNDS = 3
# Edits of the program in a round; the median counts.
EDITS = 3

WHY_BEHIND = (
    "what is generic in the client is compiled with the program that uses it, and the program over the raw "
    "client shows how much that is; less of it would be a quicker build"
)


class Program:
    def __init__(self, name, shown, dependency, edit=None, source=None):
        self.name, self.shown, self.dependency, self.edit = name, shown, dependency, edit
        self.source = source or name
        self.folder = WORK / name
        self.target = self.folder / "target"
        self.edits = 0
        self.cold, self.edited, self.maintained = [], [], []
        self.packages = self.megabytes = 0

    def prepare(self):
        """Writes the package, and downloads its dependencies."""
        (self.folder / "src").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / f"tests/peers/builds/{self.source}.rs", self.folder / "src/main.rs")
        (self.folder / "Cargo.toml").write_text(
            '[package]\nname = "a-user"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n'
            f"{self.dependency}\n"
            'tokio = { version = "1", features = ["macros", "rt-multi-thread"] }\n'
        )
        subprocess.run(["cargo", "fetch", "--quiet"], cwd=self.folder, env=environment(), check=True)

    def build(self):
        """Builds the program; returns the seconds and the number of packages compiled for it."""
        command = ["cargo", "build", "--quiet", "--offline", "--message-format", "json"]
        command += ["--target-dir", str(self.target)]
        began = time.monotonic()
        built = subprocess.run(command, cwd=self.folder, env=environment(), check=True, stdout=subprocess.PIPE)
        seconds = time.monotonic() - began
        messages = [json.loads(line) for line in built.stdout.splitlines() if line]
        compiled = {
            message["package_id"]
            for message in messages
            if message["reason"] == "compiler-artifact" and not message["fresh"]
        }
        return seconds, len(compiled) - 1

    def rebuild_after(self, path, old, new):
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{path} holds no {old!r} any more: edit something else")
        path.write_text(text.replace(old, new, 1))
        return self.build()[0]

    def measure(self):
        """One round, from an empty folder to an empty folder."""
        self.clean()
        seconds, self.packages = self.build()
        self.cold.append(seconds)
        self.megabytes = self.size()
        edits = []
        for _ in range(EDITS):
            self.edits += 1
            edits.append(
                self.rebuild_after(self.folder / "src/main.rs", 'println!("', f'println!("{self.edits} ')
            )
        self.edited.append(statistics.median(edits))
        if self.edit:
            path, words = self.edit
            self.edits += 1
            self.maintained.append(self.rebuild_after(SOURCE / path, words, f"{words} {self.edits}"))
        self.clean()

    def size(self):
        """MB of everything that was built. Files at the top are links into these folders."""
        parts = [self.target / "debug" / part for part in ("build", "deps", "incremental", ".fingerprint")]
        files = (file for part in parts for file in part.rglob("*") if file.is_file())
        return sum(file.stat().st_size for file in files) / 1e6

    def clean(self):
        shutil.rmtree(self.target, ignore_errors=True)


OURS = [
    Program(
        "inferstore",
        "a program that runs a model",
        'inferstore = { path = "../source/crates/client" }',
        ("crates/client/src/run/execution.rs", "an uploaded input could not be deleted"),
    ),
    Program(
        "inferstore_ring",
        "a program that runs a model, with rustls-ring",
        'inferstore = { path = "../source/crates/client", default-features = false, features = ["rustls-ring"] }',
        ("crates/client/src/run/execution.rs", "an uploaded input could not be deleted"),
        "inferstore",
    ),
    Program(
        "inferstore_api",
        "a program over the raw client",
        'inferstore-api = { path = "../source/crates/api" }',
        ("crates/api/src/client.rs", "the path {path:?}"),
    ),
]

# With default features, and those of the same kind of call.
PEERS = [
    Program(
        "async_openai",
        "async-openai 0.43.0",
        'async-openai = { version = "=0.43.0", features = ["chat-completion"] }',
    ),
    Program("oxide", "oxide 0.19.0", 'oxide = "=0.19.0"'),
]


def environment():
    """Without what `cargo xtask` sets: build scripts that read such variables would run again."""
    own = ("CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def copy_our_crates():
    """Our crates as users get them: without the rest of the workspace and its lockfile. Edits change the copy."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for name in ("crates/api", "crates/client"):
        shutil.copytree(ROOT / name, SOURCE / name)
    # Only for what crates inherit; the profiles are those of the program that is built.
    shutil.copy(ROOT / "Cargo.toml", SOURCE / "Cargo.toml")


def main():
    copy_our_crates()
    for program in OURS + PEERS:
        program.prepare()
    for _ in range(ROUNDS):
        for program in OURS + PEERS:
            program.measure()
    for ours in OURS:
        for peer in PEERS:
            size = (
                f"{ours.packages} packages and {ours.megabytes:.0f} MB, beside {peer.packages} packages and "
                f"{peer.megabytes:.0f} MB"
            )
            row("build", f"cold build of {ours.shown}", peer.shown, "s", "lower", ours.cold, peer.cold, size)
            note = f"after an edit in {ours.name} itself it takes {statistics.median(ours.maintained):.1f} s"
            if is_behind("lower", ours.edited, peer.edited):
                note += f"; {WHY_BEHIND}"
            what = f"build after an edit in {ours.shown}"
            row("build", what, peer.shown, "s", "lower", ours.edited, peer.edited, note)


if __name__ == "__main__":
    main()
