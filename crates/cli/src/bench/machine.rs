//! The physical references: the same things without any library, between the same two processors.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::job::{Copy, Job, Order, Sample, Unit, median};
use super::physical::{SharedArea, nanoseconds_a_tick, ticks, write_process};
use super::worker::{Side, wait_until};
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome, ensure};
use crate::verbs::Buffer;

/// Room for copies. They go through half of it in turn, as a ring of buffers would.
pub(super) const ROOM: usize = 4 << 20;

/// Bytes moved in one batch of copies, of which the median counts.
const BATCH: usize = 4 << 20;

/// The words: signals each way, the contended one, one alone, and the sign that contention is over.
const PING: usize = 0;
const PONG: usize = 2;
const CONTENDED: usize = 4;
const ALONE: usize = 6;
const STATE: usize = 8;

/// What both processes share.
pub(super) struct Machine {
    area: SharedArea,
    /// Told by the initiator, and by the target.
    events: [File; 2],
    source: Buffer,
    /// How often the lines have gone back and forth.
    turns: u64,
}

impl Machine {
    /// On the descriptors that the parent made: shared memory and an eventfd each way.
    pub(super) fn new([memory, forth, back]: [OwnedFd; 3]) -> Outcome<Self> {
        let area = SharedArea::map(&File::from(memory));
        let area = area.map_err(|error| Failure::new(format!("no shared memory: {error}")))?;
        let source = Buffer::new(1 << 20);
        source.fill(0..1 << 20, 1);
        Ok(Self { area, events: [forth, back].map(File::from), source, turns: 0 })
    }

    /// Measures; the target's answer means nothing.
    pub(super) fn perform(&mut self, side: Side, order: &Order, peer: &mut Exchange) -> Outcome<Sample> {
        match order.job {
            Job::Line => self.line(side),
            Job::Wake => self.wake(side, order, peer),
            Job::Copy(Copy::Kernel, size) => self.kernel_copy(side, size, peer),
            Job::Copy(copy, size) => {
                peer.meet()?;
                if side == Side::Target { Ok(nothing()) } else { self.copy(copy, size) }
            }
            Job::AtomicAlone => {
                peer.meet()?;
                Ok(self.add(ALONE, order))
            }
            Job::AtomicContended => self.contend(side, order, peer),
            _ => Err(Failure::new("this needs the device, and this process has none")),
        }
    }

    /// Two words, each written by one process and watched by the other.
    fn line(&mut self, side: Side) -> Outcome<Sample> {
        const BATCHES: usize = 15;
        const TURNS: u64 = 200;
        let (ping, pong) = (self.area.word(PING), self.area.word(PONG));
        let mut times = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            let begun = ticks();
            for turn in self.turns + 1..=self.turns + TURNS {
                match side {
                    Side::Initiator => {
                        ping.store(turn, Ordering::Release);
                        wait_until("a cache line", || Ok(pong.load(Ordering::Acquire) == turn))?;
                    }
                    // Two processes that both look without a pause get in each other's way.
                    Side::Target => {
                        wait_until("a cache line", || {
                            let here = ping.load(Ordering::Acquire) == turn;
                            if !here {
                                std::hint::spin_loop();
                            }
                            Ok(here)
                        })?;
                        pong.store(turn, Ordering::Release);
                    }
                }
            }
            times.push((ticks() - begun) as f64 * nanoseconds_a_tick() / (2 * TURNS) as f64);
            self.turns += TURNS;
        }
        Ok(Sample::of(median(&times), Unit::Nanoseconds))
    }

    /// Each process sleeps until the other wakes it.
    fn wake(&self, side: Side, order: &Order, peer: &mut Exchange) -> Outcome<Sample> {
        let [forth, back] = &self.events;
        let failed = |error: rustix::io::Errno| Failure::new(format!("an eventfd fails: {error}"));
        let tell = |event: &File| rustix::io::write(event, &1_u64.to_ne_bytes()).map_err(failed);
        let hear = |event: &File| rustix::io::read(event, &mut [0; 8]).map_err(failed);
        let turn = || match side {
            Side::Initiator => tell(forth).and_then(|_| hear(back)),
            Side::Target => hear(forth).and_then(|_| tell(back)),
        };
        let count = 500.max((order.budget.as_micros() / 10) as usize);
        peer.meet()?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let begun = ticks();
            turn()?;
            times.push((ticks() - begun) as f64 * nanoseconds_a_tick() / 2.0);
        }
        Ok(Sample::of_times(times))
    }

    fn copy(&self, copy: Copy, size: usize) -> Outcome<Sample> {
        let length = size.next_multiple_of(128);
        self.batches(size, |at| {
            match copy {
                Copy::NonTemporal => {
                    let copied = self.area.copy_past_caches(at, &self.source, length);
                    ensure(copied, || "this processor has no stores that pass the caches".to_owned())?;
                }
                _ => self.area.copy_plain(at, &self.source, length),
            }
            Ok(())
        })
    }

    fn kernel_copy(&self, side: Side, size: usize, peer: &mut Exchange) -> Outcome<Sample> {
        if side == Side::Target {
            let memory = Buffer::new(ROOM);
            peer.tell(&(std::process::id(), memory.as_ptr().addr() as u64))?;
            peer.meet()?;
            return Ok(nothing());
        }
        let (pid, address): (u32, u64) = peer.hear()?;
        let sample = self.batches(size, |at| {
            let written = write_process(pid, address + at as u64, &self.source, size);
            written.map_err(|error| Failure::new(format!("process_vm_writev fails: {error}")))
        });
        peer.meet()?;
        sample
    }

    /// Copies per second, of the median of some batches.
    fn batches(&self, size: usize, mut copy: impl FnMut(usize) -> Outcome<()>) -> Outcome<Sample> {
        let stride = size.next_multiple_of(4096);
        let copies = (BATCH / stride).max(1);
        let mut times = Vec::new();
        for _ in 0..7 {
            let begun = ticks();
            for number in 0..copies {
                copy(number * stride % (ROOM / 2))?;
            }
            times.push((ticks() - begun) as f64 * nanoseconds_a_tick() / 1e9);
        }
        Ok(Sample::of(copies as f64 / median(&times), Unit::OperationsPerSecond))
    }

    fn contend(&self, side: Side, order: &Order, peer: &mut Exchange) -> Outcome<Sample> {
        let state = self.area.word(STATE);
        if side == Side::Target {
            let word = self.area.word(CONTENDED);
            state.store(1, Ordering::Release);
            while state.load(Ordering::Acquire) == 1 {
                for _ in 0..100 {
                    word.fetch_add(1, Ordering::AcqRel);
                }
            }
            peer.meet()?;
            return Ok(nothing());
        }
        wait_until("the other process to contend", || Ok(state.load(Ordering::Acquire) == 1))?;
        let sample = self.add(CONTENDED, order);
        state.store(0, Ordering::Release);
        peer.meet()?;
        Ok(sample)
    }

    /// Additions to a word, as time of one.
    fn add(&self, word: usize, order: &Order) -> Sample {
        let word = self.area.word(word);
        let (clock, begun) = (Instant::now(), ticks());
        let mut count = 0_u32;
        while clock.elapsed() < order.budget || count == 0 {
            for _ in 0..1000 {
                word.fetch_add(1, Ordering::AcqRel);
            }
            count += 1000;
        }
        let time = (ticks() - begun) as f64 * nanoseconds_a_tick();
        Sample::of(time / f64::from(count), Unit::Nanoseconds)
    }
}

/// What the side answers that does not measure.
pub(super) fn nothing() -> Sample {
    Sample::of(0.0, Unit::Nanoseconds)
}
