//! What one process may do to another, and what limits both.

use std::io;

use rustix::process::Resource;

use super::peer::{MemoryPeer, Myself, try_copy, try_open};
use super::report::Line;

const SIBLING: &str = "copy to a peer";
const OPENED: &str = "open a peer's memory";

/// What `process_vm_readv` and `process_vm_writev` are allowed to do here.
pub(super) struct Copying {
    /// Between two processes of this user that did not start each other.
    pub(super) siblings: bool,
}

/// Findings about copying between processes, and what they mean for the tiers.
pub(super) fn examine_copying() -> (Vec<Line>, Copying) {
    let yama = yama_scope();
    let mut lines = vec![yama_line(&yama)];
    let (Ok(mut first), Ok(mut second)) = (MemoryPeer::start(false), MemoryPeer::start(false)) else {
        lines.push(Line::note(SIBLING, "cannot be told: no helper process could be started"));
        return (lines, Copying { siblings: false });
    };
    let down = try_copy(&mut Myself, &mut first, 2);
    let up = try_copy(&mut first, &mut Myself, 3);
    let across = try_copy(&mut first, &mut second, 4);
    let siblings = across.is_ok();
    lines.push(direction("copy to a child", &down));
    lines.push(direction("copy to the parent", &up));
    lines.push(match across {
        Ok(()) => Line::ok(SIBLING, "yes: process_vm_readv and process_vm_writev work"),
        Err(error) => {
            let permitted =
                MemoryPeer::start(true).and_then(|mut target| try_copy(&mut first, &mut target, 5)).is_ok();
            Line::note(SIBLING, format!("refused: {error}; ordinary memory goes through the ring"))
                .fix(remedy(permitted, down.is_ok(), &yama))
        }
    });
    if siblings {
        lines.push(match try_open(&mut first, &second) {
            Ok(()) => Line::ok(OPENED, "yes: /proc/PID/mem can be opened, through which the kernel writes"),
            Err(error) => {
                Line::note(OPENED, format!("refused: {error}; writes to ordinary memory go through the ring"))
                    .fix("mount /proc where the programs run, so that processes of one user see each other")
            }
        });
    }
    (lines, Copying { siblings })
}

fn direction(name: &'static str, tried: &io::Result<()>) -> Line {
    match tried {
        Ok(()) => Line::ok(name, "yes"),
        Err(error) => Line::note(name, format!("refused: {error}")),
    }
}

/// The one line that would let siblings copy.
fn remedy(permitted_when_target_agrees: bool, parent_can: bool, yama: &Result<u32, io::Error>) -> String {
    if permitted_when_target_agrees {
        "nonic run --allow-ptrace -- PROGRAM; or for all: sudo sysctl kernel.yama.ptrace_scope=0".to_owned()
    } else if parent_can {
        match yama {
            Ok(1..) => "sudo sysctl kernel.yama.ptrace_scope=0".to_owned(),
            _ => {
                "let the security module (AppArmor, SELinux) allow ptrace between these processes".to_owned()
            }
        }
    } else {
        "allow process_vm_readv and process_vm_writev in the seccomp profile \
         (Docker: --cap-add SYS_PTRACE, or --security-opt seccomp=PROFILE)"
            .to_owned()
    }
}

fn yama_scope() -> Result<u32, io::Error> {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope")?;
    text.trim().parse().map_err(io::Error::other)
}

fn yama_line(scope: &Result<u32, io::Error>) -> Line {
    const NAME: &str = "Yama ptrace_scope";
    match scope {
        Ok(0) => Line::ok(NAME, "0: processes of one user may copy to and from each other"),
        Ok(1) => Line::ok(
            NAME,
            "1: only from parent to child, unless the child agrees or the parent may trace anyone",
        ),
        Ok(2) => Line::ok(NAME, "2: only processes with CAP_SYS_PTRACE may copy"),
        Ok(scope) => Line::ok(NAME, format!("{scope}: no process may copy, until reboot")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Line::ok(NAME, "none: this kernel does not run Yama, or /proc/sys is hidden")
        }
        Err(error) => Line::ok(NAME, format!("cannot be told: {error}")),
    }
}

/// Findings about limits, processors and namespaces.
pub(super) fn examine_limits() -> Vec<Line> {
    vec![
        descriptors(),
        locked_memory(),
        processors(),
        namespace("user"),
        namespace("pid"),
        namespace("net"),
        namespace("ipc"),
    ]
}

fn descriptors() -> Line {
    /// What a small program needs beside its own: a device, a channel, a queue and some peers.
    const COMFORTABLE: u64 = 64;
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    match limit {
        Some(limit) if limit < COMFORTABLE => {
            Line::note("open files", format!("at most {limit}: a device and each peer process take a few"))
                .fix("ulimit -n 1024")
        }
        Some(limit) => Line::ok("open files", format!("at most {limit}")),
        None => Line::ok("open files", "unlimited"),
    }
}

fn locked_memory() -> Line {
    let limit = rustix::process::getrlimit(Resource::Memlock).current;
    let limit = limit.map_or("unlimited".to_owned(), |bytes| format!("{} KiB", bytes / 1024));
    Line::ok("locked memory", format!("{limit}; does not matter, nothing is pinned"))
}

fn processors() -> Line {
    let count = rustix::thread::sched_getaffinity(None).map(|set| set.count());
    match count {
        Ok(1) => Line::note(
            "processors",
            "1: two processes that poll take turns, so a round trip takes a time slice",
        )
        .fix("give both more processors (taskset, cpuset), or let programs wait for events (perftest: -e)"),
        Ok(count) => Line::ok("processors", format!("{count} usable")),
        Err(error) => Line::ok("processors", format!("cannot be told: {error}")),
    }
}

fn namespace(kind: &'static str) -> Line {
    let (name, meaning) = match kind {
        "user" => ("user namespace", "inside one, peers with other user ids use the ring"),
        "pid" => ("pid namespace", "peers in another one use the ring"),
        "net" => ("network namespace", "peers in another one are reached by RoCEv2"),
        _ => ("ipc namespace", "does not matter"),
    };
    match std::fs::read_link(format!("/proc/self/ns/{kind}")) {
        Ok(link) => Line::ok(name, format!("{}; {meaning}", link.display())),
        Err(error) => Line::ok(name, format!("cannot be told ({error}); {meaning}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_what_is_in_the_way() {
        assert!(remedy(true, true, &Ok(1)).contains("--allow-ptrace"));
        assert!(remedy(false, true, &Ok(2)).contains("ptrace_scope"));
        assert!(remedy(false, true, &Ok(0)).contains("security module"));
        assert!(remedy(false, false, &Ok(0)).contains("seccomp"));
    }
}
