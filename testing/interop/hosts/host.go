// Go as host, through cgo: registers memory of C, of mmap and of Go's own heap, lets another process write it, with the
// collector running and goroutines allocating, starts programs, deregisters, and goes on using the memory.
//
// proves: MEM-2, MEM-3
package main

/*
#cgo LDFLAGS: -libverbs
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The inline functions of the header, which cgo does not call by name.
static struct ibv_mr *reg(struct ibv_pd *pd, uintptr_t at, size_t length, int access)
{
    return ibv_reg_mr(pd, (void *)at, length, access);
}

static int remote_write(struct ibv_qp *qp, struct ibv_cq *cq, uintptr_t from, uint32_t length, uint32_t lkey, uint64_t to,
                        uint32_t rkey)
{
    struct ibv_sge sge = {.addr = from, .length = length, .lkey = lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
    struct ibv_wc wc;
    int n;
    wr.wr.rdma.remote_addr = to;
    wr.wr.rdma.rkey = rkey;
    if (ibv_post_send(qp, &wr, &bad))
        return -1;
    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    return n == 1 ? (int)wc.status : -2;
}

static int connect_qp(struct ibv_qp *qp, uint32_t number, union ibv_gid there, int access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
    int failed = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = number;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.dlid = 1;
    attr.ah_attr.grh.dgid = there;
    attr.ah_attr.grh.hop_limit = 64;
    failed = failed ? failed : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    return failed ? failed : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_MAX_QP_RD_ATOMIC);
}
*/
import "C"

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	length = 300_000
	access = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ
)

var passed, failed int

func check(sentence string, good bool) {
	word := "ok  "
	if good {
		passed++
	} else {
		failed++
		word = "FAIL"
	}
	fmt.Println(word, sentence)
}

func pattern(seed, size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(i*31 + seed*97 + i>>8)
	}
	return out
}

type hello struct {
	Number uint32
	Gid    [16]byte
}

type order struct {
	Seed, Length int
	Key          uint32
	Address      uint64
	End          bool
}

// A device, a queue pair connected to the other process's, and the line to that process.
type node struct {
	pd  *C.struct_ibv_pd
	cq  *C.struct_ibv_cq
	qp  *C.struct_ibv_qp
	in  *gob.Decoder
	out *gob.Encoder
}

func must(good bool, what string) {
	if !good {
		fmt.Println("FAIL", what)
		os.Exit(1)
	}
}

func open(from io.Reader, to io.Writer) *node {
	n := &node{in: gob.NewDecoder(from), out: gob.NewEncoder(to)}
	var count C.int
	list := C.ibv_get_device_list(&count)
	must(count > 0, "there is a device")
	context := C.ibv_open_device(*list)
	must(context != nil, "the device opens")
	n.pd = C.ibv_alloc_pd(context)
	n.cq = C.ibv_create_cq(context, 64, nil, nil, 0)
	init := C.struct_ibv_qp_init_attr{send_cq: n.cq, recv_cq: n.cq, qp_type: C.IBV_QPT_RC}
	init.cap = C.struct_ibv_qp_cap{max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1}
	n.qp = C.ibv_create_qp(n.pd, &init)
	must(n.qp != nil, "a queue pair is made")
	var gid, theirs C.union_ibv_gid
	C.ibv_query_gid(context, 1, 0, &gid)
	ours, there := hello{Number: uint32(n.qp.qp_num), Gid: gid}, hello{}
	must(n.out.Encode(ours) == nil && n.in.Decode(&there) == nil, "both say hello")
	theirs = there.Gid
	must(C.connect_qp(n.qp, C.uint32_t(there.Number), theirs, access) == 0, "the queue pair is connected")
	return n
}

// The life of the other process.
func serve() {
	n := open(os.Stdin, os.Stdout)
	source := C.malloc(length)
	mr := C.reg(n.pd, C.uintptr_t(uintptr(source)), length, access)
	for {
		var o order
		if n.in.Decode(&o) != nil || o.End {
			return
		}
		copy(unsafe.Slice((*byte)(source), length), pattern(o.Seed, o.Length))
		status := C.remote_write(n.qp, n.cq, C.uintptr_t(uintptr(source)), C.uint32_t(o.Length), mr.lkey, C.uint64_t(o.Address),
			C.uint32_t(o.Key))
		if n.out.Encode(int(status)) != nil {
			return
		}
	}
}

func (n *node) peerWrites(mr *C.struct_ibv_mr, address uintptr, seed, size int) bool {
	status := -1
	return n.out.Encode(order{Seed: seed, Length: size, Key: uint32(mr.rkey), Address: uint64(address)}) == nil &&
		n.in.Decode(&status) == nil && status == C.IBV_WC_SUCCESS
}

