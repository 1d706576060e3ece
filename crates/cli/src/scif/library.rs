//! Loading `libscif.so.0` as a program would that finds its functions late: by name and version.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::endpoint::PortId;
use crate::system::{LoadError, LoadedLibrary};

/// The one version of every function.
const VERSION: &CStr = c"SCIF_0.0";

/// What went wrong, as a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScifError {
    /// The library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call did not succeed.
    #[error("{call} failed: {error}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it said.
        error: io::Error,
    },
}

impl ScifError {
    /// The call that just answered -1.
    pub(super) fn last(call: &'static str) -> Self {
        Self::Call { call, error: io::Error::last_os_error() }
    }

    /// The errno of a call.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { error, .. } => error.raw_os_error(),
            _ => None,
        }
    }
}

/// A name that ends with its NUL, as the loader wants it.
const fn terminated(name: &str) -> &CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has one NUL, at its end"),
    }
}

/// Declares the table of functions and how it is filled, from one list.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library that are called here.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(library: LoadedLibrary) -> Result<Self, LoadError> {
                Ok(Self {$(
                    // SAFETY: the symbol of that name and version has that type: `scif.h` says so.
                    $name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(
                            library.symbol(const { terminated(concat!(stringify!($name), "\0")) }, VERSION)?,
                        )
                    },
                )*})
            }
        }
    };
}

functions! {
    scif_open: fn() -> c_int;
    scif_close: fn(c_int) -> c_int;
    scif_bind: fn(c_int, u16) -> c_int;
    scif_listen: fn(c_int, c_int) -> c_int;
    scif_connect: fn(c_int, *const PortId) -> c_int;
    scif_accept: fn(c_int, *mut PortId, *mut c_int, c_int) -> c_int;
    scif_send: fn(c_int, *const c_void, c_int, c_int) -> c_int;
    scif_recv: fn(c_int, *mut c_void, c_int, c_int) -> c_int;
    scif_register: fn(c_int, *mut c_void, usize, i64, c_int, c_int) -> i64;
    scif_unregister: fn(c_int, i64, usize) -> c_int;
    scif_mmap: fn(*mut c_void, usize, c_int, c_int, c_int, i64) -> *mut c_void;
    scif_munmap: fn(*mut c_void, usize) -> c_int;
    scif_readfrom: fn(c_int, i64, usize, i64, c_int) -> c_int;
    scif_writeto: fn(c_int, i64, usize, i64, c_int) -> c_int;
    scif_fence_mark: fn(c_int, c_int, *mut c_int) -> c_int;
    scif_fence_wait: fn(c_int, c_int) -> c_int;
    scif_fence_signal: fn(c_int, i64, u64, i64, u64, c_int) -> c_int;
    scif_get_nodeIDs: fn(*mut u16, c_int, *mut u16) -> c_int;
}

/// The loaded library. Stays loaded until the process ends.
#[derive(Clone)]
pub(crate) struct ScifLibrary {
    pub(super) functions: Rc<Functions>,
}

impl ScifLibrary {
    /// Loads the library at that path, resolving all its symbols now.
    pub(crate) fn load(path: &Path) -> Result<Self, ScifError> {
        Ok(Self { functions: Rc::new(Functions::find(LoadedLibrary::open(path)?)?) })
    }

    /// The nodes that can be reached, ascending, and the own one.
    pub(crate) fn nodes(&self) -> Result<(Vec<u16>, u16), ScifError> {
        let (mut nodes, mut own) = (vec![0_u16; 1 << 16], 0);
        let room = nodes.len() as c_int;
        // SAFETY: there is room for as many numbers as the call is told, and for the own one.
        let count = unsafe { (self.functions.scif_get_nodeIDs)(nodes.as_mut_ptr(), room, &raw mut own) };
        nodes.truncate(usize::try_from(count).map_err(|_| ScifError::last("scif_get_nodeIDs"))?);
        Ok((nodes, own))
    }
}
