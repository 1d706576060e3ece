//! Who keeps the engine running, and what happens to it when its process forks or exits.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{Engine, lock};
use crate::agent;
use crate::config::Config;
use crate::error::OpenError;
use crate::exposed::is_at_work;

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
            *agent = Some(nonic_sys::spawn_without_signals("nonic-agent", move || agent::run(&engine))?);
            self.0.party.adopter.add_own_threads(1);
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
        self.0.party.adopter.add_own_threads(-1);
        self.0.say_goodbye();
        self.0.stop.store(true, Ordering::SeqCst);
        self.0.party.doorbell.signal();
        // Nor can it come to its end while this thread keeps it from its work.
        if agent.thread().id() != std::thread::current().id() && !is_at_work() {
            let _ = agent.join();
        }
    }
}

/// Runs when the process exits with devices still open.
extern "C" fn say_goodbye() {
    // Not if another thread is just opening a device: an exit must not wait for anything.
    let Ok(current) = CURRENT.try_lock() else { return };
    let owner = current.upgrade();
    drop(current);
    if let Some(owner) = owner {
        if owner.is_current() {
            owner.0.wait_for_driver();
            owner.0.answer_all();
            owner.0.say_goodbye();
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
