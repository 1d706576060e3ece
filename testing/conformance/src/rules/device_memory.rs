//! Device memory: DM-1 to DM-7.

use nonic_device::{Access, Status};

use crate::command::{Answer, Command, MemoryKind, Source};
use crate::memory::{EVERYTHING, pattern};
use crate::options::RELIABLE;
use crate::pair::Pair;
use crate::request::{compare_swap, fetch_add, read, send, write};
use crate::side::Side;

fn allocate(side: &mut Side, length: u64, log_alignment: u32) -> u32 {
    side.make(Command::Buffer { kind: MemoryKind::Device, length, log_alignment })
}

pub(super) fn copy_in(side: &mut Side, buffer: u32, offset: u64, bytes: &[u8]) {
    side.must(Command::CopyIn { buffer, offset, bytes: bytes.to_vec(), length: bytes.len() as u64 });
}

pub(super) fn copy_out(side: &mut Side, buffer: u32, offset: u64, length: u64) -> Vec<u8> {
    match side.run(Command::CopyOut { buffer, offset, length }) {
        Ok(Answer::Bytes { bytes }) => bytes,
        other => panic!("no bytes: {other:?}"),
    }
}

pub(crate) fn device_memory_is_given_by_length_and_alignment_and_is_zero(pair: &mut Pair) {
    for (length, log_alignment) in [(4, 0), (64, 3), (100, 6), (4096, 12), (1 << 20, 16)] {
        let dirty = allocate(&mut pair.client, length, log_alignment);
        assert!(copy_out(&mut pair.client, dirty, 0, length).iter().all(|byte| *byte == 0));
        copy_in(&mut pair.client, dirty, 0, &vec![0xFF; length as usize]);
        pair.client.must(Command::FreeBuffer { buffer: dirty });
        let again = allocate(&mut pair.client, length, log_alignment);
        assert!(copy_out(&mut pair.client, again, 0, length).iter().all(|byte| *byte == 0));
    }
}

pub(crate) fn device_memory_of_no_bytes_or_more_than_there_is_is_refused(pair: &mut Pair) {
    let all = pair.client.ask(Command::Limits {})[0];
    let kind = MemoryKind::Device;
    pair.client.refuses(Command::Buffer { kind, length: 0, log_alignment: 0 }, "Arena(Empty");
    pair.client.refuses(Command::Buffer { kind, length: all + 1, log_alignment: 0 }, "Arena(TooLong");
    pair.client.refuses(Command::Buffer { kind, length: u64::MAX, log_alignment: 0 }, "Arena(TooLong");
    for log_alignment in [27, 63, 64, u32::MAX] {
        pair.client.refuses(Command::Buffer { kind, length: 64, log_alignment }, "Arena(Alignment");
    }
    // Nothing of it was taken.
    let whole = allocate(&mut pair.client, all, 0);
    pair.client.must(Command::FreeBuffer { buffer: whole });
}

pub(crate) fn the_start_honours_the_alignment_so_that_atomics_may_target_it(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let result = pair.client.memory(client.zone, 8, Access::LOCAL_WRITE);
    for log_alignment in 0..=16 {
        // An odd piece before it, so that the next free byte is not aligned by chance.
        allocate(&mut pair.server, 4, 0);
        let buffer = allocate(&mut pair.server, 8, log_alignment);
        let source = Source::Buffer { buffer, offset: 0, length: 8 };
        let (_, _, key) = pair.server.register(server.zone, source, Some(0), EVERYTHING).unwrap();
        let word = nonic_device::RemoteRange { address: 0, key };
        assert_eq!(pair.client.carry_out(&client, fetch_add(result.all(), word, 5)), Status::Success);
        assert_eq!(copy_out(&mut pair.server, buffer, 0, 8), 5u64.to_ne_bytes());
    }
    // Where a piece begins shows in how many there is room for: one in each eighth, but not in the first, which is begun.
    let all = pair.client.ask(Command::Limits {})[0];
    let eighth = all.ilog2() - 3;
    allocate(&mut pair.client, 4, 0);
    for _ in 1..all >> eighth {
        allocate(&mut pair.client, 64, eighth);
    }
    let more = Command::Buffer { kind: MemoryKind::Device, length: 64, log_alignment: eighth };
    pair.client.refuses(more, "Arena(NoRoom");
}

