//! What a side can be told to do, and what it answers. Objects are named by the number their creation returned.

use nonic_device::{
    Access, AddressVector, AttributeMask, Capabilities, Completion, Operation, QpAttributes, QpNumber,
    QpType, ScatterGather, SendFlags, WindowKind,
};

use crate::wire::{wire_choice, wire_fields, wire_values};

/// Where the bytes of a buffer live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// Memory of the process alone.
    Private,
    /// A memfd of the program, mapped shared.
    Shared,
    /// Device memory.
    Device,
    /// Memory that may only be read.
    ReadOnly,
    /// Three pages, of which the second cannot be touched.
    Hole,
    /// Whole pages of the process, registered as such: adopted, where memory is.
    Pages,
}

wire_values!(MemoryKind [Self::Private, Self::Shared, Self::Device, Self::ReadOnly, Self::Hole, Self::Pages]);

/// What a window or a mapping of one allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowRights {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

wire_fields!(WindowRights { read, write });

wire_choice! {
    /// What to register.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Source {
        /// A part of a buffer, whatever its kind.
        Buffer { buffer: u32, offset: u64, length: u64 },
        /// Addresses.
        Raw { address: u64, length: u64 },
        /// Addresses, whatever is there when they are used.
        OnDemand { address: u64, length: u64 },
    }
}

/// A datagram's destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) vector: AddressVector,
    pub(crate) zone: u32,
    pub(crate) number: QpNumber,
    pub(crate) q_key: u32,
}

wire_fields!(Destination { vector, zone, number, q_key });

/// A send-queue request.
#[derive(Clone, Debug)]
pub(crate) struct Send {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: SendFlags,
    pub(crate) pieces: Vec<ScatterGather>,
    pub(crate) destination: Option<Destination>,
    /// The number of the shared receive queue it names, on an extended connection.
    pub(crate) queue: Option<u32>,
}

wire_fields!(Send { id, operation, flags, pieces, destination, queue });

/// A receive.
#[derive(Clone, Debug)]
pub(crate) struct Receive {
    pub(crate) id: u64,
    pub(crate) pieces: Vec<ScatterGather>,
}

wire_fields!(Receive { id, pieces });

wire_choice! {
    /// Work for another thread of the side; its result is one number.
    #[derive(Clone, Debug)]
    pub(crate) enum Job {
        /// Adds 1 to a word with the CPU, so many times. Result: 0.
        CpuAdd { buffer: u32, offset: u64, count: u64 },
        /// Computes until a byte has a value, without one call of the library. Result: when that was.
        Watch { buffer: u32, offset: u64, value: u8 },
        /// Looks at the last byte of a range until it has a value, then at the others: how many had not.
        WatchRange { buffer: u32, offset: u64, length: u64, value: u8 },
        /// Destroys a completion queue. Result: 0.
        DestroyQueue { queue: u32 },
        /// Destroys a queue pair. Result: 0.
        DestroyPair { pair: u32 },
        /// Destroys a shared receive queue. Result: 0.
        DestroyShared { queue: u32 },
        /// Sleeps until a completion event comes. Result: when that was.
        SleepOnChannel { channel: u32 },
        /// Posts a request so many times, each after the last has completed.
        Repeat { pair: u32, queue: u32, request: Send, count: u64 },
        /// The same until one fails. Result: how it ended.
        RepeatUntilRefused { pair: u32, queue: u32, request: Send },
    }
}

