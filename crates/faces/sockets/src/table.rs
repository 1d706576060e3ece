//! The one symbol through which `libnonic-sockets.so` reaches this face.

use crate::calls::{SocketsTable, TABLE_VERSION};
use crate::entry::connecting::*;
use crate::entry::descriptors::*;
use crate::entry::options::*;
use crate::entry::transfer::*;
use crate::entry::waiting::*;

macro_rules! filled {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls of this build.
        #[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
        #[unsafe(no_mangle)]
        pub static nonic_sockets_table: SocketsTable =
            SocketsTable { version: TABLE_VERSION, kinds: &nonic_sockets::KINDS, $($name),* };
    };
}

for_each_call!(filled);
