//! The side that is asked: it reads the secret where the kernel lets it, and says so without saying it.

use std::hash::Hasher;

use nonic_sys::{
    AsFd, Credentials, Piece, SharedMemory, effective_user, may_trace_others, overflow_user,
    read_copied_file, read_foreign_file, read_process_into,
};
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::challenge::{LENGTH, MARK, Question};
use crate::peer::Peer;

/// What only somebody can say who has read the secret. The secret does not follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer(pub [u8; 16]);

nonic_message::parts!(Answer(bytes));

/// How the secret was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By the asking process's descriptor, through `/proc/PID/fd`.
    Descriptor,
    /// By a copy of its descriptor (`pidfd_getfd(2)`).
    Copy,
    /// Out of its memory (`process_vm_readv(2)`).
    Memory,
}

/// Why a question was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// The kernel refused each way there is, the last one with this error number.
    #[error(
        "the kernel lets this process neither at the other one's descriptors nor at its memory (error {0})"
    )]
    Refused(i32),
    /// What could be read is no question for this process.
    #[error("what the other process shows was not meant for this one")]
    NotMeant,
    /// The other process has ended meanwhile.
    #[error("the other process has ended")]
    Ended,
}

impl Answer {
    pub(crate) fn from_shown(shown: &[u8; LENGTH]) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&shown[32..]);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&shown[..32]);
        Self(hasher.finish128().as_bytes())
    }
}

/// Answers what `peer` asks, if the kernel lets this process at it. Nothing here waits for the peer, whatever it is.
pub fn answer(question: &Question, peer: &Peer) -> Result<(Answer, Route), Silence> {
    let mut refused = 0;
    for route in [Route::Descriptor, Route::Copy, Route::Memory] {
        if route != Route::Descriptor && !is_harmless(peer.credentials()) {
            continue;
        }
        let mut shown = [0; LENGTH];
        match read(route, question, peer, &mut shown) {
            Ok(LENGTH) => {}
            Ok(_) => return Err(Silence::NotMeant),
            Err(error) => {
                refused = error.raw_os_error().unwrap_or(refused);
                continue;
            }
        }
        if peer.has_ended() {
            // Somebody else may have its number, and what was read may be his.
            return Err(Silence::Ended);
        }
        if shown[..16] != MARK || !is_meant(&shown, peer.credentials()) {
            return Err(Silence::NotMeant);
        }
        return Ok((Answer::from_shown(&shown), route));
    }
    Err(Silence::Refused(refused))
}

/// Whether the peer made this for the process that reads it. In another pid namespace it does not know the number.
fn is_meant(shown: &[u8; LENGTH], peer: Credentials) -> bool {
    let mut number = [0; 4];
    number.copy_from_slice(&shown[16..20]);
    let meant = i32::from_le_bytes(number);
    meant == std::process::id() as i32 || meant == 0 || peer.pid == 0 || !shares_numbers(peer.pid)
}

/// Whether process `pid` numbers processes as this one does: both are in one pid namespace.
fn shares_numbers(pid: i32) -> bool {
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/pid"));
    match (namespace("self"), namespace(&pid.to_string())) {
        (Ok(own), Ok(theirs)) => own == theirs,
        // Where it cannot be seen they are taken for the same: then the number has to be right.
        _ => true,
    }
}

/// Whether reading memory of `peer`, or closing a copy of one of its descriptors, cannot block for ever: behind either may
/// stand a file system of the peer's that never answers. A process without the capability to look into others can only
/// ever look into those of its own user.
fn is_harmless(peer: Credentials) -> bool {
    let same_user = peer.uid == effective_user() && peer.uid != overflow_user();
    same_user || !may_trace_others()
}

fn read(route: Route, question: &Question, peer: &Peer, shown: &mut [u8; LENGTH]) -> std::io::Result<usize> {
    let unknown = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let pid = peer.credentials().pid;
    match route {
        Route::Descriptor | Route::Copy if question.descriptor == u32::MAX => Err(unknown()),
        Route::Descriptor | Route::Memory if pid <= 0 => Err(unknown()),
        Route::Descriptor => {
            let like = SharedMemory::create("nonic-answer", 1)?;
            read_foreign_file(pid, question.descriptor, like.as_fd(), shown)
        }
        Route::Copy => {
            let like = SharedMemory::create("nonic-answer", 1)?;
            let process = peer.process().ok_or_else(unknown)?;
            read_copied_file(process, question.descriptor, like.as_fd(), shown)
        }
        Route::Memory => {
            let address = usize::try_from(question.address).map_err(|_| unknown())?;
            read_process_into(pid, Piece { address, length: LENGTH }, shown)
        }
    }
}
