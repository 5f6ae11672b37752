"""Rows of the scoreboard, as `crates/measure` defines them: one line of JSON each, which `cargo xtask bench` reads."""

import json
import math
import os
import statistics


def row(group, what, against, unit, better, ours, theirs, note=None):
    """Prints the figures of every round of ours and of theirs, and their medians for people."""
    command = f"cargo xtask bench {group}"
    fields = dict(group=group, what=what, against=against, unit=unit, better=better, ours=ours, theirs=theirs)
    if note:
        fields["note"] = note
    medians = f"{statistics.median(ours):.4g} {unit}; {statistics.median(theirs):.4g} {unit} {against}"
    print(f"{what}: {medians}", flush=True)
    if os.environ.get("INFERSTORE_BENCH_ROWS"):
        print("row: " + json.dumps(fields | {"command": command}), flush=True)


def is_behind(better, ours, theirs):
    """Whether the median of the ratios, round by round, says that theirs is better."""
    pairs = zip(ours, theirs) if better == "higher" else zip(theirs, ours)
    return statistics.median(good / bad if bad else math.inf for good, bad in pairs) < 1
