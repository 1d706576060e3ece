//! `nonic doctor`: it says what is so, wherever it runs, and names what is in the way.

mod support;

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;
use support::{STEP_DOWN, is_root, nonic, nonic_as_ordinary_user, nonic_behind, run, skip, works};

/// Runs the doctor for machines.
#[track_caller]
fn report(command: &mut Command, status: i32) -> Value {
    support::library();
    let outcome = run(command.args(["doctor", "--json"])).exits(status);
    serde_json::from_str(&outcome.output).expect("one JSON object")
}

/// A line of the report by its name.
#[track_caller]
fn line<'a>(report: &'a Value, name: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap().iter();
    let mut lines = sections.flat_map(|section| section["lines"].as_array().unwrap());
    lines.find(|line| line["name"] == name).unwrap_or_else(|| panic!("no line {name} in {report:#}"))
}

#[track_caller]
fn says(report: &Value, name: &str, words: &str) {
    let line = line(report, name);
    assert!(line.to_string().contains(words), "no {words:?} in {line}");
}

#[test]
fn scif_is_tried_and_its_ports_are_listed_with_node_and_owner() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let user = rustix::process::geteuid().as_raw();
    let fabric = format!("doctor-{}", std::process::id());
    let bind = |user: u32, fabric: &str, node: u16, port: u16| {
        let name = SocketAddr::from_abstract_name(format!("nonic-scif/{user}/{fabric}/{node}/{port}"));
        UnixListener::bind_addr(&name.expect("a short name")).expect("nobody has this name")
    };
    let _ports = [
        bind(user, &fabric, 7, 2050),
        bind(user, &fabric, 7, 40),
        bind(user + 1, &fabric, 8, 2051),
        bind(user, &format!("{fabric}-other"), 9, 2052),
    ];
    let report = report(nonic().env("NONIC_SCIF_FABRIC", &fabric).env("NONIC_SCIF_NODES", "0-1"), 0);
    says(&report, "libscif.so.0", "connected to itself");
    says(&report, "nodes", "on node 0; online: 0, 1, 7\"");
    let own = std::process::id();
    let port = |number: u16| format!("{number} (doctor-");
    for port in [port(40), port(2050)] {
        says(&report, "ports, node 7", &port);
    }
    says(&report, "ports, node 7", &format!(" {own}"));
    says(&report, "ports, node 8", &format!("of user {}", user + 1));
    says(&report, "ports, node 9", "-other");
    assert_eq!(line(&report, "ports, node 8")["mark"], "ok");
}

#[test]
fn missing_libraries_of_scif_and_udapl_are_noted_and_verbs_still_work() {
    support::library();
    let folder = support::scratch();
    let engine = support::program().with_file_name("libnonic.so");
    std::os::unix::fs::symlink(engine, folder.join("libibverbs.so.1")).expect("a link can be made");
    let report = report(nonic().env("NONIC_LIB_DIR", &*folder), 0);
    assert_eq!(line(&report, "libscif.so.0")["mark"], "note");
    says(&report, "libscif.so.0", "missing");
    assert_eq!(line(&report, "libdat.so.1")["mark"], "note");
    says(&report, "libdat.so.1", "missing");
    assert_eq!(line(&report, "libnonic-sockets.so")["mark"], "note");
    says(&report, "libnonic-sockets.so", "missing");
}

#[test]
fn udapl_is_tried_and_its_services_are_listed_with_their_owners() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    let number = 0x6e6f_0000_0000 + u64::from(std::process::id());
    let name = SocketAddr::from_abstract_name(format!("nonic-connection.3/dat/{number}"));
    let _service = UnixListener::bind_addr(&name.expect("a short name")).expect("nobody has this name");
    let report = report(nonic().env_remove("NONIC_NONCOHERENT"), 0);
    says(&report, "libdat.so.1", "connected to itself and wrote; memory is coherent");
    says(&report, &format!("service {number}"), &format!(" {}", std::process::id()));
}

#[test]
fn listeners_of_the_rdma_connection_manager_are_listed_with_their_owners() {
    let number = 0x6e6f_0002_0000 + u64::from(std::process::id());
    let name = format!("nonic-connection.3/rdma-tcp.127.0.0.1/{number}");
    let _listener = nonic_sys::listen_abstract(&name).expect("nobody has it");
    let report = report(&mut nonic(), 0);
    says(&report, &format!("tcp 127.0.0.1:{number}"), &format!(" {}", std::process::id()));
}

