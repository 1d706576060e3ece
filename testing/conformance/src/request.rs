//! Send-queue requests, as rules write them.

use nonic_device::{FlushRequest, Operation, Placement, RemoteRange, ScatterGather, Selectivity, SendFlags};

use crate::command::{Destination, Send};

fn request(operation: Operation, pieces: &[ScatterGather]) -> Send {
    Send {
        id: 1,
        operation,
        flags: SendFlags::default(),
        pieces: pieces.to_vec(),
        destination: None,
        queue: None,
    }
}

/// A request of no bytes.
pub(crate) fn of(operation: Operation) -> Send {
    request(operation, &[])
}

pub(crate) fn send(pieces: &[ScatterGather]) -> Send {
    request(Operation::Send { immediate: None }, pieces)
}

pub(crate) fn write(pieces: &[ScatterGather], remote: RemoteRange) -> Send {
    request(Operation::Write { remote, immediate: None }, pieces)
}

pub(crate) fn read(pieces: &[ScatterGather], remote: RemoteRange) -> Send {
    request(Operation::Read { remote }, pieces)
}

pub(crate) fn fetch_add(piece: ScatterGather, remote: RemoteRange, add: u64) -> Send {
    request(Operation::FetchAdd { remote, add }, &[piece])
}

pub(crate) fn compare_swap(piece: ScatterGather, remote: RemoteRange, compare: u64, swap: u64) -> Send {
    request(Operation::CompareSwap { remote, compare, swap }, &[piece])
}

/// A flush to visibility.
pub(crate) fn flush(remote: RemoteRange, length: u64, selectivity: Selectivity) -> Send {
    flush_to(Placement::GLOBAL, remote, length, selectivity)
}

pub(crate) fn flush_to(
    placement: Placement,
    remote: RemoteRange,
    length: u64,
    selectivity: Selectivity,
) -> Send {
    let length = u32::try_from(length).expect("it is short");
    of(Operation::Flush { flush: FlushRequest { remote, length, placement, selectivity } })
}

impl Send {
    pub(crate) fn id(self, id: u64) -> Self {
        Self { id, ..self }
    }

    pub(crate) fn signaled(mut self) -> Self {
        self.flags.signaled = true;
        self
    }

    pub(crate) fn solicited(mut self) -> Self {
        self.flags.solicited = true;
        self
    }

    pub(crate) fn inline(mut self) -> Self {
        self.flags.inline = true;
        self
    }

    pub(crate) fn fence(mut self) -> Self {
        self.flags.fence = true;
        self
    }

    pub(crate) fn immediate(mut self, value: u32) -> Self {
        match &mut self.operation {
            Operation::Send { immediate } | Operation::Write { immediate, .. } => *immediate = Some(value),
            other => panic!("{other:?} carries no immediate data"),
        }
        self
    }

    /// Names a shared receive queue.
    pub(crate) fn naming(self, queue: u32) -> Self {
        Self { queue: Some(queue), ..self }
    }

    pub(crate) fn to(self, destination: Destination) -> Self {
        Self { destination: Some(destination), ..self }
    }
}
