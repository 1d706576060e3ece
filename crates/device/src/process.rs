//! What a process has one of, whatever engines are in it: what these have in common, the one that its faces share, and the end of
//! all of them when it exits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use nonic_sys::PerProcess;

use crate::config::Config;
use crate::engine::{Commons, EngineOwner, lock};
use crate::error::OpenError;

#[derive(Debug, Default)]
struct Process {
    commons: Commons,
    engines: Mutex<Engines>,
}

/// Those that live, among them any that have just ceased to.
#[derive(Debug, Default)]
struct Engines {
    all: Vec<Weak<EngineOwner>>,
    /// That of whoever does not bring one.
    shared: Weak<EngineOwner>,
}

/// A child has engines of its own.
static PROCESS: PerProcess<Process> = PerProcess::new();
/// The program said that its children do not use registered memory. These say so, too.
static FORK_INIT: AtomicBool = AtomicBool::new(false);
/// How long an exiting process waits for what its peers should know.
const EXIT_PATIENCE: Duration = Duration::from_millis(400);

fn process() -> &'static Process {
    PROCESS.get_or_make(Process::default)
}

impl Engines {
    fn start(&mut self, config: &Config, commons: &Commons) -> Result<Arc<EngineOwner>, OpenError> {
        let engine = Arc::new(EngineOwner::create(config, commons)?);
        if is_fork_initialized() {
            engine.party().adopter.fork_init();
        }
        self.all.retain(|other| other.strong_count() > 0);
        self.all.push(Arc::downgrade(&engine));
        nonic_sys::at_exit(say_goodbye);
        Ok(engine)
    }
}

/// An engine beside all others.
pub(crate) fn new_engine(config: &Config) -> Result<Arc<EngineOwner>, OpenError> {
    let Process { commons, engines } = process();
    lock(engines).start(config, commons)
}

/// The engine that all share who do not bring one, made if there is none.
pub(crate) fn shared_engine(config: &Config) -> Result<Arc<EngineOwner>, OpenError> {
    let Process { commons, engines } = process();
    let mut engines = lock(engines);
    // Devices that have failed are there anew, as after a reset.
    if let Some(engine) = engines.shared.upgrade().filter(|engine| engine.is_usable()) {
        return Ok(engine);
    }
    let engine = engines.start(config, commons)?;
    engines.shared = Arc::downgrade(&engine);
    Ok(engine)
}

/// The engine that all share who do not bring one, if there is one.
pub(crate) fn living_engine() -> Option<Arc<EngineOwner>> {
    let engines = &PROCESS.get()?.engines;
    // Whoever asks may do so while a device is being opened.
    engines.try_lock().ok()?.shared.upgrade().filter(|engine| engine.is_usable())
}

/// Held by threads of the library while they may touch memory of the program.
pub(crate) fn at_work() -> Arc<Mutex<()>> {
    process().commons.at_work()
}

/// The same for a thread for which other processes wait.
pub(crate) fn serving() -> Arc<Mutex<()>> {
    process().commons.serving()
}

/// Runs when the process exits with devices still open, on a thread that may hold any lock.
extern "C" fn say_goodbye() {
    let Some(process) = PROCESS.get() else { return };
    // Not if another thread is just opening a device: an exit must not wait for anything.
    let Ok(engines) = process.engines.try_lock() else { return };
    let living: Vec<_> = engines.all.iter().filter_map(Weak::upgrade).collect();
    drop(engines);
    let end = Instant::now() + EXIT_PATIENCE;
    // They take leave at the same time.
    living.iter().for_each(|engine| engine.ask_to_depart());
    living.iter().for_each(|engine| engine.await_departure(end));
    // Dropping one would join a thread that may need what the program's own exit handlers hold.
    std::mem::forget(living);
}

/// From now on children of this process do not inherit its adopted memory (`ibv_fork_init(3)`): a fork then copies none.
pub fn fork_init() {
    let engines = lock(&process().engines);
    FORK_INIT.store(true, Ordering::SeqCst);
    let living: Vec<_> = engines.all.iter().filter_map(Weak::upgrade).collect();
    drop(engines);
    living.iter().for_each(|engine| engine.party().adopter.fork_init());
}

/// Whether [`fork_init`] was called.
pub fn is_fork_initialized() -> bool {
    FORK_INIT.load(Ordering::SeqCst)
}
