//! The calls of uDAPL and their types, once for all who need the list: the tables of the face, and the library that forwards to
//! it (which includes this file).
//!
//! Handles, and addresses that are passed on, are numbers; structures are pointers without a type, since the versions of the
//! interface lay them out differently. The words that are passed by value (eight or sixteen bytes) travel in the same registers
//! as the unions of the header.

use core::ffi::{c_char, c_void};

/// A handle of a program, or an address that is handed on as it came.
pub type Handle = usize;

/// `DAT_COUNT`.
pub type Count = i32;

/// `DAT_CONTEXT`, `DAT_DTO_COOKIE`, `DAT_RMR_COOKIE`: eight bytes, passed by value.
pub type Context = u64;

/// `DAT_REGION_DESCRIPTION`: the address or the handle of a region, and the address of the 40 bytes that name shared memory.
/// Passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionDescription {
    /// Address or handle.
    pub address: usize,
    /// Where the name of shared memory is.
    pub shared_memory_id: usize,
}

/// `DAT_OS_WAIT_PROXY_AGENT`, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProxyAgent {
    /// First argument of the function.
    pub instance_data: usize,
    /// The function, called with the dispatcher that has events; `None` for no agent.
    pub function: Option<unsafe extern "C" fn(usize, Handle)>,
}

/// Hands every call that goes to a provider to `$use`: its name, its name in a provider's table, what its first argument is (a
/// handle of an interface adapter, of another object, or of either), and its arguments. In the order of the table.
macro_rules! for_each_provider_call {
    ($use:ident) => {
        $use! {
            dat_ia_query ia_query adapter(
                ia: Handle, async_evd: *mut Handle, ia_mask: u64, ia_attributes: *mut c_void, provider_mask: u64,
                provider_attributes: *mut c_void
            );
            dat_ia_close ia_close adapter(ia: Handle, flags: u32);
            dat_set_consumer_context set_consumer_context either(handle: Handle, context: Context);
            dat_get_consumer_context get_consumer_context either(handle: Handle, context: *mut Context);
            dat_get_handle_type get_handle_type either(handle: Handle, kind: *mut u32);
            dat_cno_create cno_create adapter(ia: Handle, agent: ProxyAgent, cno: *mut Handle);
            dat_cno_modify_agent cno_modify_agent object(cno: Handle, agent: ProxyAgent);
            dat_cno_query cno_query object(cno: Handle, mask: u32, param: *mut c_void);
            dat_cno_free cno_free object(cno: Handle);
            dat_cno_wait cno_wait object(cno: Handle, timeout: u32, evd: *mut Handle);
            dat_cr_query cr_query object(cr: Handle, mask: u32, param: *mut c_void);
            dat_cr_accept cr_accept object(cr: Handle, ep: Handle, size: Count, private_data: *const c_void);
            dat_cr_reject cr_reject object(cr: Handle);
            dat_cr_handoff cr_handoff object(cr: Handle, conn_qual: u64);
            dat_evd_create evd_create adapter(
                ia: Handle, min_qlen: Count, cno: Handle, flags: u32, evd: *mut Handle
            );
            dat_evd_query evd_query object(evd: Handle, mask: u32, param: *mut c_void);
            dat_evd_modify_cno evd_modify_cno object(evd: Handle, cno: Handle);
            dat_evd_enable evd_enable object(evd: Handle);
            dat_evd_disable evd_disable object(evd: Handle);
            dat_evd_wait evd_wait object(
                evd: Handle, timeout: u32, threshold: Count, event: *mut c_void, nmore: *mut Count
            );
            dat_evd_resize evd_resize object(evd: Handle, min_qlen: Count);
            dat_evd_post_se evd_post_se object(evd: Handle, event: *const c_void);
            dat_evd_dequeue evd_dequeue object(evd: Handle, event: *mut c_void);
            dat_evd_free evd_free object(evd: Handle);
            dat_ep_create ep_create adapter(
                ia: Handle, pz: Handle, recv_evd: Handle, request_evd: Handle, connect_evd: Handle,
                attributes: *const c_void, ep: *mut Handle
            );
            dat_ep_query ep_query object(ep: Handle, mask: u64, param: *mut c_void);
            dat_ep_modify ep_modify object(ep: Handle, mask: u64, param: *const c_void);
            dat_ep_connect ep_connect object(
                ep: Handle, address: *const c_void, conn_qual: u64, timeout: u32, size: Count,
                private_data: *const c_void, qos: u32, flags: u32
            );
            dat_ep_dup_connect ep_dup_connect object(
                ep: Handle, dup_ep: Handle, timeout: u32, size: Count, private_data: *const c_void, qos: u32
            );
            dat_ep_disconnect ep_disconnect object(ep: Handle, flags: u32);
            dat_ep_post_send ep_post_send object(
                ep: Handle, count: Count, segments: *const c_void, cookie: Context, flags: u32
            );
            dat_ep_post_recv ep_post_recv object(
                ep: Handle, count: Count, segments: *const c_void, cookie: Context, flags: u32
            );
            dat_ep_post_rdma_read ep_post_rdma_read object(
                ep: Handle, count: Count, segments: *const c_void, cookie: Context, remote: *const c_void, flags: u32
            );
            dat_ep_post_rdma_write ep_post_rdma_write object(
                ep: Handle, count: Count, segments: *const c_void, cookie: Context, remote: *const c_void, flags: u32
            );
            dat_ep_get_status ep_get_status object(
                ep: Handle, state: *mut u32, recv_idle: *mut u32, request_idle: *mut u32
            );
            dat_ep_free ep_free object(ep: Handle);
            dat_lmr_create lmr_create adapter(
                ia: Handle, mem_type: u32, region: RegionDescription, length: u64, pz: Handle, privileges: u32,
                lmr: *mut Handle, lmr_context: *mut u32, rmr_context: *mut u32, size: *mut u64, address: *mut u64
            );
            dat_lmr_query lmr_query object(lmr: Handle, mask: u32, param: *mut c_void);
            dat_lmr_free lmr_free object(lmr: Handle);
            dat_rmr_create rmr_create object(pz: Handle, rmr: *mut Handle);
            dat_rmr_query rmr_query object(rmr: Handle, mask: u32, param: *mut c_void);
            dat_rmr_bind rmr_bind object(
                rmr: Handle, segment: *const c_void, privileges: u32, ep: Handle, cookie: Context, flags: u32,
                rmr_context: *mut u32
            );
            dat_rmr_free rmr_free object(rmr: Handle);
            dat_psp_create psp_create adapter(ia: Handle, conn_qual: u64, evd: Handle, flags: u32, psp: *mut Handle);
            dat_psp_query psp_query object(psp: Handle, mask: u32, param: *mut c_void);
            dat_psp_free psp_free object(psp: Handle);
            dat_rsp_create rsp_create adapter(ia: Handle, conn_qual: u64, ep: Handle, evd: Handle, rsp: *mut Handle);
            dat_rsp_query rsp_query object(rsp: Handle, mask: u32, param: *mut c_void);
            dat_rsp_free rsp_free object(rsp: Handle);
            dat_pz_create pz_create adapter(ia: Handle, pz: *mut Handle);
            dat_pz_query pz_query object(pz: Handle, mask: u32, param: *mut c_void);
            dat_pz_free pz_free object(pz: Handle);
            dat_psp_create_any psp_create_any adapter(
                ia: Handle, conn_qual: *mut u64, evd: Handle, flags: u32, psp: *mut Handle
            );
            dat_ep_reset ep_reset object(ep: Handle);
            dat_evd_set_unwaitable evd_set_unwaitable object(evd: Handle);
            dat_evd_clear_unwaitable evd_clear_unwaitable object(evd: Handle);
            dat_lmr_sync_rdma_read lmr_sync_rdma_read adapter(ia: Handle, segments: *const c_void, count: u64);
            dat_lmr_sync_rdma_write lmr_sync_rdma_write adapter(ia: Handle, segments: *const c_void, count: u64);
            dat_ep_create_with_srq ep_create_with_srq adapter(
                ia: Handle, pz: Handle, recv_evd: Handle, request_evd: Handle, connect_evd: Handle, srq: Handle,
                attributes: *const c_void, ep: *mut Handle
            );
            dat_ep_recv_query ep_recv_query object(ep: Handle, allocated: *mut Count, span: *mut Count);
            dat_ep_set_watermark ep_set_watermark object(ep: Handle, soft: Count, hard: Count);
            dat_srq_create srq_create adapter(ia: Handle, pz: Handle, attributes: *const c_void, srq: *mut Handle);
            dat_srq_free srq_free object(srq: Handle);
            dat_srq_post_recv srq_post_recv object(
                srq: Handle, count: Count, segments: *const c_void, cookie: Context
            );
            dat_srq_query srq_query object(srq: Handle, mask: u32, param: *mut c_void);
            dat_srq_resize srq_resize object(srq: Handle, max_recv_dtos: Count);
            dat_srq_set_lw srq_set_lw object(srq: Handle, low_watermark: Count);
        }
    };
}

