//! An open device.

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use nonic_protocol::{AddressVector, GlobalRoute};
use nonic_sys::{AsFd, BorrowedFd, FileIdentity, InterfaceAddress, SharedMemory, file_identity, random_u64};
use nonic_transport::{Change, Counters, Tier, read_segment_counters};

use crate::async_event::{AsyncElement, AsyncEvent, AsyncEventKind};
use crate::config::Config;
use crate::device::Device;
use crate::engine::{Changer, Engine, EngineOwner, OpenDevice};
use crate::error::{CreateError, OpenError, asked};
use crate::event_wait::EventWait;
use crate::events::EventQueue;
use crate::gid_table::GidEntry;
use crate::limits::Limits;
use crate::origin::{Command, Origin};
use crate::port::{Port, PortAttributes};

/// An open device (`ibv_open_device(3)`). It keeps its engine running, which all contexts of a process share that were not opened on
/// another one ([`crate::EngineHandle`]).
#[derive(Debug)]
pub struct Context {
    device: Device,
    owner: Arc<EngineOwner>,
    port: Port,
    limits: Limits,
    /// Zones there are.
    pub(crate) zones: AtomicU32,
    /// An anonymous file that nobody can change, so that its number tells it from every other.
    command: SharedMemory,
    command_identity: FileIdentity,
    /// By which other processes ask for what is made on it.
    number: u64,
    /// The process that opened it, if it was imported.
    origin: OnceLock<Arc<Origin>>,
    /// How often it must be closed.
    names: AtomicU32,
    pub(crate) events: EventQueue<AsyncEvent>,
    /// Nobody reads them.
    ignored: AtomicBool,
}

impl Context {
    pub(crate) fn open(device: &Device, owner: Arc<EngineOwner>) -> Result<Arc<Self>, OpenError> {
        let config = device.config();
        let device_memory = owner.arena(device.index()).capacity();
        if let Err(error) = owner.ensure_agent() {
            // Queue pairs will need it, and say so.
            tracing::debug!(%error, "no thread for the device");
        }
        let number = random_u64();
        let command = Command { token: owner.changing_token(), context: number }.file();
        let command = asked("a descriptor (memfd_create)", command)?;
        let context = Arc::new(Self {
            device: device.clone(),
            port: Port::new(config, device.index(), owner.changes.port(device.index())),
            limits: Limits::new(device_memory),
            zones: AtomicU32::new(0),
            command_identity: asked("the number of a file (fstat)", file_identity(command.as_fd()))?,
            command,
            number,
            origin: OnceLock::new(),
            names: AtomicU32::new(1),
            events: asked("descriptors (eventfd, epoll)", EventQueue::new())?,
            ignored: AtomicBool::new(false),
            owner,
        });
        let opened: Arc<dyn OpenDevice> = Arc::clone(&context) as _;
        context.owner.has_opened(Arc::downgrade(&opened));
        Ok(context)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What all queue pairs of its engine have done by now, those that are gone included.
    pub fn counters(&self) -> io::Result<Counters> {
        let segment = self.engine().party().segment.as_fd().try_clone_to_owned()?;
        read_segment_counters(&segment.into())
    }

    /// What it holds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Its one port, number 1.
    pub fn port(&self) -> PortAttributes {
        self.port.attributes()
    }

    /// The path to any queue pair of this host, with a global route.
    pub fn path_to_this_host(&self) -> AddressVector {
        let global = self.gid_table().first().map(|own| GlobalRoute {
            destination: own.gid,
            source_index: own.index as u8,
            flow_label: 0,
            hop_limit: 1,
            traffic_class: 0,
        });
        AddressVector {
            destination_lid: self.port().lid,
            service_level: 0,
            source_path_bits: 0,
            static_rate: 0,
            port: 1,
            global,
        }
    }

    pub(crate) fn port_state(&self) -> &Port {
        &self.port
    }

    /// The valid entries of the GID table, in order.
    pub fn gid_table(&self) -> Cow<'_, [GidEntry]> {
        self.port.gids()
    }

    /// Whether a GID is one of this device's: in its table, or an address of loopback where the table has none.
    pub fn has_gid(&self, gid: [u8; 16]) -> bool {
        self.port.has_gid(gid)
    }

    /// Takes addresses into the GID table that interfaces of this host got since the device was opened. Those that were there keep their
    /// entries, also if they are gone.
    pub fn look_for_addresses(&self) {
        self.engine().look_for_addresses();
    }

    /// An entry of the P_Key table, 0 if it is empty: at index 0 the default partition, unless somebody changed it.
    pub fn pkey(&self, index: u16) -> Option<u16> {
        self.port.pkey(index)
    }

