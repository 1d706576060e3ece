//! The one symbol through which `libscif.so.0` reaches this face.

use crate::calls::{ScifTable, TABLE_VERSION};
use crate::entry::connection::{scif_accept, scif_bind, scif_close, scif_connect, scif_listen, scif_open};
use crate::entry::fence::{scif_fence_mark, scif_fence_signal, scif_fence_wait};
use crate::entry::node::scif_get_nodeIDs;
use crate::entry::poll::scif_poll;
use crate::entry::remote::{scif_readfrom, scif_vreadfrom, scif_vwriteto, scif_writeto};
use crate::entry::stream::{scif_recv, scif_send};
use crate::entry::window::{scif_mmap, scif_munmap, scif_register, scif_unregister};

macro_rules! filled {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls of this build.
        #[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
        #[unsafe(no_mangle)]
        pub static nonic_scif_table: ScifTable = ScifTable { version: TABLE_VERSION, $($name),* };
    };
}

for_each_call!(filled);
