//! A child has none of its parent's engines, makes its own, and leaves the parent's as they are.

mod common;

use std::time::{Duration, Instant};

use common::in_child;
use common::pair::{Memory, Pair, Side};
use nonic_device::{
    Config, CreateError, EngineHandle, OpenError, Operation, PostError, ReceiveRequest, Status, devices,
    fork_init, is_fork_initialized,
};

/// A write and a message each way, and what they moved.
fn moves(sides: &[Side; 2], byte: u8) -> bool {
    let each = |from: &Side, to: &Side, byte: u8| {
        from.memory.set(0, &[byte; 5000]);
        let write = Operation::Write { remote: to.remote(8192), immediate: None };
        let written = from.run(write, from.piece(0, 5000)) == Status::Success;
        let receive = ReceiveRequest { id: 1, pieces: &[to.piece(20_000, 100)] };
        to.end.pair.post_receive(&receive).is_ok()
            && from.run(Operation::Send { immediate: None }, from.piece(0, 100)) == Status::Success
            && to.end.completion().status == Status::Success
            && written
            && to.memory.get(8192, 5000) == [byte; 5000]
            && to.memory.get(20_000, 100) == [byte; 100]
    };
    each(&sides[0], &sides[1], byte) && each(&sides[1], &sides[0], byte.wrapping_add(1))
}

/// Whether this process has the memory: the kernel can read it.
fn has(memory: &Memory) -> bool {
    let mut pipe = [0; 2];
    // SAFETY: the pipe is this function's; the kernel reads one byte or says that it cannot.
    unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        let written = libc::write(pipe[1], memory.address() as *const libc::c_void, 1);
        assert_eq!((libc::close(pipe[0]), libc::close(pipe[1])), (0, 0));
        written == 1
    }
}

/// What a process does after its parent opened these engines; 0 if all is as it should be.
fn as_a_child(parents: &Pair) -> i32 {
    let Pair { engines, sides } = parents;
    for (engine, side) in engines.iter().zip(sides) {
        if !matches!(engine.devices()[0].open(), Err(OpenError::Gone)) {
            return 11;
        }
        if !matches!(side.end.context().allocate_zone(), Err(CreateError::Gone)) {
            return 12;
        }
        if side.end.pair.post_receive(&ReceiveRequest { id: 9, pieces: &[] }) != Err(PostError::Gone) {
            return 13;
        }
        let _ = side.region.deregister();
        let _ = side.end.pair.destroy();
    }
    let own = Pair::new(&Config::default());
    if !moves(&own.sides, 50) {
        return 14;
    }
    let Ok(shared) = devices()[0].open() else { return 15 };
    if shared.allocate_zone().is_err() {
        return 16;
    }
    0
}

#[test]
fn a_child_makes_engines_of_its_own_and_those_of_the_parent_go_on() {
    let pair = Pair::new(&Config::default());
    pair.sides[0].meet(&pair.sides[1]);
    assert!(moves(&pair.sides, 1));
    let status = in_child(|| {
        for side in &pair.sides {
            if side.memory.get(8192, 2) == [0; 2] {
                return 21;
            }
            // The child's own copy from now on.
            side.memory.set(8192, &[99; 5000]);
        }
        as_a_child(&pair)
    });
    assert_eq!(status, 0);
    assert!(pair.sides.iter().all(|side| side.memory.get(8192, 1) != [99]));
    assert!(moves(&pair.sides, 3));

    // What is said of children holds for the engines there are and those to come.
    assert!(!is_fork_initialized());
    fork_init();
    let later = EngineHandle::create(Config::default()).unwrap();
    let late = [&later, &pair.engines[0]].map(Side::on);
    late[0].connect(&late[1]);
    assert!(moves(&late, 5));
    let adopted = pair.sides.iter().chain(&late).all(|side| side.memory.is_adopted());
    let status = in_child(|| {
        if adopted && pair.sides.iter().chain(&late).any(|side| has(&side.memory)) {
            return 31;
        }
        as_a_child(&pair)
    });
    assert_eq!(status, 0);
    assert!(moves(&pair.sides, 7) && moves(&late, 9));

    // An engine ends with whatever holds it: with its links, its agent and its segment.
    let agents = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "nonic-agent").count()
    };
    let segments = || {
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
        let files = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        files.filter(|file| file.to_string_lossy().starts_with("/memfd:nonic-segment")).count()
    };
    assert_eq!(agents(), 3);
    pair.sides.into_iter().chain(late).for_each(Side::leave);
    drop((pair.engines, later));
    assert_eq!(segments(), 0);
    // The kernel may show a thread for a moment that has been waited for.
    let deadline = Instant::now() + Duration::from_secs(20);
    while agents() > 0 {
        assert!(Instant::now() < deadline, "an agent runs on");
        std::thread::yield_now();
    }
}
