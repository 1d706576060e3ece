//! What programs do that should have ended long ago, for whoever reads the report: a hang that comes once in a thousand runs is not
//! seen a second time.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

/// Processes that are told of at most: a crowd does the same.
const PROCESSES_MAX: usize = 16;

/// A process and all that descend from it, with their states, and with their stacks where gdb is installed and may look.
pub(crate) fn tell_of(process: u32) -> String {
    let mut text = String::new();
    for id in family(process).into_iter().take(PROCESSES_MAX) {
        let _ = writeln!(text, "---- process {id}: {}", words_of(id));
        for thread in threads_of(id) {
            let _ = writeln!(text, "     {thread}");
        }
        for line in stacks_of(id).lines() {
            let _ = writeln!(text, "     stack| {line}");
        }
    }
    text
}

/// The process first, then its children, then theirs.
fn family(process: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for id in numbers_in("/proc") {
        if let Some(parent) = parent_of(id) {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found = vec![process];
    let mut at = 0;
    while let Some(id) = found.get(at) {
        found.extend(children.remove(id).unwrap_or_default());
        at += 1;
    }
    found
}

fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Behind the name, which may hold anything: the state, then the parent.
    stat.rsplit(')').next()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn words_of(id: u32) -> String {
    let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ")
}

/// The name, the state and the place in the kernel of each thread.
fn threads_of(id: u32) -> Vec<String> {
    let read = |thread: u32, file: &str| {
        fs::read_to_string(format!("/proc/{id}/task/{thread}/{file}")).unwrap_or_default()
    };
    let tell = |thread: u32| {
        let stat = read(thread, "stat");
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next().unwrap_or('?');
        format!("thread {thread} ({}): {state} {}", read(thread, "comm").trim(), read(thread, "wchan").trim())
    };
    numbers_in(&format!("/proc/{id}/task")).into_iter().map(tell).collect()
}

fn stacks_of(id: u32) -> String {
    let mut gdb = Command::new("timeout");
    gdb.args(["--signal=KILL", "30", "gdb", "-nx", "-batch", "-ex", "thread apply all backtrace 24", "-p"]);
    let output = gdb.arg(id.to_string()).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}
