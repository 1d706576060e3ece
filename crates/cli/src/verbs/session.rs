//! An open device with a protection domain and a completion queue, and the memory registered in it.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use super::abi;
use super::buffer::Buffer;
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

    /// Registers a buffer.
    pub(crate) fn register(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        rights: Rights,
    ) -> Result<Region, CallError> {
        self.register_part(buffer, 0..buffer.len(), rights)
    }

    /// Registers a range of a buffer.
    ///
    /// # Panics
    /// Panics if the buffer is shorter.
    pub(crate) fn register_part(
        self: &Rc<Self>,
        buffer: &Rc<Buffer>,
        range: Range<usize>,
        rights: Rights,
    ) -> Result<Region, CallError> {
        assert!(range.start <= range.end && range.end <= buffer.len(), "{range:?} of {}", buffer.len());
        // SAFETY: inside the buffer (asserted above), which the region holds from here on, and which it deregisters
        // before it lets go.
        let region = unsafe {
            let start = buffer.as_ptr().add(range.start).cast();
            (self.library.functions.reg_mr)(self.domain.as_ptr(), start, range.len(), rights.bits() as c_int)
        };
        let region = NonNull::new(region).ok_or_else(|| CallError::last("ibv_reg_mr"))?;
        let base = (buffer.as_ptr().addr() + range.start) as u64;
        let memory = Memory::Program(Rc::clone(buffer));
        Ok(Region { session: Rc::clone(self), region, base, length: range.len(), memory })
    }

    /// A call handed over by the extended context, with the checks that the header's inline makes.
    fn extended<T>(
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

    /// Allocates device memory.
    pub(crate) fn allocate_device_memory(
        self: &Rc<Self>,
        length: usize,
    ) -> Result<Rc<DeviceMemory>, CallError> {
        const CALL: &str = "ibv_alloc_dm";
        let allocate =
            self.extended(CALL, offset_of!(abi::verbs_context, alloc_dm), |around| around.alloc_dm)?;
        let mut attributes = abi::ibv_alloc_dm_attr { length, log_align_req: 0, comp_mask: 0 };
        // SAFETY: an open context and a filled structure.
        let memory = unsafe { allocate(self.context.as_ptr(), &mut attributes) };
        let memory = NonNull::new(memory).ok_or_else(|| CallError::last(CALL))?;
        Ok(Rc::new(DeviceMemory { session: Rc::clone(self), memory }))
    }

    /// Registers a range of device memory; zero based as it must be, or not, to see it refused.
    pub(crate) fn register_device_memory(
        self: &Rc<Self>,
        memory: &Rc<DeviceMemory>,
        offset: usize,
        length: usize,
        zero_based: bool,
    ) -> Result<Region, CallError> {
        const CALL: &str = "ibv_reg_dm_mr";
        let register =
            self.extended(CALL, offset_of!(abi::verbs_context, reg_dm_mr), |around| around.reg_dm_mr)?;
        let access = Rights::Remote.bits() | if zero_based { abi::IBV_ACCESS_ZERO_BASED } else { 0 };
        // SAFETY: domain and memory are alive; the library checks the range.
        let region =
            unsafe { register(self.domain.as_ptr(), memory.memory.as_ptr(), offset as u64, length, access) };
        let region = NonNull::new(region).ok_or_else(|| CallError::last(CALL))?;
        let memory = Memory::Device { _memory: Rc::clone(memory) };
        Ok(Region { session: Rc::clone(self), region, base: 0, length, memory })
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

/// What is behind a region; lives until it is deregistered.
enum Memory {
    Program(Rc<Buffer>),
    /// Kept so that it outlives the region.
    Device {
        _memory: Rc<DeviceMemory>,
    },
}

/// Registered memory.
pub(crate) struct Region {
    session: Rc<Session>,
    pub(super) region: NonNull<abi::ibv_mr>,
    base: u64,
    length: usize,
    memory: Memory,
}

impl Region {
    /// The program's memory in it.
    ///
    /// # Panics
    /// Panics if it is device memory, which programs cannot touch.
    pub(crate) fn buffer(&self) -> &Buffer {
        match &self.memory {
            Memory::Program(buffer) => buffer,
            Memory::Device { .. } => panic!("device memory has no bytes the program could touch"),
        }
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// The address that peers and requests use for its first byte.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The key for this process's requests.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: alive until this region is dropped; the library does not change it.
        unsafe { self.region.as_ref() }.lkey
    }

    /// The key for peers.
    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: as above.
        unsafe { self.region.as_ref() }.rkey
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered, and deregistered once; the memory behind it lives until after this.
        let answer = unsafe { (self.session.library.functions.dereg_mr)(self.region.as_ptr()) };
        if let (true, Memory::Program(buffer)) = (answer != 0, &self.memory) {
            // Still registered: peers may go on writing, so this memory must never be given to someone else.
            std::mem::forget(Rc::clone(buffer));
        }
    }
}

/// Memory of the device.
pub(crate) struct DeviceMemory {
    session: Rc<Session>,
    memory: NonNull<abi::ibv_dm>,
}

impl DeviceMemory {
    /// Copies the whole of `source` in, from the first byte on.
    pub(crate) fn copy_in(&self, offset: usize, source: &Buffer) -> Result<(), CallError> {
        const CALL: &str = "ibv_memcpy_to_dm";
        // SAFETY: alive until this is dropped.
        let copy = unsafe { self.memory.as_ref() }.memcpy_to_dm.ok_or(missing(CALL))?;
        let from = source.as_ptr().cast::<c_void>();
        // SAFETY: the source is as long as is said; the library checks the range in device memory.
        CallError::check(CALL, unsafe { copy(self.memory.as_ptr(), offset as u64, from, source.len()) })
    }

    /// Copies out as many bytes as `destination` has.
    pub(crate) fn copy_out(&self, destination: &Buffer, offset: usize) -> Result<(), CallError> {
        const CALL: &str = "ibv_memcpy_from_dm";
        // SAFETY: alive until this is dropped.
        let copy = unsafe { self.memory.as_ref() }.memcpy_from_dm.ok_or(missing(CALL))?;
        let to = destination.as_ptr().cast::<c_void>();
        // SAFETY: the destination is as long as is said; the library writes only there and checks the range it reads.
        CallError::check(CALL, unsafe { copy(to, self.memory.as_ptr(), offset as u64, destination.len()) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let free = self
            .session
            .extended("ibv_free_dm", offset_of!(abi::verbs_context, free_dm), |around| around.free_dm);
        if let Ok(free) = free {
            // SAFETY: allocated, freed once, and every region on it holds an Rc of it, so none is left.
            unsafe { free(self.memory.as_ptr()) };
        }
    }
}
