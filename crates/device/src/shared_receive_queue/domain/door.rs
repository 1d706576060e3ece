//! Where other processes that have the domain of a file open ask this one, and the thread that answers them.
//!
//! It is a thread of its own because it may wait for nothing: whoever asks waits, and may hold what this process's other threads wait
//! for.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_sys::{
    AsFd, Epoll, EventFd, EventKind, PacketSocket, Ready, Received, forget_in_children,
    is_out_of_descriptors, keep_in_children, listen_abstract, spawn_without_signals, wait_readable,
};

use super::members::Members;
use super::service::Service;
use super::words::{LONGEST, Question};
use crate::engine::lock;
use crate::own_thread::OwnThread;

/// Who may be asking at once; who comes then is hung up on.
const ASKING_MAX: usize = 1024;
/// Questions of one that are answered before others have their turn.
const TURN: usize = 16;
/// How long nobody is let in after one of another user, and when the process has no descriptors left.
const REST: Duration = Duration::from_millis(10);

const BELL: u64 = 0;
const NAME: u64 = 1;
const FIRST_ASKING: u64 = 2;

/// The door.
#[derive(Debug)]
pub(super) struct Door {
    epoll: Epoll,
    bell: EventFd,
    /// Nobody finds it any more when this is gone.
    name: Mutex<Option<PacketSocket>>,
    closed: AtomicBool,
}

impl Door {
    /// One that has this name, at which nobody is answered yet.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        let (epoll, bell) = (Epoll::new()?, EventFd::new(EventKind::All, true)?);
        let name = listen_abstract(name)?;
        name.refuse_descriptors();
        epoll.add(bell.as_fd(), BELL)?;
        epoll.add_once(name.as_fd(), NAME)?;
        // A child's copies would have the parent's sockets on their list.
        forget_in_children(epoll.as_fd());
        forget_in_children(bell.as_fd());
        Ok(Self { epoll, bell, name: Mutex::new(Some(name)), closed: AtomicBool::new(false) })
    }

    /// Has a thread answer for what is in the domain. Those who ask are to be of this user.
    pub(super) fn begin(self: &Arc<Self>, members: Weak<Members>, user: Option<u32>) -> io::Result<()> {
        let thread = OwnThread::count_serving();
        let starter = thread.starter();
        let mut answering = Answering {
            door: Arc::clone(self),
            members,
            user,
            asking: HashMap::new(),
            next: FIRST_ASKING,
            rests_until: None,
        };
        spawn_without_signals("nonic-xrcd", move || answering.run(&thread))?;
        starter.has_started();
        Ok(())
    }

    /// Nobody is answered any more; the thread ends.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        drop(lock(&self.name).take());
        self.bell.signal();
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        keep_in_children(self.epoll.as_fd());
        keep_in_children(self.bell.as_fd());
    }
}

/// What the thread has.
struct Answering {
    door: Arc<Door>,
    members: Weak<Members>,
    user: Option<u32>,
    asking: HashMap<u64, (PacketSocket, Service)>,
    next: u64,
    /// Nobody is let in before.
    rests_until: Option<Instant>,
}

impl Answering {
    fn run(&mut self, thread: &OwnThread) {
        let mut ready = Vec::new();
        let mut bytes = vec![0; LONGEST];
        loop {
            let rest = self.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
            wait_readable(self.door.epoll.as_fd(), rest);
            if !thread.work(|| self.turn(&mut ready, &mut bytes)) {
                return;
            }
        }
    }

    /// Answers whoever asks; false when the door is closed.
    fn turn(&mut self, ready: &mut Vec<Ready>, bytes: &mut [u8]) -> bool {
        self.door.epoll.wait(ready, Some(Duration::ZERO));
        let members = self.members.upgrade().filter(|_| !self.door.closed.load(Ordering::SeqCst));
        let Some(members) = members else {
            self.asking.clear();
            return false;
        };
        for event in &*ready {
            match event.token {
                BELL => {}
                NAME => self.let_in(),
                token => {
                    let Some((socket, service)) = self.asking.get_mut(&token) else { continue };
                    if !answer(socket, service, &members, bytes) {
                        service.end(&members);
                        self.asking.remove(&token);
                    }
                }
            }
        }
        if self.rests_until.is_some_and(|until| until <= Instant::now()) {
            self.rests_until = None;
            self.let_in();
        }
        true
    }

    /// Takes those who come.
    fn let_in(&mut self) {
        let name = lock(&self.door.name);
        let Some(listener) = &*name else { return };
        let has_taken_all = loop {
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) => break !is_out_of_descriptors(&error),
            };
            if !socket.peer().is_ok_and(|peer| self.user == Some(peer.uid)) {
                break false;
            }
            if self.asking.len() < ASKING_MAX && self.door.epoll.add(socket.as_fd(), self.next).is_ok() {
                self.asking.insert(self.next, (socket, Service::new(self.user)));
                self.next += 1;
            }
        };
        if has_taken_all {
            let _ = self.door.epoll.watch_once_more(listener.as_fd(), NAME);
        } else {
            self.rests_until = Some(Instant::now() + REST);
        }
    }
}

/// Answers one who asks; false if that is over.
fn answer(socket: &PacketSocket, service: &mut Service, members: &Members, bytes: &mut [u8]) -> bool {
    for _ in 0..TURN {
        let length = match socket.receive_bytes(bytes) {
            Received::Nothing => return true,
            Received::HungUp => return false,
            Received::Message(length, _) => length,
        };
        let question = match Question::parse(&bytes[..length]) {
            Ok(question) => question,
            Err(error) => {
                tracing::warn!(%error, "a process that shares an XRC domain asks what makes no sense, and is hung up on");
                return false;
            }
        };
        // Whoever asks hears the answer before asking again, so there is room for it.
        if let Some(answer) = service.serve(members, question)
            && socket.send(&answer.emit(), &[]).is_err()
        {
            return false;
        }
    }
    true
}
