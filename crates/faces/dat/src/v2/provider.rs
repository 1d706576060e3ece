//! The table of functions that the registry, and macros of programs, call.

use core::ptr;

use super::abi::{Function, Provider};
use super::calls::*;
use super::version::V2;
use crate::entry::adapter::{ia_close, ia_query};
use crate::entry::connection_request::{cr_accept, cr_handoff, cr_query};
use crate::entry::context::{get_consumer_context, get_handle_type, set_consumer_context};
use crate::entry::dispatcher::{
    evd_clear_unwaitable, evd_dequeue, evd_disable, evd_enable, evd_free, evd_modify_cno, evd_post_se,
    evd_query, evd_resize, evd_set_unwaitable, evd_wait,
};
use crate::entry::endpoint::{
    ep_connect, ep_create, ep_create_with_srq, ep_disconnect, ep_dup_connect, ep_free, ep_get_status,
    ep_modify, ep_query, ep_recv_query, ep_reset, ep_set_watermark,
};
use crate::entry::local_region::{lmr_free, lmr_query, lmr_sync_rdma_read, lmr_sync_rdma_write};
use crate::entry::notification_object::{cno_create, cno_free, cno_modify_agent, cno_query, cno_wait};
use crate::entry::posting::{
    ep_post_rdma_read, ep_post_rdma_write, ep_post_recv, ep_post_send, srq_post_recv,
};
use crate::entry::remote_region::{rmr_create, rmr_free, rmr_query};
use crate::entry::service_point::{
    psp_create, psp_create_any, psp_free, psp_query, rsp_create, rsp_free, rsp_query,
};
use crate::entry::shared_receive_queue::{srq_create, srq_free, srq_query, srq_resize, srq_set_lw};
use crate::entry::zone::{pz_create, pz_free, pz_query};

macro_rules! table {
    (shared: $($shared:ident)*; own: $($own:ident)*;) => {
        /// All functions; the name is filled in for each adapter.
        pub(super) const TABLE: Provider = Provider {
            device_name: ptr::null(),
            extension: 0,
            $($shared: Function($shared::<V2> as *const ()),)*
            $($own: Function($own as *const ()),)*
        };
    };
}

table! {
    shared:
        ia_query ia_close set_consumer_context get_consumer_context get_handle_type
        cno_create cno_modify_agent cno_query cno_free cno_wait
        cr_query cr_accept cr_handoff
        evd_query evd_modify_cno evd_enable evd_disable evd_wait evd_resize evd_post_se evd_dequeue evd_free
        evd_set_unwaitable evd_clear_unwaitable
        ep_create ep_query ep_modify ep_connect ep_dup_connect ep_disconnect ep_post_send ep_post_recv ep_post_rdma_read
        ep_post_rdma_write ep_get_status ep_free ep_reset ep_create_with_srq ep_recv_query ep_set_watermark
        lmr_query lmr_free lmr_sync_rdma_read lmr_sync_rdma_write
        rmr_create rmr_query rmr_free
        psp_create psp_query psp_free psp_create_any rsp_create rsp_query rsp_free
        pz_create pz_query pz_free
        srq_create srq_free srq_post_recv srq_query srq_resize srq_set_lw;
    own:
        ia_open evd_create cr_reject lmr_create rmr_bind
        csp_create csp_query csp_free ep_common_connect rmr_create_for_ep ep_post_send_with_invalidate
        ep_post_rdma_read_to_rmr cno_fd_create cno_trigger ia_ha_related handle_extendedop;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_of_the_table_is_empty() {
        // SAFETY: a structure of words, of which each is initialized.
        let words: [usize; 81] = unsafe { core::mem::transmute(TABLE) };
        assert_eq!(words.iter().filter(|word| **word == 0).count(), 2, "the name and the extension");
    }
}
