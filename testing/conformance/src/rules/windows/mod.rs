//! Windows of SCIF: SCIF-1 to SCIF-10.

mod refusals;

pub(crate) use self::refusals::*;
use crate::command::{Answer, Command, MemoryKind, WindowRights};
use crate::memory::pattern;
use crate::pair::Pair;
use crate::program_memory::PAGE;
use crate::side::Side;

/// Where the library's own choice of offsets begins.
const TOP: u64 = 1 << 62;
const BOTH: WindowRights = WindowRights { read: true, write: true };
const READ: WindowRights = WindowRights { read: true, write: false };
const WRITE: WindowRights = WindowRights { read: false, write: true };

/// A connection: the endpoints of both sides.
struct Connection {
    near: u32,
    far: u32,
}

/// Pages of a side.
#[derive(Clone, Copy)]
struct Pages {
    buffer: u32,
    address: u64,
}

fn connect(pair: &mut Pair) -> Connection {
    let listener = pair.server.ask(Command::Listen {});
    let (node, port) = (listener[1] as u16, listener[2] as u16);
    let near = pair.client.make(Command::Ask { node, port });
    let far = pair.server.make(Command::Accept { listener: listener[0] as u32 });
    pair.client.must(Command::Collect { endpoint: near, node, port });
    Connection { near, far }
}

/// Memory of the arrangement's kind.
fn pages(side: &mut Side, kind: MemoryKind, count: u64) -> Pages {
    let (buffer, address) = side.buffer(kind, count * PAGE);
    Pages { buffer, address }
}

fn open(endpoint: u32, pages: Pages, count: u64, offset: Option<u64>, rights: WindowRights) -> Command {
    Command::OpenWindow {
        endpoint,
        address: pages.address,
        length: count * PAGE,
        offset: offset.unwrap_or(0),
        rights,
        fixed: offset.is_some(),
    }
}

fn fill(side: &mut Side, pages: Pages, offset: u64, bytes: &[u8]) {
    side.must(Command::Poke { buffer: pages.buffer, offset, bytes: bytes.to_vec() });
}

/// What a side reads in its peer's windows.
fn read(side: &mut Side, endpoint: u32, remote: u64, length: u64) -> Result<Vec<u8>, String> {
    let (buffer, address) = side.buffer(MemoryKind::Private, length);
    side.run(Command::ReadInto { endpoint, address, length, remote })?;
    Ok(side.peek(buffer, 0, length))
}

/// What a side writes to its peer's windows.
fn write(side: &mut Side, endpoint: u32, remote: u64, bytes: &[u8]) -> Result<Answer, String> {
    let (buffer, address) = side.buffer(MemoryKind::Private, bytes.len() as u64);
    side.must(Command::Poke { buffer, offset: 0, bytes: bytes.to_vec() });
    side.run(Command::WriteOut { endpoint, address, length: bytes.len() as u64, remote })
}

fn assert_no_window(side: &mut Side, endpoint: u32, remote: u64) {
    let seen = read(side, endpoint, remote, 8);
    assert_eq!(seen, Err("NoWindow".into()), "there is a window at {remote:#x}");
}

/// The server's memory in a window that the client uses.
struct Scene {
    connection: Connection,
    far: Pages,
    offset: u64,
}

fn scene(pair: &mut Pair, count: u64) -> Scene {
    let connection = connect(pair);
    let far = pages(&mut pair.server, pair.arrangement.memory, count);
    fill(&mut pair.server, far, 0, &pattern(1, count * PAGE));
    let offset = pair.server.ask(open(connection.far, far, count, None, BOTH))[0];
    Scene { connection, far, offset }
}

pub(crate) fn a_window_shows_whole_pages_at_the_offset_that_is_answered(pair: &mut Pair) {
    for count in [1, 2, 7, 64] {
        let scene = scene(pair, count);
        assert_eq!(scene.offset % PAGE, 0);
        let near = scene.connection.near;
        let seen = read(&mut pair.client, near, scene.offset, count * PAGE);
        assert!(seen == Ok(pattern(1, count * PAGE)), "other bytes of {count} pages");
        assert_no_window(&mut pair.client, near, scene.offset + count * PAGE);
        let across = read(&mut pair.client, near, scene.offset + count * PAGE - 4, 8);
        assert_eq!(across, Err("NoWindow".into()));
    }
}

