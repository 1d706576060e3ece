//! The agent: one thread a process that drives the device while the program does something else. It sleeps on one
//! descriptor, runs with every signal blocked, and starts when a device is opened: from then on somebody may change it.

mod changing;
mod foreigners;
mod newcomers;
mod shares;
mod starvation;
mod turns;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use nonic_sys::{Ready, prefer_short_slices, timer_slack_ns, yield_now};
use nonic_transport::{Link, LinkEvent, Sleeper};

use self::changing::Asking;
use self::newcomers::Newcomers;
use self::starvation::Starvation;
use self::turns::Turns;
use self::wire::WireWatch;
use crate::engine::{Engine, Progress, lock};

/// Tokens of the descriptors the agent waits on.
pub(crate) const DOORBELL: u64 = 0;
/// What comes by the wire.
pub(crate) const WIRE: u64 = 1;
/// Where changes of the device are asked for.
pub(crate) const CHANGING: u64 = 2;
/// Token of what tells that addresses of this host come and go.
pub(crate) const ADDRESSES: u64 = 3;
/// First token of those who ask.
const CHANGERS: u64 = 1 << 16;
/// First token of listening sockets.
pub(crate) const LISTENERS: u64 = 1 << 32;
/// First token of links.
pub(crate) const LINKS: u64 = 2 << 32;
/// First token of connections that have not introduced themselves.
const NEWCOMERS: u64 = 3 << 32;

/// While a program polls, the agent looks this often whether it still does: messages wait at most twice this long for a
/// program that stopped polling, longer where it has no processor most of the time. Each look takes the processor from a
/// program that has but one.
pub(crate) const POLLED_TICK: Duration = Duration::from_millis(1);
/// When the agent found work that another thread has in hand, or may not do yet, it looks again after this. It cannot wait
/// to be woken: what woke it is still there, and would wake it until that thread, which may need its processor, is done.
const TICK: Duration = Duration::from_micros(250);
/// What the agent asks of the scheduler: to run soon, and briefly. The least there is.
const SLICE_NS: u64 = 100_000;
/// How long the agent goes on looking after it has handled something for a program that does not poll: the next
/// message of a stream then finds it awake.
const LINGER: Duration = Duration::from_micros(50);
/// Looks at the rings that it takes meanwhile for one at everything else: a message that comes waits for half a round.
const LOOKS_OF_A_ROUND: usize = 8;

struct Agent<'a> {
    engine: &'a Engine,
    newcomers: Newcomers,
    asking: Asking,
    /// Foreigners with whom queue pairs here are connected: half of the agent's time.
    talking: Turns,
    /// All others: a tenth.
    others: Turns,
    /// Links of foreigners that polls look at, as they were at this version of the links.
    attended: Vec<Arc<Link>>,
    links_version: u64,
    /// When it is looked next who still talks with them.
    next_look: Option<Instant>,
    moment: u64,
    /// Something woke the agent that it has not looked after yet, though a thread of the program may drive.
    rung: bool,
    /// The agent woke for somebody else than foreigners.
    called: bool,
    /// Until when it is not asked again whether the program polls: foreigners wake the agent at any time, and between two polls
    /// it would take over.
    polled_until: Option<Instant>,
    /// Something came by the wire.
    wire_called: bool,
    wire: WireWatch,
    starvation: Starvation,
}

/// Runs until the engine stops.
pub(crate) fn run(engine: &Engine) {
    timer_slack_ns(1);
    prefer_short_slices(SLICE_NS);
    engine.party().witness.show_this_thread();
    let mut agent = Agent {
        engine,
        newcomers: Newcomers::default(),
        asking: Asking::default(),
        talking: Turns::new(1),
        others: Turns::new(9),
        attended: Vec::new(),
        links_version: 0,
        next_look: None,
        moment: 0,
        rung: true,
        called: true,
        polled_until: None,
        wire_called: false,
        wire: WireWatch::default(),
        starvation: Starvation::default(),
    };
    let mut ready = Vec::new();
    while !engine.agent.stop.load(Ordering::SeqCst) {
        let timeout = agent.work();
        engine.agent.epoll.wait(&mut ready, timeout);
        engine.agent.timed.store(false, Ordering::SeqCst);
        let at_work = lock(&engine.agent.at_work);
        agent.called = false;
        for event in &ready {
            agent.handle(*event);
        }
        drop(at_work);
    }
}