pub(crate) fn device_memory_ends_at_its_limit_and_freed_memory_is_there_again(pair: &mut Pair) {
    let all = pair.client.ask(Command::Limits {})[0];
    assert!(all > 0);
    let quarters: Vec<u32> = (0..4).map(|_| allocate(&mut pair.client, all / 4, 0)).collect();
    let more = Command::Buffer { kind: MemoryKind::Device, length: 1, log_alignment: 0 };
    pair.client.refuses(more.clone(), "Arena(NoRoom");
    copy_in(&mut pair.client, quarters[3], all / 4 - 4, b"last");
    pair.client.must(Command::FreeBuffer { buffer: quarters[1] });
    pair.client.must(Command::FreeBuffer { buffer: quarters[2] });
    let half = allocate(&mut pair.client, all / 2, 0);
    pair.client.refuses(more, "Arena(NoRoom");
    assert_eq!(copy_out(&mut pair.client, quarters[3], all / 4 - 4, 4), b"last");
    assert_eq!(copy_out(&mut pair.client, half, all / 2 - 4, 4), [0; 4]);
}

pub(crate) fn copies_go_to_and_from_a_byte_offset(pair: &mut Pair) {
    let buffer = allocate(&mut pair.client, 4096, 0);
    let mut expected = vec![0; 4096];
    let words = [(0, 4), (4, 8), (1000, 2000), (4092, 4), (0, 0), (4096, 0), (0, 4096)];
    let bytes = [(1, 4), (2, 4), (0, 3), (4, 6), (4095, 1), (63, 1001)];
    for (offset, length) in words.into_iter().chain(bytes) {
        let bytes = pattern(offset, length);
        copy_in(&mut pair.client, buffer, offset, &bytes);
        expected[offset as usize..][..length as usize].copy_from_slice(&bytes);
        assert_eq!(copy_out(&mut pair.client, buffer, offset, length), bytes);
        assert!(
            copy_out(&mut pair.client, buffer, 0, 4096) == expected,
            "bytes beside {offset}+{length} changed"
        );
    }
}

pub(crate) fn copies_out_of_range_are_refused_and_move_nothing(pair: &mut Pair) {
    let neighbour = allocate(&mut pair.client, 128, 0);
    let buffer = allocate(&mut pair.client, 100, 0);
    let behind = allocate(&mut pair.client, 128, 0);
    let (filled, bytes) = (pattern(1, 100), vec![9; 104]);
    copy_in(&mut pair.client, buffer, 0, &filled);
    let beyond = [(0, 104), (100, 4), (96, 8), (u64::MAX - 3, 8), (4, u64::MAX - 3), (1 << 40, 4)];
    for (offset, length) in beyond {
        let bytes = bytes.clone();
        pair.client.refuses(Command::CopyIn { buffer, offset, bytes, length }, "OutOfRange");
        pair.client.refuses(Command::CopyOut { buffer, offset, length }, "OutOfRange");
    }
    assert_eq!(copy_out(&mut pair.client, buffer, 0, 100), filled);
    for other in [neighbour, behind] {
        assert_eq!(copy_out(&mut pair.client, other, 0, 128), [0; 128]);
    }
}

pub(crate) fn a_range_of_device_memory_registers_and_one_beyond_it_does_not(pair: &mut Pair) {
    let zone = pair.client.zone();
    let buffer = allocate(&mut pair.client, 4000, 0);
    for (offset, length) in [(0, 4000), (0, 1), (3999, 1), (100, 200), (0, 0), (4000, 0)] {
        let source = Source::Buffer { buffer, offset, length };
        let (region, ..) = pair.client.register(zone, source, Some(0), EVERYTHING).unwrap();
        pair.client.must(Command::Deregister { region });
    }
    for (offset, length) in [(0, 4001), (4000, 1), (3999, 2), (4001, 0), (u64::MAX, 1), (1, u64::MAX)] {
        let source = Source::Buffer { buffer, offset, length };
        let refused = pair.client.register(zone, source, Some(0), EVERYTHING).unwrap_err();
        assert!(refused.starts_with("BeyondDeviceMemory"), "{refused}");
    }
    // No refused region holds the memory.
    pair.client.must(Command::FreeBuffer { buffer });
}