pub(crate) fn what_is_not_whole_pages_and_what_is_no_memory_opens_no_window(pair: &mut Pair) {
    let connection = connect(pair);
    let far = pages(&mut pair.server, pair.arrangement.memory, 4);
    let wrong = [(0, 0), (0, 1), (0, PAGE - 1), (0, PAGE + 1), (1, PAGE), (8, PAGE), (PAGE / 2, PAGE)];
    for (from, length) in wrong {
        for fixed in [false, true] {
            let command = Command::OpenWindow {
                endpoint: connection.far,
                address: far.address + from,
                length,
                offset: if fixed { 0x1000 } else { 0 },
                rights: BOTH,
                fixed,
            };
            pair.server.refuses(command, "Invalid");
        }
    }
    for offset in [0x1000, TOP] {
        assert_no_window(&mut pair.client, connection.near, offset);
    }
}

pub(crate) fn a_fixed_window_is_exactly_where_it_was_asked_for(pair: &mut Pair) {
    let connection = connect(pair);
    let far = pages(&mut pair.server, pair.arrangement.memory, 2);
    fill(&mut pair.server, far, 0, &pattern(2, 2 * PAGE));
    for offset in [0, 0x80000, far.address, TOP - 2 * PAGE] {
        assert_eq!(pair.server.ask(open(connection.far, far, 2, Some(offset), BOTH)), [offset]);
        assert_eq!(read(&mut pair.client, connection.near, offset, 2 * PAGE), Ok(pattern(2, 2 * PAGE)));
    }
    for offset in [1, 8, PAGE / 2, TOP - 1] {
        pair.server.refuses(open(connection.far, far, 1, Some(offset), BOTH), "Invalid");
    }
}

pub(crate) fn a_fixed_window_never_replaces_another_and_ends_below_2_to_the_62(pair: &mut Pair) {
    let connection = connect(pair);
    let kind = pair.arrangement.memory;
    let (far, other) = (pages(&mut pair.server, kind, 4), pages(&mut pair.server, kind, 8));
    fill(&mut pair.server, far, 0, &pattern(3, 4 * PAGE));
    pair.server.ask(open(connection.far, far, 4, Some(0x10000), BOTH));
    for (offset, count) in [(0x10000, 4), (0x10000, 1), (0x13000, 1), (0xf000, 2), (0x13000, 8), (0xe000, 8)]
    {
        pair.server.refuses(open(connection.far, other, count, Some(offset), BOTH), "OffsetsTaken");
    }
    for (offset, count) in [(TOP, 1), (TOP - PAGE, 2), (TOP + 0x10000, 1), ((1 << 63) - 2 * PAGE, 1)] {
        pair.server.refuses(open(connection.far, other, count, Some(offset), BOTH), "OffsetsTaken");
        assert_no_window(&mut pair.client, connection.near, offset.max(TOP));
    }
    assert_eq!(read(&mut pair.client, connection.near, 0x10000, 4 * PAGE), Ok(pattern(3, 4 * PAGE)));
    assert_no_window(&mut pair.client, connection.near, 0xf000);
    assert_no_window(&mut pair.client, connection.near, 0x14000);
}

