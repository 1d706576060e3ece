//! A child that is forked while another thread says something to people says what it has to say.

use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use std::{fs, thread};

use nonic_device::log_to_standard_error;
use nonic_sys::{AsRawFd, POLL_IN, PollEntry, poll};

const PATIENCE: Duration = Duration::from_secs(60);

/// Puts a pipe that is full in place of standard error; its other end.
fn fill_standard_error() -> OwnedFd {
    let mut pipe = [0; 2];
    // SAFETY: plain calls about descriptors that this function opens, and bytes of its own.
    unsafe {
        assert_eq!(libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK), 0);
        while libc::write(pipe[1], [b'.'; 4096].as_ptr().cast(), 4096) > 0 {}
        assert_eq!(libc::fcntl(pipe[1], libc::F_SETFL, 0), 0);
        assert_eq!(libc::dup2(pipe[1], 2), 2);
        libc::close(pipe[1]);
        OwnedFd::from_raw_fd(pipe[0])
    }
}

fn is_asleep(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

#[test]
fn a_child_that_is_forked_while_something_is_said_says_its_own() {
    log_to_standard_error();
    let pipe = fill_standard_error();
    let (tell, told) = std::sync::mpsc::channel();
    let parent = thread::spawn(move || {
        // SAFETY: asks for nothing.
        tell.send(unsafe { libc::gettid() }).unwrap();
        tracing::warn!("the parent says this");
    });
    let saying = told.recv().unwrap();
    let end = Instant::now() + PATIENCE;
    while !is_asleep(saying) {
        assert!(Instant::now() < end, "the thread never found the pipe full");
        thread::yield_now();
    }
    // SAFETY: the child says something, which is what is tried, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        tracing::warn!("the child says this");
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut heard = Vec::new();
    let has = |heard: &[u8], text: &str| heard.windows(text.len()).any(|part| part == text.as_bytes());
    while !has(&heard, "the child says this") || !has(&heard, "the parent says this") {
        let mut entry = [PollEntry { number: pipe.as_raw_fd(), events: POLL_IN, revents: 0 }];
        if poll(&mut entry, Some(end.saturating_duration_since(Instant::now()))).unwrap_or(0) == 0 {
            // SAFETY: a child of this process's that was not waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child waits for a lock that nobody has");
        }
        let mut bytes = [0; 4096];
        // SAFETY: as many bytes as the local has.
        let count = unsafe { libc::read(pipe.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        heard.extend_from_slice(&bytes[..usize::try_from(count).unwrap_or(0)]);
    }
    let mut status = -1;
    // SAFETY: the place is a local.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    parent.join().unwrap();
}
