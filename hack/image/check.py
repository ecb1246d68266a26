#!/usr/bin/env python3
"""Checks an image, and unpacks it:  check.py IMAGE ROOT ARCHITECTURE VERSION COMMIT EPOCH

IMAGE is a folder as `skopeo copy ... dir:IMAGE` writes it. Exactly the files of FILES may be in it, so that a shell or
a library that gets in is seen. ROOT must not exist. Prints the sizes.
"""

import datetime
import json
import os
import re
import ssl
import stat
import sys
import tarfile

LIMIT = 25 * 1024 * 1024

FILES = {
    "caip-openstack": 0o755,
    "etc/group": 0o644,
    "etc/nsswitch.conf": 0o644,
    "etc/passwd": 0o644,
    "etc/ssl/certs/ca-certificates.crt": 0o644,
    "usr/share/doc/caip-openstack/LICENSE": 0o644,
    "usr/share/doc/caip-openstack/THIRD-PARTY-LICENSES": 0o644,
    "usr/share/sbom/caip-openstack.cdx.json": 0o644,
}

# Mozilla trusts about 140; fewer than this means a broken bundle.
FEWEST_CAS = 100


def expect(what, found, wanted):
    """Exits with a message when they differ."""
    if found != wanted:
        sys.exit(f"error: {what} is {found!r}, not {wanted!r}")


def blob(image, digest):
    """The file of a blob: `dir:` names it by its digest alone."""
    return os.path.join(image, digest.removeprefix("sha256:"))


def check_configuration(image, manifest, architecture, version, commit, epoch):
    """Checks the user, the labels and the entry point."""
    with open(blob(image, manifest["config"]["digest"]), encoding="utf-8") as file:
        whole = json.load(file)
    config = whole["config"]
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    expect("the platform", (whole["os"], whole["architecture"]), ("linux", architecture))
    expect("the time of the image", whole["created"], created)
    expect("the user", config["User"], "65532:65532")
    expect("what is run", (config["Entrypoint"], config.get("Cmd")), (["/caip-openstack"], None))
    wanted = {
        "title": "caip-openstack",
        "description": "Cluster API IPAM provider for OpenStack floating IPs",
        "licenses": "Apache-2.0",
        "version": version,
        "revision": commit,
        "created": created,
    }
    if source := os.environ.get("IMAGE_SOURCE"):
        wanted["source"] = source
    expect("the labels", config["Labels"], {f"org.opencontainers.image.{name}": value for name, value in wanted.items()})


def unpack(layer, root, epoch):
    """Checks the owner, mode and time of everything in the layer, and unpacks it."""
    with tarfile.open(layer) as tar:
        members = tar.getmembers()
        for member in members:
            what = f"/{member.name}: owner, time and mode"
            mode = 0o755 if member.isdir() else FILES.get(member.name)
            expect(what, (member.uid, member.gid, member.mtime, stat.S_IMODE(member.mode)), (0, 0, epoch, mode))
        files = {member.name for member in members if not member.isdir()}
        expect("the list of files", sorted(files), sorted(FILES))
        expect("the number of special files", sum(not (member.isfile() or member.isdir()) for member in members), 0)
        tar.extractall(root, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(root)
        return sum(member.size for member in members)


def check_cas(root):
    """Checks that TLS can read the bundle."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(os.path.join(root, "etc/ssl/certs/ca-certificates.crt"))
    count = len(context.get_ca_certs())
    if count < FEWEST_CAS:
        sys.exit(f"error: {count} CA certificates, fewer than {FEWEST_CAS}")
    return count


def check_sbom(root):
    """Checks that the SBOM and the licences name every crate whose source paths are in the program."""
    with open(os.path.join(root, "usr/share/sbom/caip-openstack.cdx.json"), encoding="utf-8") as file:
        components = json.load(file)["components"]
    listed = {f"{part['name']}-{part['version']}" for part in components}
    with open(os.path.join(root, "caip-openstack"), "rb") as file:
        program = file.read()
    seen = {name.decode() for name in re.findall(rb"/cargo/([A-Za-z0-9_-]+-\d+\.\d+\.\d+[A-Za-z0-9.+-]*)/", program)}
    if len(seen) < 10:
        sys.exit(f"error: the program names only {sorted(seen)} as its sources: are they remapped?")
    expect("what the program has and the SBOM has not", sorted(seen - listed), [])
    with open(os.path.join(root, "usr/share/doc/caip-openstack/THIRD-PARTY-LICENSES"), encoding="utf-8") as file:
        licensed = set(re.findall(r"^  (\S+) (\S+): ", file.read(), re.MULTILINE))
    crates = {(part["name"], part["version"]) for part in components if part["purl"].startswith("pkg:cargo/")}
    expect("what the SBOM has and the licences have not", sorted(crates - licensed), [])
    for name in ("rust", "libc6-dev", "ca-certificates"):
        if not any(part["name"].startswith(name) for part in components):
            sys.exit(f"error: the SBOM does not say which {name} is in the image")
    return len(listed), len(seen)


def main():
    image, root, architecture, version, commit, epoch = sys.argv[1:]
    with open(os.path.join(image, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    check_configuration(image, manifest, architecture, version, commit, int(epoch))
    expect("the number of layers", len(manifest["layers"]), 1)
    size = unpack(blob(image, manifest["layers"][0]["digest"]), root, int(epoch))
    compressed = sum(layer["size"] for layer in manifest["layers"])
    for what, number in (("unpacked", size), ("compressed", compressed)):
        if number > LIMIT:
            sys.exit(f"error: the image is {number} bytes {what}, more than {LIMIT}")
    listed, seen = check_sbom(root)
    print(f"{architecture}: {compressed / 2**20:.1f} MiB compressed, {size / 2**20:.1f} MiB unpacked, {check_cas(root)} CAs,")
    print(f"{architecture}: {listed} components in the SBOM, {seen} of them seen in the program")


if __name__ == "__main__":
    main()
