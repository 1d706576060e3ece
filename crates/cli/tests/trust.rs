//! Who is shown whose memory: processes of different users, capabilities and namespaces that talk to each other through the
//! library. What a process was shown it has mapped, and the kernel says so.

mod support;

use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use support::waiting::{PATIENCE, Waiting, pair};
use support::{STEP_DOWN, is_root, nonic, nonic_as_ordinary_user, nonic_behind, run, skip, works};

/// Words that make root another ordinary user.
const OTHER_USER: [&str; 4] = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"];
/// Words that leave root its number and nothing else.
const BARE_ROOT: [&str; 3] = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
/// Words for a pid namespace of one's own.
const OTHER_PIDS: [&str; 3] = ["unshare", "--pid", "--fork"];

/// The process itself: wrappers may be its parents.
fn program_of(waiting: &Waiting) -> i32 {
    let mut pid = waiting.pid();
    loop {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        match children.split_ascii_whitespace().next() {
            Some(child) => pid = child.parse().unwrap(),
            None => return pid,
        }
    }
}

/// Segments and files of adopted pages that a process has mapped, its own among them, with those of its peers.
fn mapped(waiting: &Waiting) -> (usize, usize) {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", program_of(waiting))).unwrap();
    let inodes = |name: &str| {
        let lines = maps.lines().filter(|line| line.contains(name));
        let inodes = lines.filter_map(|line| line.split_ascii_whitespace().nth(4));
        inodes.collect::<std::collections::BTreeSet<_>>().len()
    };
    (inodes("/memfd:nonic-segment"), inodes("/memfd:nonic-device-memory"))
}

fn first_peer(waiting: &Waiting) -> Value {
    let pid = format!("--pid={}", program_of(waiting));
    let output = run(nonic().args(["doctor", "--json", &pid])).exits(0).output;
    let all: Value = serde_json::from_str(&output).unwrap();
    all["processes"][0]["peers"][0].clone()
}

#[track_caller]
fn are_shown_to_each_other(one: &mut Command, other: &mut Command) {
    let (one, other) = pair(one, other);
    let begun = Instant::now();
    for waiting in [&one, &other] {
        while mapped(waiting) != (2, 2) {
            let seen = mapped(waiting);
            assert!(begun.elapsed() < PATIENCE, "mapped {seen:?}; {:#}", first_peer(waiting));
            std::thread::yield_now();
        }
    }
}

/// Bytes moved all the same: `pair` has them written and checked.
#[track_caller]
fn stay_strangers(one: &mut Command, other: &mut Command) {
    let (one, other) = pair(one, other);
    let begun = Instant::now();
    for waiting in [&one, &other] {
        // An obstacle is told when each has asked and heard what the other answers.
        loop {
            let peer = first_peer(waiting);
            if peer["to"]["tier"] == "ring" && peer["to"]["fix"].is_string() {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "it stays {peer:#}");
        }
    }
    for waiting in [&one, &other] {
        assert_eq!(mapped(waiting), (1, 1), "{:#}", first_peer(waiting));
    }
}

fn other_users_are_possible() -> bool {
    is_root() || {
        skip("only root can start processes of other users and namespaces");
        false
    }
}

#[test]
fn two_processes_of_an_ordinary_user_are_shown_to_each_other() {
    are_shown_to_each_other(&mut nonic_as_ordinary_user(), &mut nonic_as_ordinary_user());
}

#[test]
fn two_users_stay_strangers_until_both_name_each_other() {
    if !other_users_are_possible() {
        return;
    }
    stay_strangers(&mut nonic_as_ordinary_user(), &mut nonic_behind(&OTHER_USER));
    // The number of nobody stands for everybody, so it cannot be named.
    let third = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"];
    stay_strangers(nonic_behind(&OTHER_USER).env("NONIC_TRUST", "65532"), &mut nonic_behind(&third));
    are_shown_to_each_other(
        nonic_behind(&OTHER_USER).env("NONIC_TRUST", "65532"),
        nonic_behind(&third).env("NONIC_TRUST", "7,65533"),
    );
}

#[test]
fn in_a_user_namespace_without_mapping_nobody_outside_is_shown_anything() {
    if !other_users_are_possible() {
        return;
    }
    let unmapped = [&STEP_DOWN[..], &["unshare", "--user"]].concat();
    if !works(&[&unmapped[..], &["true"]].concat()) {
        return skip("no user namespace can be made here");
    }
    // Each sees the other as user 65534, and so itself.
    stay_strangers(&mut nonic_behind(&unmapped), &mut nonic_behind(&OTHER_USER));
    stay_strangers(&mut nonic_behind(&OTHER_USER), &mut nonic_behind(&unmapped));
    stay_strangers(&mut nonic_behind(&unmapped), &mut nonic_as_ordinary_user());
}

#[test]
fn root_of_a_container_without_capabilities_is_shown_nothing() {
    if !other_users_are_possible() {
        return;
    }
    let contained = [&OTHER_PIDS[..], &BARE_ROOT].concat();
    stay_strangers(&mut nonic_as_ordinary_user(), &mut nonic_behind(&contained));
    stay_strangers(&mut nonic_behind(&contained), &mut nonic_behind(&OTHER_USER));
    stay_strangers(&mut nonic(), &mut nonic_behind(&BARE_ROOT));
}

#[test]
fn two_pid_namespaces_of_one_user_are_shown_to_each_other_where_the_kernel_can_prove_it() {
    if !other_users_are_possible() {
        return;
    }
    let contained = [&OTHER_PIDS[..], &OTHER_USER].concat();
    // SO_PEERPIDFD, with which a process is known that has no number here.
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    if (numbers.next(), numbers.next()) < (Some(6), Some(5)) {
        return stay_strangers(&mut nonic_behind(&contained), &mut nonic_behind(&contained));
    }
    are_shown_to_each_other(&mut nonic_behind(&contained), &mut nonic_behind(&contained));
}

#[test]
fn root_that_may_look_into_everybody_is_shown_what_it_could_see_and_shows_nothing() {
    if !other_users_are_possible() {
        return;
    }
    stay_strangers(&mut nonic(), &mut nonic_as_ordinary_user());
}
