//! The examples of uDAPL, compiled against our headers and run with the built libraries.

mod c_program;
mod library;

use std::path::Path;
use std::process::Child;

use c_program::{compile, end, wait_for_listener};

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
    c_program::start(program, arguments, &[("NONIC_NONCOHERENT", value)])
}

/// A number that no other test, and no other run of this one, listens on.
fn number(offset: u32) -> String {
    (0x6e6f_0000_0000 + u64::from(std::process::id()) * 16 + u64::from(offset)).to_string()
}

/// Runs an example alone, and as two programs; returns what was printed: alone, by the listener, by the connector.
fn both_ways(name: &str, [listener, connector]: [&str; 2], offset: u32, memory: Memory) -> [String; 3] {
    let program = compile(&format!("../../examples/c/{name}.c"), "-ldat");
    let alone = end(start(&program, memory, &[]));
    let number = number(offset);
    let first = start(&program, memory, &[listener, &number]);
    wait_for_listener(&format!("/dat/{number}"));
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
