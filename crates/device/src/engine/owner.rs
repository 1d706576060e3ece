//! Who keeps an engine running, and what happens to it when its process forks or exits.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nonic_sys::{Epoll, EventCount, PacketSocket, random_u64};
use nonic_transport::listen_for_changes;

use super::{Commons, Engine, lock};
use crate::agent;
use crate::config::Config;
use crate::error::{OpenError, asked};
use crate::own_thread::is_at_work;
use crate::presence::Presence;

/// Keeps an engine running; its last owner stops the agent.
#[derive(Debug)]
pub(crate) struct EngineOwner(Arc<Engine>);

impl Deref for EngineOwner {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl EngineOwner {
    /// The engine, for objects that do not keep it running.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    /// A new engine.
    pub(crate) fn create(config: &Config, commons: &Commons) -> Result<Self, OpenError> {
        Ok(Self(Arc::new(Engine::create(config, commons)?)))
    }

    /// Starts the agent: at first need, which is the first device that is opened.
    pub(crate) fn ensure_agent(&self) -> io::Result<()> {
        let mut agent = lock(&self.0.agent.handle);
        if agent.is_none() {
            // A time before there may have been no thread to be had.
            match self.0.agent.epoll.add(self.0.party.doorbell.as_fd(), agent::DOORBELL) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if lock(&self.0.agent.changing).is_none() {
                self.listen_for_changes();
            }
            let engine = Arc::clone(&self.0);
            let presence = presence(&engine);
            let its_own = Arc::clone(&presence);
            let body = move || agent::run(&Running::begin(engine, its_own));
            self.0.agent.departure.may_be_asked.store(true, Ordering::SeqCst);
            *agent = Some(nonic_sys::spawn_without_signals("nonic-agent", body)?);
            // It may not have run yet, and memory may be registered next.
            presence.begin();
        }
        Ok(())
    }
}

impl EngineOwner {
    /// Lets this process's user change its devices. What the system does not give for that is done without.
    fn listen_for_changes(&self) {
        let token = random_u64().max(1);
        let listening = listen_for_changes(token).and_then(|socket| {
            self.0.agent.epoll.add_once(socket.as_fd(), agent::CHANGING)?;
            *lock(&self.0.agent.changing) = Some(Arc::new(socket));
            self.0.party.segment.publish_changing(token);
            self.0.agent.changing_token.store(token, Ordering::Release);
            Ok(())
        });
        if let Err(error) = listening {
            tracing::debug!(%error, "the device cannot be changed from outside (nonic ctl)");
        }
    }
}

impl EngineOwner {
    /// By which other processes of this user ask this one; 0 if they cannot.
    pub(crate) fn changing_token(&self) -> u64 {
        self.0.agent.changing_token.load(Ordering::Acquire)
    }
}

impl Drop for EngineOwner {
    fn drop(&mut self) {
        let agent = lock(&self.0.agent.handle).take();
        let Some(agent) = agent else { return };
        if !self.0.is_current() {
            // The thread stayed in the parent.
            std::mem::forget(agent);
            return;
        }
        self.0.answer_all();
        self.0.say_goodbye();
        self.0.agent.stop.store(true, Ordering::SeqCst);
        self.0.party.doorbell.signal();
        // Nor can it come to its end while this thread keeps it from its work.
        if !agent.is_current() && !is_at_work() {
            agent.join();
        }
    }
}

/// Of an engine's agent.
fn presence(engine: &Arc<Engine>) -> Arc<Presence> {
    let engine = Arc::clone(engine);
    Presence::new(move |more| engine.party.adopter.add_own_threads(more))
}

/// The agent's thread, and what it is told.
#[derive(Debug)]
pub(crate) struct AgentThread {
    /// None before a device is opened.
    handle: Mutex<Option<nonic_sys::Thread>>,
    /// What it waits on.
    pub(crate) epoll: Epoll,
    /// Where changes of the device are asked for.
    pub(crate) changing: Mutex<Option<Arc<PacketSocket>>>,
    /// The name of that.
    changing_token: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// It waits with a time limit and without its bell.
    pub(crate) timed: AtomicBool,
    /// While it does, whether the limit is no longer than [`agent::POLLED_TICK`].
    pub(crate) soon: AtomicBool,
    /// Held by it while it may touch memory of the program.
    pub(crate) at_work: Arc<Mutex<()>>,
    departure: Departure,
}

impl AgentThread {
    /// Whether it looks within [`agent::POLLED_TICK`] though nobody rings its bell.
    pub(crate) fn looks_soon(&self) -> bool {
        self.timed.load(Ordering::SeqCst) && self.soon.load(Ordering::SeqCst)
    }

