//! What the threads of the program share with the manager's thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nonic_device::OwnThread;
use nonic_sys::{
    AsFd, Epoll, EventFd, EventKind, PacketSocket, PerProcess, at_exit, current_generation,
    forget_in_children, listen_abstract, own_user, random_u64, spawn_without_signals,
};

use crate::manager;
use crate::names::{file_of_process, process_name};
use crate::sinks::{ConnectionSink, ServiceSink};
use crate::wire::{Inquiry, ProcessName, Refusal};

/// How long an exiting process waits for its last messages to be sent.
pub(crate) const FAREWELL: Duration = Duration::from_millis(500);

/// Token of the doorbell.
pub(crate) const DOORBELL: u64 = 0;
/// Token of the door.
pub(crate) const DOOR: u64 = 1;
pub(crate) const DOOR_FOR_OTHERS: u64 = 2;
const FIRST_TOKEN: u64 = 3;

/// A closure for the manager's thread.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// What the manager's thread is asked to do, in order.
pub(crate) enum Command {
    Listen(Arc<ListenerCore>),
    Unlisten {
        token: u64,
    },
    Connect(Attempt),
    Accept {
        number: u64,
        facts: Box<[u8]>,
        data: Box<[u8]>,
        sink: Arc<dyn ConnectionSink>,
    },
    /// Of a request that is undecided, or that was accepted and not confirmed.
    Reject {
        number: u64,
        data: Box<[u8]>,
    },
    Confirm {
        number: u64,
    },
    Say {
        number: u64,
        word: Box<[u8]>,
    },
    Refuse {
        number: u64,
        reason: Refusal,
    },
    HandWithin {
        number: u64,
        listener: Arc<ListenerCore>,
    },
    HandOn {
        number: u64,
        socket: PacketSocket,
    },
    Disconnect {
        number: u64,
        failed: bool,
    },
    Run {
        task: Task,
        at: Instant,
    },
    Farewell,
}

/// A connection somebody asks for.
pub(crate) struct Attempt {
    pub(crate) service: Arc<str>,
    /// Whom to ask if nobody offers that, in order.
    pub(crate) others: VecDeque<Arc<str>>,
    pub(crate) inquiry: Inquiry,
    pub(crate) deadline: Option<Instant>,
    pub(crate) sink: Arc<dyn ConnectionSink>,
}

/// A listener. Its socket is there until its owner closes it.
pub(crate) struct ListenerCore {
    /// What its socket is watched under.
    pub(crate) token: u64,
    pub(crate) name: Arc<str>,
    pub(crate) sink: Arc<dyn ServiceSink>,
    pub(crate) socket: Mutex<Option<PacketSocket>>,
}

/// The part of the manager that every thread may touch.
pub(crate) struct Shared {
    generation: u32,
    /// This process's user, if its number tells it from others.
    pub(crate) own_user: Option<u32>,
    pub(crate) process: ProcessName,
    /// Where other processes open channels.
    pub(crate) door: PacketSocket,
    /// Where those of other network namespaces do, if they are met.
    pub(crate) door_for_others: Option<PacketSocket>,
    pub(crate) epoll: Epoll,
    pub(crate) doorbell: EventFd,
    commands: Mutex<Vec<Command>>,
    started: Mutex<bool>,
    /// Listeners of this process, by name.
    pub(crate) listeners: Mutex<HashMap<Arc<str>, Arc<ListenerCore>>>,
    farewell: (Mutex<bool>, Condvar),
    /// What layers above have to say when the process exits.
    partings: Mutex<Vec<fn()>>,
    /// The process exits.
    departs: AtomicBool,
    next_token: AtomicU64,
}

