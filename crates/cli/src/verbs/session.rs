//! An open device with a protection domain and a completion queue, and the memory registered in it.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::abi;
use super::library::{CallError, Library};
use super::port::{PORT, Port};

/// Room in the completion queue: both work queues of some queue pairs.
const COMPLETIONS_MAX: c_int = 1024;

/// What a registration allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rights {
    /// Only this process.
    Local,
    /// Peers may read, write and operate on it.
    Remote,
    /// Windows may be bound to it, through which peers write.
    Windows,
}

impl Rights {
    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Local => abi::IBV_ACCESS_LOCAL_WRITE,
            Self::Windows => abi::IBV_ACCESS_LOCAL_WRITE | abi::IBV_ACCESS_MW_BIND,
            Self::Remote => {
                abi::IBV_ACCESS_LOCAL_WRITE
                    | abi::IBV_ACCESS_REMOTE_WRITE
                    | abi::IBV_ACCESS_REMOTE_READ
                    | abi::IBV_ACCESS_REMOTE_ATOMIC
            }
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The mark given to the request.
    pub(crate) id: u64,
    /// 0, or a number of `enum ibv_wc_status`.
    pub(crate) status: u32,
    /// Bytes that arrived.
    pub(crate) byte_count: u32,
    /// Immediate data that arrived.
    pub(crate) immediate: Option<u32>,
}

/// An open device.
pub(crate) struct Session {
    pub(crate) library: Library,
    pub(super) context: NonNull<abi::ibv_context>,
    pub(super) domain: NonNull<abi::ibv_pd>,
    pub(super) queue: NonNull<abi::ibv_cq>,
    poll: unsafe extern "C" fn(*mut abi::ibv_cq, c_int, *mut abi::ibv_wc) -> c_int,
    /// Whether the device was opened for this object, and is closed with it.
    closes: bool,
    /// Index of the address that queue pairs speak from; 0 is the port's own, which this host alone knows.
    pub(super) gid_index: Cell<u8>,
}

impl Session {
    /// Opens the device with that index.
    pub(crate) fn open(library: &Library, index: usize) -> Result<Rc<Self>, CallError> {
        let functions = &library.functions;
        let context = library.with_devices(|devices| {
            let none =
                || CallError { call: "ibv_get_device_list", error: std::io::ErrorKind::NotFound.into() };
            let device = *devices.get(index).ok_or_else(none)?;
            // SAFETY: a device of the list, which is still there.
            let context = unsafe { (functions.open_device)(device) };
            NonNull::new(context).ok_or_else(|| CallError::last("ibv_open_device"))
        })?;
        Self::on(library, context, true)
    }

    /// Stands on a device that is open already.
    ///
    /// # Safety
    /// `context` is an open device of this library, and stays open until the process ends.
    pub(crate) unsafe fn on_open_device(
        library: &Library,
        context: NonNull<c_void>,
    ) -> Result<Rc<Self>, CallError> {
        Self::on(library, context.cast(), false)
    }

    fn on(
        library: &Library,
        context: NonNull<abi::ibv_context>,
        closes: bool,
    ) -> Result<Rc<Self>, CallError> {
        let functions = &library.functions;
        // SAFETY: an open context; on failure below it stays open until the process ends, which it then soon does.
        let domain = unsafe { (functions.alloc_pd)(context.as_ptr()) };
        let domain = NonNull::new(domain).ok_or_else(|| CallError::last("ibv_alloc_pd"))?;
        // SAFETY: an open context; no channel, vector 0, which every device has.
        let queue =
            unsafe { (functions.create_cq)(context.as_ptr(), COMPLETIONS_MAX, null_mut(), null_mut(), 0) };
        let queue = NonNull::new(queue).ok_or_else(|| CallError::last("ibv_create_cq"))?;
        // SAFETY: an open context, whose table of operations was filled when it was opened.
        let poll = unsafe { context.as_ref() }.poll_cq.ok_or(missing("ibv_poll_cq"))?;
        Ok(Rc::new(Self {
            library: library.clone(),
            context,
            domain,
            queue,
            poll,
            closes,
            gid_index: Cell::new(0),
        }))
    }