// Bytes of the range that peers map.
func adopted(address uintptr, size int) (total int) {
	maps, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(maps), "\n") {
		var start, end uintptr
		var mode string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); n != 3 || mode[3] != 's' || !strings.Contains(line, "nonic-pages") {
			continue
		}
		if start < address {
			start = address
		}
		if limit := address + uintptr(size); end > limit {
			end = limit
		}
		if start < end {
			total += int(end - start)
		}
	}
	return
}

func checkPages(address uintptr, size int) {
	whole := int((address+uintptr(size))/4096*4096 - (address+4095)/4096*4096)
	switch os.Getenv("EXPECT_PAGES") {
	case "adopted":
		check("its whole pages are adopted", adopted(address, size) == whole)
	case "plain":
		check("none of its pages is adopted", adopted(address, size) == 0)
	}
}

func (n *node) life(name string, buffer []byte) {
	fmt.Println("    ", name)
	address := uintptr(unsafe.Pointer(&buffer[0]))
	copy(buffer, pattern(1, len(buffer)))
	mr := C.reg(n.pd, C.uintptr_t(address), C.size_t(len(buffer)), access)
	must(mr != nil, "it is registered")
	checkPages(address, len(buffer))
	check("its bytes are there", bytes.Equal(buffer, pattern(1, len(buffer))))
	check("the peer writes", n.peerWrites(mr, address, 2, len(buffer)))
	check("and Go sees it", bytes.Equal(buffer, pattern(2, len(buffer))))
	said, err := exec.Command("/bin/echo", "hello").Output()
	check("a program is started", err == nil && string(said) == "hello\n")
	runtime.GC()
	debug.FreeOSMemory()
	check("the collector changes no byte", bytes.Equal(buffer, pattern(2, len(buffer))))
	check("the peer writes after that", n.peerWrites(mr, address, 3, len(buffer)))
	check("it is deregistered", C.ibv_dereg_mr(mr) == 0)
	check("nothing of it is shared", adopted(address, len(buffer)) == 0)
	check("and its bytes are there", bytes.Equal(buffer, pattern(3, len(buffer))))
	runtime.KeepAlive(buffer)
}

// Blocks of Go's heap, registered and dropped, while goroutines allocate and the runtime gives pages to the kernel.
func (n *node) manyLives() {
	var over atomic.Bool
	var wrong, lives atomic.Int64
	var allocators sync.WaitGroup
	for i := 0; i < 4; i++ {
		allocators.Add(1)
		go func(size int) {
			defer allocators.Done()
			for !over.Load() {
				block := make([]byte, size)
				for k := 0; k < size; k += 61 {
					if block[k] != 0 {
						wrong.Add(1)
					}
				}
				for k := range block {
					block[k] = 0xaa
				}
				if lives.Add(1)%200 == 0 {
					debug.FreeOSMemory()
				}
			}
		}(9_000 << (2 * i))
	}
	for seed := 0; seed < 200; seed++ {
		size := 5_000 + seed*1_400
		block := make([]byte, size)
		address := uintptr(unsafe.Pointer(&block[0]))
		mr := C.reg(n.pd, C.uintptr_t(address), C.size_t(size), access)
		if mr == nil || !n.peerWrites(mr, address, seed, size) || !bytes.Equal(block, pattern(seed, size)) ||
			C.ibv_dereg_mr(mr) != 0 || !bytes.Equal(block, pattern(seed, size)) {
			wrong.Add(1)
		}
	}
	over.Store(true)
	allocators.Wait()
	check(fmt.Sprintf("two hundred registrations while goroutines allocate: %d wrong", wrong.Load()), wrong.Load() == 0)
	check("which they did", lives.Load() > 0)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		serve()
		return
	}
	other := exec.Command("/proc/self/exe", "serve")
	in, _ := other.StdinPipe()
	out, _ := other.StdoutPipe()
	other.Stderr = os.Stderr
	must(other.Start() == nil, "the other process starts")
	n := open(out, in)
	fromC := C.malloc(length)
	n.life("memory of malloc", unsafe.Slice((*byte)(fromC), length))
	C.free(fromC)
	fromC = C.calloc(1, length)
	check("calloc gives zeros after that", bytes.Equal(unsafe.Slice((*byte)(fromC), length), make([]byte, length)))
	C.free(fromC)
	mapped, err := syscall.Mmap(-1, 0, length, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	must(err == nil, "memory is mapped")
	n.life("memory of mmap", mapped)
	n.life("memory of Go", make([]byte, length))
	n.manyLives()
	_ = n.out.Encode(order{End: true})
	check("the other process ends well", other.Wait() == nil)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
