"""The suite as an archive for those without Python: cmn-conformance-<suite>.tar.gz and .zip, byte for byte the same each time.

    python conformance/release.py [folder]               (default: dist)

They hold what git would, without the oracle and the Python runner; SHA256SUMS has the sum of each file, <archive>.sha256 that of each archive.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("README.md", "FORMAT.md", "CHANGELOG.md", "LICENSE", "ids.json", "runner.mjs", "adapters/README.md", "adapters/plain.c",
         "adapters/node_loops.mjs", "cmn_conformance/ops.json", "cmn_conformance/flags.json")
FOLDERS = ("cmn_conformance/vectors", "cmn_conformance/schema", "cmn_conformance/wrong")
NOBODY = {"uid": 0, "gid": 0, "uname": "", "gname": "", "mode": 0o644, "mtime": 315532800}          # 1980, the first date that a zip can hold


def suite():
    """Version of the newest group of vectors."""
    versions = [json.loads(file.read_text(encoding="utf-8"))["provenance"]["suite"] for file in (HERE / "cmn_conformance/vectors").glob("*.json")]
    return max(versions, key=lambda version: [int(part) for part in version.split(".")])


def contents():
    """{name: bytes} of all that is packed, sorted."""
    names = [*FILES, *(f"{folder}/{file.name}" for folder in FOLDERS for file in (HERE / folder).glob("*.json"))]
    files = {name: (HERE / name).read_bytes() for name in sorted(names)}
    for name in (name for name in files if name.endswith(".json")):
        json.loads(files[name], parse_constant=lambda word, name=name: sys.exit(f"release: {name} holds {word}, which JSON does not have"))
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    return {**files, "SHA256SUMS": sums.encode()}


def tar(files):
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as out:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            for key, value in NOBODY.items():
                setattr(entry, key, value)
            out.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, NOBODY["mode"] << 16
            out.writestr(entry, data)
    return packed.getvalue()


def build(folder):
    """Write both archives and the sums.   -> their paths"""
    version = suite()
    if not re.search(rf"^## {re.escape(version)}$", (HERE / "CHANGELOG.md").read_text(encoding="utf-8"), re.M):
        sys.exit(f"release: conformance/CHANGELOG.md has no section {version}, the suite of the vectors")
    base = f"cmn-conformance-{version}"
    files = {f"{base}/{name}": data for name, data in contents().items()}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, data in ((f"{base}.tar.gz", tar(files)), (f"{base}.zip", zipped(files))):
        paths.append(folder / name)
        paths[-1].write_bytes(data)
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    (folder / f"{base}.sha256").write_text(sums, encoding="utf-8")
    print(sums, end="")
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=HERE.parent / "dist", type=Path)
    build(parser.parse_args().folder)
