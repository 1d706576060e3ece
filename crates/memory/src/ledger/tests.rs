//! The ledger between this process and what other openings of the same file say: the tests of other crates have processes.

use super::*;
use nonic_sys::{RangeLock, lock_byte_within, try_lock_range};

/// The ledger is a process's, and the tests of a program are one.
static TURN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn memory(inode: u64) -> SharedMemoryRange {
    SharedMemoryRange { file: MemoryFile { device: (0, 1), inode, segments: 0 }, offset: 0, length: 4096 }
}

/// Another process's opening of the file, and a line that it holds.
fn other_process(subject: Subject, number: u64) -> LedgerFile {
    let other = LedgerFile::open().unwrap();
    let turn = other.turn(PATIENCE).unwrap();
    other.begin().unwrap();
    let network = namespace_number("net").unwrap();
    other.take(number, Line { process: 4_321, network, subject }).unwrap();
    drop(turn);
    other
}

fn is_there() -> bool {
    std::fs::exists(file::path()).unwrap()
}

#[test]
fn a_cookie_of_another_process_names_one_memory_until_that_lets_go() {
    let _alone = alone();
    let other = other_process(Subject::Cookie([7; 40], memory(1)), 1);
    let refused = claim_cookie([7; 40], memory(2)).unwrap_err();
    assert!(matches!(refused, LedgerError::OtherMemory { process: 4_321 }), "{refused}");
    assert_eq!(other.lines().unwrap().len(), 1, "a refused claim leaves nothing");
    let same = claim_cookie([7; 40], memory(1)).unwrap();
    let mut like_it = [7; 40];
    like_it[39] = 8;
    let next = claim_cookie(like_it, memory(2)).unwrap();
    assert_eq!(other.lines().unwrap().len(), 3);
    drop(other);
    drop(same);
    let now = claim_cookie([7; 40], memory(2)).unwrap();
    drop((next, now));
    assert!(!is_there(), "the last one takes the file away");
}

#[test]
fn lines_of_the_killed_are_used_again() {
    let _alone = alone();
    for _ in 0..100 {
        // Dropped without a word, as the kernel does.
        drop(other_process(Subject::Cookie([9; 40], memory(3)), 1));
    }
    assert!(is_there());
    let claims: Vec<_> = (0..20).map(|byte| claim_cookie([byte; 40], memory(4)).unwrap()).collect();
    assert_eq!(claims.iter().map(|claim| claim.line).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    drop(claims);
    assert!(!is_there());
}

#[test]
fn other_networks_have_cookies_of_their_own() {
    let _alone = alone();
    let other = LedgerFile::open().unwrap();
    other.begin().unwrap();
    let subject = Subject::Cookie([7; 40], memory(1));
    other.take(1, Line { process: 4_321, network: 1, subject }).unwrap();
    drop(claim_cookie([7; 40], memory(2)).unwrap());
    other.remove_if_unused();
}

#[test]
fn there_are_lines_up_to_the_limit_and_not_beyond_it() {
    let _alone = alone();
    let last = LINES_MAX - 1;
    let other = other_process(Subject::Cookie([1; 40], memory(1)), last - 1);
    // Those in front are held as well.
    assert!(try_lock_range(other.as_fd(), &(1..last - 1), RangeLock::Alone).unwrap());
    let claim = claim_cookie([2; 40], memory(2)).unwrap();
    assert_eq!(claim.line, last);
    assert!(matches!(claim_cookie([3; 40], memory(3)), Err(LedgerError::Full)));
    assert_eq!(lock().own.len(), 1);
    drop((claim, other));
    drop(claim_cookie([2; 40], memory(2)).unwrap());
}

#[test]
fn who_is_stopped_in_its_turn_is_not_waited_for_by_who_leaves() {
    let _alone = alone();
    let claim = claim_cookie([4; 40], memory(4)).unwrap();
    let other = other_process(Subject::Cookie([5; 40], memory(5)), 9);
    let turn = lock_byte_within(other.as_fd(), 0, PATIENCE, || 0).unwrap().unwrap();
    drop(claim);
    assert!(lock().file.is_none());
    drop(turn);
    // It says what it said, and that does not count.
    assert!(other.lines().unwrap()[0].1.is_some());
    drop(claim_cookie([4; 40], memory(6)).unwrap());
    drop(other);
    drop(claim_cookie([4; 40], memory(6)).unwrap());
    assert!(!is_there());
}

#[test]
fn a_file_that_is_something_else_or_goes_away_is_named() {
    let _alone = alone();
    std::fs::write(file::path(), "my notes").unwrap();
    let refused = claim_cookie([1; 40], memory(1)).unwrap_err();
    assert!(matches!(refused, LedgerError::NoLedger { .. }), "{refused}");
    assert_eq!(std::fs::read_to_string(file::path()).unwrap(), "my notes");
    std::fs::remove_file(file::path()).unwrap();
    let claim = claim_cookie([1; 40], memory(1)).unwrap();
    std::fs::remove_file(file::path()).unwrap();
    assert!(matches!(claim_cookie([2; 40], memory(1)), Err(LedgerError::Removed)));
    drop(claim);
    drop(claim_cookie([2; 40], memory(1)).unwrap());
}

#[test]
fn a_shadow_is_kept_by_all_who_share_it() {
    let _alone = alone();
    let key = memory(8).file;
    let (one, claim) = share_shadow(key).unwrap();
    one.write_at(SHADOW_HEADER, b"bytes").unwrap();
    // The same process is another one to the kernel's locks.
    let own = one.as_fd().as_raw_fd() as u32;
    let found = open_shadow(std::process::id() as i32, own, key).unwrap();
    let mut bytes = [0; 5];
    found.read_at(SHADOW_HEADER, &mut bytes).unwrap();
    assert_eq!(&bytes, b"bytes");
    assert!(open_shadow(std::process::id() as i32, own, memory(9).file).is_err());
    drop(claim);
    // A keeper that cannot be reached is no reason for a second shadow.
    let other = other_process(Subject::Shadow(key, u32::MAX), 1);
    assert!(matches!(share_shadow(key), Err(LedgerError::Unreachable { process: 4_321, .. })));
    drop(other);
    drop(share_shadow(key).unwrap());
    assert!(!is_there());
}
