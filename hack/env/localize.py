"""Prints a provider's CRDs and webhook configurations from its kubebuilder `config/` folder, as its
release manifest would have them, but with the webhooks reached at a URL instead of through a Service.

    localize.py CONFIG_DIR WEBHOOK_URL CA_FILE PROVIDER
"""
import base64
import glob
import os
import re
import sys

import yaml

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the CRDs are large: 10 times as fast in C
Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

config, url, ca_file, provider = sys.argv[1:]


def read(path, mode="r"):
    with open(os.path.join(config, path), mode) as file:
        return file.read()


ca = base64.b64encode(read(os.path.abspath(ca_file), "rb")).decode()
kustomization = read("crd/kustomization.yaml")
# Which of its own versions the provider serves for each version of the contract.
labels = {"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
          "clusterctl.cluster.x-k8s.io": ""}
labels |= dict(re.findall(r"^\s+(cluster\.x-k8s\.io/v1\w+): (\S+)$", kustomization, re.M))
converted = set(re.findall(r"^- path: patches/webhook_in_(\w+)\.yaml", kustomization, re.M))

objects = []
for path in sorted(glob.glob(f"{config}/crd/bases/*.yaml")):
    crd = yaml.load(read(os.path.abspath(path)), Loader)
    versions = {version["name"] for version in crd["spec"]["versions"]}
    served = {label: value for label, value in labels.items() if not value or set(value.split("_")) & versions}
    crd["metadata"].setdefault("labels", {}).update(served)
    if crd["spec"]["names"]["plural"] in converted:
        crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": {"url": f"{url}/convert", "caBundle": ca}}}
    objects.append(crd)

for configuration in yaml.load_all(read("webhook/manifests.yaml"), Loader):
    # One name for every version, so that an upgrade takes the place of what was there.
    configuration["metadata"]["name"] = f"{provider}-{configuration['metadata']['name']}"
    for hook in configuration["webhooks"]:
        hook["clientConfig"] = {"url": url + hook["clientConfig"]["service"]["path"], "caBundle": ca}
    objects.append(configuration)

yaml.dump_all(objects, sys.stdout, Dumper, sort_keys=False)
