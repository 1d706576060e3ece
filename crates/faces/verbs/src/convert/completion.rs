//! `struct ibv_wc`.

use core::ffi::c_int;

use nonic_device::{Completion, CompletionOpcode};

use crate::abi::{IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV, ibv_wc};

/// `enum ibv_wc_opcode`.
#[inline]
pub(crate) fn completion_opcode(completion: &Completion) -> c_int {
    let opcode = match completion.opcode {
        CompletionOpcode::ReceiveInvalidate if completion.immediate.is_some() => CompletionOpcode::Receive,
        CompletionOpcode::WriteWithImmediate => CompletionOpcode::RdmaWrite,
        other => other,
    };
    opcode as c_int
}

/// `enum ibv_wc_flags`.
#[inline]
pub(crate) fn completion_flags(completion: &Completion) -> u32 {
    let with_word = match completion.immediate {
        None => 0,
        Some(_) if completion.opcode == CompletionOpcode::ReceiveInvalidate => IBV_WC_WITH_INV,
        Some(_) => IBV_WC_WITH_IMM,
    };
    with_word | if completion.has_global_header { IBV_WC_GRH } else { 0 }
}

/// A completion as programs read it.
pub(crate) fn to_wc(completion: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.id,
        status: completion.status as c_int,
        opcode: completion_opcode(completion),
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_length,
        imm_data: completion.immediate.unwrap_or(0),
        qp_num: completion.qp_number.0,
        src_qp: completion.source_qp.0,
        wc_flags: completion_flags(completion),
        pkey_index: 0,
        slid: completion.source_lid,
        sl: completion.service_level,
        dlid_path_bits: 0,
    }
}

#[cfg(test)]
mod tests {
    use nonic_device::{CompletionOpcode, QpNumber, Status};

    use super::*;

    #[test]
    fn the_flags_say_which_parts_are_valid() {
        let mut completion =
            Completion::bare(5, CompletionOpcode::ReceiveWriteWithImmediate, Status::Success, QpNumber(0x11));
        assert_eq!(to_wc(&completion).wc_flags, 0);
        completion.immediate = Some(0x0102_0304);
        completion.has_global_header = true;
        let wc = to_wc(&completion);
        assert_eq!((wc.wr_id, wc.opcode, wc.qp_num), (5, 129, 0x11));
        assert_eq!((wc.wc_flags, wc.imm_data), (IBV_WC_GRH | IBV_WC_WITH_IMM, 0x0102_0304));
        completion.opcode = CompletionOpcode::ReceiveInvalidate;
        let wc = to_wc(&completion);
        assert_eq!((wc.opcode, wc.wc_flags, wc.imm_data), (128, IBV_WC_GRH | IBV_WC_WITH_INV, 0x0102_0304));
        let own = Completion::bare(5, CompletionOpcode::WriteWithImmediate, Status::Success, QpNumber(0x11));
        assert_eq!((to_wc(&own).opcode, to_wc(&own).wc_flags), (1, 0), "the initiator is told of a write");
    }
}
