#!/usr/bin/env python3
"""Runs an HTTPS server that only DNS can name, and a client that requests it:  named_server.py NAME CERTIFICATE WANT COMMAND...

Runs in a network namespace of its own, as its root: DNS is at 127.0.0.1:53 and knows NAME alone, HTTPS at port 443.
Runs COMMAND and waits for what WANT says: `request` (an HTTP request comes in), or `unknown-ca` (the client refuses the
certificate for the CA that it is of). Ends COMMAND, and fails when that did not happen.
"""

import http.server
import queue
import socket
import ssl
import struct
import subprocess
import sys
import threading

# Generous, even for an emulator.
PATIENCE_SECONDS = 60

TYPE_A = 1


def name_of(query):
    """The name that a DNS query asks for, and where its question ends."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels), at + 5


def answer(query, name):
    """127.0.0.1 for an A of `name`, no record for its other types, NXDOMAIN for any other name."""
    asked, end = name_of(query)
    (kind,) = struct.unpack(">H", query[end - 4 : end - 2])
    is_ours = asked.lower() == name
    record = b"\xc0\x0c" + struct.pack(">HHIH", TYPE_A, 1, 60, 4) + bytes([127, 0, 0, 1])
    records = record if is_ours and kind == TYPE_A else b""
    flags = 0x8580 if is_ours else 0x8583
    return query[:2] + struct.pack(">HHHHH", flags, 1, bool(records), 0, 0) + query[12:end] + records


def serve_names(name):
    """Answers datagrams, one after the other."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def run():
        while True:
            query, client = server.recvfrom(512)
            server.sendto(answer(query, name), client)

    threading.Thread(target=run, daemon=True).start()


def serve_https(certificate, seen):
    """Reports to `seen` every request, and every handshake that the client aborted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    class Answers(http.server.BaseHTTPRequestHandler):
        """Always 404: only the request matters."""

        def do_GET(self):  # noqa: N802
            seen.put("request")
            self.send_error(404)

        def log_message(self, *_):
            """Logs nothing: `seen` has the request."""

    class Server(http.server.ThreadingHTTPServer):
        """One TLS handshake for each connection."""

        def get_request(self):
            connection, client = super().get_request()
            try:
                return context.wrap_socket(connection, server_side=True), client
            except ssl.SSLError as error:
                seen.put("unknown-ca" if "UNKNOWN_CA" in str(error.reason) else f"TLS: {error.reason}")
                raise OSError from error

    threading.Thread(target=Server(("127.0.0.1", 443), Answers).serve_forever, daemon=True).start()


def main():
    name, certificate, wanted, *command = sys.argv[1:]
    seen = queue.Queue()
    serve_names(name)
    serve_https(certificate, seen)
    with subprocess.Popen(command, stderr=subprocess.PIPE) as client:
        try:
            first = seen.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            first = "nothing"
        client.kill()
        _, log = client.communicate()
    if first != wanted:
        sys.exit(f"error: {wanted} was expected and {first} came; the program said:\n{log.decode()}")


if __name__ == "__main__":
    main()
