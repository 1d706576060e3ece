//! What a process shows of its identifiers follows what becomes of them.

mod common;

use std::fs::File;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{PATIENCE, Side, connect, reached};
use nonic_rdma_cm::{
    EventKind, GidAddress, IDENTIFIERS_NAME, Id, IdOption, IdentifierFacts, Named, PortSpace, Progress,
    ShownIdentifiers, gid_of_address, read_identifiers,
};

/// The file is the process's, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn shown() -> ShownIdentifiers {
    let named = |path: &std::path::Path| {
        let target = path.read_link().unwrap_or_default();
        target.to_string_lossy().starts_with(&format!("/memfd:{IDENTIFIERS_NAME}"))
    };
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let path = descriptors.into_iter().find(|path| named(path)).expect("there is no file of identifiers");
    read_identifiers(&File::open(path).unwrap()).unwrap()
}

/// How far the identifier with this source has come, as shown.
fn progress_at(source: Option<SocketAddr>) -> Option<Progress> {
    let all = shown().identifiers;
    all.iter().find(|facts| facts.source == source).map(|facts: &IdentifierFacts| facts.progress)
}

#[test]
fn each_step_of_a_connection_is_shown_and_what_is_gone_is_not() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (near, far) = (Side::new(), Side::new());
    let listener = far.listener(PortSpace::Tcp, "127.0.0.1", 0);
    let to = listener.source();
    assert_eq!(progress_at(to), Some(Progress::Listening));
    let asking = near.routed(PortSpace::Tcp, reached(&listener, "127.0.0.1"));
    assert_eq!(progress_at(asking.source()), Some(Progress::Routed));
    asking.connect(&common::parameters(b"", 77)).unwrap();
    assert_eq!(progress_at(asking.source()), Some(Progress::Asking));
    let asked = Arc::clone(&far.expect(EventKind::ConnectRequest).id);
    // An event may be got before what led to it is shown.
    let becomes = |id: &Id, progress: Progress| {
        let since = Instant::now();
        loop {
            let all = shown().identifiers;
            let found = all.into_iter().find(|facts| facts.destination == id.destination());
            let found = found.expect("an identifier with a peer is shown");
            if found.progress == progress {
                return found;
            }
            assert!(since.elapsed() < PATIENCE, "{found:?} does not become {progress:?}");
            std::thread::yield_now();
        }
    };
    let facts = becomes(&asked, Progress::Asked);
    assert_eq!((facts.space, facts.source, facts.destination), (PortSpace::Tcp, to, asking.source()));
    asked.accept(&common::parameters(b"", 88)).unwrap();
    near.expect(EventKind::ConnectResponse);
    asking.establish().unwrap();
    far.expect(EventKind::Established);
    becomes(&asked, Progress::Connected);
    becomes(&asking, Progress::Connected);
    asking.disconnect().unwrap();
    far.expect(EventKind::Disconnected);
    becomes(&asked, Progress::Ending);
    becomes(&asking, Progress::Ending);
    asked.disconnect().unwrap();
    near.expect(EventKind::Disconnected);
    becomes(&asking, Progress::Over);
    let (source, id) = (asking.source(), std::process::id());
    asking.destroy();
    drop(asking);
    assert_eq!(progress_at(source), None);
    assert_eq!(shown().owner, id);
}

#[test]
fn two_that_listen_at_one_port_are_shown_with_the_family_of_each() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let side = Side::new();
    let by_ip = side.listener(PortSpace::Tcp, "127.0.0.1", 0);
    let to = by_ip.source().unwrap();
    let by_gid = side.id(PortSpace::Tcp);
    by_gid.set_option(IdOption::AddressFamilyOnly(true)).unwrap();
    let service = PortSpace::Tcp.first_service() | u64::from(to.port());
    let named = GidAddress { gid: gid_of_address(to.ip()), service, mask: u64::MAX };
    by_gid.bind_named(Named::Gid(named)).unwrap();
    by_gid.listen(0).unwrap();
    let mut there = shown().identifiers;
    there.retain(|facts| facts.source == Some(to) && facts.progress == Progress::Listening);
    there.sort_by_key(|facts| facts.by_gid);
    assert_eq!(there.iter().map(|facts| facts.by_gid).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn identifiers_beyond_the_table_are_counted_and_work() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = shown_or_none();
    let side = Side::new();
    let many: Vec<_> = (0..1100).map(|_| side.id(PortSpace::Udp)).collect();
    let all = shown();
    assert_eq!((all.identifiers.len(), all.beyond), (1023, 1100 + before - 1023));
    let (near, far) = (Side::new(), Side::new());
    let _connected = connect(&near, &far);
    drop(many);
    let all = shown();
    assert!(all.identifiers.iter().all(|facts| facts.space == PortSpace::Tcp), "{all:?}");
    drop(side.id(PortSpace::Udp));
}

/// How many there are already, of events of the other test that are not over.
fn shown_or_none() -> u64 {
    let side = Side::new();
    let one = side.id(PortSpace::Udp);
    let count = shown().identifiers.len() as u64 - 1;
    drop(one);
    count
}

#[test]
fn a_file_that_is_none_is_refused() {
    let path = std::env::temp_dir().join(format!("nonic-no-identifiers-{}", std::process::id()));
    std::fs::write(&path, [0; 64 * 1024]).unwrap();
    assert!(read_identifiers(&File::open(&path).unwrap()).is_err());
    std::fs::write(&path, b"short").unwrap();
    assert!(read_identifiers(&File::open(&path).unwrap()).is_err());
    std::fs::remove_file(path).unwrap();
}
