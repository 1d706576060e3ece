//! Loading `librdmacm.so.1`, and the `libibverbs.so.1` whose devices it shows, as a program would that finds its functions
//! late: by name and exact version.

use std::ffi::{CStr, c_void};
use std::path::Path;
use std::rc::Rc;

use super::abi;
use super::event::EventKind;
use crate::system::{LoadError, LoadedLibrary};
use crate::verbs::{CallError, Library};

/// The version of every function that is called here.
const VERSION: &CStr = c"RDMACM_1.0";

/// What went wrong, as a sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RdmacmError {
    /// A library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call was refused.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What came of a call is not what should.
    #[error("{0}")]
    Event(String),
}

impl RdmacmError {
    /// The errno of a call that was refused.
    pub(crate) fn errno(&self) -> Option<i32> {
        match self {
            Self::Call(error) => error.errno(),
            _ => None,
        }
    }
}

/// Declares the table of functions and how it is filled, from one list.
macro_rules! functions {
    ($($field:ident: $name:literal as $kind:ty,)*) => {
        /// The functions of the library that are called here.
        pub(super) struct Functions {
            $(pub(super) $field: $kind,)*
        }

        impl Functions {
            fn find(library: LoadedLibrary) -> Result<Self, LoadError> {
                Ok(Self {$(
                    // SAFETY: the symbol of that name and version has that type: `rdma/rdma_cma.h` of rdma-core says so,
                    // and a version, once released, never changes.
                    $field: unsafe { std::mem::transmute::<*mut c_void, $kind>(library.symbol($name, VERSION)?) },
                )*})
            }
        }
    };
}

functions! {
    create_event_channel: c"rdma_create_event_channel" as abi::CreateEventChannel,
    destroy_event_channel: c"rdma_destroy_event_channel" as abi::DestroyEventChannel,
    create_id: c"rdma_create_id" as abi::CreateId,
    destroy_id: c"rdma_destroy_id" as abi::OfId,
    bind_addr: c"rdma_bind_addr" as abi::BindAddr,
    listen: c"rdma_listen" as abi::OfIdAndNumber,
    resolve_addr: c"rdma_resolve_addr" as abi::ResolveAddr,
    resolve_route: c"rdma_resolve_route" as abi::OfIdAndNumber,
    create_qp: c"rdma_create_qp" as abi::CreateQp,
    destroy_qp: c"rdma_destroy_qp" as abi::DestroyQp,
    connect: c"rdma_connect" as abi::WithParameters,
    accept: c"rdma_accept" as abi::WithParameters,
    reject: c"rdma_reject" as abi::Reject,
    disconnect: c"rdma_disconnect" as abi::OfId,
    get_cm_event: c"rdma_get_cm_event" as abi::GetCmEvent,
    ack_cm_event: c"rdma_ack_cm_event" as abi::AckCmEvent,
    event_str: c"rdma_event_str" as abi::EventStr,
}

/// The loaded library. Stays loaded until the process ends, and keeps the devices that it shows open for as long.
#[derive(Clone)]
pub(crate) struct RdmacmLibrary {
    pub(super) functions: Rc<Functions>,
    /// The library of the devices.
    pub(crate) verbs: Library,
}

impl RdmacmLibrary {
    /// Loads both libraries, which lie in one folder, resolving all their symbols now.
    pub(crate) fn load(verbs: &Path, manager: &Path) -> Result<Self, RdmacmError> {
        // First, so that a manager that needs a library of this name finds this very one.
        let verbs = Library::load(verbs)?;
        Ok(Self { functions: Rc::new(Functions::find(LoadedLibrary::open(manager)?)?), verbs })
    }

    /// A kind of event in the library's words.
    pub(super) fn event_name(&self, kind: EventKind) -> String {
        // SAFETY: the function takes any number and returns a string that lives for ever, or null.
        let name = unsafe { (self.functions.event_str)(kind.number()) };
        if name.is_null() {
            return format!("event {}", kind.number());
        }
        // SAFETY: not null, so it is that string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}
