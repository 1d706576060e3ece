//! Flushes (annex A19.4.1): what was written before is where it is to be when they end.

use nonic_device::{
    Access, AsyncEventKind, CompletionOpcode, Key, Placement, RemoteRange, Selectivity, Status,
};

use crate::memory::{EVERYTHING, FLUSHABLE, pattern};
use crate::options::{Options, RELIABLE};
use crate::pair::{Pair, Scene};
use crate::request::{flush, flush_to, read, write};

const FLUSHING: Options = Options { access: FLUSHABLE, ..RELIABLE };

/// A scene whose far memory may be flushed.
fn scene(pair: &mut Pair, options: &Options) -> Scene {
    let scene = pair.scene(options);
    let far = pair.server.memory(scene.server.zone, Scene::LENGTH, FLUSHABLE);
    Scene { far, ..scene }
}

pub(crate) fn a_flush_ends_behind_the_writes_before_it_which_are_there_then(pair: &mut Pair) {
    let cases = [(0, 1, Selectivity::Range), (1, 0, Selectivity::Range), (1 << 40, 7, Selectivity::Region)];
    for length in [1, 9000, 300_000] {
        for (from, count, selectivity) in cases {
            let scene = scene(pair, &Options { signal_all: false, ..FLUSHING });
            let near = pair.client.memory(scene.client.zone, length, EVERYTHING);
            let far = pair.server.memory(scene.server.zone, length, FLUSHABLE);
            let bytes = pattern(length, length);
            pair.client.write(&near, 0, &bytes);
            let remote = RemoteRange { address: far.base.wrapping_add(from), key: far.remote_key };
            let flush = flush(remote, count.min(length), selectivity).id(5).signaled();
            let requests = vec![write(&[near.all()], far.remote(0)), flush];
            pair.client.post_all(&scene.client, requests);
            let ended = pair.client.sent(&scene.client);
            assert_eq!((ended.id, ended.status), (5, Status::Success), "{length} {selectivity:?}");
            assert_eq!((ended.opcode, ended.byte_length), (CompletionOpcode::Flush, 0));
            pair.server.assert_holds(&far, &bytes);
            pair.server.assert_untouched(&scene.far);
            pair.reset();
        }
    }
}

pub(crate) fn flushes_reads_and_writes_between_each_other_end_in_their_order(pair: &mut Pair) {
    let scene = scene(pair, &FLUSHING);
    let (piece, far) = (scene.near.piece(0, 64), scene.far.remote(0));
    let requests = (0..30).map(|id| {
        let request = match id % 3 {
            0 => write(&[piece], far),
            1 => flush(far, 64, Selectivity::Range),
            _ => read(&[piece], far).fence(),
        };
        request.id(id)
    });
    pair.client.post_all(&scene.client, requests.collect());
    let ended = pair.client.completions(scene.client.send_queue, 30);
    assert!(ended.iter().zip(0..).all(|(ended, id)| (ended.id, ended.status) == (id, Status::Success)));
}

pub(crate) fn a_flush_that_was_not_allowed_is_refused_whatever_its_length(pair: &mut Pair) {
    use Selectivity::{Range, Region};
    for length in [0, 8] {
        for case in 0..7 {
            let options = if case == 6 { RELIABLE } else { FLUSHING };
            let scene = scene(pair, &options);
            // The scene's own, which gives every other right.
            let plain = pair.server.memory(scene.server.zone, Scene::LENGTH, EVERYTHING);
            let elsewhere = pair.server.zone();
            let foreign = pair.server.memory(elsewhere, Scene::LENGTH, FLUSHABLE);
            let far = scene.far;
            let bad = RemoteRange { key: Key(0x00ba_d000), ..far.remote(0) };
            let request = match case {
                0 => flush(bad, length, Range),
                1 => flush(bad, length, Region),
                2 => flush(far.remote(far.registered + 1), length, Range),
                3 => flush(plain.remote(0), length, Region),
                4 => flush(foreign.remote(0), length, Region),
                5 => flush(RemoteRange { key: far.local_key, ..far.remote(0) }, length, Range),
                _ => flush(far.remote(0), length, Range),
            };
            // What the queue pair does not let through is no valid request; the rest is a matter of the key.
            let status = if case == 6 { Status::RemoteInvalidRequest } else { Status::RemoteAccess };
            pair.assert_refused_there(&scene, request, status, AsyncEventKind::QpAccessError);
            pair.reset();
        }
    }
}

pub(crate) fn nothing_is_flushed_to_persistence(pair: &mut Pair) {
    let scene = scene(pair, &Options { access: FLUSHABLE | Access::FLUSH_PERSISTENT, ..RELIABLE });
    let request = flush_to(Placement::PERSISTENT, scene.far.remote(0), 8, Selectivity::Range);
    pair.assert_refused_there(&scene, request, Status::RemoteAccess, AsyncEventKind::QpAccessError);
}
