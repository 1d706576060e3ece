//! The examples of uDAPL, compiled against our headers and run with the built libraries.

mod library;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

fn example(name: &str) -> PathBuf {
    let names = library::names();
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c").join(name).with_extension("c");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(&source)
        .arg(format!("-I{}", names.join("include").display()))
        .arg(format!("-L{}", names.display()))
        .args(["-ldat", "-o"])
        .arg(&binary)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "{} does not compile", source.display());
    binary
}

/// Whether the memory of all adapters is coherent.
#[derive(Clone, Copy)]
enum Memory {
    Coherent,
    NotCoherent,
}

fn start(program: &Path, memory: Memory, arguments: &[&str]) -> Child {
    let value = match memory {
        Memory::Coherent => "0",
        Memory::NotCoherent => "1",
    };
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library::names())
        .env("NONIC_NONCOHERENT", value)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// What a program printed, which must have gone well.
#[track_caller]
fn end(child: Child) -> String {
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}{err}", output.status);
    assert_eq!(err, "", "the program complained");
    out.into_owned()
}

/// Waits until somebody listens on a service number.
fn wait_for_listener(number: &str) {
    let name = format!("/dat/{number}");
    let begun = Instant::now();
    loop {
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("the kernel lists sockets");
        if sockets.lines().any(|line| line.ends_with(&name) && line.contains(" 00010000 ")) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "nobody listens on {name}");
        std::thread::yield_now();
    }
}

/// A number that no other test, and no other run of this one, listens on.
fn number(offset: u32) -> String {
    (0x6e6f_0000_0000 + u64::from(std::process::id()) * 16 + u64::from(offset)).to_string()
}

/// Runs an example alone, and as two programs; returns what was printed: alone, by the listener, by the connector.
fn both_ways(name: &str, [listener, connector]: [&str; 2], offset: u32, memory: Memory) -> [String; 3] {
    let program = example(name);
    let alone = end(start(&program, memory, &[]));
    let number = number(offset);
    let first = start(&program, memory, &[listener, &number]);
    wait_for_listener(&number);
    let second = start(&program, memory, &[connector, &number]);
    let [second, first] = [end(second), end(first)];
    [alone, first, second]
}

#[test]
fn the_example_of_writing_does_what_it_says_whether_memory_is_coherent_or_not() {
    for (offset, memory) in [(0, Memory::Coherent), (1, Memory::NotCoherent)] {
        let [alone, listener, connector] = both_ways("dat_write", ["listen", "connect"], offset, memory);
        assert!(
            alone.contains("listener: 100000 numbers were written here and add up to 34999750000"),
            "{alone}"
        );
        assert!(alone.contains("connector: 100000 numbers written to service "), "{alone}");
        assert!(listener.starts_with("listener: 100000 numbers were written here"), "{listener}");
        assert_eq!(connector, format!("connector: 100000 numbers written to service {}\n", number(offset)));
    }
}

#[test]
fn the_example_of_lending_does_what_it_says_whether_memory_is_coherent_or_not() {
    for (offset, memory) in [(2, Memory::Coherent), (3, Memory::NotCoherent)] {
        let [alone, lender, borrower] = both_ways("dat_window", ["lend", "borrow"], offset, memory);
        assert!(alone.contains("4 parts were written") && alone.contains("was refused"), "{alone}");
        assert_eq!(lender, "lender: 4 parts were written while they were lent, and nothing afterwards\n");
        assert_eq!(borrower, "borrower: a write through a context that was taken back was refused\n");
    }
}