    /// Not started.
    pub(super) fn new(at_work: Arc<Mutex<()>>) -> Result<Self, OpenError> {
        Ok(Self {
            handle: Mutex::new(None),
            epoll: asked("a descriptor to wait on (epoll_create)", Epoll::new())?,
            changing: Mutex::default(),
            changing_token: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            timed: AtomicBool::new(false),
            soon: AtomicBool::new(false),
            at_work,
            departure: Departure::default(),
        })
    }

    /// Whether there is an agent, and this thread is one that may wait for it.
    pub(super) fn can_be_awaited(&self) -> bool {
        let there = self.departure.may_be_asked.load(Ordering::SeqCst);
        there && !is_at_work() && lock(&self.handle).as_ref().is_some_and(|agent| !agent.is_current())
    }
}

/// A thread that is the agent, from its beginning to its end, however it ends.
pub(super) struct Running {
    engine: Arc<Engine>,
    presence: Arc<Presence>,
}

impl Running {
    fn begin(engine: Arc<Engine>, presence: Arc<Presence>) -> Self {
        presence.begin();
        Self { engine, presence }
    }
}

impl Deref for Running {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.agent.departure.may_be_asked.store(false, Ordering::SeqCst);
        self.presence.end();
    }
}

/// What an exiting process leaves to its agent. It may exit in a signal handler, on a thread that holds any of the engine's
/// locks: so that thread takes none, and the agent does what is to be done, unless it has to wait for one for too long.
#[derive(Debug, Default)]
struct Departure {
    /// There is an agent.
    may_be_asked: AtomicBool,
    asked: AtomicBool,
    done: AtomicBool,
    waiting: EventCount,
}

impl Engine {
    /// Has the agent answer what is owed, after whoever reads rings right now, and say goodbye: the process exits.
    pub(crate) fn ask_to_depart(&self) {
        // Without an agent no queue pair was ever made, so nobody is to be told.
        if self.agent.departure.may_be_asked.load(Ordering::SeqCst) {
            self.agent.departure.asked.store(true, Ordering::SeqCst);
            self.party.doorbell.signal();
        }
    }

    /// Waits until it has done so, but not for long. A program may exit as soon as it sees what a peer wrote; the peer must have its
    /// answer then.
    pub(crate) fn await_departure(&self, end: Instant) {
        let departure = &self.agent.departure;
        if !departure.may_be_asked.load(Ordering::SeqCst) {
            return;
        }
        loop {
            let ticket = departure.waiting.prepare();
            if departure.done.load(Ordering::SeqCst) || Instant::now() >= end {
                return;
            }
            let _ = departure.waiting.sleep(ticket, Some(end));
        }
    }

    /// Does so, if the process exits.
    pub(crate) fn depart_if_asked(&self) {
        if !self.agent.departure.asked.load(Ordering::SeqCst)
            || !self.agent.departure.asked.swap(false, Ordering::SeqCst)
        {
            return;
        }
        self.answer_all();
        self.say_goodbye();
        self.agent.departure.done.store(true, Ordering::SeqCst);
        self.agent.departure.waiting.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_agent_counts_as_soon_as_it_is_there() {
        for _ in 0..20 {
            let owner = EngineOwner::create(&Config::default(), &Commons::default()).unwrap();
            owner.ensure_agent().unwrap();
            let shown = format!("{:?}", owner.party.adopter);
            assert!(shown.contains("own_threads: 1"), "{shown}");
        }
    }

    #[test]
    fn agents_of_all_engines_count_in_each() {
        let commons = Commons::default();
        let owners = [(); 2].map(|()| EngineOwner::create(&Config::default(), &commons).unwrap());
        let shown = |owner: &EngineOwner| format!("{:?}", owner.party.adopter);
        owners[0].ensure_agent().unwrap();
        assert!(owners.iter().all(|owner| shown(owner).contains("own_threads: 1")));
        owners[1].ensure_agent().unwrap();
        assert!(owners.iter().all(|owner| shown(owner).contains("own_threads: 2")));
        let [first, second] = owners;
        drop(first);
        assert!(shown(&second).contains("own_threads: 1"));
    }

    #[test]
    fn an_agent_that_panics_counts_as_no_thread_of_the_library_and_is_not_waited_for() {
        let engine = Arc::new(Engine::create(&Config::default(), &Commons::default()).unwrap());
        let counted =
            |count| format!("{:?}", engine.party.adopter).contains(&format!("own_threads: {count}"));
        assert!(counted(0));
        let body = Arc::clone(&engine);
        let thread = std::thread::spawn(move || {
            let presence = presence(&body);
            let running = Running::begin(body, presence);
            running.agent.departure.may_be_asked.store(true, Ordering::SeqCst);
            panic!("a fault of the agent");
        });
        assert!(thread.join().is_err());
        assert!(counted(0), "{:?}", engine.party.adopter);
        let began = Instant::now();
        engine.ask_to_depart();
        engine.await_departure(began + Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
