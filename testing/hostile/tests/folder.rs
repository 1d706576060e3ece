//! Strangers in the folder in which processes of different network namespaces meet, while two honest ones meet there again and
//! again: these find each other, and descriptors, memory and messages stay within their bounds. Needs root, to be two users, in
//! network namespaces of its own.

#[path = "../../../crates/device/tests/common/mod.rs"]
mod common;
mod playing;
mod strangers;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nonic_device::{Operation, QpNumber, Status};
use nonic_hostile::folder::{FALSE_BLOCK, FALSE_GID};
use nonic_second_process::{SecondProcess, role, serve};
use nonic_transport::BLOCK_SIZE;

use common::End;
use playing::{RECEIVES, play, post_receive};
use strangers::*;

/// Messages there and back of one connection.
const MESSAGES: u64 = 10;
/// Of so many connections one is preceded by a request to nobody.
const STRAY_EVERY: u64 = 8;
/// How long an honest connection may take beside strangers.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how many seconds a liar may keep from introducing itself.
const SILENCE: &str = "2";

/// A new network namespace for this thread, and for the processes that it starts.
fn move_on() {
    // SAFETY: nothing of this thread depends on the network.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
}

fn gid_of(text: &str) -> [u8; 16] {
    u128::from_str_radix(text, 16).unwrap().to_be_bytes()
}

fn own_gid(end: &End) -> [u8; 16] {
    end.context().gid_table()[0].gid
}

/// Tries to reach somebody whom only liars name: that ends with a status, and soon.
fn stray() -> String {
    let end = End::new();
    end.connect_between(own_gid(&end), FALSE_GID, QpNumber(FALSE_BLOCK * BLOCK_SIZE + 1));
    end.post(3, Operation::Send { immediate: None }, &[end.piece(0, 64)]);
    let status = end.completion().status;
    assert_ne!(status, Status::Success, "nobody can have taken it");
    end.give_back();
    format!("{status:?}")
}

fn be_an_end() -> ! {
    count_warnings();
    // Keeps the device open.
    let first = End::new();
    let mut end = None;
    serve(|command, rest| {
        let number = || rest.parse::<u64>().unwrap();
        match command {
            "number" => first.pair.number().0.to_string(),
            "begin" => {
                end.take().into_iter().for_each(End::give_back);
                let new = end.insert(End::new());
                format!("{} {:032x}", new.pair.number().0, u128::from_be_bytes(own_gid(new)))
            }
            "connect" => {
                let end = end.as_ref().unwrap();
                let (number, gid) = rest.split_once(' ').unwrap();
                end.connect_between(own_gid(end), gid_of(gid), QpNumber(number.parse().unwrap()));
                (0..RECEIVES).for_each(|_| post_receive(end));
                "connected".into()
            }
            "ping" => play(end.as_mut().unwrap(), number(), true).to_string(),
            "pong" => play(end.as_mut().unwrap(), number(), false).to_string(),
            "stray" => stray(),
            "warnings" => warnings().to_string(),
            other => panic!("{other}"),
        }
    })
}

/// Two honest processes, each in a network namespace of its own, and the folder in which they meet.
struct Honest {
    folder: PathBuf,
    other: SecondProcess,
}

impl Honest {
    fn start(test: &str) -> (Self, SecondProcess) {
        let folder = std::env::temp_dir().join(format!("nonic-hostile.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        // Everybody may come, and take away what is their own.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o1777)).unwrap();
        let path = folder.display().to_string();
        // Nothing that arrives can have come by the wire.
        let variables =
            [("NONIC_MEET", path.as_str()), ("NONIC_WIRE", "off"), ("NONIC_WIRE_SILENCE", SILENCE)];
        let [one, other] = [(); 2].map(|()| {
            move_on();
            SecondProcess::start(test, "end", &variables)
        });
        // Strangers are where neither of them is.
        move_on();
        (Self { folder, other }, one)
    }

    /// Has both meet anew and talk; how long it took.
    fn meet(&mut self, one: &mut SecondProcess) -> Duration {
        let began = Instant::now();
        let (here, there) = (one.tell("begin"), self.other.tell("begin"));
        one.tell(&format!("connect {there}"));
        self.other.tell(&format!("connect {here}"));
        self.other.order(&format!("pong {MESSAGES}"));
        one.tell(&format!("ping {MESSAGES}"));
        self.other.hear();
        let time = began.elapsed();
        assert!(time < PATIENCE, "{time:?}");
        time
    }

    fn finish(self, one: SecondProcess) {
        one.finish();
        self.other.finish();
        std::fs::remove_dir_all(self.folder).unwrap();
    }
}

#[test]
fn whatever_a_stranger_does_in_the_folder_those_who_meet_there_do() {
    const TEST: &str = "whatever_a_stranger_does_in_the_folder_those_who_meet_there_do";
    if role().is_some() {
        be_an_end()
    }
    let Some(_alone) = alone(TEST) else { return };
    let (mut honest, mut one) = Honest::start(TEST);
    let path = honest.folder.display().to_string();
    let mut strays = 0;
    campaign(&mut one, Victim::Folder(&path), foreigners_share() + IN_A_MESSAGE, |one, number| {
        if number % STRAY_EVERY == 0 {
            one.tell("stray");
            strays += 1;
        }
        honest.meet(one)
    });
    println!("{strays} requests to nobody");
    honest.finish(one);
}

#[test]
fn whatever_a_stranger_does_through_the_folder_to_a_process_that_is_met_there_it_goes_on() {
    const TEST: &str =
        "whatever_a_stranger_does_through_the_folder_to_a_process_that_is_met_there_it_goes_on";
    if role().is_some() {
        be_an_end()
    }
    let Some(_alone) = alone(TEST) else { return };
    let (mut honest, mut one) = Honest::start(TEST);
    let path = honest.folder.display().to_string();
    let number = one.tell("number").parse().unwrap();
    campaign(&mut one, Victim::NumberIn(number, &path), foreigners_share() + IN_A_MESSAGE, |one, _| {
        honest.meet(one)
    });
    honest.finish(one);
}
