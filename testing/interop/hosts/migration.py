# Moves a virtual machine from one QEMU to another over RDMA, and compares their memory.
#
# Usage: migration.py FOLDER [pin]     a folder for what is compared; pin: all memory is registered before

import filecmp
import json
import os
import subprocess
import sys

MEMORY = 48 << 20
# Below the holes that a PC has in its memory.
COMPARED = 16 << 20


class Machine:
    def __init__(self, *words):
        machine = "qemu-system-x86_64 -M pc -accel tcg -nodefaults -display none -S -qmp stdio".split()
        memory = ["-m", f"{MEMORY >> 20}"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([*machine, *memory, *words], stdin=pipe, stdout=pipe, text=True)
        machines.append(self.process)
        self.hear()
        self.ask("qmp_capabilities")

    def hear(self):
        while True:
            line = self.process.stdout.readline()
            if not line:
                sys.exit("a machine has ended")
            # It says more there than it should.
            if line.startswith("{"):
                return json.loads(line)

    def ask(self, command, **arguments):
        self.process.stdin.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        while True:
            heard = self.hear()
            if "error" in heard:
                sys.exit(f"{command}: {heard['error']}")
            if "return" in heard:
                return heard["return"]

    # Until the event comes.
    def wait(self, event, status):
        while True:
            heard = self.hear()
            if heard.get("event") == event:
                if heard["data"]["status"] == status:
                    return
                if heard["data"]["status"] == "failed":
                    sys.exit(f"the migration failed: {self.ask('query-migrate')}")

    def save(self, file):
        self.ask("pmemsave", val=0, size=COMPARED, filename=file)


machines = []


def main():
    folder, pin = sys.argv[1], "pin" in sys.argv[2:]
    port = 4444
    target = Machine("-incoming", "defer")
    source = Machine()
    for machine in (source, target):
        on = [{"capability": name, "state": True} for name in ["events"] + ["rdma-pin-all"] * pin]
        machine.ask("migrate-set-capabilities", capabilities=on)
    target.ask("migrate-incoming", uri=f"rdma:127.0.0.1:{port}")
    source.ask("migrate", uri=f"rdma:127.0.0.1:{port}")
    source.wait("MIGRATION", "completed")
    moved = source.ask("query-migrate")["ram"]["transferred"]
    files = [os.path.join(folder, name) for name in ("source", "target")]
    target.wait("MIGRATION", "completed")
    for machine, file in zip((source, target), files):
        machine.save(file)
    if not filecmp.cmp(*files, shallow=False):
        sys.exit("the machines' memory differs")
    if not any(open(files[1], "rb").read()):
        sys.exit("there is nothing in the machines' memory")
    print(f"moved {moved} bytes, and the memory is the same")


try:
    main()
finally:
    for process in machines:
        process.kill()
        process.wait()
