//! The one symbol through which `librdmacm.so.1` reaches this face.

use crate::calls::{RdmacmTable, TABLE_VERSION};
use crate::entry::address::*;
use crate::entry::address_info::*;
use crate::entry::address_resolution::*;
use crate::entry::channel::*;
use crate::entry::connection::*;
use crate::entry::device::*;
use crate::entry::ece::*;
use crate::entry::endpoint::*;
use crate::entry::event::*;
use crate::entry::identifier::*;
use crate::entry::multicast::*;
use crate::entry::option::*;
use crate::entry::queue_pair::*;
use crate::entry::rsocket::connecting::*;
use crate::entry::rsocket::mapping::*;
use crate::entry::rsocket::options::*;
use crate::entry::rsocket::receiving::*;
use crate::entry::rsocket::sending::*;
use crate::entry::rsocket::waiting::*;
use crate::entry::shared_receive_queue::*;

macro_rules! filled {
    ($($node:literal $name:ident($($argument:ident: $type:ty),* $(,)?) -> $result:ty;)*) => {
        /// The calls of this build.
        #[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
        #[unsafe(no_mangle)]
        pub static nonic_rdmacm_table: RdmacmTable = RdmacmTable { version: TABLE_VERSION, $($name),* };
    };
}

for_each_call!(filled);
