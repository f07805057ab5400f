"""A proxy that writes down what it is asked for, and refuses all of it."""

import contextlib
import socketserver
import threading

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "grpc_proxy")


@contextlib.contextmanager
def recording_proxy():
    """The environment variables that lead to a proxy, and a list of what it has heard."""
    asked = []

    class Refusal(socketserver.BaseRequestHandler):
        def handle(self):
            asked.append(self.request.recv(65536).decode(errors="replace"))
            self.request.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield {spelt: address for name in VARIABLES for spelt in (name, name.upper())}, asked
        finally:
            server.shutdown()
