"""Makes connections and holds them until it is killed. "listen PORT" accepts each that comes, and says how many there are; "fork PORT"
accepts one, has a child hold it, too, and says the child's number; "connect PORT..." connects to each port."""
import os, signal, socket, sys

mode, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
held = []
if mode == "connect":
    for port in ports:
        held.append(socket.create_connection(("127.0.0.1", port)))
        # Who listens has accepted it.
        assert held[-1].recv(1) == b"!"
    print("connected", flush=True)
else:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", ports[0]))
    listener.listen()
    while not (held and mode == "fork"):
        held.append(listener.accept()[0])
        if mode == "listen":
            held[-1].sendall(b"!")
            print("holds", len(held), flush=True)
    listener.close()
    if os.fork() == 0:
        held[0].sendall(b"!")
        print("child", os.getpid(), flush=True)
signal.pause()
