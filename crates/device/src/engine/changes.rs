//! Changes of a device from outside, and what they mean for everything that is open on it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nonic_sys::{InterfaceAddress, PerProcess, interface_addresses, nap};
use nonic_transport::{Change, Loss};

use super::{Engine, lock};
use crate::async_event::{AsyncElement, AsyncEventKind};
use crate::config::Config;
use crate::faults::Faults;
use crate::port::Port;
use crate::port_state::PortState;

/// Changes that are remembered.
const REMEMBERED: usize = 32;
/// How long peers are given to take what they were promised before a port closes.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The state of every port, who has devices open, and what was changed by whom.
#[derive(Debug)]
pub(crate) struct Changes {
    ports: Vec<Arc<PortState>>,
    opened: Mutex<Vec<Weak<dyn OpenDevice>>>,
    history: Mutex<VecDeque<String>>,
    /// Held while something is changed.
    turn: Mutex<()>,
    faults: Mutex<Faults>,
    /// What observers are to be told of.
    untold: Mutex<Vec<AsyncEventKind>>,
}

/// A device that the program has open.
pub(crate) trait OpenDevice: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its number.
    fn index(&self) -> u32;

    /// The settings it follows.
    fn config(&self) -> &Config;

    /// Takes addresses of the host into its GID table that came since; whether there are any.
    fn take_addresses(&self, addresses: &[InterfaceAddress]) -> bool;

    /// Tells the program.
    fn raise(&self, kind: AsyncEventKind, element: AsyncElement);
}

/// Who changes a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Changer {
    /// The file that `NONIC_FAULTS` names.
    Faults,
    /// The program itself.
    Program,
    /// A process, as the kernel says.
    Process { pid: i32, user: u32 },
}

impl fmt::Display for Changer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program => formatter.write_str("the program itself"),
            Self::Faults => formatter.write_str("NONIC_FAULTS"),
            Self::Process { pid, user } => write!(formatter, "process {pid} of user {user}"),
        }
    }
}

/// Is told of what changed, on a thread of the library.
pub type Observer = fn(AsyncEventKind);

static OBSERVERS: PerProcess<Mutex<Vec<Observer>>> = PerProcess::new();

/// Changes that were made in this process.
static MADE: AtomicU64 = AtomicU64::new(0);

/// How many changes from outside there were of the devices of this process: whoever shows what devices say looks whether it is still
/// true.
pub fn changes_made() -> u64 {
    MADE.load(Ordering::Acquire)
}

/// Has `observer` told of every change of a device of this process, soon after its events are there. It is called without any lock of
/// the engine, and finds what has become of a device in its contexts.
pub fn observe_changes(observer: Observer) {
    let mut observers = OBSERVERS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if !observers.iter().any(|known| std::ptr::fn_addr_eq(*known, observer)) {
        observers.push(observer);
    }
}

impl Changes {
    /// Of devices that are as they were made.
    pub(super) fn new(config: &Config, faults: Faults) -> Self {
        Self {
            ports: (0..config.devices.max(1)).map(|_| Arc::default()).collect(),
            opened: Mutex::default(),
            history: Mutex::default(),
            turn: Mutex::default(),
            faults: Mutex::new(faults),
            untold: Mutex::default(),
        }
    }

    /// What was changed of the port of a device.
    pub(crate) fn port(&self, device: u32) -> &Arc<PortState> {
        &self.ports[(device as usize).min(self.ports.len() - 1)]
    }

    /// What was changed, the oldest first, a line each.
    pub(crate) fn history(&self) -> Vec<String> {
        lock(&self.history).iter().cloned().collect()
    }

    fn remember(&self, changer: Changer, what: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut history = lock(&self.history);
        if history.len() == REMEMBERED {
            history.pop_front();
        }
        history.push_back(format!("{} {what} by {changer}", now.as_secs()));
    }

    fn opened(&self, device: Option<&str>) -> Vec<Arc<dyn OpenDevice>> {
        let opened = lock(&self.opened);
        let is_meant = |opened: &Arc<dyn OpenDevice>| device.is_none_or(|device| device == opened.name());
        opened.iter().filter_map(Weak::upgrade).filter(is_meant).collect()
    }
}

impl Engine {
    /// A device was opened.
    pub(crate) fn has_opened(&self, device: Weak<dyn OpenDevice>) {
        let mut opened = lock(&self.changes.opened);
        opened.retain(|other| other.strong_count() > 0);
        opened.push(device);
        drop(opened);
        self.run_faults();
        // The agent has to know when the next one is due.
        self.party.doorbell.signal();
    }

    /// A device was closed: it hears of nothing any more.
    pub(crate) fn has_closed(&self, device: &dyn OpenDevice) {
        let is = |other: &Weak<dyn OpenDevice>| std::ptr::addr_eq(other.as_ptr(), device);
        lock(&self.changes.opened).retain(|other| !is(other));
    }

