//! What the kernel offers.

use std::io;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::thread::{MembarrierCommand, SecureComputingMode};

use super::report::Line;
use crate::system;

/// All findings about the kernel.
pub(super) fn examine() -> Vec<Line> {
    vec![version(), memfd(), sealing(), eventfd(), proc_present(), mapping_query(), membarrier(), seccomp()]
}

fn version() -> Line {
    let name = rustix::system::uname();
    let text = |words: &std::ffi::CStr| words.to_string_lossy().into_owned();
    Line::ok("kernel", format!("{} {}, {}", text(name.sysname()), text(name.release()), text(name.machine())))
}

fn memfd() -> Line {
    match rustix::fs::memfd_create("nonic-doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => Line::ok("memfd_create", "yes: device memory and rings live there"),
        Err(error) => Line::problem(
            "memfd_create",
            format!("refused: {error}"),
            "allow memfd_create in the seccomp profile (it needs Linux 3.17 or newer)",
        ),
    }
}

fn sealing() -> Line {
    let seal = || {
        let file = rustix::fs::memfd_create("nonic-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, 4096)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
    };
    match seal() {
        Ok(()) => Line::ok("memfd sealing", "yes: a peer cannot shorten memory under us"),
        Err(error) => Line::problem(
            "memfd sealing",
            format!("refused: {error}; a peer could end this process by shortening shared memory"),
            "allow fcntl F_ADD_SEALS in the seccomp profile",
        ),
    }
}

fn eventfd() -> Line {
    match rustix::event::eventfd(
        0,
        rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
    ) {
        Ok(_) => Line::ok("eventfd", "yes"),
        Err(error) => Line::problem(
            "eventfd",
            format!("refused: {error}"),
            "allow eventfd2 in the seccomp profile, or raise ulimit -n",
        ),
    }
}

fn proc_present() -> Line {
    if std::path::Path::new("/proc/self/status").exists() {
        Line::ok("/proc", "mounted")
    } else {
        Line::note("/proc", "not mounted: some lines here cannot be told; devices work without it")
            .fix("mount -t proc proc /proc")
    }
}

/// Whether the kernel says what is mapped at an address without a file being read.
fn mapping_query() -> Line {
    const NAME: &str = "PROCMAP_QUERY";
    let here = 0_u8;
    let asked = std::fs::File::open("/proc/self/maps")
        .and_then(|maps| system::query_mapping(&maps, (&raw const here).addr()));
    match asked {
        Ok(()) => Line::ok(NAME, "yes: what is mapped where is asked with one call"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Line::note(NAME, "no /proc/self/maps"),
        Err(error) => {
            Line::note(NAME, format!("no ({error}): /proc/self/maps is read instead, which is slower"))
                .fix("Linux 6.11 or newer")
        }
    }
}

fn membarrier() -> Line {
    let query = rustix::thread::membarrier_query();
    let wanted = [MembarrierCommand::GlobalExpedited, MembarrierCommand::RegisterGlobalExpedited];
    if wanted.into_iter().all(|command| query.contains_command(command)) {
        Line::ok("membarrier", "global expedited: operations need no fence")
    } else {
        Line::note(
            "membarrier",
            "no global expedited command: every direct operation pays a fence (some 10 ns)",
        )
        .fix("allow membarrier in the seccomp profile (it needs Linux 4.16 or newer)")
    }
}

fn seccomp() -> Line {
    let no_new_privileges = match rustix::thread::no_new_privs() {
        Ok(true) => "no_new_privs set",
        Ok(false) => "no_new_privs not set",
        Err(_) => "no_new_privs unknown",
    };
    match rustix::thread::secure_computing_mode() {
        Ok(SecureComputingMode::Disabled) => Line::ok("seccomp", format!("no filter; {no_new_privileges}")),
        Ok(_) => Line::ok(
            "seccomp",
            format!("a filter is in force; what it refuses shows here; {no_new_privileges}"),
        ),
        Err(error) => Line::ok("seccomp", format!("cannot be told: {error}; {no_new_privileges}")),
    }
}