impl Agent<'_> {
    /// Does what is to do; returns how long to wait for more.
    fn work(&mut self) -> Option<Duration> {
        let mut lingering: Option<Instant> = None;
        // Read once a round: while the agent lingers, each look at the clock is time in which a message waits.
        let mut now = Instant::now();
        loop {
            // Before it is looked whether somebody waits: who leaves the rings for a moment relies on it.
            self.engine.agent.timed.store(false, Ordering::SeqCst);
            self.engine.depart_if_asked();
            self.engine.use_again();
            let at_work = lock(&self.engine.agent.at_work);
            let next_timers =
                [self.engine.run_timers(), self.engine.run_tellings(), self.engine.run_faults()];
            self.engine.tell_observers();
            let next_timer = next_timers.into_iter().flatten().min();
            let asked = self.engine.asked_to_meet();
            if asked.is_some() || self.engine.has_deferred_talk() {
                self.accept_all();
            }
            if let Some(number) = asked {
                self.engine.have_met(number);
            }
            self.engine.run_deferred();
            if self.engine.agent.stop.load(Ordering::SeqCst) {
                return Some(Duration::ZERO);
            }
            let next_chore = self.look_after_others(now);
            let until_timer = |most: Option<Duration>| {
                let timer = next_timer.map(|when| when.saturating_duration_since(Instant::now()));
                [timer, next_chore, most].into_iter().flatten().min()
            };
            if !self.rung && self.engine.has_waiter() {
                return until_timer(None);
            }
            if std::mem::take(&mut self.wire_called) {
                self.wire.called(self.engine);
            }
            if let Some(wait) = self.leaves_to_program(now) {
                self.wire.program_polls(self.engine);
                self.engine.agent.soon.store(wait <= POLLED_TICK, Ordering::SeqCst);
                self.engine.agent.timed.store(true, Ordering::SeqCst);
                // A program that asked for an event since then did not see the flag.
                if self.engine.anyone_sleeps() {
                    continue;
                }
                return until_timer(Some(wait));
            }
            let mut progress = self.engine.progress(usize::MAX);
            drop(at_work);
            if lingering.is_some() {
                progress = self.look_on(progress);
            }
            now = Instant::now();
            if progress.any_of(Progress::WORKED) {
                lingering = Some(now + LINGER);
                continue;
            }
            if progress.any_of(Progress::HELD | Progress::TAKEN) || self.engine.has_deferred() {
                return until_timer(Some(TICK));
            }
            let watched = self.engine.anyone_sleeps() || self.engine.has_waiter();
            if !watched && lingering.is_some_and(|until| now < until) {
                yield_now();
                continue;
            }
            if self.fall_asleep() {
                self.rung = false;
                return until_timer(None);
            }
        }
    }

    /// Goes on looking at the rings, behind a look that found `found`, as long as nobody else is about to; what all looks found.
    fn look_on(&self, found: Progress) -> Progress {
        let (mut last, mut all) = (found, found);
        for _ in 1..LOOKS_OF_A_ROUND {
            let is_left = self.engine.is_polled() || self.engine.anyone_sleeps() || self.engine.has_waiter();
            if is_left || last.any_of(Progress::HELD | Progress::TAKEN) {
                break;
            }
            if !last.any_of(Progress::WORKED) {
                yield_now();
            }
            let _at_work = lock(&self.engine.agent.at_work);
            last = self.engine.progress(usize::MAX);
            all = all | last;
        }
        all
    }

    /// How long to wait before it is asked again whether the program drives the device by polling, if it does, or would if it had a
    /// processor. It is asked once in a tick, or when somebody calls.
    fn leaves_to_program(&mut self, now: Instant) -> Option<Duration> {
        if let Some(until) = self.polled_until
            && now < until
            && !self.called
            && !self.engine.anyone_sleeps()
        {
            return Some(until - now);
        }
        self.polled_until = None;
        if self.engine.program_polls() {
            let wait = self.starvation.polls(self.engine.poller(), now);
            self.polled_until = Some(now + wait);
            return Some(wait);
        }
        let wait = if self.engine.anyone_sleeps() { None } else { self.starvation.patience(now) };
        if wait.is_some() {
            // What was to go with the program's next look: nobody knows when that will be.
            self.engine.release_on_wire();
        }
        wait
    }

    /// Somebody calls who is no foreigner, or whom somebody here talks with.
    fn be_called(&mut self) {
        self.rung = true;
        self.called = true;
    }

    /// Says on every ring whose bell must be rung; false if a message came meanwhile.
    fn fall_asleep(&self) -> bool {
        let sleeper = || if self.engine.has_waiter() { Sleeper::Waiter } else { Sleeper::Agent };
        let chosen = sleeper();
        // A waiter that left before the rings named it did not know that they would.
        let asleep = self.engine.say_asleep(chosen) && sleeper() == chosen;
        if asleep {
            self.engine.answer_for_poller();
        }
        asleep
    }

    /// Does what others want that need not be done now; returns when there is more of it.
    fn look_after_others(&mut self, now: Instant) -> Option<Duration> {
        let served = self.serve();
        let looks = [
            self.look_after_newcomers(now),
            self.engine.part_from_silent(now),
            self.look_who_talks(now),
            self.look_after_changers(now),
        ];
        looks.into_iter().chain([served]).flatten().min()
    }

    fn handle(&mut self, event: Ready) {
        match event.token {
            DOORBELL => {
                self.be_called();
                let _ = self.engine.party().doorbell.take();
                self.engine.party().calls.set_awake(Sleeper::Agent);
            }
            WIRE => {
                self.wire_called = true;
                self.be_called();
            }
            token if token >= NEWCOMERS => self.newcomer_called(token),
            token if token >= LINKS => {
                let Some(link) = self.engine.link_of_token(token) else { return };
                if self.engine.is_parted(&link) {
                    self.engine.watch_parted(&link);
                } else if self.engine.is_foreign(&link) {
                    self.queue(token, link);
                } else if link.handle_socket() == LinkEvent::Ended || link.process_ended() {
                    self.be_called();
                    self.accept_all();
                    self.engine.bury(&link);
                } else {
                    self.engine.watch_again(&link);
                    self.be_called();
                }
            }
            ADDRESSES => self.engine.addresses_changed(),
            CHANGING => self.changing_called(Instant::now()),
            token if token < LISTENERS => self.changer_called(token),
            token => self.listener_called((token - LISTENERS) as usize),
        }
    }
}
