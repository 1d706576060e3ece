//! Loading `libibverbs.so.1` as a program would that finds its functions late: by name and exact version.

use std::ffi::{CStr, c_void};
use std::io;
use std::path::Path;
use std::rc::Rc;

use super::abi;
use crate::system::{LoadError, LoadedLibrary};

/// The version that nearly all of these functions have had since 2007.
const VERSION: &CStr = c"IBVERBS_1.1";

/// That of the few that did not change then.
const FIRST_VERSION: &CStr = c"IBVERBS_1.0";

/// A call of the library that did not succeed.
#[derive(Debug, thiserror::Error)]
#[error("{call} failed: {error}")]
pub(crate) struct CallError {
    /// The function.
    pub(super) call: &'static str,
    /// What it said.
    pub(super) error: io::Error,
}

impl CallError {
    /// For functions that answer null and leave the reason in errno.
    pub(crate) fn last(call: &'static str) -> Self {
        Self { call, error: io::Error::last_os_error() }
    }

    /// For functions that answer 0 or the reason.
    pub(crate) fn check(call: &'static str, answer: i32) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            -1 => Err(Self::last(call)),
            errno => Err(Self { call, error: io::Error::from_raw_os_error(errno) }),
        }
    }

    /// The errno of it.
    pub(crate) fn errno(&self) -> Option<i32> {
        self.error.raw_os_error()
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
            const COUNT: usize = [$($name),*].len();

            fn find(library: LoadedLibrary) -> Result<Self, LoadError> {
                Ok(Self {$(
                    // SAFETY: the symbol of that name and version has that type: `infiniband/verbs.h` of rdma-core
                    // says so, and a version, once released, never changes.
                    $field: unsafe { std::mem::transmute::<*mut c_void, $kind>(library.symbol($name, version($name))?) },
                )*})
            }
        }
    };
}

functions! {
    get_device_list: c"ibv_get_device_list" as abi::GetDeviceList,
    free_device_list: c"ibv_free_device_list" as abi::FreeDeviceList,
    get_device_name: c"ibv_get_device_name" as abi::GetDeviceName,
    open_device: c"ibv_open_device" as abi::OpenDevice,
    close_device: c"ibv_close_device" as abi::CloseDevice,
    query_port: c"ibv_query_port" as abi::QueryPort,
    query_gid: c"ibv_query_gid" as abi::QueryGid,
    alloc_pd: c"ibv_alloc_pd" as abi::AllocPd,
    dealloc_pd: c"ibv_dealloc_pd" as abi::DeallocPd,
    reg_mr: c"ibv_reg_mr" as abi::RegMr,
    rereg_mr: c"ibv_rereg_mr" as abi::ReregMr,
    dereg_mr: c"ibv_dereg_mr" as abi::DeregMr,
    create_cq: c"ibv_create_cq" as abi::CreateCq,
    destroy_cq: c"ibv_destroy_cq" as abi::DestroyCq,
    create_comp_channel: c"ibv_create_comp_channel" as abi::CreateCompChannel,
    destroy_comp_channel: c"ibv_destroy_comp_channel" as abi::DestroyCompChannel,
    get_cq_event: c"ibv_get_cq_event" as abi::GetCqEvent,
    ack_cq_events: c"ibv_ack_cq_events" as abi::AckCqEvents,
    create_qp: c"ibv_create_qp" as abi::CreateQp,
    modify_qp: c"ibv_modify_qp" as abi::ModifyQp,
    destroy_qp: c"ibv_destroy_qp" as abi::DestroyQp,
    wc_status_str: c"ibv_wc_status_str" as abi::WcStatusStr,
}

/// The loaded library. Stays loaded until the process ends: it may have a thread of its own.
#[derive(Clone)]
pub(crate) struct Library {
    pub(super) functions: Rc<Functions>,
}

impl Library {
    /// Loads the library at that path, resolving all its symbols now.
    pub(crate) fn load(path: &Path) -> Result<Self, LoadError> {
        Ok(Self { functions: Rc::new(Functions::find(LoadedLibrary::open(path)?)?) })
    }

    /// How many symbols were found under their exact versions.
    pub(crate) fn symbol_count(&self) -> usize {
        Functions::COUNT
    }

    /// Names of the devices, in their order.
    pub(crate) fn device_names(&self) -> Result<Vec<String>, CallError> {
        self.with_devices(|devices| {
            let name = |device: &*mut abi::ibv_device| {
                // SAFETY: the device is of the list, which `with_devices` keeps; its name is a C string in it.
                let name = unsafe { CStr::from_ptr((self.functions.get_device_name)(*device)) };
                name.to_string_lossy().into_owned()
            };
            Ok(devices.iter().map(name).collect())
        })
    }

    /// Calls `with` with the devices, whose list is freed afterwards.
    pub(super) fn with_devices<T>(
        &self,
        with: impl FnOnce(&[*mut abi::ibv_device]) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let mut count = 0;
        // SAFETY: `count` is a valid place for the number of devices.
        let list = unsafe { (self.functions.get_device_list)(&mut count) };
        if list.is_null() {
            return Err(CallError::last("ibv_get_device_list"));
        }
        // SAFETY: the library returned `count` pointers there, and no one changes them before the list is freed.
        let result = with(unsafe { std::slice::from_raw_parts(list, count.max(0) as usize) });
        // SAFETY: `list` came from ibv_get_device_list and is freed once; `with` could not keep its slice.
        unsafe { (self.functions.free_device_list)(list) };
        result
    }

    /// A completion status in the library's words.
    pub(crate) fn status_words(&self, status: u32) -> String {
        // SAFETY: the function takes any number and returns a string that lives for ever, or null.
        let words = unsafe { (self.functions.wc_status_str)(status) };
        if words.is_null() {
            return format!("status {status}");
        }
        // SAFETY: not null, so it is that string.
        unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
    }
}

/// The version under which a function is found.
fn version(name: &CStr) -> &'static CStr {
    let first = [c"ibv_create_comp_channel", c"ibv_destroy_comp_channel"];
    if first.contains(&name) { FIRST_VERSION } else { VERSION }
}
