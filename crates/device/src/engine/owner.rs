//! Who keeps the engine running, and what happens to it when its process forks or exits.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use nonic_sys::EventCount;

use super::{Engine, lock};
use crate::agent;
use crate::config::Config;
use crate::error::OpenError;
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

static CURRENT: Mutex<Weak<EngineOwner>> = Mutex::new(Weak::new());

impl EngineOwner {
    /// The engine, for objects that do not keep it running.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.0
    }

    /// This process's engine, made if there is none.
    pub(crate) fn current(config: &Config) -> Result<Arc<Self>, OpenError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = current.upgrade()
            && owner.is_current()
        {
            return Ok(owner);
        }
        let owner = Arc::new(Self(Arc::new(Engine::create(config)?)));
        nonic_sys::at_exit(say_goodbye);
        // In a child this drops the parent's only if the child held its last owner, which then stops nothing.
        *current = Arc::downgrade(&owner);
        Ok(owner)
    }

    /// Starts the agent: at first need, which is the first queue pair.
    pub(crate) fn ensure_agent(&self) -> io::Result<()> {
        let mut agent = lock(&self.0.agent);
        if agent.is_none() {
            self.0.epoll.add(self.0.party.doorbell.as_fd(), agent::DOORBELL)?;
            let engine = Arc::clone(&self.0);
            let presence = presence(&engine);
            let its_own = Arc::clone(&presence);
            let body = move || agent::run(&Running::begin(engine, its_own));
            self.0.departure.may_be_asked.store(true, Ordering::SeqCst);
            *agent = Some(nonic_sys::spawn_without_signals("nonic-agent", body)?);
            // It may not have run yet, and memory may be registered next.
            presence.begin();
        }
        Ok(())
    }
}

impl Drop for EngineOwner {
    fn drop(&mut self) {
        let agent = lock(&self.0.agent).take();
        let Some(agent) = agent else { return };
        if !self.0.is_current() {
            // The thread stayed in the parent.
            std::mem::forget(agent);
            return;
        }
        self.0.answer_all();
        self.0.say_goodbye();
        self.0.stop.store(true, Ordering::SeqCst);
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
        self.departure.may_be_asked.store(false, Ordering::SeqCst);
        self.presence.end();
    }
}

/// What an exiting process leaves to its agent. It may exit in a signal handler, on a thread that holds any of the engine's
/// locks: so that thread takes none, and the agent does what is to be done, unless it has to wait for one for too long.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// There is an agent.
    may_be_asked: AtomicBool,
    asked: AtomicBool,
    done: AtomicBool,
    waiting: EventCount,
}

impl Engine {
    /// Has the agent answer what is owed, after whoever reads rings right now, and say goodbye; waits for it, but not for
    /// long. A program may exit as soon as it sees what a peer wrote; the peer must have its answer then.
    fn depart(&self, patience: Duration) {
        let departure = &self.departure;
        if !departure.may_be_asked.load(Ordering::SeqCst) {
            // No queue pair was ever made, so nobody is told.
            return;
        }
        departure.asked.store(true, Ordering::SeqCst);
        self.party.doorbell.signal();
        let end = Instant::now() + patience;
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
        if !self.departure.asked.load(Ordering::SeqCst) || !self.departure.asked.swap(false, Ordering::SeqCst)
        {
            return;
        }
        self.answer_all();
        self.say_goodbye();
        self.departure.done.store(true, Ordering::SeqCst);
        self.departure.waiting.ring();
    }
}

/// How long an exiting process waits for what its peers should know.
const EXIT_PATIENCE: Duration = Duration::from_millis(400);

/// Runs when the process exits with devices still open, on a thread that may hold any lock.
extern "C" fn say_goodbye() {
    // Not if another thread is just opening a device: an exit must not wait for anything.
    let Ok(current) = CURRENT.try_lock() else { return };
    let owner = current.upgrade();
    drop(current);
    if let Some(owner) = owner {
        if owner.is_current() {
            owner.0.depart(EXIT_PATIENCE);
        }
        // Dropping it would join a thread that may need what the program's own exit handlers hold.
        std::mem::forget(owner);
    }
}

/// The program said that its children do not use registered memory.
static FORK_INIT: AtomicBool = AtomicBool::new(false);

/// From now on children of this process do not inherit its adopted memory (`ibv_fork_init(3)`): a fork then copies none.
pub fn fork_init() {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    FORK_INIT.store(true, Ordering::SeqCst);
    let owner = current.upgrade();
    drop(current);
    if let Some(owner) = owner
        && owner.is_current()
    {
        owner.party.adopter.fork_init();
    }
}

/// Whether [`fork_init`] was called.
pub fn is_fork_initialized() -> bool {
    FORK_INIT.load(Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_counts_as_soon_as_it_is_there() {
        for _ in 0..20 {
            let owner = EngineOwner(Arc::new(Engine::create(&Config::default()).unwrap()));
            owner.ensure_agent().unwrap();
            let shown = format!("{:?}", owner.party.adopter);
            assert!(shown.contains("own_threads: 1"), "{shown}");
        }
    }

    #[test]
    fn an_agent_that_panics_counts_as_no_thread_of_the_library_and_is_not_waited_for() {
        let engine = Arc::new(Engine::create(&Config::default()).unwrap());
        let counted =
            |count| format!("{:?}", engine.party.adopter).contains(&format!("own_threads: {count}"));
        assert!(counted(0));
        let body = Arc::clone(&engine);
        let thread = std::thread::spawn(move || {
            let presence = presence(&body);
            let running = Running::begin(body, presence);
            running.departure.may_be_asked.store(true, Ordering::SeqCst);
            panic!("a fault of the agent");
        });
        assert!(thread.join().is_err());
        assert!(counted(0), "{:?}", engine.party.adopter);
        let began = Instant::now();
        engine.depart(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
