"""A server of the standard library that forks for each connection ("serve"), and its clients ("ask"), twenty at a time."""
import os, socket, socketserver, sys, threading

mode, port = sys.argv[1], int(sys.argv[2])
CLIENTS = 20


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"%d %d\n" % (os.getpid(), self.client_address[1]))
        for line in self.rfile:
            self.wfile.write(line.strip()[::-1] + b"\n")


class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = CLIENTS


def ask(children):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        lines = connection.makefile("rb")
        child, seen = lines.readline().split()
        assert int(seen) == connection.getsockname()[1]
        children.append(child)
        for _ in range(50):
            word = os.urandom(2000).hex().encode()
            connection.sendall(word + b"\n")
            assert lines.readline().strip() == word[::-1]
        connection.shutdown(socket.SHUT_WR)
        assert lines.read() == b""


if mode == "serve":
    with Server(("127.0.0.1", port), Handler) as server:
        for _ in range(CLIENTS):
            server.handle_request()
    print("all children have ended")
else:
    children = []
    threads = [threading.Thread(target=ask, args=(children,)) for _ in range(CLIENTS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(len(set(children)), "children have answered")