    /// Name of the device.
    pub(crate) fn device_name(&self) -> String {
        // SAFETY: an open context, whose device is there as long; its name is a C string in it.
        let name =
            unsafe { CStr::from_ptr((self.library.functions.get_device_name)(self.operations().device)) };
        name.to_string_lossy().into_owned()
    }

    /// Attributes of the port.
    pub(crate) fn port(&self) -> Result<Port, CallError> {
        let mut attributes = abi::ibv_port_attr::default();
        // SAFETY: an open context, and room for the structure in its newest form.
        let answer =
            unsafe { (self.library.functions.query_port)(self.context.as_ptr(), PORT, &mut attributes) };
        CallError::check("ibv_query_port", answer)?;
        Ok(Port {
            lid: attributes.lid,
            gid_count: attributes.gid_tbl_len.max(0) as u32,
            ethernet: attributes.link_layer == abi::IBV_LINK_LAYER_ETHERNET,
            mtu: attributes.active_mtu,
        })
    }

    /// An entry of the port's GID table; zero if it is empty.
    pub(crate) fn gid(&self, index: u32) -> Result<[u8; 16], CallError> {
        let mut gid = abi::ibv_gid::default();
        // SAFETY: an open context, and room for a GID.
        let answer = unsafe {
            (self.library.functions.query_gid)(self.context.as_ptr(), PORT, index as c_int, &mut gid)
        };
        CallError::check("ibv_query_gid", answer).map(|()| gid.raw)
    }

    /// Takes the oldest completion, if there is one, through the table of operations as the header's inline does.
    pub(crate) fn poll(&self) -> Result<Option<Completion>, CallError> {
        let mut entry = abi::ibv_wc::default();
        // SAFETY: the queue is alive as long as this session, and `entry` has room for the one asked for.
        match unsafe { (self.poll)(self.queue.as_ptr(), 1, &mut entry) } {
            0 => Ok(None),
            1 => Ok(Some(Completion {
                id: entry.wr_id,
                status: entry.status,
                byte_count: entry.byte_len,
                immediate: (entry.wc_flags & abi::IBV_WC_WITH_IMM != 0).then(|| u32::from_be(entry.imm_data)),
            })),
            _ => Err(CallError::last("ibv_poll_cq")),
        }
    }

    /// A call handed over by the extended context, with the checks that the header's inline makes.
    pub(super) fn extended<T>(
        &self,
        call: &'static str,
        offset: usize,
        pick: impl FnOnce(&abi::verbs_context) -> Option<T>,
    ) -> Result<T, CallError> {
        // SAFETY: an open context.
        if unsafe { self.context.as_ref() }.abi_compat != usize::MAX {
            return Err(missing(call));
        }
        // SAFETY: `abi_compat` says that a `verbs_context` lies around this context, at that distance.
        let around = unsafe {
            self.context.byte_sub(offset_of!(abi::verbs_context, context)).cast::<abi::verbs_context>()
        };
        // SAFETY: as above; the library does not change it while the context is open.
        let around = unsafe { around.as_ref() };
        if around.sz < size_of::<abi::verbs_context>() - offset {
            return Err(missing(call));
        }
        pick(around).ok_or(missing(call))
    }

    pub(super) fn operations(&self) -> &abi::ibv_context {
        // SAFETY: an open context, whose table of operations does not change.
        unsafe { self.context.as_ref() }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let functions = &self.library.functions;
        // SAFETY: everything made in this session holds an Rc of it, so nothing is left; each is destroyed once, users
        // before what they use, and the device only where it was opened for this object.
        unsafe {
            (functions.destroy_cq)(self.queue.as_ptr());
            (functions.dealloc_pd)(self.domain.as_ptr());
            if self.closes {
                (functions.close_device)(self.context.as_ptr());
            }
        }
    }
}

/// For an operation that the library's tables do not hold.
pub(super) fn missing(call: &'static str) -> CallError {
    CallError { call, error: std::io::Error::from_raw_os_error(libc::EOPNOTSUPP) }
}
