//! Two engines in one process, connected: to each the other is what another process would be.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use nonic_device::{
    Access, Config, Counter, EngineHandle, Operation, Region, RegionMemory, RegionRequest, RemoteRange,
    ScatterGather, Status,
};

use super::{End, NoObserver, program};

/// Bytes of a side's memory.
pub(crate) const LENGTH: usize = 32 * 4096;

/// Whole pages of the program, which peers change behind its back.
pub(crate) struct Memory(*mut u8);

// SAFETY: its bytes are copied in and out, no reference to them exists.
unsafe impl Send for Memory {}
// SAFETY: see above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn new() -> Self {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), LENGTH, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self(start.cast())
    }

    pub(crate) fn address(&self) -> usize {
        self.0 as usize
    }

    pub(crate) fn set(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= LENGTH);
        for (at, byte) in bytes.iter().enumerate() {
            // SAFETY: inside the mapping.
            unsafe { self.0.add(offset + at).write_volatile(*byte) };
        }
    }

    pub(crate) fn get(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= LENGTH);
        // SAFETY: inside the mapping.
        (offset..offset + length).map(|at| unsafe { self.0.add(at).read_volatile() }).collect()
    }

    /// Whether peers can map its first page.
    pub(crate) fn is_adopted(&self) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_here = |line: &str| {
            let (start, rest) = line.split_once('-').unwrap();
            let end = rest.split_once(' ').unwrap().0;
            let [start, end] = [start, end].map(|number| usize::from_str_radix(number, 16).unwrap());
            (start..end).contains(&self.address()) && line.contains(" rw-s ") && line.contains("nonic-pages")
        };
        maps.lines().any(is_here)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: own memory.
        unsafe { libc::munmap(self.0.cast(), LENGTH) };
    }
}

/// Bytes of which those at different places, and of different seeds, differ.
pub(crate) fn some_bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed).collect()
}

/// A queue pair on an engine, with whole pages that peers may use.
pub(crate) struct Side {
    pub(crate) end: End,
    pub(crate) region: Arc<Region>,
    pub(crate) memory: Arc<Memory>,
}

impl Side {
    /// On a device of an engine.
    pub(crate) fn on(engine: &EngineHandle) -> Self {
        Self::with_memory(engine, Arc::new(Memory::new()))
    }

    /// The same over given memory.
    pub(crate) fn with_memory(engine: &EngineHandle, memory: Arc<Memory>) -> Self {
        let context = engine.devices()[0].open().unwrap();
        let completions = context.create_completion_queue(256, 0, None, 0).unwrap();
        let end = End::with_queue(context, completions, None::<Weak<NoObserver>>);
        let region = Self::register(&end, &memory);
        Self { end, region, memory }
    }

    /// Registers all of some memory once more.
    pub(crate) fn register(end: &End, memory: &Memory) -> Arc<Region> {
        let base = memory.address() as u64;
        let memory = RegionMemory::Program { address: program(memory.address()), length: LENGTH };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        end.zone.register(RegionRequest { memory, base, access }).unwrap()
    }

    pub(crate) fn connect(&self, other: &Self) {
        self.end.connect(other.end.pair.number());
        other.end.connect(self.end.pair.number());
    }

    pub(crate) fn piece(&self, offset: usize, length: usize) -> ScatterGather {
        let address = (self.memory.address() + offset) as u64;
        ScatterGather { address, length: length as u32, key: self.region.local_key() }
    }

    /// Its memory as a peer names it.
    pub(crate) fn remote(&self, offset: usize) -> RemoteRange {
        RemoteRange { address: (self.memory.address() + offset) as u64, key: self.region.remote_key() }
    }

    /// Carries one request out.
    pub(crate) fn run(&self, operation: Operation, piece: ScatterGather) -> Status {
        self.end.post(1, operation, &[piece]);
        self.end.completion().status
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.end.context().counters().unwrap().get(counter)
    }

    /// Carries one request out; whether the other engine was asked to.
    pub(crate) fn asks(&self, operation: Operation, piece: ScatterGather) -> bool {
        let before = self.count(Counter::Asked);
        assert_eq!(self.run(operation, piece), Status::Success);
        self.count(Counter::Asked) > before
    }

    /// Reads until that is done without asking: the engines have shown each other what they may see.
    pub(crate) fn meet(&self, other: &Self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.asks(Operation::Read { remote: other.remote(0) }, self.piece(0, 8)) {
            assert!(Instant::now() < deadline, "the engines never trust each other");
        }
    }

    /// Destroys the queue pair and lets go of the engine, which ends with its last side.
    pub(crate) fn leave(self) {
        self.end.context().close();
    }
}

/// Two engines, each with a side that is connected to the other's.
pub(crate) struct Pair {
    pub(crate) engines: [EngineHandle; 2],
    pub(crate) sides: [Side; 2],
}

impl Pair {
    pub(crate) fn new(config: &Config) -> Self {
        Self::of([config.clone(), config.clone()])
    }

    pub(crate) fn of(configs: [Config; 2]) -> Self {
        let engines = configs.map(|config| EngineHandle::create(config).unwrap());
        let sides = engines.each_ref().map(Side::on);
        sides[0].connect(&sides[1]);
        Self { engines, sides }
    }
}