/// Hands every other call to `$use`.
macro_rules! for_each_registry_call {
    ($use:ident) => {
        $use! {
            dat_ia_openv(
                name: *const c_char, async_qlen: Count, async_evd: *mut Handle, ia: *mut Handle, major: u32, minor: u32,
                thread_safety: u32
            );
            dat_registry_list_providers(max: Count, count: *mut Count, list: *const *mut c_void);
            dat_registry_add_provider(provider: *const c_void, info: *const c_void);
            dat_registry_remove_provider(provider: *const c_void, info: *const c_void);
            dat_strerror(value: u32, major: *mut *const c_char, minor: *mut *const c_char);
            dats_get_ia_handle(handle: Handle, result: *mut Handle);
        }
    };
}

/// What a call answers: `DAT_RETURN`.
pub type Return = u32;

macro_rules! table {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The calls of 1.2 as pointers: the one symbol through which `libdat.so.1` reaches the engine.
        #[repr(C)]
        #[derive(Debug)]
        pub struct DatTable {
            /// [`TABLE_VERSION`] of whoever made it. At the same place in every version.
            pub version: usize,
            /// Calls that go to providers.
            pub provider: ProviderCalls,
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: unsafe extern "C" fn($($type),*) -> Return,
            )*
        }
    };
}

for_each_registry_call!(table);

macro_rules! provider_calls {
    ($($name:ident $short:ident $first:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// Calls that go to providers, in the order of a provider's table (`DAT_PROVIDER`), behind `ia_open_func`.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct ProviderCalls {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $short: unsafe extern "C" fn($($type),*) -> Return,
            )*
        }
    };
}

for_each_provider_call!(provider_calls);

/// Says that both sides mean the same table: a number in the upper half that nothing else has, the version below.
pub const TABLE_VERSION: usize = 0x0da7_7ab1_0000_0001;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn a_table_is_its_version_and_a_pointer_for_each_call() {
        assert_eq!(offset_of!(DatTable, version), 0);
        assert_eq!(size_of::<ProviderCalls>(), 67 * size_of::<usize>());
        assert_eq!(size_of::<DatTable>(), (1 + 67 + 6) * size_of::<usize>());
    }
}