#[test]
fn who_has_opened_the_port_of_packets_from_other_hosts_is_listed() {
    let [.., high, middle, low] = std::process::id().to_be_bytes();
    let address = std::net::Ipv4Addr::new(127, high | 0x80, middle, low);
    let socket = std::net::UdpSocket::bind((address, 4791)).expect("nobody has it at this address");
    let open = format!("{address} by process {} of user", std::process::id());
    says(&report(&mut nonic(), 0), "UDP port 4791", &open);
    drop(socket);
    let report = report(&mut nonic(), 0);
    assert!(!line(&report, "UDP port 4791").to_string().contains(&open));
}

#[test]
fn who_has_taken_a_name_of_this_user_is_named() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    if !is_root() {
        return skip("names taken by strangers: they need root");
    }
    const NOBODY: u32 = 65_534;
    let fabric = format!("doctor-taken-{}", std::process::id());
    let name = SocketAddr::from_abstract_name(format!("nonic-scif/{NOBODY}/{fabric}/5/2050"));
    let _port = UnixListener::bind_addr(&name.expect("a short name")).expect("nobody has this name");
    let number = 0x6e6f_0001_0000 + u64::from(std::process::id());
    let _service =
        nonic_sys::listen_abstract(&format!("nonic-connection.3/dat/{number}")).expect("nobody has it");
    let report = report(nonic_as_ordinary_user().env("NONIC_SCIF_FABRIC", &fabric), 0);
    let holder = format!("process {} of user 0", std::process::id());
    says(&report, "port 2050, node 5", &format!("its name is taken by {holder}"));
    assert_eq!(line(&report, "port 2050, node 5")["mark"], "note");
    says(&report, &format!("service {number}"), &holder);
}

