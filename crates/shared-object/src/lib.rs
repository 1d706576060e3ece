//! `libnonic.so`: the faces of nonic in one shared object.
//!
//! The verbs face is in it under the name and the version nodes of `libibverbs.so.1`. The SCIF face is in it behind one
//! table, which the small library `libscif.so.0` (`nonic-scif-library`) finds and forwards to. A process that loads
//! several of these names has one engine behind them: the loader knows a file by its inode, whatever it is called. The
//! build makes a folder of the names, `nonic-lib`, beside the library.

pub use nonic_dat_face as dat;
pub use nonic_rdmacm_face as rdmacm;
pub use nonic_scif_face as scif;
pub use nonic_sockets_face as sockets;
pub use nonic_verbs as verbs;
pub use nonic_view_face as view;

/// What the engine allocates is not in the program's heap.
#[global_allocator]
static HEAP: nonic_heap::Heap = nonic_heap::Heap;

/// Called by the loader, before the program or anything else of ours can ask to be called around forks.
#[used]
#[unsafe(link_section = ".init_array")]
static WHEN_LOADED: extern "C" fn() = when_loaded;

extern "C" fn when_loaded() {
    nonic_heap::survive_forks();
}
