#!/usr/bin/env python3
"""Prints the licences of everything in the image:  licenses.py METADATA LINKED [COPYRIGHT...]

METADATA is what `cargo metadata` says, LINKED what `cargo tree` does, "NAME vVERSION" a line. Most licences ask that their
text comes with the program. A text that many crates share is written once, with their names above it. COPYRIGHT are
files of Debian's packages, which are written as they are.
"""

import collections
import json
import pathlib
import re
import sys

from sbom import linked_crates

TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?", re.IGNORECASE)


def texts(crate):
    """The licence files of a crate, as published."""
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and TEXT.fullmatch(file.name))
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in files]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        metadata = json.load(file)
    linked = linked_crates(sys.argv[2])
    ours = set(metadata["workspace_members"])
    crates = [crate for crate in metadata["packages"] if (crate["name"], crate["version"]) in linked and crate["id"] not in ours]
    print("What is linked into caip-openstack, and under which licence:\n")
    users = collections.defaultdict(list)
    for crate in sorted(crates, key=lambda crate: (crate["name"], crate["version"])):
        name = f"{crate['name']} {crate['version']}"
        print(f"  {name}: {crate['license'] or 'see below'}")
        for text in texts(crate):
            users[text].append(name)
    print("  the standard library of Rust: MIT OR Apache-2.0")
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}")
    for path in map(pathlib.Path, sys.argv[3:]):
        print(f"\n{'=' * 80}\nDebian's {path.parent.name}\n{'=' * 80}\n\n{path.read_text(encoding='utf-8').strip()}")


if __name__ == "__main__":
    main()