static SHARED: PerProcess<Arc<Shared>> = PerProcess::new();

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// This process's, with its thread running.
    pub(crate) fn get() -> io::Result<&'static Arc<Self>> {
        let shared = match SHARED.get() {
            Some(shared) => shared,
            None => {
                let made = Arc::new(Self::new()?);
                SHARED.get_or_make(|| made)
            }
        };
        let mut started = lock(&shared.started);
        if !*started {
            let body = Arc::clone(shared);
            let thread = OwnThread::count();
            let starter = thread.starter();
            spawn_without_signals("nonic-connect", move || manager::run(&body, &thread))?;
            *started = true;
            at_exit(say_farewell);
            // Without the lock, for which the thread may wait at work while others wait for it to rest.
            drop(started);
            starter.has_started();
        }
        Ok(shared)
    }

    fn new() -> io::Result<Self> {
        // Others find this process's part of the folder by the first number.
        let place = nonic_meeting::place();
        let process =
            ProcessName([place.as_ref().map_or_else(random_u64, |place| place.token()), random_u64()]);
        let door_for_others = place.and_then(|place| {
            let door = place.listen(&file_of_process(process)).inspect_err(|error| {
                tracing::error!(folder = %place.path().display(), %error, "processes of other network namespaces cannot answer this one");
            });
            door.inspect(PacketSocket::refuse_descriptors).ok()
        });
        let door = listen_abstract(&process_name(process))?;
        door.refuse_descriptors();
        let (epoll, doorbell) = (Epoll::new()?, EventFd::new(EventKind::All, true)?);
        // A child's copies would have the parent's sockets on their list.
        forget_in_children(epoll.as_fd());
        forget_in_children(doorbell.as_fd());
        Ok(Self {
            // Asked here, where the program is: it takes a descriptor for a moment.
            own_user: own_user(),
            generation: current_generation(),
            process,
            door,
            door_for_others,
            epoll,
            doorbell,
            commands: Mutex::default(),
            started: Mutex::default(),
            listeners: Mutex::default(),
            farewell: Default::default(),
            partings: Mutex::default(),
            departs: AtomicBool::new(false),
            next_token: AtomicU64::new(FIRST_TOKEN),
        })
    }

    /// Whether this is the calling process's, and not that of a process it was forked from: then its locks may be held by
    /// threads that are not there.
    pub(crate) fn is_current(&self) -> bool {
        self.generation == current_generation()
    }

    /// Has the manager's thread do something.
    pub(crate) fn order(&self, command: Command) {
        if !self.is_current() {
            return;
        }
        let mut commands = lock(&self.commands);
        commands.push(command);
        let first = commands.len() == 1;
        drop(commands);
        if first {
            self.doorbell.signal();
        }
    }

    /// A number that no other socket was ever watched under.
    pub(crate) fn new_token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// What was ordered since the last time.
    pub(crate) fn take_commands(&self) -> Vec<Command> {
        let _ = self.doorbell.take();
        let mut commands = std::mem::take(&mut *lock(&self.commands));
        if self.departs.swap(false, Ordering::SeqCst) {
            commands.push(Command::Farewell);
        }
        commands
    }

    /// Has a layer above say something when the process exits.
    pub(crate) fn add_parting(&self, parting: fn()) {
        lock(&self.partings).push(parting);
    }

    /// What is said then.
    pub(crate) fn partings(&self) -> Vec<fn()> {
        lock(&self.partings).clone()
    }

    /// The last messages are out.
    pub(crate) fn farewell_is_said(&self) {
        *lock(&self.farewell.0) = true;
        self.farewell.1.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Of two threads that make one at the same time, one's goes.
        nonic_sys::keep_in_children(self.epoll.as_fd());
        nonic_sys::keep_in_children(self.doorbell.as_fd());
    }
}

/// Ends every connection in order when the process does: on a thread that may hold any lock, or be in the middle of allocating,
/// if the process exits in a signal handler. The lock taken here is nobody else's but for a moment of the manager's.
extern "C" fn say_farewell() {
    let Some(shared) = SHARED.get() else { return };
    shared.departs.store(true, Ordering::SeqCst);
    shared.doorbell.signal();
    let said = lock(&shared.farewell.0);
    let _ = shared.farewell.1.wait_timeout_while(said, FAREWELL, |said| !*said);
}
