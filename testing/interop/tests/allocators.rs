//! A program's own allocator, preloaded in front of the C library's, is not entered from a call of nonic's.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

use nonic_interop::c_program::{compile, compile_dat, compile_scif, compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Place};
use nonic_interop::scif::place as scif_place;
use nonic_interop::suite::{Suite, Verdict, failed};
use nonic_interop::toolbox::scratch;

/// Programs that between them make nearly every call there is.
const VERBS: &[&str] = &["everyday", "events", "memory_kinds", "windows", "resources"];
const SCIF: &[&str] = &["windows", "transfers", "fences", "mappings", "stream", "descriptors", "endpoints"];
const DAT: &[&str] = &["three_pages", "lmr", "rmr", "sync", "adapters", "connections"];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for name in VERBS {
        suite.test(format!("no call of verbs enters it, {name}"), move || {
            watched(Place::prepare(AS_IT_COMES)?, vec![compile(name)?.display().to_string()])
        });
    }
    for name in SCIF {
        for word in ["two", "alone"] {
            suite.test(format!("no call of SCIF enters it, {name}, {word}"), move || {
                let program = compile_scif(&format!("{name}.c"))?.display().to_string();
                // Who says something has the C library allocate for the thread, once.
                let place = scif_place(AS_IT_COMES)?.variable("NONIC_LOG", "warn");
                watched(place, vec![program, word.into()])
            });
        }
    }
    for name in DAT {
        suite.test(format!("no call of uDAPL enters it, {name}"), move || {
            watched(Place::prepare(AS_IT_COMES)?, vec![compile_dat(name)?.display().to_string()])
        });
    }
    suite.run()
}

/// Runs a program behind the allocator that watches.
fn watched(place: Place, words: Vec<String>) -> Verdict {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let options = ["-shared", "-fPIC", "-fno-optimize-sibling-calls", "-Wl,--as-needed"];
    let watch = compile_with("malloc_watch", &options)?;
    let folder = scratch().join("allocators");
    let made = fs::create_dir_all(&folder)
        .and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)));
    if let Err(why) = made {
        return failed(format!("cannot make {}: {why}", folder.display()));
    }
    let report = folder.join(NUMBER.fetch_add(1, Ordering::Relaxed).to_string());
    let _ = fs::remove_file(&report);
    let place = place
        .variable("LD_PRELOAD", &watch.display().to_string())
        .variable("MALLOC_WATCH", &report.display().to_string());
    judge(&place.nonic_run(words)?.run()?)?;
    let text = fs::read_to_string(&report).unwrap_or_default();
    let mut counts = BTreeMap::<&str, usize>::new();
    for line in text.lines() {
        *counts.entry(line.split(' ').next().unwrap_or_default()).or_default() += 1;
    }
    let entered: Vec<&str> = text.lines().filter(|line| line.starts_with("OTHER ")).take(5).collect();
    if !entered.is_empty() {
        return failed(format!("{counts:?}\n{}", entered.join("\n")));
    }
    // Somebody looked, and sees who calls: without a thread of the library no program gets far.
    if !counts.contains_key("WATCHING") || !counts.contains_key("pthread_create") {
        return failed(format!("nothing was seen: {counts:?}"));
    }
    Ok(())
}
