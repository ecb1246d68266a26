#!/usr/bin/env python3
"""Converts the output of cargo-cyclonedx to the SBOM of the image:  sbom.py BOM LINKED <OTHERS

LINKED is what `cargo tree` says is linked into the program, "NAME vVERSION" a line. Whatever else cargo-cyclonedx lists is
left out: procedural macros and what they need, which run at build time, and optional crates that are in nobody's features.
OTHERS is what is in the image and not Cargo's: "TYPE NAME VERSION ARCHITECTURE" a line, TYPE `deb` or `generic`.

The result says nothing of the folder that it was made in, and is the same each time.
"""

import json
import re
import sys


def linked_crates(path):
    """The (name, version) of every crate of `cargo tree --prefix none`."""
    with open(path, encoding="utf-8") as lines:
        return {(name, version.removeprefix("v")) for name, version in (line.split()[:2] for line in lines if line.strip())}


def other(line):
    """A component of the image that does not come from Cargo."""
    kind, name, version, architecture = line.split()
    quoted = version.replace("+", "%2B")
    purl = f"pkg:{kind}/{'debian/' if kind == 'deb' else ''}{name}@{quoted}?arch={architecture}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": "required", "purl": purl}


def without_folder(bom):
    """Removes the build folder from the program's own reference."""
    program = bom["metadata"]["component"]
    purl = f"pkg:cargo/{program['name']}@{program['version']}"
    bom = json.loads(json.dumps(bom).replace(json.dumps(program["bom-ref"])[1:-1], purl))
    program = bom["metadata"]["component"]
    program.update(type="application", purl=purl)
    program.pop("components", None)
    return bom


def dependencies(bom, program, others):
    """The dependencies among what is kept; the program depends on everything that is not Cargo's."""
    kept = {part["bom-ref"] for part in bom["components"]} | {program}
    graph = {entry["ref"]: kept & set(entry.get("dependsOn", [])) for entry in bom["dependencies"] if entry["ref"] in kept}
    graph[program] |= {part["bom-ref"] for part in others}
    return [{"ref": ref, "dependsOn": sorted(graph[ref])} for ref in sorted(graph)]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        bom = without_folder(json.load(file))
    program = bom["metadata"]["component"]
    linked = linked_crates(sys.argv[2]) - {(program["name"], program["version"])}
    listed = {(component["name"], component["version"]) for component in bom["components"]}
    if not linked or linked - listed:
        sys.exit(f"error: linked, and not in the SBOM: {sorted(linked - listed) or 'nothing is linked'}")
    others = [other(line) for line in sys.stdin if line.strip()]
    kept = [part for part in bom["components"] if (part["name"], part["version"]) in linked] + others
    bom["components"] = sorted(kept, key=lambda part: part["bom-ref"])
    bom["dependencies"] = dependencies(bom, program["bom-ref"], others)
    text = json.dumps(bom, indent=1, sort_keys=True)
    if folder := re.search(r"file:/+[^\"#]*", text):
        sys.exit(f"error: a folder of this machine is in the SBOM: {folder[0]}")
    print(text)


if __name__ == "__main__":
    main()