    /// Makes the changes of `NONIC_FAULTS` that are due; returns when the next one is. Those that are due while no device is open wait
    /// for one. When this returns none is still being made by another thread: whoever opens a device finds it changed.
    pub(crate) fn run_faults(&self) -> Option<Instant> {
        let mut faults = lock(&self.changes.faults);
        loop {
            if !self.is_usable() || lock(&self.changes.opened).is_empty() {
                return None;
            }
            let (next, due) = faults.take_due(Instant::now());
            let Some(change) = due else { return next };
            if let Err(why) = self.change(None, change, Changer::Faults) {
                tracing::warn!(%change, why, "a change of NONIC_FAULTS is refused");
            }
        }
    }

    /// Changes a device, or all of them; tells what has come of it, or why nothing has changed, in words for people.
    pub(crate) fn change(
        &self,
        device: Option<&str>,
        change: Change,
        changer: Changer,
    ) -> Result<&'static str, String> {
        let turn = lock(&self.changes.turn);
        if !self.is_usable() {
            return Err("the device has failed already (fatal)".to_owned());
        }
        if let Change::Loss(loss) = change {
            return self.change_losses(device, loss, changer);
        }
        let opened = self.changes.opened(device);
        let Some(any) = opened.first() else {
            return Err(match device {
                Some(device) => format!("no device {device} is open"),
                None => "no device is open".to_owned(),
            });
        };
        let mut devices: Vec<_> = opened.iter().map(|opened| opened.index()).collect();
        devices.sort_unstable();
        devices.dedup();
        let mut events = Vec::new();
        for index in devices {
            let state = self.changes.port(index);
            let port = Port::new(any.config(), index, state);
            if let Some(kind) = state.change(change, port.is_ethernet(), &port.made_gids())? {
                events.push((index, kind));
            }
        }
        if events.is_empty() {
            return Ok("it is so already");
        }
        let what = device.map_or_else(|| change.to_string(), |device| format!("{change} on {device}"));
        self.changes.remember(changer, &what);
        tracing::info!(change = what, by = %changer, "the device was changed");
        let is_fatal = change == Change::Fatal;
        MADE.fetch_add(1, Ordering::Release);
        let concerned = if is_fatal { self.changes.opened(None) } else { opened };
        if is_fatal {
            self.end_use();
            self.all_pairs().iter().for_each(|pair| pair.lose_device());
            self.domains.lose_context(None);
        } else {
            self.look_at_ports(change == Change::PortDown);
        }
        for opened in &concerned {
            let own = events.iter().find(|(index, _)| *index == opened.index());
            let Some((_, kind)) = own.or(events.first().filter(|_| is_fatal)) else { continue };
            opened.raise(*kind, if is_fatal { AsyncElement::Device } else { AsyncElement::Port(1) });
        }
        drop(turn);
        lock(&self.changes.untold).extend(events.iter().map(|(_, kind)| *kind));
        self.party.doorbell.signal();
        Ok("done")
    }

    /// Takes addresses of the host into the GID tables that came since the devices were opened, and tells programs of them.
    pub(crate) fn look_for_addresses(&self) {
        let turn = lock(&self.changes.turn);
        let addresses = interface_addresses();
        let opened = self.changes.opened(None);
        let grown: Vec<_> = opened
            .iter()
            .filter(|opened| opened.take_addresses(&addresses))
            .map(|opened| opened.index())
            .collect();
        drop(turn);
        if !grown.is_empty() {
            MADE.fetch_add(1, Ordering::Release);
        }
        for opened in opened.iter().filter(|opened| grown.contains(&opened.index())) {
            opened.raise(AsyncEventKind::GidChange, AsyncElement::Port(1));
        }
    }

    /// Of the wire, which all devices share. What devices say of themselves stays true, so nobody is told.
    fn change_losses(
        &self,
        device: Option<&str>,
        loss: Loss,
        changer: Changer,
    ) -> Result<&'static str, String> {
        if device.is_some() {
            return Err(
                "packets are lost on all devices of a process, or on none: leave out --device".to_owned()
            );
        }
        if self.changes.opened(None).is_empty() {
            return Err("no device is open".to_owned());
        }
        if self.lose(loss.per_million()) == loss.per_million() {
            return Ok("it is so already");
        }
        let what = Change::Loss(loss);
        self.changes.remember(changer, &what.to_string());
        tracing::info!(change = %what, by = %changer, "the device was changed");
        Ok("done")
    }

    /// Tells observers what has changed. On the agent's thread: whoever makes a change may hold locks of theirs.
    pub(crate) fn tell_observers(&self) {
        let untold = std::mem::take(&mut *lock(&self.changes.untold));
        if untold.is_empty() {
            return;
        }
        let observers =
            OBSERVERS.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner).clone();
        for observer in observers {
            untold.iter().for_each(|kind| observer(*kind));
        }
    }

    /// Has every queue pair go by what its port is now.
    fn look_at_ports(&self, closes: bool) {
        let pairs = self.all_pairs();
        if closes {
            let end = Instant::now() + LAST_WORDS;
            while pairs.iter().any(|pair| pair.owes_data()) && Instant::now() < end {
                nap(Duration::from_micros(100));
            }
        }
        let closed = pairs.iter().fold(false, |closed, pair| pair.port_changed() | closed);
        if closed {
            // What peers had begun to do to memory here by themselves.
            self.wait_for_operations();
        }
    }
}