pub(crate) fn an_offset_nobody_fixed_is_the_lowest_place_from_2_to_the_62(pair: &mut Pair) {
    let connection = connect(pair);
    let (near, far) = (connection.near, connection.far);
    let own = pages(&mut pair.client, pair.arrangement.memory, 8);
    let theirs = pages(&mut pair.server, pair.arrangement.memory, 8);
    // Both sides choose alike: programs rely on it.
    for (side, endpoint, pages) in [(&mut pair.client, near, own), (&mut pair.server, far, theirs)] {
        side.ask(open(endpoint, pages, 1, Some(0x5000), BOTH));
        let mut chosen = Vec::new();
        for count in [2, 3, 1, 4] {
            chosen.extend(side.ask(open(endpoint, pages, count, None, BOTH)));
        }
        assert_eq!(chosen, [TOP, TOP + 2 * PAGE, TOP + 5 * PAGE, TOP + 6 * PAGE]);
        side.must(Command::CloseWindow { endpoint, offset: TOP + 2 * PAGE, length: 3 * PAGE });
        assert_eq!(side.ask(open(endpoint, pages, 4, None, BOTH)), [TOP + 10 * PAGE]);
        assert_eq!(side.ask(open(endpoint, pages, 2, None, BOTH)), [TOP + 2 * PAGE]);
        assert_eq!(side.ask(open(endpoint, pages, 1, None, BOTH)), [TOP + 4 * PAGE]);
    }
}

pub(crate) fn an_offset_that_is_suggested_is_taken_or_the_next_free_place_above_it(pair: &mut Pair) {
    let connection = connect(pair);
    let own = pages(&mut pair.client, pair.arrangement.memory, 4);
    let theirs = pages(&mut pair.server, pair.arrangement.memory, 4);
    let (near, far) = (connection.near, connection.far);
    for (side, endpoint, pages) in [(&mut pair.client, near, own), (&mut pair.server, far, theirs)] {
        let mut at = |offset, count| {
            let (address, length) = (pages.address, count * PAGE);
            side.ask(Command::OpenWindow { endpoint, address, length, offset, rights: BOTH, fixed: false })
        };
        assert_eq!(at(0x40000, 2), [0x40000]);
        // Taken in part or whole: behind it; and in the gap only what fits there.
        assert_eq!(at(0x44000, 1), [0x44000]);
        assert_eq!(at(0x40000, 2), [0x42000]);
        assert_eq!(at(0x41000, 1), [0x45000]);
        assert_eq!(at(0x3f000, 2), [0x46000]);
        assert_eq!(at(0x3f000, 1), [0x3f000]);
        assert_eq!(at(0x60008, 1), [0x61000]);
        assert_eq!(at(TOP - PAGE, 2), [TOP - PAGE]);
        // Nothing is free above the last page.
        assert_eq!(at((1 << 63) - PAGE, 2), [TOP + PAGE]);
    }
}

pub(crate) fn a_window_is_reached_by_both_reads_and_both_writes(pair: &mut Pair) {
    let scene = scene(pair, 4);
    let Connection { near, far } = scene.connection;
    let own = pages(&mut pair.client, pair.arrangement.memory, 4);
    let local = pair.client.ask(open(near, own, 4, None, BOTH))[0];
    let mut expected = pattern(1, 4 * PAGE);
    for (at, length, to) in
        [(0, 4 * PAGE, 0), (1, 4095, 77), (PAGE - 3, 8, 4090), (100, 9000, 31), (5, 1, PAGE)]
    {
        pair.client.must(Command::ReadFrom {
            endpoint: near,
            local: local + to,
            length,
            remote: scene.offset + at,
        });
        let seen = pair.client.peek(own.buffer, to, length);
        assert!(seen == expected[at as usize..][..length as usize], "readfrom {at}+{length}");
        assert_eq!(
            read(&mut pair.client, near, scene.offset + at, length),
            Ok(seen),
            "vreadfrom {at}+{length}"
        );
        let new = pattern(at + 50, length);
        fill(&mut pair.client, own, to, &new);
        pair.client.must(Command::WriteTo {
            endpoint: near,
            local: local + to,
            length,
            remote: scene.offset + at,
        });
        expected[at as usize..][..length as usize].copy_from_slice(&new);
        assert!(pair.server.peek(scene.far.buffer, 0, 4 * PAGE) == expected, "writeto {at}+{length}");
        let new = pattern(at + 90, length);
        write(&mut pair.client, near, scene.offset + at, &new).expect("the write is taken");
        expected[at as usize..][..length as usize].copy_from_slice(&new);
        assert!(pair.server.peek(scene.far.buffer, 0, 4 * PAGE) == expected, "vwriteto {at}+{length}");
    }
    // The other way round, through the client's window.
    let seen = read(&mut pair.server, far, local, PAGE).expect("the read is taken");
    assert_eq!(seen, pair.client.peek(own.buffer, 0, PAGE));
    pair.server.must(Command::CloseWindow { endpoint: far, offset: scene.offset, length: 4 * PAGE });
    assert_no_window(&mut pair.client, near, scene.offset);
    assert!(pair.server.peek(scene.far.buffer, 0, 4 * PAGE) == expected, "closing changed bytes");
}

