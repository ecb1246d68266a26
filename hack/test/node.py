#!/usr/bin/env python3
"""Plays the scheduler and the only node of a management cluster, for hack/test/installs.sh:

    node.py SERVER PKI REGISTRY STORE VERSION

SERVER is the API server's URL, PKI its folder with ca.crt and tokens.csv, REGISTRY the host and port of the only
registry that images are pulled from, and STORE a folder for images. Each pod is bound to the node. Each of its images is
pulled by the reference in the pod, and its entry point runs with the pod's arguments, environment, user and token, until
the pod is deleted. The pod is ready when its readiness probe succeeds.

It differs from a kubelet in this: all pods share the machine's network, so each gets two more arguments, for ports of its
own. What this project's pods do not use is an error. So are an image that cannot be pulled, a program that is not of
VERSION, and a program that keeps ending: the node then exits, so that the test fails at once.
"""

import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse

NAME = "node"
TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
RESTARTS = 3
# Of the program, until its caches are filled. It shares two cores with other tests.
READY_SECONDS = 120


def fail(message):
    """Ends the node, and with it the test."""
    print(f"error: {message}", flush=True)
    sys.exit(1)


class ApiServer:
    """The API server, as the cluster's administrator."""

    def __init__(self, url, pki):
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        token = (pki / "tokens.csv").read_text(encoding="utf-8").split(",")[0]
        self.headers = {"Authorization": f"Bearer {token}"}
        self.connection = None

    def call(self, method, path, body=None, kind="application/json"):
        """Returns the answer, or None if there is no such object."""
        headers = self.headers | ({"Content-Type": kind} if body is not None else {})
        data = None if body is None else json.dumps(body)
        for attempt in range(3):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPSConnection(
                        self.host, self.port, context=self.context, timeout=30
                    )
                self.connection.request(method, path, data, headers)
                answer = self.connection.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self.connection = None
                if attempt == 2:
                    fail(f"{method} {path}: {error}")
        # Conflict: the pod was deleted and created again meanwhile.
        if answer.status in (404, 409):
            return None
        if answer.status >= 400:
            fail(f"{method} {path}: {answer.status} {text.decode(errors='replace')}")
        return json.loads(text)


class Images:
    """What was pulled. Each pod asks the registry what its reference means; the same image is unpacked only once."""

    def __init__(self, registry, store, version):
        self.registry, self.store, self.version = registry, store, version

    def crane(self, *arguments):
        """What crane prints."""
        return subprocess.run(["crane", *arguments], check=True, capture_output=True, text=True).stdout.strip()

    def pull(self, reference):
        """Returns the image's configuration and the folder of its files."""
        if not reference.startswith(self.registry + "/"):
            fail(f"a pod names the image {reference}, which is not in the registry {self.registry}")
        try:
            digest = self.crane("digest", reference)
            config = json.loads(self.crane("config", reference))["config"]
            root = self.store / digest.removeprefix("sha256:")
            if not root.exists():
                self.unpack(reference, root)
        except subprocess.CalledProcessError as error:
            fail(f"the image {reference} cannot be pulled: {error.stderr.strip()}")
        print(f"pulled {reference} ({digest})", flush=True)
        return config, root

    def unpack(self, reference, root):
        """Unpacks an image, adds the mount points of a container, and looks whether the program is the right one."""
        new = root.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        archive = root.with_suffix(".tar")
        self.crane("export", reference, str(archive))
        subprocess.run(["tar", "-C", str(new), "-xf", str(archive)], check=True)
        archive.unlink()
        for folder in ("dev", TOKEN_FOLDER[1:]):
            (new / folder).mkdir(parents=True, exist_ok=True)
        for file in ("etc/hosts", "etc/resolv.conf"):
            (new / file).touch()
        for flag, wanted in (("--version", self.version), ("--help", "--leader-elect")):
            said = subprocess.run([str(new / "caip-openstack"), flag], capture_output=True, text=True, env={}, check=True)
            if wanted not in said.stdout:
                fail(f"the program of {reference} says {said.stdout.strip()!r} to {flag}, without {wanted!r}")
        new.rename(root)


