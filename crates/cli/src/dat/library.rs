//! Loading `libdat.so.1` as a program would that finds its functions late: by name and version.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::rc::Rc;

use super::event::RawEvent;
use super::region::{LocalTriplet, RegionDescription, RemoteTriplet};
use crate::system::{LoadError, LoadedLibrary};

/// The one version of every function.
const VERSION: &CStr = c"DAT_1.2";

/// A handle of any kind. Never followed.
pub(super) type Handle = usize;

/// What went wrong, as a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatError {
    /// The library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call was refused.
    #[error("{call} answered {words} ({code:#010x})")]
    Call {
        /// The function.
        call: &'static str,
        /// What it said.
        code: u32,
        /// The same in the library's words.
        words: String,
    },
    /// A call succeeded, and what came of it is not what should.
    #[error("{0}")]
    Event(String),
}

impl DatError {
    /// The type of the answer, without class and subtype; 0 if no call was refused.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Call { code, .. } => (code & 0x3fff_0000) >> 16,
            _ => 0,
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
    ($($name:ident: fn($($argument:ty),* $(,)?);)*) => {
        /// The functions of the library that are called here.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Functions {
            fn find(library: LoadedLibrary) -> Result<Self, LoadError> {
                Ok(Self {$(
                    // SAFETY: the symbol of that name and version has that type: `dat/udat.h` says so.
                    $name: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> u32>(
                            library.symbol(const { terminated(concat!(stringify!($name), "\0")) }, VERSION)?,
                        )
                    },
                )*})
            }
        }
    };
}

functions! {
    dat_strerror: fn(u32, *mut *const c_char, *mut *const c_char);
    dat_ia_openv: fn(*const c_char, c_int, *mut Handle, *mut Handle, u32, u32, c_int);
    dat_ia_query: fn(Handle, *mut Handle, u64, *mut c_void, u64, *mut c_void);
    dat_ia_close: fn(Handle, c_int);
    dat_pz_create: fn(Handle, *mut Handle);
    dat_evd_create: fn(Handle, c_int, Handle, c_uint, *mut Handle);
    dat_evd_wait: fn(Handle, u32, c_int, *mut RawEvent, *mut c_int);
    dat_evd_dequeue: fn(Handle, *mut RawEvent);
    dat_evd_free: fn(Handle);
    dat_ep_create: fn(Handle, Handle, Handle, Handle, Handle, *const c_void, *mut Handle);
    dat_ep_connect: fn(Handle, *mut c_void, u64, u32, c_int, *const c_void, c_uint, c_uint);
    dat_ep_reset: fn(Handle);
    dat_ep_free: fn(Handle);
    dat_ep_post_send: fn(Handle, c_int, *const LocalTriplet, u64, c_uint);
    dat_ep_post_recv: fn(Handle, c_int, *const LocalTriplet, u64, c_uint);
    dat_ep_post_rdma_read: fn(Handle, c_int, *const LocalTriplet, u64, *const RemoteTriplet, c_uint);
    dat_ep_post_rdma_write: fn(Handle, c_int, *const LocalTriplet, u64, *const RemoteTriplet, c_uint);
    dat_psp_create_any: fn(Handle, *mut u64, Handle, c_uint, *mut Handle);
    dat_psp_free: fn(Handle);
    dat_cr_accept: fn(Handle, Handle, c_int, *const c_void);
    dat_lmr_create: fn(
        Handle, c_int, RegionDescription, u64, Handle, c_uint, *mut Handle, *mut u32, *mut u32, *mut u64, *mut u64,
    );
    dat_lmr_free: fn(Handle);
    dat_lmr_sync_rdma_read: fn(Handle, *const LocalTriplet, u64);
    dat_lmr_sync_rdma_write: fn(Handle, *const LocalTriplet, u64);
    dat_rmr_create: fn(Handle, *mut Handle);
    dat_rmr_bind: fn(Handle, *const LocalTriplet, c_uint, Handle, u64, c_uint, *mut u32);
    dat_rmr_free: fn(Handle);
}

/// The loaded library. Stays loaded until the process ends.
#[derive(Clone)]
pub(crate) struct DatLibrary {
    pub(super) functions: Rc<Functions>,
}

impl DatLibrary {
    /// Loads the library at that path, resolving all its symbols now.
    pub(crate) fn load(path: &Path) -> Result<Self, DatError> {
        Ok(Self { functions: Rc::new(Functions::find(LoadedLibrary::open(path)?)?) })
    }

    /// Turns what a call answered into a sentence, unless it succeeded.
    pub(super) fn check(&self, call: &'static str, code: u32) -> Result<(), DatError> {
        if code == 0 {
            return Ok(());
        }
        Err(DatError::Call { call, code, words: self.words(code) })
    }

    fn words(&self, code: u32) -> String {
        let (mut major, mut minor) = (std::ptr::null(), std::ptr::null());
        // SAFETY: both places hold a pointer; the call stores constant strings there, or nothing.
        unsafe { (self.functions.dat_strerror)(code, &raw mut major, &raw mut minor) };
        let text = |name: *const c_char| {
            // SAFETY: a constant string of the library, which stays loaded.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        };
        let names: Vec<_> =
            [major, minor].into_iter().filter_map(text).filter(|name| !name.is_empty()).collect();
        if names.is_empty() { "a code without a name".to_owned() } else { names.join(", ") }
    }
}
