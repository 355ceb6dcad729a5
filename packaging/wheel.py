#!/usr/bin/env python3
"""Writes the wheel: the Python module, the shared library, and the static program as a script on the PATH.

Usage: wheel.py PROGRAM LIBRARY HEADER VERSION PLATFORM FOLDER     PLATFORM: manylinux_2_28_x86_64, musllinux_1_2_x86_64, ...

The bytes depend on the inputs and SOURCE_DATE_EPOCH alone. Needs nothing but Python's own library.
"""
import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

import interface

METADATA = """Metadata-Version: 2.1
Name: spectool
Version: {version}
Summary: Runs large language models fast on CPUs, with output that drafting never changes
License: MIT
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""


def main(program, library, header, version, platform, folder):
    here = Path(__file__).parent
    info, package = f"spectool-{version}.dist-info", here / "python" / "spectool"
    readme = (here / "python" / "README.md").read_text(encoding="ascii")
    files = {f"spectool/{p.name}": p.read_bytes() for p in sorted(package.iterdir()) if p.suffix in (".py", ".typed")}
    files["spectool/_interface.py"] = interface.as_ctypes(header).encode()
    files["spectool/libspectool.so"] = Path(library).read_bytes()
    files[f"spectool-{version}.data/scripts/spectool"] = Path(program).read_bytes()
    files[f"{info}/METADATA"] = METADATA.format(version=version, readme=readme).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: spectool\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode()
    files[f"{info}/LICENSE"] = (here.parent / "LICENSE").read_bytes()
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for name, data in files.items()}
    files[f"{info}/RECORD"] = "".join(f"{name},sha256={digests[name]},{len(data)}\n" for name, data in files.items()).encode()
    files[f"{info}/RECORD"] += f"{info}/RECORD,,\n".encode()
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(Path(folder) / f"spectool-{version}-py3-none-{platform}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            wheel.writestr(entry, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
