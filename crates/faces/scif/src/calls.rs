//! The calls of `libscif.so.0` and their types, once for all who need the list: the table of the face, and the library
//! that forwards to it (which includes this file).

use core::ffi::{c_int, c_long, c_uint, c_void};

/// `struct scif_portID`: an endpoint's place among all nodes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScifPortId {
    /// Number of the node.
    pub node: u16,
    /// Port on that node.
    pub port: u16,
}

/// `struct scif_pollepd`: one entry of `scif_poll`, laid out as `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScifPollEntry {
    /// An endpoint or any other descriptor.
    pub epd: c_int,
    /// What to wait for.
    pub events: i16,
    /// What has happened.
    pub revents: i16,
}

/// `off_t`: an offset of a registered address space.
pub type Offset = i64;

/// Hands every call that needs the engine to `$use`, with its arguments and its result. `scif_get_fd` answers its
/// argument and needs none.
macro_rules! for_each_call {
    ($use:ident) => {
        $use! {
            scif_open() -> c_int;
            scif_close(epd: c_int) -> c_int;
            scif_bind(epd: c_int, pn: u16) -> c_int;
            scif_listen(epd: c_int, backlog: c_int) -> c_int;
            scif_connect(epd: c_int, dst: *mut ScifPortId) -> c_int;
            scif_accept(epd: c_int, peer: *mut ScifPortId, newepd: *mut c_int, flags: c_int) -> c_int;
            scif_send(epd: c_int, msg: *mut c_void, len: c_int, flags: c_int) -> c_int;
            scif_recv(epd: c_int, msg: *mut c_void, len: c_int, flags: c_int) -> c_int;
            scif_poll(epds: *mut ScifPollEntry, nepds: c_uint, timeout: c_long) -> c_int;
            scif_register(
                epd: c_int, addr: *mut c_void, len: usize, offset: Offset, prot_flags: c_int, map_flags: c_int
            ) -> Offset;
            scif_unregister(epd: c_int, offset: Offset, len: usize) -> c_int;
            scif_mmap(
                addr: *mut c_void, len: usize, prot_flags: c_int, map_flags: c_int, epd: c_int, offset: Offset
            ) -> *mut c_void;
            scif_munmap(addr: *mut c_void, len: usize) -> c_int;
            scif_readfrom(epd: c_int, loffset: Offset, len: usize, roffset: Offset, rma_flags: c_int) -> c_int;
            scif_writeto(epd: c_int, loffset: Offset, len: usize, roffset: Offset, rma_flags: c_int) -> c_int;
            scif_vreadfrom(epd: c_int, addr: *mut c_void, len: usize, roffset: Offset, rma_flags: c_int) -> c_int;
            scif_vwriteto(epd: c_int, addr: *mut c_void, len: usize, roffset: Offset, rma_flags: c_int) -> c_int;
            scif_fence_mark(epd: c_int, flags: c_int, mark: *mut c_int) -> c_int;
            scif_fence_wait(epd: c_int, mark: c_int) -> c_int;
            scif_fence_signal(
                epd: c_int, loff: Offset, lval: u64, roff: Offset, rval: u64, flags: c_int
            ) -> c_int;
            scif_get_nodeIDs(nodes: *mut u16, len: c_int, own: *mut u16) -> c_int;
        }
    };
}

macro_rules! table {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls as pointers: the one symbol through which `libscif.so.0` reaches the engine.
        #[allow(non_snake_case)] // Named as the calls.
        #[repr(C)]
        #[derive(Debug)]
        pub struct ScifTable {
            /// [`TABLE_VERSION`] of whoever made it. At the same place in every version.
            pub version: usize,
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub $name: unsafe extern "C" fn($($type),*) -> $result,
            )*
        }
    };
}

for_each_call!(table);

/// Says that both sides mean the same table: a number in the upper half that nothing else has, the version below.
pub const TABLE_VERSION: usize = 0x5c1f_7ab1_0000_0001;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_header() {
        assert_eq!((size_of::<ScifPortId>(), align_of::<ScifPortId>()), (4, 2));
        assert_eq!((offset_of!(ScifPortId, node), offset_of!(ScifPortId, port)), (0, 2));
        assert_eq!((size_of::<ScifPollEntry>(), align_of::<ScifPollEntry>()), (8, 4));
        assert_eq!(offset_of!(ScifPollEntry, epd), offset_of!(libc::pollfd, fd));
        assert_eq!(offset_of!(ScifPollEntry, events), offset_of!(libc::pollfd, events));
        assert_eq!(offset_of!(ScifPollEntry, revents), offset_of!(libc::pollfd, revents));
        assert_eq!(size_of::<ScifPollEntry>(), size_of::<libc::pollfd>());
        assert_eq!(size_of::<Offset>(), size_of::<libc::off_t>());
    }

    #[test]
    fn a_table_is_its_version_and_a_pointer_for_each_call() {
        assert_eq!(offset_of!(ScifTable, version), 0);
        assert_eq!(size_of::<ScifTable>(), (1 + 21) * size_of::<usize>());
    }
}