    /// A descriptor that stands for the open device: a file of its own, so that each copy of the descriptor is known.
    pub fn command_fd(&self) -> BorrowedFd<'_> {
        self.command.as_fd()
    }

    /// Whether a descriptor is a copy of this device's.
    pub fn is_commanded_by(&self, descriptor: BorrowedFd<'_>) -> bool {
        file_identity(descriptor).is_ok_and(|identity| identity == self.command_identity)
    }

    /// By which other processes ask for what is made on it ([`crate::set_exporter`]).
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn origin(&self) -> Option<&Arc<Origin>> {
        self.origin.get()
    }

    /// Another process opened it, and this one imported it just now.
    pub(crate) fn set_origin(&self, origin: Arc<Origin>) {
        let _ = self.origin.set(origin);
    }

    /// Opens it once more under another name (`ibv_import_device(3)`): it is closed when it was closed as often as it was opened.
    /// False if it is closed.
    pub fn reopen(&self) -> bool {
        let more = |names: u32| (names > 0).then(|| names + 1);
        self.names.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Readable while asynchronous events wait. The program may set `O_NONBLOCK` on it.
    pub fn async_fd(&self) -> BorrowedFd<'_> {
        self.events.descriptor()
    }

    /// The oldest asynchronous event. Blocks while there is none, unless the descriptor has `O_NONBLOCK` (then
    /// `WouldBlock`); a signal ends the wait (`Interrupted`). Each must be acknowledged on its element.
    pub fn next_async_event(self: &Arc<Self>) -> io::Result<AsyncEvent> {
        self.begin_async_wait().finish()
    }

    /// Nobody will read asynchronous events, so none is kept from now on: objects have observers.
    pub fn ignore_async_events(&self) {
        self.ignored.store(true, Ordering::Relaxed);
        self.forget_events(|_| true);
    }

    pub(crate) fn raise(&self, kind: AsyncEventKind, element: AsyncElement) {
        if self.ignored.load(Ordering::Relaxed) {
            return;
        }
        self.events.push(AsyncEvent { kind, element });
    }

    pub(crate) fn forget_events(&self, concerns: impl Fn(&AsyncElement) -> bool) {
        self.events.remove(|event| concerns(&event.element));
    }

    /// Changes the device as somebody outside would (`nonic ctl`), with all that follows: the events of every context that has it open,
    /// and what each shows from then on. Tells what has come of it; an error is why nothing has changed.
    pub fn change(&self, change: Change) -> Result<&'static str, String> {
        self.engine().change(Some(self.device.name()), change, Changer::Program)
    }

    /// Sends what is owed and handles every message that has come by now: for a program that learned by other means what a
    /// peer did, and wants to know first what that peer said before. What stands in the ring of a connection that the peer had
    /// just made is among it, but on a thread inside [`crate::OwnThread::work`], which may not wait for the one that takes connections.
    /// Nor may a caller with a lock that is waited for in there: [`Self::catch_up_as_known`] is for it.
    pub fn catch_up(&self) {
        if self.is_current() {
            self.engine().meet_all();
            self.engine().catch_up();
        }
    }

    /// The same without what stands in rings that were not taken in yet. Waits for no other thread but one that reads a ring, and for that
    /// not for long.
    pub fn catch_up_as_known(&self) {
        if self.is_current() {
            self.engine().catch_up();
        }
    }

    /// Handles messages that have come by now. They are then acknowledged before whatever is posted next, as by a card, which takes
    /// what arrives without its program. Costs a look at the rings if there are none.
    pub fn look(&self) {
        if self.is_current() {
            self.engine().look_before_sending();
        }
    }

    /// The number of something that arrives for a program now, to be compared with [`crate::CompletionQueue::oldest_arrival`].
    pub fn number_arrival(&self) -> u64 {
        self.engine().number_arrival()
    }

    /// Closes the device: its queue pairs are destroyed, unless it is open under another name. Closing twice is harmless.
    pub fn close(&self) {
        let less = |names: u32| names.checked_sub(1);
        if self.names.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok_and(|names| names > 1) {
            return;
        }
        self.engine().has_closed(self);
        self.forget_events(|_| true);
        for pair in self.engine().all_pairs() {
            pair.lose_context(self);
        }
        self.engine().domains.lose_context(Some(self));
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.owner
    }

    pub(crate) fn engine_owner(&self) -> &EngineOwner {
        &self.owner
    }

    /// The best tier this process may use.
    pub fn tier(&self) -> Tier {
        self.owner.party().tier
    }

    pub(crate) fn check_current(&self) -> Result<(), CreateError> {
        if self.is_usable() { Ok(()) } else { Err(CreateError::Gone) }
    }

    /// Whether it was opened by this process, and not by one that forked it.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.owner.is_current()
    }

    /// Whether its device has failed while this process had it open.
    pub fn has_failed(&self) -> bool {
        self.is_current() && !self.is_usable()
    }

    /// Whether it works: it was opened by this process, and has not failed since ([`AsyncEventKind::DeviceFatal`]).
    #[inline]
    pub fn is_usable(&self) -> bool {
        self.owner.is_usable()
    }
}

impl OpenDevice for Context {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn index(&self) -> u32 {
        self.device.index()
    }

    fn config(&self) -> &Config {
        self.device.config()
    }

    fn take_addresses(&self, addresses: &[InterfaceAddress]) -> bool {
        self.port.take_addresses(self.device.config(), addresses)
    }

    fn raise(&self, kind: AsyncEventKind, element: AsyncElement) {
        Self::raise(self, kind, element);
    }
}
