// FLUSH as newer headers have it: Debian 12's ends before.
#pragma once

#include <infiniband/verbs.h>
#include <stdint.h>
#include <string.h>

enum {
    FLUSH_OPERATION = 1 << 11, // IBV_QP_EX_WITH_FLUSH
    FLUSH_GLOBAL = 1 << 8, // IBV_ACCESS_FLUSH_GLOBAL
    FLUSH_PERSISTENT = 1 << 9, // IBV_ACCESS_FLUSH_PERSISTENT
    FLUSH_PAGED = 1 << 6, // IBV_ODP_SUPPORT_FLUSH
    FLUSH_OPCODE = 14, // IBV_WR_FLUSH
    FLUSH_COMPLETION = 8, // IBV_WC_FLUSH
};
// enum ibv_placement_type, enum ibv_selectivity_level
enum { TO_GLOBAL = 1, TO_PERSISTENT = 2, OF_RANGE = 0, OF_REGION = 1 };

// ibv_wr_flush: the call stands behind what older headers know.
static inline void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t length, uint8_t type, uint8_t level)
{
    void (*call)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);
    memcpy(&call, (const char *)&qp->wr_atomic_write + sizeof qp->wr_atomic_write, sizeof call);
    call(qp, rkey, address, length, type, level);
}
