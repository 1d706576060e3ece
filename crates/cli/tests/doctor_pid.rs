//! `nonic doctor --pid`: what it says of running processes, of pairs of them, and of processes that it cannot explain.

mod support;

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::MemfdFlags;
use serde_json::Value;
use support::waiting::{PATIENCE, Waiting, pair};
use support::{Outcome, is_root, nonic, nonic_as_ordinary_user, nonic_behind, run, skip, spawn};

fn pair_with(name: &str, value: &str) -> (Waiting, Waiting) {
    pair(nonic().env(name, value), nonic().env(name, value))
}

fn explain(pids: &[i32]) -> Outcome {
    run(nonic().arg("doctor").args(pids.iter().map(|pid| format!("--pid={pid}"))))
}

fn json(pids: &[i32]) -> Value {
    let mut command = nonic();
    command.args(["doctor", "--json"]).args(pids.iter().map(|pid| format!("--pid={pid}")));
    serde_json::from_str(&run(&mut command).exits(0).output).expect("one JSON object")
}

/// The first peer of the first process, once that looks as `ready` wants it: both ends hear of each other by and by.
#[track_caller]
fn peer_when(pids: &[i32], ready: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let peer = json(pids)["processes"][0]["peers"][0].clone();
        if ready(&peer) {
            return peer;
        }
        assert!(begun.elapsed() < PATIENCE, "it stays {peer:#}");
    }
}

/// Wherever the lines are broken.
#[track_caller]
fn holds(text: &str, words: &[&str]) {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(one_line(text).contains(&one_line(word)), "no {word:?} in\n{text}");
    }
}

fn adoption_works_here() -> bool {
    support::library();
    let output = run(nonic().arg("doctor")).exits(0).output;
    output.lines().any(|line| line.contains("adoption ") && line.contains("yes: "))
}

#[test]
fn adopted_memory_of_a_peer_is_told_to_be_mapped_and_in_which_apertures() {
    if !adoption_works_here() {
        return skip("memory cannot be adopted here");
    }
    let (initiator, target) = pair(&mut nonic(), &mut nonic());
    let peer = peer_when(&[initiator.pid()], |peer| peer["to"]["tier"] == "mapped");
    assert_eq!(peer["pid"], target.pid());
    assert!(peer["to"]["shared_memory"] == true && peer["from"]["tier"] == "mapped", "{peer:#}");
    let regions = &json(&[target.pid()])["processes"][0]["regions"];
    assert_eq!((&regions[0]["lie"], &regions[0]["count"]), (&"adopted".into(), &1.into()), "{regions:#}");
    assert_eq!(regions[1]["lie"], "device");
    let text = explain(&[target.pid()]).exits(0).output;
    holds(&text, &["adopted pages 1 of 1", "device memory", "towards it", "from it"]);

    let text = explain(&[initiator.pid(), target.pid()]).exits(0).output;
    let (there, back) = (format!("From {}", initiator.pid()), format!("From {}", target.pid()));
    holds(&text, &[&there, &back, "mapped             adopted: 1 region, 4 KiB", "device memory: 1 region"]);
}

#[test]
fn what_was_done_is_counted_by_whoever_did_it() {
    for tier in ["auto", "ring"] {
        let (initiator, target) = pair_with("NONIC_TIER", tier);
        let traffic = |end: &Waiting| json(&[end.pid()])["processes"][0]["traffic"].clone();
        let [asked, done] = [traffic(&initiator), traffic(&target)];
        let count = |traffic: &Value, what| traffic[what].as_u64().unwrap();
        assert!(count(&asked, "writes") > 0, "{asked:#}");
        // What the peer was asked for it has done, and what it was not asked for it does not know of.
        let [writes, by_peer] = [count(&asked, "writes"), count(&asked, "asked")];
        assert_eq!(by_peer, count(&done, "served"), "{asked:#} {done:#}");
        assert_eq!((count(&done, "sends"), count(&done, "writes"), count(&asked, "failed")), (0, 0, 0));
        if tier == "ring" {
            assert_eq!(by_peer, writes, "{asked:#}");
        }
        let bytes = count(&asked, "write_bytes");
        let text = explain(&[initiator.pid()]).exits(0).output;
        holds(
            &text,
            &[&format!("Traffic of {}", initiator.pid()), "requests done", &format!("{writes} write")],
        );
        assert!(bytes >= writes, "{asked:#}");
    }
}

#[test]
fn where_nothing_is_adopted_the_kernel_copies_and_the_variable_is_named() {
    let (initiator, target) = pair_with("NONIC_ADOPT", "never");
    let peer = peer_when(&[initiator.pid()], |peer| peer["to"]["shared_memory"] == true);
    assert_ne!(peer["to"]["tier"], "mapped");
    let text = explain(&[initiator.pid(), target.pid()]).exits(0).output;
    holds(
        &text,
        &[
            "NONIC_ADOPT=never in process",
            "with NONIC_ADOPT=auto",
            "plain: 1 region, 4 KiB: adoption is switched",
        ],
    );
    holds(&text, &["started with       NONIC_ADOPT=never"]);
}

