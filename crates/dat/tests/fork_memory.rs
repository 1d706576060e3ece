//! What a forked child may do with its parent's memory objects: nothing, and it harms nothing; it opens an adapter of its own.

mod common;

use common::peers::{PLAIN, Side, connected, far};
use common::{Pages, bad_handle, open, ordinary, own_cookie, part, register};
use nonic_dat::{
    Cookie, DatError, Description, HandleKind, Kind, LocalRegion, Privileges, ProtectionZone, RemoteRegion,
    SharedQueueAttributes, SharedReceiveQueue, TransferStatus,
};

/// Runs `body` in a child and returns the child's exit status.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs only `body` and `_exit`; this file has one test, and nonic's own threads hold no lock around a
    // fork that the child needs.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0, "fork failed");
        if child == 0 {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(99);
            libc::_exit(status);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        assert!(libc::WIFEXITED(status), "the child was killed: {status:#x}");
        libc::WEXITSTATUS(status)
    }
}

/// What a child sees of the parent's objects; 0 if it is what it should be.
fn use_of_the_parents(server: &Side, region: &LocalRegion, remote: &std::sync::Arc<RemoteRegion>) -> i32 {
    let no_adapter = bad_handle(HandleKind::InterfaceAdapter);
    let pages = Pages::private(1);
    let create = LocalRegion::create(
        &server.adapter,
        ordinary(pages.address()),
        pages.length(),
        &server.zone,
        Privileges::ALL,
    );
    let description =
        Description::Shared { address: common::program(pages.address()), cookie: own_cookie(5) };
    let shared = LocalRegion::create(&server.adapter, description, 1, &server.zone, Privileges::ALL);
    let attributes = SharedQueueAttributes { max_receives: 1, max_pieces: 1, low_watermark: 0 };
    let refusals = [
        (1, create.map(drop)),
        (2, shared.map(drop)),
        (3, ProtectionZone::create(&server.adapter).map(drop)),
        (4, RemoteRegion::create(&server.zone).map(drop)),
        (5, SharedReceiveQueue::create(&server.adapter, &server.zone, attributes).map(drop)),
        (6, server.adapter.sync_rdma_write(std::iter::once(part(region, 0, 1)))),
        (7, server.adapter.sync_rdma_read(std::iter::once(part(region, 0, 1)))),
    ];
    for (number, refusal) in refusals {
        if refusal != Err(no_adapter) {
            eprintln!("{number}: {refusal:?}");
            return number;
        }
    }
    let bind = remote.bind(server.piece(0, 8), Privileges::REMOTE, &server.endpoint, 0, PLAIN);
    if bind.is_ok() { 8 } else { 0 }
}

/// A child's own adapter works. Its parent's cookies name its parent's memory, which it can share like any other process.
fn use_of_its_own(parents: &Pages, taken: Cookie) -> i32 {
    let adapter = open(false);
    let Ok(zone) = ProtectionZone::create(&adapter) else { return 20 };
    let pages = Pages::shared(1);
    let create = |pages: &Pages, cookie| {
        let description = Description::Shared { address: common::program(pages.address()), cookie };
        LocalRegion::create(&adapter, description, 4096, &zone, Privileges::ALL)
    };
    let Ok(region) = create(&pages, own_cookie(1)) else { return 21 };
    if create(&pages, taken).map(drop) != Err(DatError::argument(3)) {
        return 25;
    }
    let Ok(common) = create(parents, taken) else { return 26 };
    if common.free().is_err() {
        return 27;
    }
    if adapter.sync_rdma_write(std::iter::once(part(&region, 0, 8))).is_err() {
        return 22;
    }
    if adapter.close(true).map_err(|error| error.kind) != Err(Kind::InvalidState) {
        return 23;
    }
    if adapter.close(false).is_ok() { 0 } else { 24 }
}

#[test]
fn a_child_harms_none_of_its_parents_regions() {
    for coherent in [true, false] {
        let (server, client) = connected(coherent);
        let shared = Pages::shared(1);
        let cookie = own_cookie(1);
        let description = Description::Shared { address: common::program(shared.address()), cookie };
        let region =
            LocalRegion::create(&server.adapter, description, 4096, &server.zone, Privileges::ALL).unwrap();
        let remote = RemoteRegion::create(&server.zone).unwrap();
        let segment = server.piece(0, 64);
        let context = server.bind(&remote, segment, Privileges::REMOTE);
        let status = in_child(|| {
            let status = use_of_the_parents(&server, &region, &remote);
            if status != 0 {
                return status;
            }
            // It gives back what it has of them.
            let _ = remote.free();
            let _ = region.free();
            let _ = server.region.free();
            let _ = server.adapter.close(false);
            use_of_its_own(&shared, cookie)
        });
        assert_eq!(status, 0);
        client.pages.fill(7);
        assert_eq!(client.write(far(context, segment)), TransferStatus::Success);
        let remote_segment = far(region.facts().remote_context, part(&region, 0, 64));
        assert_eq!(client.write(remote_segment), TransferStatus::Success);
        server.adapter.sync_rdma_write([segment, part(&region, 0, 64)].into_iter()).unwrap();
        assert_eq!((server.pages.read(0), server.pages.read(63), shared.read(63)), (7, 7, 7));
        // Nothing of the child's doing is counted here.
        let again = register(&server.zone, &server.pages, Privileges::ALL).unwrap();
        again.free().unwrap();
        remote.free().unwrap();
        region.free().unwrap();
        server.region.free().unwrap();
    }
}
