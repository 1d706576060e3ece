"""Python as host, with the distribution's pyverbs: registers what Python programs hold, lets another process write it,
forks, starts programs, deregisters, and goes on using the memory.

proves: MEM-2, MEM-3
"""

import ctypes
import gc
import mmap
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC)
LENGTH = 300_000
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
EXPECT = os.environ.get("EXPECT_PAGES", "")

passed = failed = 0


def check(sentence, good):
    global passed, failed
    passed, failed = (passed + 1, failed) if good else (passed, failed + 1)
    print("ok  " if good else "FAIL", sentence, flush=True)


def result():
    print(f"{passed} passed, {failed} failed")
    return failed > 0


def pattern(seed, length=LENGTH):
    return bytes((i * 31 + seed * 97 + (i >> 8)) & 255 for i in range(1024)) * (length // 1024 + 1)


def adopted(address, length):
    """Bytes of the range that peers map."""
    total = 0
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, mode = line.split()[:2]
            start, end = (int(word, 16) for word in span.split("-"))
            if "nonic-pages" in line and mode.endswith("s") and start < address + length and end > address:
                total += min(end, address + length) - max(start, address)
    return total


class Line:
    """Messages between the two processes."""

    def __init__(self, end):
        self.end = end

    def give(self, value):
        data = pickle.dumps(value)
        self.end.sendall(struct.pack("I", len(data)) + data)

    def take(self):
        return pickle.loads(self.exactly(struct.unpack("I", self.exactly(4))[0]))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.end.recv(count - len(data))
            if not more:
                sys.exit("the other process is gone")
            data += more
        return data


class Node:
    """A device, and a queue pair connected to the other process's."""

    def __init__(self, line):
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        cap = QPCap(max_send_wr=16, max_recv_wr=16, max_send_sge=1, max_recv_sge=1)
        begin = QPAttr(port_num=1)
        begin.qp_access_flags = ACCESS
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.cq, rcq=self.cq, cap=cap), begin)
        gid = self.context.query_gid(1, 0).gid
        line.give((self.qp.qp_num, gid))
        number, there = line.take()
        attr = QPAttr(port_num=1)
        attr.ah_attr = AHAttr(port_num=1, is_global=1, dlid=1, gr=GlobalRoute(dgid=GID(there), sgid_index=0))
        attr.path_mtu = e.IBV_MTU_1024
        attr.dest_qp_num = number
        attr.max_dest_rd_atomic = attr.max_rd_atomic = 1
        attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
        self.qp.to_rts(attr)

    def write(self, bytes_, key, address):
        source = bytearray(bytes_)
        held = (ctypes.c_char * len(source)).from_buffer(source)
        mr = MR(self.pd, len(source), ACCESS, address=ctypes.addressof(held))
        wr = SendWR(wr_id=1, opcode=e.IBV_WR_RDMA_WRITE, num_sge=1, send_flags=e.IBV_SEND_SIGNALED,
                    sg=[SGE(mr.buf, len(source), mr.lkey)])
        wr.set_wr_rdma(key, address)
        self.qp.post_send(wr)
        done = 0
        while not done:
            done, completions = self.cq.poll()
        mr.close()
        return completions[0].status


def serve(line):
    node = Node(line)
    while (order := line.take()) is not None:
        seed, key, address, length = order
        line.give(node.write(pattern(seed)[:length], key, address))


class Host:
    def __init__(self, line):
        self.line = line
        self.node = Node(line)

    def register(self, buffer):
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        mr = MR(self.node.pd, len(buffer), ACCESS, address=address)
        whole = (address + len(buffer)) // 4096 * 4096 - (address + 4095) // 4096 * 4096
        if EXPECT == "adopted":
            check("its whole pages are adopted", adopted(address, len(buffer)) == whole)
        if EXPECT == "plain":
            check("none of its pages is adopted", adopted(address, len(buffer)) == 0)
        return mr, address

    def peer_writes(self, mr, address, seed, length):
        self.line.give((seed, mr.rkey, address, length))
        check("the peer writes", self.line.take() == e.IBV_WC_SUCCESS)

    def life(self, name, buffer):
        print(f"     a {name}")
        mr, address = self.register(buffer)
        self.peer_writes(mr, address, 1, len(buffer))
        check("and Python sees it", bytes(buffer) == pattern(1)[:len(buffer)])
        self.forks(buffer, mr, address)
        self.starts_programs(buffer)
        mr.close()
        check("after the deregistration nothing is shared", adopted(address, len(buffer)) == 0)
        check("and the bytes are there", bytes(buffer) == pattern(2)[:len(buffer)])

    def forks(self, buffer, mr, address):
        down, up = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            well = bytes(buffer) == pattern(1)[:len(buffer)]
            buffer[:4096] = b"c" * 4096
            os.write(up[1], b"w")
            os.read(down[0], 1)
            well = well and bytes(buffer) == b"c" * 4096 + pattern(1)[4096:len(buffer)]
            os._exit(0 if well else 1)
        os.read(up[0], 1)
        check("a child writes its own bytes", bytes(buffer) == pattern(1)[:len(buffer)])
        self.peer_writes(mr, address, 2, len(buffer))
        check("the peer's reach the parent", bytes(buffer) == pattern(2)[:len(buffer)])
        os.write(down[1], b"g")
        check("and not the child", os.waitpid(child, 0)[1] == 0)
        for fd in down + up:
            os.close(fd)

    @staticmethod
    def starts_programs(buffer):
        before = bytes(buffer)
        check("subprocess starts a program", subprocess.run(["/bin/echo", "hello"], capture_output=True).stdout == b"hello\n")
        check("os.system does", os.system("exit 3") >> 8 == 3)
        check("and changes no byte", bytes(buffer) == before)


def many_lives(host):
    """Registers, frees and allocates again, with other threads allocating all the time."""
    over = threading.Event()
    wrong = []

    def allocate():
        while not over.is_set():
            block = bytearray(200_000)
            if any(block[::997]):
                wrong.append("a new bytearray is not zeros")
            block[:] = b"x" * len(block)

    threads = [threading.Thread(target=allocate) for _ in range(3)]
    for thread in threads:
        thread.start()
    for seed in range(60):
        buffer = bytearray(LENGTH)
        if any(buffer[::499]):
            wrong.append("a new bytearray is not zeros")
        address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        mr = MR(host.node.pd, LENGTH, ACCESS, address=address)
        host.line.give((seed, mr.rkey, address, LENGTH))
        if host.line.take() != e.IBV_WC_SUCCESS or bytes(buffer) != pattern(seed)[:LENGTH]:
            wrong.append("a write is wrong")
        mr.close()
        buffer.extend(bytes(100_000))  # realloc
        if bytes(buffer) != pattern(seed)[:LENGTH] + bytes(100_000):
            wrong.append("bytes are wrong after the deregistration")
        del buffer
        gc.collect()
    over.set()
    for thread in threads:
        thread.join()
    check(f"sixty lives with other threads allocating: {wrong[:3]}", not wrong)


def main():
    ends = socket.socketpair()
    other = os.fork()
    if other == 0:
        ends[0].close()
        serve(Line(ends[1]))
        os._exit(0)
    ends[1].close()
    host = Host(Line(ends[0]))
    host.life("bytearray", bytearray(LENGTH))
    host.life("private mmap", mmap.mmap(-1, LENGTH, flags=ANONYMOUS))
    host.life("ctypes array", (ctypes.c_ubyte * LENGTH)())
    many_lives(host)
    host.line.give(None)
    check("the other process ends well", os.waitpid(other, 0)[1] == 0)
    sys.exit(result())


if __name__ == "__main__":
    main()
