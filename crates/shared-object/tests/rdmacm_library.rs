//! `librdmacm.so.1` as programs and the loader see it.

mod elf;
mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where Debian installs the original.
const ORIGINAL: &str = "/usr/lib/x86_64-linux-gnu/librdmacm.so.1";

/// What each version node holds. 1.4 and 1.5 are of later releases than the header we follow.
const NODES: [(&str, &str); 6] = [
    (
        "1.0",
        "rdma_accept rdma_ack_cm_event rdma_bind_addr rdma_connect rdma_create_ep rdma_create_event_channel \
         rdma_create_id rdma_create_qp rdma_create_qp_ex rdma_create_srq rdma_create_srq_ex rdma_destroy_ep \
         rdma_destroy_event_channel rdma_destroy_id rdma_destroy_qp rdma_destroy_srq rdma_disconnect rdma_event_str \
         rdma_free_devices rdma_freeaddrinfo rdma_get_cm_event rdma_get_devices rdma_get_dst_port rdma_get_request \
         rdma_get_src_port rdma_getaddrinfo rdma_join_multicast rdma_leave_multicast rdma_listen rdma_migrate_id \
         rdma_notify rdma_reject rdma_resolve_addr rdma_resolve_route rdma_set_option \
         raccept rbind rclose rconnect rfcntl rgetpeername rgetsockname rgetsockopt riomap riounmap riowrite rlisten \
         rpoll rread rreadv rrecv rrecvfrom rrecvmsg rselect rsend rsendmsg rsendto rsetsockopt rshutdown rsocket rwrite \
         rwritev",
    ),
    ("1.1", "rdma_join_multicast_ex"),
    ("1.2", "rdma_establish rdma_init_qp_attr"),
    ("1.3", "rdma_get_remote_ece rdma_reject_ece rdma_set_local_ece"),
    ("1.4", "rdma_query_addrinfo rdma_resolve_addrinfo rdma_write_cm_event"),
    ("1.5", "repoll_create repoll_ctl repoll_wait"),
];

fn rdmacm_library() -> PathBuf {
    library::names().join("librdmacm.so.1")
}

#[test]
fn exactly_the_calls_of_the_interface_are_exported_each_under_its_node() {
    let listed: BTreeSet<String> = NODES
        .iter()
        .flat_map(|(node, calls)| calls.split_whitespace().map(move |call| format!("{call}@@RDMACM_{node}")))
        .collect();
    assert_eq!(elf::versioned_symbols(&rdmacm_library()), listed);
    assert_eq!(elf::unversioned_symbols(&rdmacm_library()), BTreeSet::new());
}

#[test]
fn every_symbol_of_the_distributions_library_is_in_ours_under_the_same_version() {
    if !Path::new(ORIGINAL).exists() {
        println!(
            "SKIPPED: {ORIGINAL} is not installed, there is nothing to compare with (package librdmacm1)"
        );
        return;
    }
    let (ours, theirs) =
        (elf::versioned_symbols(&rdmacm_library()), elf::versioned_symbols(Path::new(ORIGINAL)));
    assert!(theirs.len() > 60, "the original's table was read");
    let missing: Vec<_> = theirs.difference(&ours).collect();
    assert!(missing.is_empty(), "in the distribution's library and not in ours: {missing:?}");
}

#[test]
fn the_library_has_the_name_and_the_files_of_the_original() {
    assert_eq!(elf::name(&rdmacm_library()), "librdmacm.so.1");
    let folder = library::names();
    let leads_to = |name: &str| fs::read_link(folder.join(name)).expect("the build made the link");
    assert_eq!(leads_to("librdmacm.so"), Path::new("librdmacm.so.1"));
    assert_eq!(leads_to("librdmacm.so.1"), Path::new("librdmacm.so.1.3.44.0"));
    assert!(folder.join("librdmacm.so.1.3.44.0").is_file());
}

#[test]
fn the_engine_offers_the_connection_manager_by_one_symbol_and_no_call_of_it() {
    let symbols = elf::unversioned_symbols(&library::path());
    assert!(symbols.contains("nonic_rdmacm_table"));
    let calls: Vec<_> = symbols.iter().filter(|name| name.starts_with("rdma_")).collect();
    assert_eq!(calls, [""; 0]);
}

/// Compiles `tests/c/NAME.c` against the distribution's header, or says that there is none.
fn compile(name: &str, libraries: &[&str]) -> Option<PathBuf> {
    if !Path::new("/usr/include/rdma/rdma_cma.h").exists() {
        println!("SKIPPED: librdmacm-dev is not installed, programs cannot be compiled");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}{}", libraries.concat()));
    let status = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g"])
        .arg(source)
        .args(libraries)
        .arg("-o")
        .arg(&program)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "{name}.c does not compile");
    Some(program)
}

fn run(program: &Path, libraries: &Path) -> Output {
    Command::new(program).env("LD_LIBRARY_PATH", libraries).output().expect("the program starts")
}

#[test]
fn without_the_engine_beside_it_the_library_says_so_once_and_every_call_fails_with_enodev() {
    let Some(program) = compile("rdmacm_alone", &["-lrdmacm", "-libverbs"]) else { return };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rdmacm-alone");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests can be written to");
    fs::copy(rdmacm_library(), folder.join("librdmacm.so.1")).expect("the library can be copied");
    let output = run(&program, &folder);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7 calls failed\n");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    for words in ["librdmacm.so.1", "libnonic.so", "ENODEV"] {
        assert!(complaint.contains(words), "no {words:?} in {complaint}");
    }
}

#[test]
fn a_process_with_verbs_and_the_connection_manager_has_one_engine_whichever_comes_first() {
    for order in [["-libverbs", "-lrdmacm"], ["-lrdmacm", "-libverbs"]] {
        let Some(program) = compile("rdmacm_and_verbs", &order) else { return };
        let output = run(&program, &library::names());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "one engine\n");
    }
}
