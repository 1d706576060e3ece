//! What windows refuse.

use super::{
    BOTH, Connection, Pages, READ, TOP, WRITE, assert_no_window, connect, fill, open, pages, read, scene,
    write,
};
use crate::command::{Command, MemoryKind, WindowRights};
use crate::memory::pattern;
use crate::pair::Pair;
use crate::program_memory::PAGE;

pub(crate) fn what_a_window_does_not_allow_is_refused_and_moves_nothing(pair: &mut Pair) {
    let connection = connect(pair);
    let (near, kind) = (connection.near, pair.arrangement.memory);
    let far = pages(&mut pair.server, kind, 3);
    let own = pages(&mut pair.client, kind, 1);
    let local = pair.client.ask(open(near, own, 1, None, BOTH))[0];
    fill(&mut pair.server, far, 0, &pattern(1, 3 * PAGE));
    fill(&mut pair.client, own, 0, &pattern(2, PAGE));
    let nobody = WindowRights { read: false, write: false };
    for (page, rights) in [READ, WRITE, nobody].into_iter().enumerate() {
        let page = Pages { address: far.address + page as u64 * PAGE, ..far };
        let offset = pair.server.ask(open(connection.far, page, 1, None, rights))[0];
        if !rights.read {
            assert_eq!(read(&mut pair.client, near, offset, 8), Err("Protected".into()));
            let command = Command::ReadFrom { endpoint: near, local, length: 8, remote: offset };
            pair.client.refuses(command, "Protected");
        }
        if !rights.write {
            assert_eq!(write(&mut pair.client, near, offset, b"x").map(drop), Err("Protected".into()));
            let command = Command::WriteTo { endpoint: near, local, length: 8, remote: offset };
            pair.client.refuses(command, "Protected");
        }
        for wanted in [BOTH, READ, WRITE] {
            if (wanted.read && !rights.read) || (wanted.write && !rights.write) {
                let map = Command::MapWindow { endpoint: near, offset, length: PAGE, rights: wanted };
                pair.client.refuses(map, "Protected");
            }
        }
    }
    // Own windows have rights too.
    let page = Pages { address: own.address, ..own };
    let read_only = pair.client.ask(open(near, page, 1, None, READ))[0];
    let into = Command::ReadFrom { endpoint: near, local: read_only, length: 8, remote: TOP };
    pair.client.refuses(into, "Protected");
    assert!(pair.server.peek(far.buffer, 0, 3 * PAGE) == pattern(1, 3 * PAGE));
    assert!(pair.client.peek(own.buffer, 0, PAGE) == pattern(2, PAGE));
}

pub(crate) fn every_other_refusal_opens_closes_and_moves_nothing(pair: &mut Pair) {
    let scene = scene(pair, 2);
    let Connection { near, far } = scene.connection;
    // Memory that is not there, has a hole, or may not be written.
    let hole = pages(&mut pair.server, MemoryKind::Hole, 3);
    pair.server.refuses(open(far, hole, 3, None, BOTH), "BadMemory");
    pair.server.refuses(open(far, hole, 3, Some(0x3000), READ), "BadMemory");
    let nowhere = Pages { buffer: 0, address: 0 };
    pair.server.refuses(open(far, nowhere, 1, None, READ), "BadMemory");
    let fixed = pages(&mut pair.server, MemoryKind::ReadOnly, 1);
    pair.server.refuses(open(far, fixed, 1, None, BOTH), "BadMemory");
    pair.server.refuses(open(far, fixed, 1, Some(0x3000), WRITE), "BadMemory");
    // Offsets that are none.
    for offset in [u64::MAX - PAGE + 1, 1 << 63] {
        pair.server.refuses(open(far, scene.far, 1, Some(offset), BOTH), "Invalid");
        let command = Command::OpenWindow {
            endpoint: far,
            address: scene.far.address,
            length: PAGE,
            offset,
            rights: BOTH,
            fixed: false,
        };
        pair.server.refuses(command, "Invalid");
    }
    // What is closed in part, twice or where nothing is.
    for (offset, length, error) in [
        (scene.offset, PAGE, "Invalid"),
        (scene.offset + PAGE, PAGE, "Invalid"),
        (scene.offset, 0, "Invalid"),
        (scene.offset + 8, PAGE, "Invalid"),
        (scene.offset + 2 * PAGE, PAGE, "NoWindow"),
        (0x3000, PAGE, "NoWindow"),
    ] {
        pair.server.refuses(Command::CloseWindow { endpoint: far, offset, length }, error);
    }
    assert_no_window(&mut pair.client, near, 0x3000);
    assert_no_window(&mut pair.client, near, scene.offset + 2 * PAGE);
    assert!(read(&mut pair.client, near, scene.offset, 2 * PAGE) == Ok(pattern(1, 2 * PAGE)));
    // Without a connection, and after it.
    let listener = pair.server.ask(Command::Listen {});
    pair.server.refuses(open(listener[0] as u32, scene.far, 1, None, BOTH), "NotConnected");
    pair.client.must(Command::CloseEndpoint { endpoint: near });
    pair.server.refuses(open(far, scene.far, 1, None, BOTH), "Reset");
    assert!(pair.server.peek(scene.far.buffer, 0, 2 * PAGE) == pattern(1, 2 * PAGE));
}
