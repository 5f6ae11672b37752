"""Packs the command into a wheel: `pip install FILE` puts `inferstore` beside `python`.

usage: wheel.py ROOT FOLDER VERSION
"""

import base64
import hashlib
import pathlib
import sys
import zipfile

NAME = "inferstore_bin"
# The program needs glibc 2.17, which is what this tag says.
TAG = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"
DESCRIPTION = """\
The command `inferstore` with the service in it, for tests and for a terminal:

    pip install inferstore-bin
    inferstore demo
"""


def main():
    root, folder, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    info = f"{NAME}-{version}.dist-info"
    document = root / "usr/share/doc/inferstore"
    metadata = (
        f"Metadata-Version: 2.4\nName: inferstore-bin\nVersion: {version}\n"
        "Summary: The command inferstore: an inference and storage service on this machine\n"
        "License-Expression: MIT OR Apache-2.0\n"
        + "".join(f"License-File: {name}\n" for name in ("LICENSE-APACHE", "LICENSE-MIT", "LICENSES.txt"))
        + "Requires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
        + DESCRIPTION
    )
    wheel = "Wheel-Version: 1.0\nGenerator: inferstore\nRoot-Is-Purelib: false\n"
    wheel += "".join(f"Tag: py3-none-{platform}\n" for platform in TAG.split("-")[2].split("."))
    files = {
        f"{NAME}-{version}.data/scripts/inferstore": (root / "usr/bin/inferstore").read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": wheel.encode(),
    }
    for name in ("LICENSE-APACHE", "LICENSE-MIT", "LICENSES.txt"):
        files[f"{info}/licenses/{name}"] = (document / name).read_bytes()
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(folder / f"{NAME}-{version}-{TAG}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            # The time is fixed, so that a build can be repeated.
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)


main()
