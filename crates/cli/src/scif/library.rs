//! Loading `libscif.so.0` as a program would that finds its functions late: by name and version.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

use super::endpoint::PortId;

/// The one version of every function.
const VERSION: &CStr = c"SCIF_0.0";

/// What went wrong, as a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScifError {
    /// The dynamic loader refused.
    #[error("the library cannot be loaded: {0}")]
    Load(String),
    /// A function is missing, or has another version.
    #[error("the library has no {0}@{version}", version = VERSION.to_string_lossy())]
    Symbol(&'static str),
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

/// Declares the table of functions and how it is filled, from one list.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of the library that are called here.
        #[allow(non_snake_case)]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn find(handle: *mut c_void) -> Result<Self, ScifError> {
                Ok(Self {$(
                    // SAFETY: the symbol of that name and version has that type: `scif.h` says so.
                    $name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> $result>(
                            symbol(handle, stringify!($name))?,
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
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| ScifError::Load("a NUL in its path".to_owned()))?;
        // SAFETY: `name` is a C string; constructors of the library run here, as they do in every program that links it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(ScifError::Load(loader_message()));
        }
        Ok(Self { functions: Rc::new(Functions::find(handle)?) })
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

fn symbol(handle: *mut c_void, name: &'static str) -> Result<*mut c_void, ScifError> {
    let spelled = CString::new(name).map_err(|_| ScifError::Symbol(name))?;
    // SAFETY: `handle` came from dlopen and is never closed; both names are C strings.
    let address = unsafe { libc::dlvsym(handle, spelled.as_ptr(), VERSION.as_ptr()) };
    if address.is_null() { Err(ScifError::Symbol(name)) } else { Ok(address) }
}

fn loader_message() -> String {
    // SAFETY: this thread is the only one that uses the loader here, so the message stays until the next call.
    let message: *const c_char = unsafe { libc::dlerror() };
    if message.is_null() {
        return "the loader gives no reason".to_owned();
    }
    // SAFETY: a message of dlerror is a C string.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
