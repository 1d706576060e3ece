//! C programs of SCIF, compiled against our header and run with the built libraries: the border of the interface, and
//! the examples.

mod c_program;
mod library;

use std::path::{Path, PathBuf};
use std::process::Child;

use c_program::{compile, end, wait_for_listener};

fn test_program(name: &str) -> PathBuf {
    compile(&format!("tests/c/{name}.c"), "-lscif")
}

fn example(name: &str) -> PathBuf {
    compile(&format!("../../examples/c/{name}.c"), "-lscif")
}

/// The name under which this test's processes find each other, and nobody else.
fn fabric(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn start(program: &Path, fabric: &str, node: &str, arguments: &[&str]) -> Child {
    let variables = [("NONIC_SCIF_FABRIC", fabric), ("NONIC_SCIF_NODE", node), ("NONIC_SCIF_NODES", "0-1")];
    c_program::start(program, arguments, &variables)
}

/// Runs an example alone and as two nodes; returns what each side printed at last.
fn both_ways(name: &str, [server, client]: [&str; 2], port: &str) -> [String; 3] {
    let program = example(name);
    let alone = end(start(&program, &fabric(name), "0", &[]));
    let fabric = fabric(&format!("{name}-nodes"));
    let server = start(&program, &fabric, "1", &[server, port]);
    wait_for_listener(&format!("/{fabric}/1/{port}"));
    let client = start(&program, &fabric, "0", &[client, "1", port]);
    [alone, end(server), end(client)]
}

#[test]
fn the_example_of_windows_does_what_it_says_alone_and_between_nodes() {
    let [alone, card, host] = both_ways("scif_window", ["card", "host"], "2050");
    assert!(alone.contains("card: 100000 numbers came from node 0"), "{alone}");
    assert!(alone.contains("host: the card on node 0 has seen every number"), "{alone}");
    assert!(card.contains("numbers came from node 0"), "{card}");
    assert_eq!(host, "host: the card on node 1 has seen every number\n");
}

#[test]
fn the_example_of_a_mapped_ring_does_what_it_says_alone_and_between_nodes() {
    let [alone, producer, consumer] = both_ways("scif_ring", ["producer", "consumer"], "2051");
    assert!(alone.contains("producer: all 200000 messages were read"), "{alone}");
    assert_eq!(producer, "producer: all 200000 messages were read\n");
    assert_eq!(consumer, "consumer: 200000 messages came through the mapping\n");
}

#[test]
fn wrong_words_are_refused_in_the_order_of_the_interface_and_change_nothing() {
    let output = end(start(&test_program("scif_words"), &fabric("words"), "0", &[]));
    assert!(output.ends_with("checks\n"), "{output}");
}

#[test]
fn a_successful_call_of_every_kind_leaves_errno_alone() {
    let output = end(start(&test_program("scif_errno"), &fabric("errno"), "0", &[]));
    assert_eq!(output, "22 calls left errno alone\n");
}

#[test]
fn a_thread_is_not_cancelled_inside_a_call() {
    let output = end(start(&test_program("scif_cancel"), &fabric("cancel"), "0", &[]));
    assert_eq!(output, "200 threads cancelled\n");
}
