//! What the machine itself does among so many processes: a ring from each to each in memory that all have mapped, without a library.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use serde::{Deserialize, Serialize};

use super::mesh::{DEPTH, MESSAGE, Stretch, clock};
use super::process::{PeerArguments, Process, Role, UNTIL_TOLD};
use crate::bench::physical::SharedArea;
use crate::demo::exchange::Exchange;
use crate::demo::failure::{Failure, Outcome};
use crate::verbs::Buffer;

/// Where the messages of a ring begin, behind the words that count those written and those read, each in lines of its own.
const MESSAGES: usize = 256;
const READ: usize = 128;
const RING: usize = MESSAGES + DEPTH as usize * MESSAGE;

/// Looks at rings between two messages that are written.
const LOOKS: usize = 2;

/// What a member is told: where the memory is, and which of how many it is.
#[derive(Deserialize, Serialize)]
struct Seat {
    memory: String,
    own: usize,
    count: usize,
}

/// Starts so many processes.
pub(super) fn start(library: &Path, number: u64) -> Outcome<Vec<Process>> {
    let count = number as usize;
    let made = || -> rustix::io::Result<_> {
        let memory = memfd_create("nonic-bench-mesh", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, SharedArea::file_length(count * count * RING) as u64)?;
        Ok(memory)
    };
    let memory = made().map_err(|error| Failure::new(format!("no shared memory: {error}")))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    let start = |own| -> Outcome<Process> {
        let mut member = Process::start(Role::BareMember, library, &[], number)?;
        member.tell(&Seat { memory: path.clone(), own, count })?;
        Ok(member)
    };
    let mut members = (0..count).map(start).collect::<Outcome<Vec<_>>>()?;
    members.iter_mut().try_for_each(Process::hear)?;
    Ok(members)
}

/// One of the processes.
pub(super) fn member(_: &PeerArguments, control: &mut Exchange) -> Outcome<()> {
    let seat: Seat = control.hear_within(super::SETTING_UP)?;
    let area = File::options().read(true).write(true).open(&seat.memory);
    let area = area.and_then(|file| SharedArea::map(&file));
    let area = area.map_err(|error| Failure::new(format!("{}: {error}", seat.memory)))?;
    let mut desk = Desk {
        area,
        own: seat.own,
        written: vec![0; seat.count],
        read: vec![0; seat.count],
        message: Buffer::new(MESSAGE),
        taken: Buffer::new(seat.count * MESSAGE),
    };
    control.tell(&())?;
    loop {
        let stretch: Stretch = control.hear_within(UNTIL_TOLD)?;
        control.tell(&desk.stream(stretch))?;
    }
}

/// Where the message of that number stands in a ring.
fn place(ring: usize, number: u64) -> usize {
    ring + MESSAGES + (number % u64::from(DEPTH)) as usize * MESSAGE
}

struct Desk {
    area: SharedArea,
    own: usize,
    /// Messages to each and of each.
    written: Vec<u64>,
    read: Vec<u64>,
    message: Buffer,
    taken: Buffer,
}

impl Desk {
    fn ring(&self, from: usize, to: usize) -> usize {
        (from * self.read.len() + to) * RING
    }

    /// Writes the next message to a process, if there is room.
    fn write(&mut self, to: usize) -> bool {
        let ring = self.ring(self.own, to);
        let number = self.written[to];
        if number - self.area.word_of_room(ring + READ).load(Ordering::Acquire) == u64::from(DEPTH) {
            return false;
        }
        self.area.copy_plain(place(ring, number), &self.message, MESSAGE);
        self.written[to] = number + 1;
        self.area.word_of_room(ring).store(number + 1, Ordering::Release);
        true
    }

    /// Reads all messages of a process; how many.
    fn take(&mut self, from: usize) -> u64 {
        let ring = self.ring(from, self.own);
        let (begun, end) = (self.read[from], self.area.word_of_room(ring).load(Ordering::Acquire));
        for number in begun..end {
            self.area.copy_out(place(ring, number), &self.taken, from * MESSAGE, MESSAGE);
            self.area.word_of_room(ring + READ).store(number + 1, Ordering::Release);
        }
        self.read[from] = end;
        end - begun
    }

    /// Writes to one after the other and looks at all rings in turn; how many messages were read.
    fn stream(&mut self, stretch: Stretch) -> u64 {
        let count = self.read.len();
        let end = stretch.wait();
        let (mut next, mut look, mut idle, mut all) = (self.own, self.own, 0, 0);
        while clock() < end {
            let mut moved = false;
            for _ in 0..DEPTH {
                next = (next + 1) % count;
                moved |= next != self.own && self.write(next);
            }
            for _ in 0..LOOKS * DEPTH as usize {
                look = (look + 1) % count;
                let taken = if look == self.own { 0 } else { self.take(look) };
                moved |= taken > 0;
                all += taken;
            }
            idle = if moved { 0 } else { idle + LOOKS * DEPTH as usize };
            if idle >= count {
                std::thread::yield_now();
                idle = 0;
            }
        }
        all
    }
}
