//! What `libdat.so.1` forwards to: each call finds the provider that its first argument belongs to.

use core::ffi::c_void;

use crate::calls::{
    Context, Count, DatTable, Handle, ProviderCalls, ProxyAgent, RegionDescription, Return, TABLE_VERSION,
};
use crate::registry::calls as registry;
use crate::registry::outside;
use crate::strerror;
use crate::v1::provider::OWN_CALLS;

/// The provider, unless it is our own, and what that calls the first argument.
macro_rules! provider_of {
    (adapter $handle:expr) => {
        outside::of_adapter($handle)
    };
    (either $handle:expr) => {
        outside::of_adapter($handle)
    };
    (object $handle:expr) => {
        outside::of_object($handle)
    };
}

macro_rules! public_calls {
    ($($name:ident $short:ident $kind:ident($first:ident: $first_type:ty $(, $argument:ident: $type:ty)* $(,)?);)*) => {
        mod public {
            use super::*;

            $(
                #[doc = concat!("`", stringify!($name), "`")]
                ///
                /// # Safety
                /// As in C: pointers are NULL or lead to what the call expects.
                pub(super) unsafe extern "C" fn $short($first: $first_type $(, $argument: $type)*) -> Return {
                    // SAFETY: the program's promise is the one that every provider's function asks for.
                    unsafe {
                        match provider_of!($kind $first) {
                            None => (OWN_CALLS.$short)($first $(, $argument)*),
                            Some((calls, first)) => (calls.$short)(first $(, $argument)*),
                        }
                    }
                }
            )*
        }

        /// The one symbol through which `libdat.so.1` reaches this face.
        #[allow(non_upper_case_globals)] // Named as other symbols of libraries are.
        #[unsafe(no_mangle)]
        pub static nonic_dat_table: DatTable = DatTable {
            version: TABLE_VERSION,
            provider: {
                let mut calls = ProviderCalls { $($short: public::$short),* };
                // Closing ends with the registry, which may let go of the provider's library.
                calls.ia_close = registry::ia_close;
                calls
            },
            dat_ia_openv: registry::dat_ia_openv,
            dat_registry_list_providers: registry::dat_registry_list_providers,
            dat_registry_add_provider: registry::dat_registry_add_provider,
            dat_registry_remove_provider: registry::dat_registry_remove_provider,
            dat_strerror: strerror::dat_strerror,
            dats_get_ia_handle: registry::dats_get_ia_handle,
        };
    };
}

for_each_provider_call!(public_calls);