pub(crate) fn a_region_of_device_memory_is_zero_based_and_serves_every_operation(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory_of(MemoryKind::Device, client.zone, 512, None, EVERYTHING);
    let far = pair.server.memory_of(MemoryKind::Device, server.zone, 512, None, EVERYTHING);
    assert_eq!((near.base, far.base), (0, 0));
    let bytes = pattern(3, 512);
    pair.client.write(&near, 0, &bytes);

    assert_eq!(
        pair.client.carry_out(&client, write(&[near.piece(16, 100)], far.remote(32))),
        Status::Success
    );
    assert_eq!(pair.server.read(&far, 32, 100), &bytes[16..116]);

    pair.server.receive(&server, 7, &[far.piece(200, 50), far.piece(300, 50)]);
    assert_eq!(
        pair.client.carry_out(&client, send(&[near.piece(0, 40), near.piece(400, 60)])),
        Status::Success
    );
    let received = pair.server.received(&server);
    assert_eq!((received.status, received.id, received.byte_length), (Status::Success, 7, 100));
    let sent = [&bytes[..40], &bytes[400..460]].concat();
    assert_eq!([pair.server.read(&far, 200, 50), pair.server.read(&far, 300, 50)].concat(), sent);

    assert_eq!(pair.client.carry_out(&client, read(&[near.piece(0, 100)], far.remote(32))), Status::Success);
    assert_eq!(pair.client.read(&near, 0, 100), &bytes[16..116]);

    pair.server.write(&far, 0, &40u64.to_ne_bytes());
    assert_eq!(
        pair.client.carry_out(&client, fetch_add(near.piece(8, 8), far.remote(0), 2)),
        Status::Success
    );
    let swap = compare_swap(near.piece(16, 8), far.remote(0), 42, 99);
    assert_eq!(pair.client.carry_out(&client, swap), Status::Success);
    let seen = [pair.client.word(&near, 8), pair.client.word(&near, 16), pair.server.word(&far, 0)];
    assert_eq!(seen, [40, 42, 99]);

    let beyond = write(&[near.piece(0, 2)], far.remote(511));
    assert_eq!(pair.client.carry_out(&client, beyond), Status::RemoteAccess);
}

pub(crate) fn device_memory_with_a_region_cannot_go_and_loses_nothing(pair: &mut Pair) {
    let (client, server) = pair.connect(&RELIABLE);
    let near = pair.client.memory(client.zone, 64, EVERYTHING);
    let far = pair.server.memory_of(MemoryKind::Device, server.zone, 64, None, EVERYTHING);
    let second = pair.server.register_again(far, server.zone, Access::REMOTE_READ);
    let bytes = pattern(4, 64);
    pair.server.write(&far, 0, &bytes);
    pair.server.refuses(Command::FreeBuffer { buffer: far.buffer }, "Busy");
    pair.server.must(Command::Deregister { region: far.region });
    pair.server.refuses(Command::FreeBuffer { buffer: far.buffer }, "Busy");
    assert_eq!(pair.client.carry_out(&client, read(&[near.all()], second.remote(0))), Status::Success);
    pair.client.assert_holds(&near, &bytes);
    pair.server.assert_holds(&far, &bytes);
    pair.server.must(Command::Deregister { region: second.region });
    pair.server.must(Command::FreeBuffer { buffer: far.buffer });
    let copy = Command::CopyOut { buffer: far.buffer, offset: 0, length: 4 };
    pair.server.refuses(copy, "Freed");
}
