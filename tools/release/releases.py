"""Writes releases.json, the list of all releases that `inferstore version --check` reads.

usage: releases.py FOLDER VERSION DATE, in the root of the repository. VERSION is released on DATE; the other versions are
the headings of CHANGELOG.md, such as `## 0.2.0, 2026-12-01`. With INFERSTORE_REPOSITORY, each release has the URL of its page.
"""

import json
import os
import pathlib
import re
import sys


def main():
    folder, version, date = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    headings = re.findall(r"^## (\d+\.\d+\.\d+), (\d{4}-\d\d-\d\d)$", pathlib.Path("CHANGELOG.md").read_text(), re.M)
    dates = {version: date, **dict(headings)}
    repository = os.environ.get("INFERSTORE_REPOSITORY")
    releases = []
    for version in sorted(dates, key=lambda version: [int(number) for number in version.split(".")], reverse=True):
        release = {"version": version, "date": dates[version]}
        if repository:
            release["url"] = f"{repository}/releases/tag/v{version}"
        releases.append(release)
    (folder / "releases.json").write_text(json.dumps({"releases": releases}, indent=2) + "\n")


main()
