"""Packs the command into a container image from scratch, in the layout of OCI and of `docker load` at once.

The program needs glibc, which comes from Debian's package libc6, and so do the certificates of authorities.

usage: image.py ROOT FOLDER VERSION
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone

CREATED = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
USER = 65532
DATA = "/data"
LIBRARIES = "/lib/x86_64-linux-gnu"
LOADER = "/lib64/ld-linux-x86-64.so.2"
CONFIG = {
    "User": f"{USER}:{USER}",
    "WorkingDir": DATA,
    "Env": ["PATH=/usr/bin", f"HOME={DATA}"],
    "Entrypoint": ["/usr/bin/inferstore"],
    "Cmd": ["serve", "--host", "0.0.0.0", "--storage-url", "http://localhost:8788", "--no-console"],
    "ExposedPorts": {"8787/tcp": {}, "8788/tcp": {}, "9090/tcp": {}},
    "Volumes": {DATA: {}},
    "StopSignal": "SIGTERM",
    # Asks the running service through its data folder, and so its database.
    "Healthcheck": {
        "Test": ["CMD", "/usr/bin/inferstore", "admin", "node", "list"],
        "Interval": 10_000_000_000,
        "Timeout": 5_000_000_000,
        "StartPeriod": 5_000_000_000,
    },
}
FILES = {
    "/etc/passwd": f"root:x:0:0::/:\ninferstore:x:{USER}:{USER}::{DATA}:\n",
    "/etc/group": f"root:x:0:\ninferstore:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def unpack_debian(packages, folder):
    """Downloads packages of Debian without those that they depend on, and unpacks them."""
    download = ["apt-get", "--quiet=2", "--option=APT::Sandbox::User=root", "download"]
    subprocess.run([*download, *packages], cwd=folder, check=True)
    unpacked = folder / "unpacked"
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, unpacked], check=True)
    return unpacked


def needed_libraries(program):
    dynamic = subprocess.run(["readelf", "-d", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [name for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic) if name != LOADER.rsplit("/")[-1]]


def layer(root, debian):
    """Returns the one layer, a tar archive that is the same for the same files."""
    contents = {path: text.encode() for path, text in FILES.items()}
    authorities = sorted((debian / "usr/share/ca-certificates").rglob("*.crt"))
    contents["/etc/ssl/certs/ca-certificates.crt"] = b"".join(path.read_bytes() for path in authorities)
    for package in ("libc6", "ca-certificates"):
        contents[f"/usr/share/doc/{package}/copyright"] = (debian / f"usr/share/doc/{package}/copyright").read_bytes()
    for path in (root / "usr/share/doc/inferstore").iterdir():
        contents[f"/usr/share/doc/inferstore/{path.name}"] = path.read_bytes()
    program = root / "usr/bin/inferstore"
    programs = {"/usr/bin/inferstore": program}
    # The resolver of names loads the others.
    libraries = [*needed_libraries(program), "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"]
    for path in [LOADER, *(f"{LIBRARIES}/{name}" for name in libraries)]:
        # Below /lib or /usr/lib, as the version of Debian has it.
        programs[path] = next(debian.rglob(pathlib.PurePosixPath(path).name))
    for path, source in programs.items():
        contents[path] = source.resolve().read_bytes()

    folders = {str(parent) for path in contents for parent in pathlib.PurePosixPath(path).parents} - {"/"}
    owned = {DATA: (USER, 0o700), "/tmp": (0, 0o1777)}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folders | set(contents) | set(owned)):
            entry = tarfile.TarInfo(path[1:])
            entry.mtime = CREATED
            if path in contents:
                entry.size, entry.mode = len(contents[path]), 0o755 if path in programs else 0o644
                tar.addfile(entry, io.BytesIO(contents[path]))
            else:
                entry.type = tarfile.DIRTYPE
                entry.uid, entry.mode = owned.get(path, (0, 0o755))
                entry.gid = entry.uid
                tar.addfile(entry)
    return archive.getvalue()


def main():
    root, folder, version = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        temporary.chmod(0o755)
        unpacked = layer(root, unpack_debian(["libc6", "ca-certificates"], temporary))
    blobs = {}

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def as_json(value):
        return json.dumps(value, sort_keys=True).encode()

    name = f"inferstore:{version}"
    packed = blob(gzip.compress(unpacked, 9, mtime=0), "layer.v1.tar+gzip")
    created = datetime.fromtimestamp(CREATED, timezone.utc).isoformat()
    config = blob(
        as_json(
            {
                "created": created,
                "architecture": "amd64",
                "os": "linux",
                "config": CONFIG,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]},
                "history": [{"created": created, "created_by": "tools/release/image.py"}],
            }
        ),
        "config.v1+json",
    )
    kind = "manifest.v1+json"
    media_type = f"application/vnd.oci.image.{kind}"
    parts = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [packed]}
    manifest = blob(as_json(parts), kind)
    manifest["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/{name}",
        "org.opencontainers.image.ref.name": version,
    }
    config_path, layer_path = ("blobs/" + part["digest"].replace(":", "/") for part in (config, packed))
    files = {
        **blobs,
        "index.json": as_json({"schemaVersion": 2, "manifests": [manifest]}),
        "oci-layout": as_json({"imageLayoutVersion": "1.0.0"}),
        "manifest.json": as_json([{"Config": config_path, "RepoTags": [name], "Layers": [layer_path]}]),
    }
    with tarfile.open(folder / f"inferstore-{version}-image-amd64.tar", "w") as tar:
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size, entry.mtime = len(content), CREATED
            tar.addfile(entry, io.BytesIO(content))


main()