#[test]
fn a_process_bound_to_the_ring_is_named_by_its_peer_too() {
    let (initiator, target) = pair(&mut nonic(), nonic().env("NONIC_TIER", "ring"));
    let fix = format!("start process {} with NONIC_TIER=auto", target.pid());
    let peer = peer_when(&[initiator.pid()], |peer| peer["to"]["fix"] == fix.as_str());
    assert_eq!((&peer["to"]["tier"], &peer["from"]["tier"]), (&"ring".into(), &"ring".into()), "{peer:#}");
    assert_eq!(peer["from"]["fix"], fix.as_str());
    let text = explain(&[target.pid()]).exits(0).output;
    holds(&text, &["ring (NONIC_TIER=ring)", "adoption is switched off"]);
}

#[test]
fn peers_of_two_users_are_told_to_become_one() {
    if !is_root() {
        return skip("only root can start processes of two users");
    }
    let other = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"];
    let (initiator, target) = pair(&mut nonic_as_ordinary_user(), &mut nonic_behind(&other));
    let peer = peer_when(&[initiator.pid()], |peer| peer["to"]["fix"] == "run both as the same user");
    assert_eq!((&peer["to"]["tier"], &peer["uid"]), (&"ring".into(), &65533.into()));

    // And neither of them may look at the other.
    let asked = run(nonic_as_ordinary_user().args(["doctor", &format!("--pid={}", target.pid())]));
    asked.exits(1).complains_of(&["belongs to user 65533", "runs as user 65534", "sudo nonic doctor --pid"]);
}

#[test]
fn a_link_is_shown_until_the_peer_is_gone() {
    let (initiator, target) = pair(&mut nonic(), &mut nonic());
    peer_when(&[target.pid()], |peer| peer["pid"] == initiator.pid());
    drop(initiator);
    peer_when(&[target.pid()], Value::is_null);
}

/// `cat`, once it is that: a child is born with the name and the files of its parent.
fn cat(output: Stdio) -> Child {
    let child = spawn(Command::new("cat").stdin(Stdio::piped()).stdout(output));
    let begun = Instant::now();
    while std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap() != "cat\n" {
        assert!(begun.elapsed() < PATIENCE, "cat does not begin");
        std::thread::yield_now();
    }
    child
}

/// A process that holds a memfd of the segment's name with these bytes in it. Ends with this object.
struct Holder(Child);

impl Holder {
    fn of(bytes: &[u8], length: u64) -> Self {
        let file: std::fs::File =
            rustix::fs::memfd_create("nonic-segment", MemfdFlags::CLOEXEC).unwrap().into();
        file.set_len(length).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        Self(cat(OwnedFd::from(file).into()))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of a segment: a head, a word for each queue pair, the key table, and whole pages with the counters of each queue pair and
/// of those that are gone.
fn segment_length() -> u64 {
    (4096 + 64 * 4096 * 8 + (128 << 20) + 64 * 4096 * 128 + 4096) as u64
}

#[test]
fn a_garbage_segment_is_an_error_in_words_whatever_it_holds() {
    let mut state = 7u64;
    let noise: Vec<u8> = (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect();
    let of_length = Holder::of(&noise, segment_length());
    explain(&[of_length.pid()]).exits(1).complains_of(&[
        "(cat)",
        "no port segment",
        "does not begin as a segment",
    ]);
    let short = Holder::of(&noise[..100], 100);
    explain(&[short.pid()]).exits(1).complains_of(&["it has 100 bytes"]);
    let mut newer = noise.clone();
    newer[..8].copy_from_slice(b"nonicRDM");
    newer[8..16].copy_from_slice(&77u64.to_ne_bytes());
    let newer = Holder::of(&newer, segment_length());
    explain(&[newer.pid()]).exits(1).complains_of(&["layout 77", "nonic of one release"]);
}

#[test]
fn a_process_without_a_device_and_one_that_is_not_there_are_told_apart() {
    let mut idle = cat(Stdio::null());
    explain(&[idle.id() as i32]).exits(1).complains_of(&["(cat)", "no device of nonic open"]);
    idle.kill().unwrap();
    let pid = idle.id() as i32;
    idle.wait().unwrap();
    // Its number is not given to another process before all others had their turn.
    explain(&[pid]).exits(1).complains_of(&[&format!("there is no process {pid}")]);
}

#[test]
fn a_process_with_itself_or_three_of_them_are_bad_usage() {
    explain(&[1, 1]).exits(2).complains_of(&["two different ones"]);
    explain(&[1, 2, 3]).exits(2).complains_of(&["two different ones"]);
    run(nonic().args(["doctor", "--pid=0"])).exits(2);
    run(nonic().args(["doctor", "--pid=1", "sh"])).exits(2);
}