#[test]
fn every_line_of_dat_conf_that_does_not_count_has_its_reason() {
    support::library();
    let folder = support::scratch();
    let file = folder.join("dat.conf");
    let text = "# a site's file\n\
                ib0 u1.2 nonthreadsafe default /nowhere/libdaplcma.so.1 dapl.1.2 \"ib0 0\" \"\"\n\
                ib1 u1.2 nonthreadsafe\n\
                ib0 u1.2 nonthreadsafe default libother.so.1 dapl.1.2 \"\" \"\"\n\
                ib2 u1.2 nonthreadsafe nondefault libother.so.1 dapl.1.2 \"\" \"\"\n\
                libc u1.2 nonthreadsafe default libc.so.6 dapl.1.2 \"\" \"\"\n";
    std::fs::write(&file, text).expect("it can be written");
    let report = report(nonic().env("DAT_OVERRIDE", &file), 0);
    says(&report, "dat.conf", "2 entries that count");
    says(&report, "dat.conf, line 3", "3 of 8 words");
    says(&report, "dat.conf, line 4", "in line 2 already");
    says(&report, "dat.conf, line 5", "nondefault");
    let providers = report["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|section| section["lines"].as_array().unwrap());
    let notes: Vec<_> = providers.filter(|line| line["name"] == "provider").map(Value::to_string).collect();
    assert!(
        notes
            .iter()
            .any(|note| note.contains("/nowhere/libdaplcma.so.1") && note.contains("cannot be loaded")),
        "{notes:#?}"
    );
    assert!(
        notes.iter().any(|note| note.contains("libc.so.6") && note.contains("no dat_provider_init")),
        "{notes:#?}"
    );

    let missing = folder.join("missing");
    let report = self::report(nonic().env("DAT_OVERRIDE", &missing), 0);
    says(&report, "dat.conf", "cannot be read");
}

#[test]
fn an_ordinary_user_learns_that_nonic_works_and_by_which_tiers() {
    let report = report(&mut nonic_as_ordinary_user(), 0);
    assert_eq!(report["usable"], true);
    says(&report, "memfd_create", "\"ok\"");
    says(&report, "abstract sockets", "\"ok\"");
    says(&report, "loads", "\"ok\"");
    says(&report, "devices", "nonic0");
    assert_eq!(report["tiers"]["same_user_shared_memory"], "mapped");
    assert_eq!(report["tiers"]["other_user"], "ring");
    let ordinary = match (&line(&report, "adoption")["mark"], &line(&report, "copy to a peer")["mark"]) {
        (Value::String(adoption), _) if adoption == "ok" => "mapped",
        (_, Value::String(copying)) if copying == "ok" => "kernel",
        _ => "ring",
    };
    assert_eq!(report["tiers"]["same_user"], ordinary);
}

#[test]
fn a_person_reads_marks_names_and_a_verdict_without_escape_codes_in_a_pipe() {
    support::library();
    let output = run(nonic_as_ordinary_user().arg("doctor")).exits(0).output;
    for heading in [
        "\nLibrary\n",
        "\nKernel\n",
        "\nProcesses\n",
        "\nNetwork\n",
        "\nSCIF\n",
        "\nuDAPL\n",
        "\nHow bytes would move\n",
    ] {
        assert!(output.contains(heading), "no {heading:?} in {output}");
    }
    assert!(output.contains("nonic works here."), "{output}");
    assert!(!output.contains('\x1b'), "{output:?}");
}

#[test]
fn in_a_network_namespace_of_its_own_it_works_and_loopback_is_seen_to_be_down() {
    let words =
        if is_root() { [&["unshare", "-n"], &STEP_DOWN[..]].concat() } else { vec!["unshare", "-rn"] };
    if !works(&[&words[..], &["true"]].concat()) {
        return skip("no network namespace can be made here");
    }
    let report = report(&mut nonic_behind(&words), 0);
    says(&report, "loopback", "ip link set lo up");
    says(&report, "abstract sockets", "\"ok\"");
}

/// Words that prepare a mount namespace by a shell line and go on as an ordinary user.
fn behind_mounts(line: &str) -> Option<Vec<String>> {
    let script = format!("{line} && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"");
    let words = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
    let mut test: Vec<_> = words.iter().map(String::as_str).collect();
    test.push("true");
    (is_root() && works(&test)).then_some(words)
}

#[test]
fn without_proc_and_sys_it_still_tells_what_it_can() {
    let Some(words) = behind_mounts("umount -l /sys; umount -l /proc") else {
        return skip("no mount namespace can be made here");
    };
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let report = report(&mut nonic_behind(&words), 0);
    says(&report, "/proc", "not mounted");
    says(&report, "seccomp", "no filter");
    assert_eq!(line(&report, "copy to a peer")["mark"], "ok");
    says(&report, "open a peer's memory", "writes to ordinary memory go through the ring");
}

#[test]
fn on_a_read_only_root_it_works() {
    let Some(words) = behind_mounts("mount --make-rprivate / && mount -o remount,bind,ro /") else {
        return skip("no mount namespace can be made here");
    };
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    assert_eq!(report(&mut nonic_behind(&words), 0)["usable"], true);
}

#[test]
fn a_filter_on_copying_between_processes_leaves_the_ring_and_is_named() {
    let mut command = nonic_as_ordinary_user();
    deny(&mut command, &[libc::SYS_process_vm_readv, libc::SYS_process_vm_writev]);
    let report = report(&mut command, 0);
    let adopts = line(&report, "adoption")["mark"] == "ok";
    assert_eq!(report["tiers"]["same_user"], if adopts { "mapped" } else { "ring" });
    assert_eq!(report["tiers"]["same_user_shared_memory"], "mapped");
    assert_eq!(line(&report, "copy to a peer")["mark"], "note");
    says(&report, "copy to a peer", "seccomp profile");
    says(&report, "seccomp", "a filter is in force");
}

#[test]
fn a_filter_on_userfaultfd_leaves_memory_of_threaded_programs_plain_and_the_profile_line_is_printed() {
    let mut command = nonic_as_ordinary_user();
    deny(&mut command, &[libc::SYS_userfaultfd]);
    let report = report(&mut command, 0);
    if line(&report, "userfaultfd")["mark"] == "ok" {
        return skip("/dev/userfaultfd may be opened here, which a filter on the system call does not touch");
    }
    says(&report, "userfaultfd", "SCMP_ACT_ALLOW");
    says(&report, "adoption", "userfaultfd is refused, and other threads ran");
}

#[test]
fn limits_on_files_and_on_address_space_are_tried_and_named() {
    let report = report(&mut nonic_behind(&["prlimit", "--fsize=1000000000"]), 0);
    says(&report, "file of pages", "RLIMIT_FSIZE is 1000000000 bytes");
    says(&report, "adoption", "ulimit -f unlimited");
    assert_ne!(report["tiers"]["same_user"], "mapped");
    let report = self::report(&mut nonic_behind(&["prlimit", "--as=8000000000"]), 0);
    if line(&report, "adoption")["mark"] == "ok" {
        says(&report, "address space", "apertures of 1 GiB");
        says(&report, "address space", "ulimit -v unlimited");
    }
}

#[test]
fn a_filter_on_memfd_makes_nonic_unusable_and_the_fix_is_named() {
    let mut command = nonic_as_ordinary_user();
    deny(&mut command, &[libc::SYS_memfd_create]);
    let report = report(&mut command, 1);
    assert_eq!((&report["usable"], &report["tiers"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(line(&report, "memfd_create")["mark"], "problem");
    says(&report, "memfd_create", "\"fix\"");
    // Which call failed, and not that nobody answered.
    says(&report, "libscif.so.0", "scif_connect");
}

/// Lets the command's system calls of these numbers fail with EPERM, as a container's seccomp profile would.
fn deny(command: &mut Command, calls: &[libc::c_long]) {
    let statement = |code: u32, k: u32, jump: u8| libc::sock_filter { code: code as u16, jt: jump, jf: 0, k };
    let mut program = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (at, &call) in calls.iter().enumerate() {
        let to_the_refusal = (calls.len() - at) as u8;
        program.push(statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, to_the_refusal));
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0));
    let install = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
        // SAFETY: prctl takes no pointer here.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: `filter` points to as many statements as it says, alive through the call.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(install) };
}

#[test]
fn a_limit_on_open_files_and_a_single_processor_are_noted() {
    let report = report(&mut nonic_behind(&["prlimit", "--nofile=40", "taskset", "-c", "0"]), 0);
    assert_eq!(line(&report, "open files")["mark"], "note");
    says(&report, "open files", "ulimit");
    says(&report, "processors", "take turns");
}

#[test]
fn a_variable_with_a_typing_error_or_a_bad_value_is_noted() {
    let report = report(nonic().env("NONIC_TEIR", "ring"), 0);
    says(&report, "variable", "NONIC_TEIR");
    let report = self::report(nonic().env("NONIC_TIER", "fast"), 0);
    says(&report, "variable", "mapped, kernel, ring");
}

#[test]
fn the_variable_that_bounds_the_tier_is_heard() {
    let report = report(nonic().env("NONIC_TIER", "ring"), 0);
    assert_eq!(report["tiers"]["same_user_shared_memory"], "ring");
    says(&report, "ordinary memory", "NONIC_TIER");
}

#[test]
fn a_rival_library_in_ld_preload_is_noted() {
    let told = |name: &str| report(nonic().env("LD_PRELOAD", name), 0);
    says(&told("/no/such/libibverbs.so.1"), "LD_PRELOAD", "unset LD_PRELOAD");
    // What `nonic env` puts there is none.
    let own = support::program().with_file_name("nonic-lib/libibverbs.so.1");
    says(&told(own.to_str().unwrap()), "LD_PRELOAD", "no rival");
}

#[test]
fn without_a_library_nonic_is_unusable_and_the_fix_is_named() {
    let report = report(nonic().env("NONIC_LIB_DIR", "/no/such/folder"), 1);
    assert_eq!(line(&report, "library folder")["mark"], "problem");
    says(&report, "library folder", "/no/such/folder");
}

#[test]
fn a_library_that_cannot_be_loaded_is_a_problem_with_the_loaders_words() {
    let report = report(nonic().env("NONIC_LIB_DIR", &*support::stub_folder()), 1);
    assert_eq!(line(&report, "loads")["mark"], "problem");
    says(&report, "loads", "file too short");
}

#[test]
fn a_program_is_judged_without_being_run() {
    support::library();
    let output = run(nonic().args(["doctor", "sh"])).exits(0).output;
    assert!(output.contains("sh would use nonic's libraries"), "{output}");
    let output = run(nonic().args(["doctor", "no-such-program"])).exits(0).output;
    assert!(output.contains("no-such-program: no such program"), "{output}");
}