wire_choice! {
    /// One command.
    #[derive(Clone, Debug)]
    pub(crate) enum Command {
        /// Gives everything back; an error if something cannot go.
        Reset {},
        /// How to reach this side: LID, then the GID's bytes.
        Address {},
        /// Device memory, reads of a queue pair, inline bytes, completion entries, requests, pieces, message bytes.
        Limits {},
        /// Datagrams refused for their Q_Key so far.
        KeyViolations {},
        Zone {},
        ReleaseZone { zone: u32 },
        /// Number and address.
        Buffer { kind: MemoryKind, length: u64, log_alignment: u32 },
        FreeBuffer { buffer: u32 },
        Peek { buffer: u32, offset: u64, length: u64 },
        Poke { buffer: u32, offset: u64, bytes: Vec<u8> },
        /// The calls of device memory, as they are.
        CopyIn { buffer: u32, offset: u64, bytes: Vec<u8>, length: u64 },
        CopyOut { buffer: u32, offset: u64, length: u64 },
        /// Number, local key, remote key.
        Register { zone: u32, source: Source, base: Option<u64>, access: Access },
        Deregister { region: u32 },
        /// Another region on the same placed memory: number, local key, remote key.
        Share { region: u32, zone: u32, access: Access },
        /// A shadow of a region's memory: number, local key, remote key.
        Shadow { region: u32, zone: u32, access: Access },
        /// Makes a shadow and the program's memory consistent; whether it was done: 1 or 0.
        Synchronize { region: u32, address: u64, length: u64 },
        /// Shows peers what the program wrote under a shadow; whether it was done: 1 or 0.
        Publish { region: u32, address: u64, length: u64 },
        /// Number, the engine's own, key.
        AllocateWindow { zone: u32, kind: WindowKind },
        /// The key a window of type 1 offers for its next bind.
        NextKey { window: u32 },
        /// The key that holds.
        WindowKey { window: u32 },
        ReleaseWindow { window: u32 },
        /// Whether all bytes lie in a file that peers can map, as the kernel tells: 1 or 0.
        IsInFile { address: u64, length: u64 },
        AddressHandle { zone: u32, vector: AddressVector },
        DestroyAddressHandle { handle: u32 },
        Channel {},
        DestroyChannel { channel: u32 },
        /// Number and entries.
        Queue { entries: u32, vector: u32, channel: Option<u32> },
        Resize { queue: u32, entries: u32 },
        DestroyQueue { queue: u32 },
        Poll { queue: u32, most: u32 },
        /// Begins a batch, which takes so many at a time, reads so many, gives back what it took besides, and ends it.
        Batch { queue: u32, ahead: u32, reads: u32 },
        /// Polls until so many completions came or the time is over.
        Await { queue: u32, count: u32, within_ms: u64 },
        Arm { queue: u32, solicited: bool },
        /// The queue, or nothing.
        NextEvent { channel: u32, within_ms: u64 },
        AcknowledgeEvents { queue: u32, count: u32 },
        Shared { zone: u32, requests: u32, pieces: u32, limit: u32 },
        SetLimit { queue: u32, limit: u32 },
        ResizeShared { queue: u32, requests: u32, limit: Option<u32> },
        PostShared { queue: u32, receives: Vec<Receive> },
        DestroyShared { queue: u32 },
        /// An XRC domain that nobody else has.
        Domain {},
        /// Of a file that this makes: the number of the domain, and where any side finds the file: the process, and the descriptor there.
        DomainOfFile {},
        /// The number of the domain of a file that a side has made.
        SameDomain { process: u32, descriptor: u32 },
        CloseDomain { domain: u32 },
        /// A shared receive queue of a domain, which completes to a queue: number, and the number that requests name.
        DomainQueue { domain: u32, zone: u32, completions: u32 },
        /// A queue pair of a domain: number and queue-pair number.
        Target { domain: u32 },
        /// By what another side imports the device that this one has opened: the process, and the descriptor there.
        Descriptor {},
        /// Each gives a handle of something, by which another side imports it.
        LendZone { zone: u32 },
        LendRegion { region: u32 },
        LendDeviceMemory { buffer: u32 },
        /// Imports an open device. What the side makes from then on it makes there, until it is reset.
        ImportDevice { process: u32, descriptor: u32 },
        /// Number of a zone.
        ImportZone { handle: u32 },
        /// Number, local key, remote key.
        ImportRegion { handle: u32 },
        /// Number of a buffer.
        ImportDeviceMemory { handle: u32 },
        /// Number and queue-pair number.
        Pair {
            zone: u32,
            transport: QpType,
            send_queue: u32,
            receive_queue: u32,
            shared: Option<u32>,
            capabilities: Capabilities,
            signal_all: bool,
        },
        Sizes { pair: u32 },
        DestroyPair { pair: u32 },
        Modify { pair: u32, attributes: QpAttributes, mask: AttributeMask },
        Attributes { pair: u32 },
        PostSend { pair: u32, requests: Vec<Send> },
        PostReceive { pair: u32, receives: Vec<Receive> },
        /// Kind, kind of element, number of the element; or nothing.
        NextAsyncEvent { within_ms: u64 },
        AcknowledgeAsyncEvent { element: u8, number: u32 },
        /// A listening endpoint of SCIF: number, node, port.
        Listen {},
        /// An endpoint that has asked a listener for a connection, without waiting.
        Ask { node: u16, port: u16 },
        /// The endpoint of the next request.
        Accept { listener: u32 },
        /// Ends the asking: it was accepted.
        Collect { endpoint: u32, node: u16, port: u16 },
        CloseEndpoint { endpoint: u32 },
        /// The offset. Offsets travel as the unsigned number with the same bits.
        OpenWindow { endpoint: u32, address: u64, length: u64, offset: u64, rights: WindowRights, fixed: bool },
        CloseWindow { endpoint: u32, offset: u64, length: u64 },
        /// Number of a buffer, and its address.
        MapWindow { endpoint: u32, offset: u64, length: u64, rights: WindowRights },
        /// The four transfers, each complete when it returns.
        ReadFrom { endpoint: u32, local: u64, length: u64, remote: u64 },
        WriteTo { endpoint: u32, local: u64, length: u64, remote: u64 },
        ReadInto { endpoint: u32, address: u64, length: u64, remote: u64 },
        WriteOut { endpoint: u32, address: u64, length: u64, remote: u64 },
        /// Puts other pages, or none that can be touched, at the addresses of a buffer.
        Replace { buffer: u32, touchable: bool },
        /// A child of the process stores bytes to a buffer and ends: the status it ended with.
        StoreInChild { buffer: u32, bytes: Vec<u8> },
        Background { job: Job },
        /// Whether all jobs have ended: 1 or 0.
        IsDone {},
        /// The results of all jobs.
        Join { within_ms: u64 },
    }
}

wire_choice! {
    /// What a command came to.
    #[derive(Clone, Debug)]
    pub(crate) enum Answer {
        Nothing {},
        Numbers { numbers: Vec<u64> },
        Bytes { bytes: Vec<u8> },
        Completions { completions: Vec<Completion> },
        Attributes { attributes: QpAttributes },
    }
}

/// An answer, or why the call was refused, as the engine's error prints itself.
pub(crate) type Reply = Result<Answer, String>;