pub(crate) fn a_mapped_window_is_the_memory_itself(pair: &mut Pair) {
    let scene = scene(pair, 4);
    let map = |offset: u64, count: u64| Command::MapWindow {
        endpoint: scene.connection.near,
        offset: scene.offset + offset * PAGE,
        length: count * PAGE,
        rights: BOTH,
    };
    if pair.arrangement.leaves_memory() {
        pair.client.refuses(map(0, 4), "NoMemory");
        pair.only(false, "memory that stays private is not mapped by others");
    }
    pair.client.refuses(map(0, 5), "NoWindow");
    pair.client.refuses(map(4, 1), "NoWindow");
    let mapped = pair.client.ask(map(1, 3))[0] as u32;
    assert!(pair.client.peek(mapped, 0, 3 * PAGE) == pattern(1, 4 * PAGE)[PAGE as usize..]);
    pair.client.must(Command::Poke { buffer: mapped, offset: 10, bytes: b"stored".to_vec() });
    assert_eq!(pair.server.peek(scene.far.buffer, PAGE + 10, 6), b"stored");
    fill(&mut pair.server, scene.far, 3 * PAGE, b"from its owner");
    assert_eq!(pair.client.peek(mapped, 2 * PAGE, 14), b"from its owner");
    // It stands while it is mapped, though nobody may begin to use it any more.
    let close =
        Command::CloseWindow { endpoint: scene.connection.far, offset: scene.offset, length: 4 * PAGE };
    pair.server.must(close);
    pair.client.refuses(map(0, 1), "NoWindow");
    fill(&mut pair.server, scene.far, 3 * PAGE, b"after it closed");
    assert_eq!(pair.client.peek(mapped, 2 * PAGE, 15), b"after it closed");
}

pub(crate) fn memory_given_back_while_its_window_stands_is_not_used_again(pair: &mut Pair) {
    pair.only(!pair.arrangement.leaves_memory(), "memory that stays private is reached by its address");
    let scene = scene(pair, 8);
    pair.server.must(Command::Replace { buffer: scene.far.buffer, touchable: false });
    // Whoever gets pages now gets others.
    let kind = pair.arrangement.memory;
    for _ in 0..8 {
        let other = pages(&mut pair.server, kind, 64);
        fill(&mut pair.server, other, 0, &vec![0xEE; 64 * PAGE as usize]);
        let window = pair.server.ask(open(scene.connection.far, other, 64, None, BOTH))[0];
        let close =
            Command::CloseWindow { endpoint: scene.connection.far, offset: window, length: 64 * PAGE };
        pair.server.must(close);
    }
    let seen = read(&mut pair.client, scene.connection.near, scene.offset, 8 * PAGE);
    assert!(seen == Ok(pattern(1, 8 * PAGE)), "the window shows other bytes");
}