def free_port():
    """A port on loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pod:
    """A pod that runs here."""

    def __init__(self, api, images, data):
        self.api, self.name, self.uid = api, data["metadata"]["name"], data["metadata"]["uid"]
        self.namespace, self.spec = data["metadata"]["namespace"], data["spec"]
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = images.store / "pods" / self.uid
        self.folder.mkdir(parents=True)
        self.ready, self.starts, self.start_at = False, 0, 0.0
        self.deadline = time.monotonic() + READY_SECONDS
        containers = self.spec["containers"]
        if len(containers) != 1 or self.spec.get("initContainers"):
            fail(f"{self}: this node runs pods with one container")
        self.container = containers[0]
        if self.container.get("command") or self.container.get("envFrom"):
            fail(f"{self}: this node knows neither `command` nor `envFrom`")
        self.config, self.root = images.pull(self.container["image"])
        self.port = free_port()
        self.health = f"127.0.0.1:{self.port}"
        self.process = self.start()

    def __str__(self):
        return f"{self.namespace}/{self.name}"

    def environment(self):
        """As the container has it."""
        fields = {"metadata.name": self.name, "metadata.namespace": self.namespace, "metadata.uid": self.uid}
        found = {"KUBERNETES_SERVICE_HOST": self.api.host, "KUBERNETES_SERVICE_PORT": str(self.api.port)}
        for variable in self.container.get("env", []):
            if "valueFrom" in variable:
                found[variable["name"]] = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                found[variable["name"]] = variable.get("value", "")
        return found

    def credentials(self):
        """Mount options for the token that the API server's admission asks for."""
        mounts = self.container.get("volumeMounts", [])
        if [mount["mountPath"] for mount in mounts] != [TOKEN_FOLDER]:
            fail(f"{self} mounts {mounts}: this node knows only the token's volume")
        name = next(volume for volume in self.spec["volumes"] if volume["name"] == mounts[0]["name"])
        seconds = next(s["serviceAccountToken"] for s in name["projected"]["sources"] if "serviceAccountToken" in s)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}
        request = {"spec": {"boundObjectRef": bound, "expirationSeconds": seconds["expirationSeconds"]}}
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.spec['serviceAccountName']}"
        answer = self.api.call("POST", f"{account}/token", request)
        root = self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/configmaps/kube-root-ca.crt")
        if answer is None or root is None:
            return None
        files = {"token": answer["status"]["token"], "ca.crt": root["data"]["ca.crt"], "namespace": self.namespace}
        place = self.folder / "token"
        place.mkdir(exist_ok=True)
        for file, text in files.items():
            (place / file).write_text(text, encoding="utf-8")
        return ["--ro-bind", str(place), TOKEN_FOLDER]

    def start(self):
        """Runs the container's program as hack/image/test.sh does. None if the pod is not ready to be started."""
        credentials = self.credentials()
        if credentials is None:
            return None
        self.starts += 1
        for file, text in (("hosts", "127.0.0.1 localhost\n"), ("resolv.conf", "nameserver 127.0.0.1\n")):
            (self.folder / file).write_text(text, encoding="utf-8")
        context = self.spec.get("securityContext", {}) | self.container.get("securityContext", {})
        user = str(context.get("runAsUser", self.config["User"].split(":")[0]))
        variables = [word for pair in self.environment().items() for word in ("--setenv", *pair)]
        own = [f"--health-addr={self.health}"]
        if "--diagnostics-address=0" not in self.container["args"]:
            own.append("--diagnostics-address=127.0.0.1:0")
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                ["bwrap", "--unshare-user", "--uid", user, "--gid", user, "--unshare-pid", "--as-pid-1"]
                + ["--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL", "--new-session", "--die-with-parent"]
                + ["--clearenv", *variables, "--ro-bind", str(self.root), "/", "--dev", "/dev"]
                + ["--ro-bind", str(self.folder / "hosts"), "/etc/hosts"]
                + ["--ro-bind", str(self.folder / "resolv.conf"), "/etc/resolv.conf", *credentials]
                + [*self.config["Entrypoint"], *self.container["args"], *own],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self):
        """The end of what the program wrote."""
        return "\n".join((self.folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def probe(self, kind):
        """Whether a probe of the container succeeds."""
        get = self.container[kind]["httpGet"]
        if get["port"] != "healthz":
            fail(f"{self}: the port of the {kind} is {get['port']}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", get["path"])
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def watch(self):
        """Starts the program again if it has ended, and says when it is ready."""
        if self.process is not None and self.process.poll() is not None:
            if self.starts > RESTARTS:
                fail(f"{self}: {self.container['image']} keeps ending:\n{self.log()}")
            self.process, self.start_at = None, time.monotonic() + 1
        if self.process is None and time.monotonic() >= self.start_at:
            self.process = self.start()
        if self.ready or self.process is None:
            return
        if self.probe("readinessProbe") and self.probe("livenessProbe"):
            self.report_ready()
        elif time.monotonic() > self.deadline:
            fail(f"{self}: {self.container['image']} is not ready:\n{self.log()}")

    def report_ready(self):
        """Writes the pod's status."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in types]
        state = {"name": self.container["name"], "image": self.container["image"], "imageID": "", "ready": True}
        state |= {"started": True, "restartCount": self.starts - 1, "state": {"running": {"startedAt": now}}}
        status = {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": [state]}
        self.api.call("PATCH", f"{self.path}/status", {"status": status}, "application/strategic-merge-patch+json")
        self.ready = True
        print(f"ready {self.container['image']} as {self}: {' '.join(self.container['args'])}", flush=True)

    def end(self):
        """Ends the program as a kubelet does, and then the pod."""
        if self.process is not None and self.process.poll() is None:
            outer = self.process.pid
            inner = pathlib.Path(f"/proc/{outer}/task/{outer}/children").read_text(encoding="utf-8").split()
            for pid in inner:
                os.kill(int(pid), 15)
            try:
                self.process.wait(self.spec["terminationGracePeriodSeconds"])
            except subprocess.TimeoutExpired:
                fail(f"{self}: {self.container['image']} did not end in time:\n{self.log()}")
        remove(self.api, self.path, self.uid)
        shutil.rmtree(self.folder)


def remove(api, path, uid):
    """Removes a pod whose program has ended."""
    api.call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})


def main():
    """Does what is to be done with each pod, again and again."""
    server, pki, registry, store, version = sys.argv[1:]
    api = ApiServer(server, pathlib.Path(pki))
    images = Images(registry, pathlib.Path(store), version)
    running = {}
    while True:
        pods = {pod["metadata"]["uid"]: pod for pod in api.call("GET", "/api/v1/pods")["items"]}
        for uid in [uid for uid in running if uid not in pods]:
            running.pop(uid).end()
        for uid, pod in pods.items():
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            if "nodeName" not in pod["spec"]:
                if "deletionTimestamp" not in pod["metadata"]:
                    target = {"apiVersion": "v1", "kind": "Node", "name": NAME}
                    metadata = {"name": pod["metadata"]["name"], "uid": uid}
                    api.call("POST", f"{path}/binding", {"metadata": metadata, "target": target})
            elif "deletionTimestamp" in pod["metadata"]:
                if uid in running:
                    running.pop(uid).end()
                else:
                    remove(api, path, uid)
            elif uid in running:
                running[uid].watch()
            else:
                running[uid] = Pod(api, images, pod)
        time.sleep(0.2)


main()
