//! `libdat.so.1` as programs and the loader see it.

mod dat;
mod elf;
mod library;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use dat::{compile, folder, run, succeeds};

/// Every symbol of the libraries of illumos and OFED for 1.2.
const CALLS: &str = "dat_ia_openv dat_ia_query dat_ia_close dat_registry_list_providers dat_set_consumer_context \
    dat_get_consumer_context dat_get_handle_type dat_strerror dat_cno_create dat_cno_modify_agent dat_cno_query \
    dat_cno_wait dat_cno_free dat_evd_create dat_evd_query dat_evd_modify_cno dat_evd_enable dat_evd_disable \
    dat_evd_wait dat_evd_dequeue dat_evd_post_se dat_evd_resize dat_evd_set_unwaitable dat_evd_clear_unwaitable \
    dat_evd_free dat_ep_create dat_ep_create_with_srq dat_ep_query dat_ep_modify dat_ep_get_status dat_ep_connect \
    dat_ep_dup_connect dat_ep_disconnect dat_ep_reset dat_ep_free dat_ep_post_send dat_ep_post_recv \
    dat_ep_post_rdma_read dat_ep_post_rdma_write dat_ep_recv_query dat_ep_set_watermark dat_psp_create \
    dat_psp_create_any dat_psp_query dat_psp_free dat_rsp_create dat_rsp_query dat_rsp_free dat_cr_query \
    dat_cr_accept dat_cr_reject dat_cr_handoff dat_pz_create dat_pz_query dat_pz_free dat_lmr_create dat_lmr_query \
    dat_lmr_free dat_lmr_sync_rdma_read dat_lmr_sync_rdma_write dat_rmr_create dat_rmr_query dat_rmr_bind \
    dat_rmr_free dat_srq_create dat_srq_post_recv dat_srq_query dat_srq_resize dat_srq_set_lw dat_srq_free \
    dat_registry_add_provider dat_registry_remove_provider dats_get_ia_handle";

fn calls() -> Vec<&'static str> {
    CALLS.split_whitespace().collect()
}

fn dat_library() -> PathBuf {
    library::names().join("libdat.so.1")
}

#[test]
fn exactly_the_symbols_of_both_originals_are_exported_each_under_the_one_node() {
    assert_eq!(calls().len(), 73);
    let listed: BTreeSet<String> = calls().iter().map(|call| format!("{call}@@DAT_1.2")).collect();
    assert_eq!(elf::versioned_symbols(&dat_library()), listed);
    assert_eq!(elf::unversioned_symbols(&dat_library()), BTreeSet::new());
}

#[test]
fn the_library_has_the_name_and_the_files_of_the_original() {
    assert_eq!(elf::name(&dat_library()), "libdat.so.1");
    let folder = library::names();
    let leads_to = |name: &str| fs::read_link(folder.join(name)).expect("the build made the link");
    assert_eq!(leads_to("libdat.so"), Path::new("libdat.so.1"));
    assert_eq!(leads_to("libdat.so.1"), Path::new("libdat.so.1.0.2"));
    assert!(folder.join("libdat.so.1.0.2").is_file());
}

#[test]
fn the_engine_offers_udapl_by_symbols_of_its_own_and_no_call_of_it() {
    let symbols = elf::unversioned_symbols(&library::path());
    assert!(symbols.contains("nonic_dat_table"));
    let calls: Vec<_> =
        symbols.iter().filter(|name| name.starts_with("dat_") || name.starts_with("dats_")).collect();
    assert_eq!(calls, [""; 0]);
}

#[test]
fn pkg_config_leads_to_headers_and_library() {
    let output = Command::new("pkg-config")
        .args(["--cflags", "--libs", "dat"])
        .env("PKG_CONFIG_PATH", library::names().join("pkgconfig"))
        .output()
        .expect("there is pkg-config");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && words.contains("-ldat"), "{output:?}");
    let folder =
        words.split_whitespace().find_map(|word| word.strip_prefix("-I")).expect("a folder of headers");
    assert!(Path::new(folder).join("dat/udat.h").is_file(), "{folder}");
}

#[test]
fn programs_that_load_it_late_find_it_by_either_name_and_by_its_version() {
    let folder = folder("dat-late");
    let program = compile("dat_late", &folder, &["-ldl"]);
    for name in ["libdat.so", "libdat.so.1"] {
        let arguments = [&[name], &calls()[..]].concat();
        let output = succeeds(&run(&program, &library::names(), &arguments, None));
        assert_eq!(output, "73 calls, closed and loaded again\n");
    }
}

#[test]
fn without_the_engine_beside_it_the_library_says_so_once_and_every_call_finds_no_provider() {
    let folder = folder("dat-alone");
    fs::copy(dat_library(), folder.join("libdat.so.1")).expect("the library can be copied");
    let program = compile("dat_late", &folder, &["-ldl"]);
    let path = folder.join("libdat.so.1");
    let arguments = [&[path.to_str().expect("it is text")], &calls()[..]].concat();
    let output = run(&program, &folder, &arguments, None);
    let (out, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out, "dat_ia_openv answered 0x800a0000\n", "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    let engine = folder.join("libnonic.so");
    for words in ["libdat.so.1", engine.to_str().expect("it is text"), "DAT_PROVIDER_NOT_FOUND"] {
        assert!(complaint.contains(words), "no {words:?} in {complaint}");
    }
}

#[test]
fn an_engine_of_another_version_is_refused() {
    let folder = folder("dat-other-version");
    fs::copy(dat_library(), folder.join("libdat.so.1")).expect("the library can be copied");
    fs::copy(dat_library(), folder.join("libnonic.so")).expect("the library can be copied"); // It has no table.
    let program = compile("dat_late", &folder, &["-ldl"]);
    let output = run(&program, &folder, &[&["libdat.so.1"], &calls()[..]].concat(), None);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "dat_ia_openv answered 0x800a0000\n");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.contains("of another version"), "{complaint}");
}
