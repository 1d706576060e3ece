//! An open adapter with one protection zone, which is all that programs here need.

use std::ffi::CString;
use std::ptr::null_mut;
use std::rc::Rc;

use super::library::{DatError, DatLibrary, Handle};

/// Events for asynchronous errors that there is room for.
const ASYNC_EVENTS: i32 = 8;

/// `DAT_CLOSE_ABRUPT_FLAG`.
const ABRUPT: i32 = 0;

/// `DAT_PROVIDER_FIELD_ALL`.
const ALL_OF_PROVIDER: u64 = 0x3ff_ffff;

/// `DAT_PROVIDER_ATTR`, as words of 4 bytes.
#[repr(C, align(8))]
struct ProviderAttributes([u32; 126]);

/// Where `lmr_sync_req` is in it.
const SYNC_REQUIRED: usize = 476 / 4;

const _: () = assert!(size_of::<ProviderAttributes>() == 504);

/// An open adapter; closed with this object, and with it everything of it.
pub(crate) struct Adapter {
    pub(super) library: DatLibrary,
    pub(super) handle: Handle,
    pub(super) zone: Handle,
}

impl Adapter {
    /// Opens the adapter of that name.
    pub(crate) fn open(library: &DatLibrary, name: &str) -> Result<Rc<Self>, DatError> {
        let text = CString::new(name).map_err(|_| DatError::Event(format!("{name:?} has a NUL")))?;
        let (mut events, mut handle) = (0, 0);
        let functions = &library.functions;
        // SAFETY: the name is a C string, and both places hold a handle. The version is that of the declarations here.
        let answer = unsafe {
            (functions.dat_ia_openv)(text.as_ptr(), ASYNC_EVENTS, &raw mut events, &raw mut handle, 1, 2, 0)
        };
        library.check("dat_ia_open", answer)?;
        let mut adapter = Self { library: library.clone(), handle, zone: 0 };
        // SAFETY: the place holds a handle.
        let answer = unsafe { (functions.dat_pz_create)(handle, &raw mut adapter.zone) };
        library.check("dat_pz_create", answer)?;
        Ok(Rc::new(adapter))
    }

    /// Whether bytes that a peer has written are seen without further ado.
    pub(crate) fn is_coherent(&self) -> Result<bool, DatError> {
        let mut attributes = ProviderAttributes([0; 126]);
        let place = (&raw mut attributes).cast();
        // SAFETY: the place has size and alignment of the structure; the other one is not asked for.
        let answer = unsafe {
            (self.library.functions.dat_ia_query)(
                self.handle,
                null_mut(),
                0,
                null_mut(),
                ALL_OF_PROVIDER,
                place,
            )
        };
        self.library.check("dat_ia_query", answer)?;
        Ok(attributes.0[SYNC_REQUIRED] == 0)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // SAFETY: the handle is this object's alone.
        unsafe { (self.library.functions.dat_ia_close)(self.handle, ABRUPT) };
    }
}
