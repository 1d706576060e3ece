//! What honest processes do.

use std::time::Instant;

use nonic_device::{Operation, ReceiveRequest, Status};

use crate::common::End;

pub(crate) const RECEIVES: u64 = 32;

pub(crate) fn post_receive(end: &End) {
    end.pair.post_receive(&ReceiveRequest { id: 1, pieces: &[end.piece(2048, 2048)] }).unwrap();
}

/// Sends `count` messages in turn with the other end, and looks at each that comes. Returns the time in nanoseconds.
pub(crate) fn play(end: &mut End, count: u64, begins: bool) -> u64 {
    let began = Instant::now();
    for number in 0..count {
        let send = |end: &mut End| {
            end.buffer[..8].copy_from_slice(&number.to_le_bytes());
            end.post(2, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
        };
        if begins {
            send(end);
        }
        let (mut received, mut sent) = (false, !begins);
        while !received || !sent {
            let completion = end.completion();
            assert_eq!(completion.status, Status::Success, "message {number}");
            if completion.id == 1 {
                assert_eq!(completion.byte_length, 64);
                assert_eq!(end.buffer[2048..2056], number.to_le_bytes());
                received = true;
                post_receive(end);
            } else {
                sent = true;
            }
        }
        if !begins {
            send(end);
            assert_eq!(end.completion().status, Status::Success);
        }
    }
    began.elapsed().as_nanos() as u64
}
