//! `nonic run`: what the program gets, and what is refused before there is a program.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use support::{
    NOBODY, STEP_DOWN, compiled, file, is_root, nonic, nonic_behind, nonic_run, run, scratch, skip, spawn,
    stub_folder, works,
};

#[test]
fn the_exit_status_is_that_of_the_program() {
    nonic_run(["--", "sh", "-c", "exit 37"]).exits(37);
    nonic_run(["--", "true"]).exits(0);
}

#[test]
fn a_program_that_dies_of_a_signal_is_seen_to_die_of_it() {
    let outcome = nonic_run(["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(outcome.status.signal(), Some(libc::SIGTERM), "{outcome:?}");
}

#[test]
fn a_signal_sent_to_the_command_reaches_the_program() {
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done";
    let (folder, mut command) = (stub_folder(), nonic());
    command.env("NONIC_LIB_DIR", &*folder).args(["run", "--", "sh", "-c", script]);
    let mut child = spawn(command.stdout(Stdio::piped()));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::USR1)
        .unwrap();
    output.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn arguments_reach_the_program_as_they_are_with_and_without_dashes_before_it() {
    let words = ["printf", "<%s>", "-a", "--tier", "", "two words", "--help"];
    let expected = "<-a><--tier><><two words><--help>";
    assert_eq!(nonic_run([&["--"], &words[..]].concat()).exits(0).output, expected);
    assert_eq!(nonic_run(words).exits(0).output, expected);
}

#[test]
fn the_library_folder_stands_before_the_users_own_search_path() {
    let folder = stub_folder();
    let shown = |before: Option<&str>| {
        let mut command = nonic();
        command.env("NONIC_LIB_DIR", &*folder).args([
            "run",
            "--",
            "sh",
            "-c",
            "printf %s \"$LD_LIBRARY_PATH\"",
        ]);
        command.envs(before.map(|value| ("LD_LIBRARY_PATH", value)));
        run(&mut command).exits(0).output
    };
    let ours = folder.to_str().unwrap();
    assert_eq!(shown(None), ours);
    assert_eq!(shown(Some("")), ours);
    assert_eq!(shown(Some("/opt/a:/opt/b")), format!("{ours}:/opt/a:/opt/b"));
}

#[test]
fn each_device_flag_sets_its_variable_and_no_other() {
    let flags = [
        (&["--devices", "3"][..], "NONIC_DEVICES=3"),
        (&["--device-name", "mlx5_"], "NONIC_DEVICE_NAME=mlx5_"),
        (&["--link-layer", "ethernet"], "NONIC_LINK_LAYER=ethernet"),
        (&["--device-memory", "2M"], "NONIC_DEVICE_MEMORY=2097152"),
        (&["--device-memory-granule", "4"], "NONIC_DEVICE_MEMORY_GRANULE=4"),
        (&["--tier", "ring"], "NONIC_TIER=ring"),
        (&["--express", "off"], "NONIC_EXPRESS=off"),
        (&["--adopt", "never"], "NONIC_ADOPT=never"),
        (&["--fork-copy", "100G"], "NONIC_FORK_COPY=107374182400"),
        (&["--rest", "never"], "NONIC_REST=never"),
        (&["--wire", "roce"], "NONIC_WIRE=roce"),
        (&["--mtu", "1024"], "NONIC_MTU=1024"),
        (&["--wire-silence", "0"], "NONIC_WIRE_SILENCE=0"),
        (&["--log", "debug"], "NONIC_LOG=debug"),
        (&["--allow-ptrace"], "NONIC_PTRACE=any"),
        (&["--trust", "root,7"], "NONIC_TRUST=root,7"),
        (&["--nodes", "0,2-4"], "NONIC_SCIF_NODES=0,2-4"),
        (&["--scif-port-min", "40"], "NONIC_SCIF_PORT_MIN=40"),
        (&["--noncoherent"], "NONIC_NONCOHERENT=1"),
        (&["--cache-seed", "18446744073709551615"], "NONIC_CACHE_SEED=18446744073709551615"),
    ];
    for (flag, expected) in flags {
        let output = nonic_run([flag, &["--", "env"]].concat()).exits(0).output;
        let set: Vec<_> =
            output.lines().filter(|line| line.starts_with("NONIC_") && !line.contains("LIB_DIR")).collect();
        assert_eq!(set, [expected]);
    }
}

#[test]
fn a_scif_node_comes_with_the_others_unless_the_user_has_named_them() {
    let set = |outcome: support::Outcome| -> Vec<String> {
        let mut lines: Vec<_> =
            outcome.exits(0).output.lines().filter(|line| line.contains("SCIF")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for (node, nodes) in [("0", "0-1"), ("1", "0-1"), ("3", "0-3")] {
        let expected = [format!("NONIC_SCIF_NODE={node}"), format!("NONIC_SCIF_NODES={nodes}")];
        assert_eq!(set(nonic_run(["--node", node, "--", "env"])), expected);
    }
    let named = set(nonic_run(["--node", "1", "--nodes", "1,5", "--", "env"]));
    assert_eq!(named, ["NONIC_SCIF_NODE=1", "NONIC_SCIF_NODES=1,5"]);
    let (folder, mut command) = (stub_folder(), nonic());
    command.env("NONIC_LIB_DIR", &*folder).env("NONIC_SCIF_NODES", "1,7");
    let exported = set(run(command.args(["run", "--node", "1", "--", "env"])));
    assert_eq!(exported, ["NONIC_SCIF_NODE=1", "NONIC_SCIF_NODES=1,7"]);
}

#[test]
fn the_registry_of_udapl_is_led_to_the_file_beside_the_libraries_unless_the_user_named_another() {
    let shown = |folder: &Path, named: Option<&str>| {
        let mut command = nonic();
        command.env("NONIC_LIB_DIR", folder).env_remove("DAT_OVERRIDE");
        command.envs(named.map(|path| ("DAT_OVERRIDE", path)));
        run(command.args(["run", "--", "sh", "-c", "printf %s \"$DAT_OVERRIDE\""])).exits(0).output
    };
    let folder = stub_folder();
    assert_eq!(shown(&folder, None), "", "there is no such file, so nothing is set");
    let ours = file(&folder, "dat.conf", b"", 0o644);
    assert_eq!(shown(&folder, None), ours.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(shown(&folder, Some("/my/dat.conf")), "/my/dat.conf");
}

#[test]
fn variables_that_no_flag_sets_are_passed_on_and_a_flag_beats_its_variable() {
    let (folder, mut command) = (stub_folder(), nonic());
    command.env("NONIC_LIB_DIR", &*folder).env("NONIC_TIER", "kernel").env("NONIC_DEVICES", "2");
    command.args(["run", "--tier", "ring", "--", "sh", "-c", "printf '%s %s' $NONIC_TIER $NONIC_DEVICES"]);
    assert_eq!(run(&mut command).exits(0).output, "ring 2");
}

#[test]
fn bad_values_are_refused_and_named() {
    let flags = [
        ("--devices", "0"),
        ("--devices", "17"),
        ("--devices", "many"),
        ("--node", "card"),
        ("--node", "65536"),
        ("--nodes", "3-1"),
        ("--nodes", "0,"),
        ("--scif-port-min", "0"),
        ("--scif-port-min", "1025"),
        ("--device-name", "a/b"),
        ("--device-name", ""),
        ("--link-layer", "token-ring"),
        ("--device-memory", "64Q"),
        ("--device-memory", "65G"),
        ("--device-memory", "-1"),
        ("--tier", "fast"),
        ("--mtu", "1500"),
        ("--log", "loud"),
    ];
    for (flag, value) in flags {
        let argument = format!("{flag}={value}");
        nonic_run([&argument, "--", "echo", "ran"]).exits(2).complains_of(&[flag, &format!("'{value}'")]);
    }
    nonic_run(["--no-such-flag", "--", "true"]).exits(2).complains_of(&["--no-such-flag"]);
    nonic_run::<&str>([]).exits(2).complains_of(&["PROGRAM"]);
}

#[test]
fn a_program_that_is_not_there_is_127() {
    nonic_run(["--", "no-such-program-at-all"]).exits(127).complains_of(&["no-such-program-at-all"]);
    nonic_run(["--", "/no/such/program"]).exits(127).complains_of(&["/no/such/program"]);
}

#[test]
fn a_file_that_cannot_be_executed_is_126() {
    let folder = scratch();
    let text = file(&folder, "notes", b"not a program", 0o644);
    nonic_run(["--", text.to_str().unwrap()]).exits(126).complains_of(&["notes"]);
    nonic_run(["--", "/"]).exits(126).complains_of(&["directory"]);
}

#[test]
fn a_static_program_is_refused_unless_forced() {
    let folder = scratch();
    let Some(program) = compiled(&folder, &["-static"]) else {
        // No static libc here: a program that only looks static still must be refused.
        let program = file(&folder, "crafted", &crafted_elf(2), 0o755);
        nonic_run(["--", program.to_str().unwrap()]).exits(2).complains_of(&["statically linked", "--force"]);
        return;
    };
    let program = program.to_str().unwrap();
    nonic_run(["--", program]).exits(2).complains_of(&[program, "statically linked", "--force"]);
    nonic_run(["--force", "--", program]).exits(0);
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let folder = scratch();
    let program = file(&folder, "crafted", &crafted_elf(1), 0o755);
    nonic_run(["--", program.to_str().unwrap()]).exits(2).complains_of(&["32-bit"]);
}

/// An ELF header with no segments at all, of that class.
fn crafted_elf(class: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..4].copy_from_slice(b"\x7fELF");
    header[4..7].copy_from_slice(&[class, 1, 1]);
    header[16] = 2;
    header[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    header
}

#[test]
fn of_a_script_it_is_the_interpreter_that_is_judged() {
    let folder = scratch();
    let ordinary = file(&folder, "ordinary", b"#!/bin/sh\nexit 5\n", 0o755);
    nonic_run(["--", ordinary.to_str().unwrap()]).exits(5);
    let interpreter = file(&folder, "interpreter", &crafted_elf(2), 0o755);
    let script = format!("#!{} -x\n", interpreter.display());
    let script = file(&folder, "script", script.as_bytes(), 0o755);
    let (script, interpreter) = (script.to_str().unwrap(), interpreter.to_str().unwrap());
    nonic_run(["--", script]).exits(2).complains_of(&[interpreter, script, "statically linked"]);
}

#[test]
fn a_text_without_an_interpreter_is_given_to_the_shell_as_by_shells() {
    let folder = scratch();
    let script = file(&folder, "script", b"exit 6\n", 0o755);
    nonic_run(["--", script.to_str().unwrap()]).exits(6);
}

#[test]
fn a_setuid_program_is_refused() {
    let folder = scratch();
    if is_root() {
        let program = file(&folder, "program", &fs::read("/bin/true").unwrap(), 0o755);
        std::os::unix::fs::chown(&program, Some(NOBODY), None).unwrap();
        file(&folder, "program", &fs::read("/bin/true").unwrap(), 0o4755);
        nonic_run(["--", program.to_str().unwrap()]).exits(2).complains_of(&[
            "setuid",
            "65534",
            "LD_LIBRARY_PATH",
        ]);
        return;
    }
    let usual = ["/usr/bin/su", "/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/sudo"];
    match usual.into_iter().find(|path| is_setuid(Path::new(path))) {
        Some(program) => {
            drop(nonic_run(["--", program]).exits(2).complains_of(&["setuid", "LD_LIBRARY_PATH"]))
        }
        None => skip("no setuid program here, and only root can make one"),
    }
}

fn is_setuid(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o4000 != 0)
}

#[test]
fn a_program_with_file_capabilities_is_refused_to_an_ordinary_user() {
    let folder = stub_folder();
    let program = file(&folder, "program", &fs::read("/bin/true").unwrap(), 0o755);
    // Version 2 of the attribute: CAP_NET_RAW permitted and effective.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&program, "security.capability", &capability, flags).is_err() {
        return skip("file capabilities cannot be set here");
    }
    let mut command = nonic_behind(&STEP_DOWN);
    command.env("NONIC_LIB_DIR", &*folder).args(["run", "--"]).arg(&program);
    run(&mut command).exits(2).complains_of(&["file capabilities", "LD_LIBRARY_PATH"]);
}

#[test]
fn a_program_whose_rpath_leads_to_another_library_uses_ours_or_is_run_with_a_warning() {
    let (folder, other) = (scratch(), stub_folder());
    let rpath = format!("-Wl,-rpath,{}", other.display());
    let Some(program) = compiled(&folder, &["-Wl,--disable-new-dtags", &rpath]) else {
        return skip("no C compiler");
    };
    let errors = |arguments: &[&str]| {
        nonic_run(arguments.iter().copied().chain(["--", program.to_str().unwrap()])).exits(0).errors
    };
    let warned = errors(&["--no-preload"]);
    assert!(warned.contains("RPATH") && warned.contains(other.to_str().unwrap()), "{warned}");
    let quiet = errors(&[]);
    assert!(!quiet.contains("RPATH"), "verbs are loaded first: {quiet}");
    let program = compiled(&folder, &["-Wl,--enable-new-dtags", &rpath]).unwrap();
    let quiet = nonic_run(["--no-preload", "--", program.to_str().unwrap()]).exits(0);
    assert_eq!(quiet.errors, "", "RUNPATH does not beat us");
}

#[test]
fn a_wrong_library_folder_is_named_and_nothing_runs() {
    let mut command = nonic();
    command.env("NONIC_LIB_DIR", "/no/such/folder").args(["run", "--", "echo", "ran"]);
    let outcome = run(&mut command).exits(2).complains_of(&["NONIC_LIB_DIR", "/no/such/folder"]);
    assert_eq!(outcome.output, "");
}

#[test]
fn an_installed_command_finds_its_libraries_through_links_too() {
    let root = scratch();
    let multiarch = format!("lib/{}-linux-gnu/nonic", std::env::consts::ARCH);
    for place in ["lib/nonic", &multiarch, "lib64/nonic", "bin/nonic-lib"] {
        let root = root.join(place.replace('/', "-"));
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join(place)).unwrap();
        copied_command(&root.join("bin"));
        fs::write(root.join(place).join("libibverbs.so.1"), "").unwrap();
        std::os::unix::fs::symlink("bin/nonic", root.join("link")).unwrap();
        for command in ["bin/nonic", "link"] {
            let mut command = support::wrapped(&[], &root.join(command));
            let shown = run(command.args(["run", "--", "printenv", "LD_LIBRARY_PATH"])).exits(0).output;
            assert_eq!(Path::new(shown.trim_end()), root.join(place));
        }
    }
}

fn copied_command(folder: &Path) -> PathBuf {
    file(folder, "nonic", &fs::read(support::program()).unwrap(), 0o755)
}

#[test]
fn a_command_far_from_any_library_says_where_it_looked() {
    let folder = scratch();
    let mut command = support::wrapped(&[], &copied_command(&folder));
    run(command.args(["run", "--", "true"])).exits(2).complains_of(&[
        "nonic-lib",
        "lib/nonic",
        "NONIC_LIB_DIR",
    ]);
}

#[test]
fn the_programs_of_the_distribution_see_the_device_and_only_it() {
    support::library();
    if !works(&["sh", "-c", "command -v ibv_devices"]) {
        return skip("ibverbs-utils is not installed");
    }
    let outcome =
        run(nonic().args(["run", "--devices", "2", "--device-name", "soft", "--", "ibv_devices"])).exits(0);
    let names: Vec<_> =
        outcome.output.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["soft0", "soft1"]);
}
