"""Writes what the programs consist of: the licenses of all crates (LICENSES.txt) and an SBOM (CycloneDX, JSON).

usage: dependencies.py FOLDER VERSION TARGET
"""

import json
import pathlib
import re
import subprocess
import sys
import uuid

PROGRAMS = ["--package=inferstore-cli", "--package=inferstore-node"]
# Files with the terms of a license, or with what a license asks to be passed on.
TERMS = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
SQLITE = "SQLite, inside of libsqlite3-sys, is in the public domain: https://www.sqlite.org/copyright.html"
RUST = "The standard library of Rust is MIT OR Apache-2.0: https://github.com/rust-lang/rust"

MPL = "MPL-2.0: https://www.mozilla.org/MPL/2.0/; the source of these crates is at the addresses above."


def cargo(*arguments):
    done = subprocess.run(["cargo", *arguments, "--locked"], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def linked_crates(target):
    """Returns the packages whose code is in the programs: no programs of the build, no macros."""
    edges = "--edges=normal,no-proc-macro"
    tree = cargo("tree", *PROGRAMS, f"--target={target}", edges, "--prefix=none", "--format={p}")
    names = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    metadata = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={target}"))
    packages = [p for p in metadata["packages"] if (p["name"], "v" + p["version"]) in names]
    if len(packages) != len(names):
        raise SystemExit(f"cargo tree names {len(names)} crates, cargo metadata {len(packages)} of them")
    edges = {node["id"]: node["dependencies"] for node in metadata["resolve"]["nodes"]}
    return sorted(packages, key=lambda p: (p["name"], p["version"])), edges


def terms(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    files = {path for path in folder.iterdir() if path.is_file() and TERMS.match(path.name)}
    if package["license_file"]:
        files.add(folder / package["license_file"])
    return {path.read_text(errors="replace").strip() for path in files if path.suffix != ".rs"}


def licenses(packages):
    """Returns a list of the crates, and each text once with the crates that have it."""
    crates, texts = [], {}
    for package in packages:
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}"
        found = terms(package)
        by = "" if found else f" by {', '.join(package['authors'])}"
        crates.append(f"{name}{by}: {package['license']}, https://crates.io/crates/{package['name']}")
        for text in found:
            texts.setdefault(re.sub(r"\s+", " ", text), (text, []))[1].append(name)
    parts = ["The programs of Inferstore are MIT OR Apache-2.0, and consist of these crates, too:", "\n".join(crates)]
    parts += [SQLITE, RUST, MPL]
    for text, names in sorted(texts.values(), key=lambda entry: entry[1]):
        parts.append("=" * 80 + "\n" + ", ".join(names) + "\n" + "=" * 80 + "\n\n" + text)
    return "\n\n".join(parts) + "\n"


def sbom(packages, edges, version):
    def purl(package):
        return f"pkg:cargo/{package['name']}@{package['version']}"

    references = {package["id"]: purl(package) for package in packages}
    programs = [p for p in packages if p["name"] in ("inferstore-cli", "inferstore-node")]
    components = [
        {
            "type": "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "purl": purl(package),
            "licenses": [{"expression": package["license"].replace("/", " OR ")}],
        }
        for package in packages
    ]
    dependencies = [
        {"ref": purl(p), "dependsOn": sorted({references[e] for e in edges[p["id"]] if e in references})}
        for p in packages
    ]
    root = f"inferstore@{version}"
    dependencies.append({"ref": root, "dependsOn": [purl(program) for program in programs]})
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same for the same dependencies, so that a build can be repeated.
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, root + "".join(references.values()))),
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": root, "name": "inferstore", "version": version},
        },
        "components": components,
        "dependencies": dependencies,
    }


def main():
    folder, version, target = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    packages, edges = linked_crates(target)
    (folder / "LICENSES.txt").write_text(licenses(packages))
    bom = json.dumps(sbom(packages, edges, version), indent=2) + "\n"
    (folder / f"inferstore-{version}.cdx.json").write_text(bom)


main()