pub(crate) fn one_page_stands_in_several_windows_of_several_endpoints(pair: &mut Pair) {
    let first = scene(pair, 4);
    let second = connect(pair);
    let inner = Pages { address: first.far.address + PAGE, ..first.far };
    assert_eq!(pair.server.ask(open(second.far, inner, 2, Some(0x7000), BOTH)), [0x7000]);
    assert_eq!(pair.server.ask(open(first.connection.far, inner, 1, Some(0x9000), READ)), [0x9000]);
    write(&mut pair.client, first.connection.near, first.offset + PAGE, b"through one").unwrap();
    assert_eq!(read(&mut pair.client, second.near, 0x7000, 11), Ok(b"through one".to_vec()));
    assert_eq!(read(&mut pair.client, first.connection.near, 0x9000, 11), Ok(b"through one".to_vec()));
    write(&mut pair.client, second.near, 0x7000, b"and another").unwrap();
    assert_eq!(pair.server.peek(inner.buffer, PAGE, 11), b"and another");
    pair.server.must(Command::CloseWindow {
        endpoint: first.connection.far,
        offset: first.offset,
        length: 4 * PAGE,
    });
    assert_no_window(&mut pair.client, first.connection.near, first.offset);
    assert_eq!(read(&mut pair.client, second.near, 0x7000, 11), Ok(b"and another".to_vec()));
    pair.server.must(Command::CloseEndpoint { endpoint: first.connection.far });
    write(&mut pair.client, second.near, 0x7000, b"last").unwrap();
    assert_eq!(pair.server.peek(inner.buffer, PAGE, 4), b"last");
    assert_eq!(read(&mut pair.client, first.connection.near, 0x9000, 8), Err("Reset".into()));
}

pub(crate) fn a_window_keeps_its_pages_whatever_comes_to_their_addresses(pair: &mut Pair) {
    pair.only(!pair.arrangement.leaves_memory(), "memory that stays private is reached by its address");
    let scene = scene(pair, 2);
    let Connection { near, far } = scene.connection;
    pair.server.must(Command::Replace { buffer: scene.far.buffer, touchable: true });
    assert_eq!(pair.server.peek(scene.far.buffer, 0, 8), [0; 8]);
    fill(&mut pair.server, scene.far, 0, &pattern(7, 2 * PAGE));
    assert!(read(&mut pair.client, near, scene.offset, 2 * PAGE) == Ok(pattern(1, 2 * PAGE)));
    write(&mut pair.client, near, scene.offset + 100, b"into the old pages").unwrap();
    assert!(pair.server.peek(scene.far.buffer, 0, 2 * PAGE) == pattern(7, 2 * PAGE));
    let second = pair.server.ask(open(far, scene.far, 2, None, BOTH))[0];
    pair.server.must(Command::Replace { buffer: scene.far.buffer, touchable: false });
    assert!(read(&mut pair.client, near, second, 2 * PAGE) == Ok(pattern(7, 2 * PAGE)));
    assert_eq!(read(&mut pair.client, near, scene.offset + 100, 18), Ok(b"into the old pages".to_vec()));
    // A mapping that is made now is of the old pages as well.
    let rights = BOTH;
    let map = Command::MapWindow { endpoint: near, offset: scene.offset, length: PAGE, rights };
    let mapped = pair.client.ask(map)[0] as u32;
    assert_eq!(pair.client.peek(mapped, 100, 18), b"into the old pages");
}

pub(crate) fn a_child_does_not_disturb_the_windows_of_its_parent(pair: &mut Pair) {
    let kind = pair.arrangement.memory;
    let scene = scene(pair, 2);
    let near = scene.connection.near;
    let status =
        pair.server.ask(Command::StoreInChild { buffer: scene.far.buffer, bytes: vec![0x66; PAGE as usize] });
    assert_eq!(status, [0], "the child may store to what it inherited");
    let mut expected = pattern(1, 2 * PAGE);
    if kind == MemoryKind::Shared {
        // Memory that the program shares itself it shares with its children too.
        expected[..PAGE as usize].fill(0x66);
    }
    assert!(pair.server.peek(scene.far.buffer, 0, 2 * PAGE) == expected, "the parent sees other bytes");
    assert!(
        read(&mut pair.client, near, scene.offset, 2 * PAGE) == Ok(expected),
        "the window shows other bytes"
    );
    fill(&mut pair.server, scene.far, PAGE, &pattern(9, PAGE));
    assert!(
        read(&mut pair.client, near, scene.offset + PAGE, PAGE) == Ok(pattern(9, PAGE)),
        "the parent's stores after the fork are not in the window"
    );
    write(&mut pair.client, near, scene.offset, b"after the fork").unwrap();
    assert_eq!(pair.server.peek(scene.far.buffer, 0, 14), b"after the fork");
}
