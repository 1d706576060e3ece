//! The files by which programs know a device: what every call answers, who reads them, and that nothing of them is left.
#![forbid(unsafe_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nonic_interop::c_program::{compile_with, judge};
use nonic_interop::environment::{AS_IT_COMES, Environment, Link, Place};
use nonic_interop::pair::Pair;
use nonic_interop::port::TcpPort;
use nonic_interop::program::Finished;
use nonic_interop::suite::{Suite, Verdict, failed, skipped};
use nonic_interop::toolbox::{Toolbox, library, program, scratch};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.test("every call finds what is there and is refused what may not be", || calls(place()?, &[]));
    suite.test("so do programs that were compiled to be checked", || {
        calls(place()?, &["-O2", "-D_FORTIFY_SOURCE=2"])
    });
    suite.test("so do they beside --sockets and another allocator", beside_others);
    suite.test("so do they in a user namespace", || {
        calls(place()?.wrapped([&words("unshare")?[0], "-U", "--"]), &[])
    });
    suite.test("so do they with few descriptors", || {
        calls(place()?.wrapped([&words("prlimit")?[0], "--nofile=24:24"]), &[])
    });
    suite.test("without a folder to write to the program goes on as without the view", no_folder);
    suite.test("every file of the view can be read, and says something", every_file);
    suite.test("an Ethernet port shows GIDs of RoCE v2", ethernet);
    suite.test("switched off, by flag or variable, the kernel answers", switched_off);
    suite.test("a shell that has taken nonic's environment sees it until it gives it back", shell);
    suite.test("counters count what passes, for whoever looks", counters);
    suite.test("a program that becomes another one in the view is still there", becomes_another);
    suite.test("nothing is left behind, and what the killed leave goes with the next", nothing_left);
    suite.test("a folder that somebody else has made is left alone", foreign_folder);
    suite.test("ibstat shows the port", || {
        shows("ibstat", &[], &["CA 'nonic0'", "State: Active", "Rate: 100", "Link layer: InfiniBand"])
    });
    suite.test("lstopo shows the device", || {
        shows("lstopo-no-graphics", &["--of", "console"], &["OpenFabrics \"nonic0\""])
    });
    suite.test("ls, find and Python list it", listed);
    suite.test("rdma lists the device, its port and how the subsystem works", asked_by_netlink);
    suite.run()
}

fn place() -> Verdict<Place> {
    Place::prepare(AS_IT_COMES)
}

/// A program by its path.
fn words(name: &str) -> Verdict<Vec<String>> {
    Ok(vec![program(name)?.display().to_string()])
}

/// An empty folder that every user may write to.
fn folder(name: &str) -> Verdict<PathBuf> {
    let path = scratch().join(name);
    let made =
        fs::create_dir(&path).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o777)));
    made.map(|()| path.clone()).or_else(|error| failed(format!("{}: {error}", path.display())))
}

fn calls_with(place: &Place, options: &[&str], compiled: &[&str]) -> Verdict {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = folder(&format!("folder-{number}"))?.display().to_string();
    let file = compile_with("view", compiled)?.display().to_string();
    judge(&place.nonic_run_with(options, [file, folder])?.run()?).map(|_| ())
}

fn calls(place: Place, compiled: &[&str]) -> Verdict {
    calls_with(&place, &[], compiled)
}

fn beside_others() -> Verdict {
    let allocator = library("libjemalloc.so.2")?.display().to_string();
    calls_with(&place()?.variable("LD_PRELOAD", &allocator), &["--sockets"], &[])
}

/// Fails unless a program succeeded and said all that.
fn says(finished: &Finished, wanted: &[&str]) -> Verdict {
    match wanted.iter().find(|wanted| !finished.stdout.contains(**wanted)) {
        _ if !finished.succeeded() => failed(format!("it failed\n{}", finished.report())),
        Some(missing) => failed(format!("it did not say: {missing}\n{}", finished.report())),
        None => Ok(()),
    }
}

fn shows(name: &str, arguments: &[&str], wanted: &[&str]) -> Verdict {
    let mut command = words(name)?;
    command.extend(arguments.iter().map(|word| word.to_string()));
    says(&place()?.nonic_run(command)?.run()?, wanted)
}

/// What a script of the shell says.
fn script(place: &Place, options: &[&str], text: &str) -> Verdict<Finished> {
    place.nonic_run_with(options, ["/bin/sh", "-c", text])?.run()
}

fn no_folder() -> Verdict {
    // What is in the second stays: the build under test may be.
    let place = place()?.mounting(
        "mount -t tmpfs -o ro none /dev/shm && mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && \
         unset XDG_RUNTIME_DIR",
    )?;
    let finished = script(&place, &[], "test ! -e /sys/class/infiniband/nonic0 && echo gone on")?;
    match finished.printed().contains("cannot be shown") {
        true => says(&finished, &["gone on"]),
        false => failed(format!("nothing says why\n{}", finished.report())),
    }
}

fn every_file() -> Verdict {
    let text = "for file in $(find /sys/class/infiniband/nonic0/ /sys/class/infiniband_verbs/uverbs0/ \
                /sys/class/infiniband/nonic0/device/ /sys/class/infiniband_mad -type f); do \
                content=$(cat $file) && test -n \"$content\" && echo $file || exit 1; done; echo all";
    let finished = script(&place()?, &[], text)?;
    let count = finished.stdout.lines().count();
    match count > 150 {
        true => says(&finished, &["all", "/ports/1/gids/63", "/hw_counters/lifespan", "/device/numa_node"]),
        false => failed(format!("only {count} files\n{}", finished.report())),
    }
}

fn ethernet() -> Verdict {
    let place = Place::prepare(Environment { link: Some(Link::Ethernet), ..AS_IT_COMES })?;
    let text =
        "cd /sys/class/infiniband/nonic0/ports/1 && cat link_layer gid_attrs/types/0 gid_attrs/ndevs/1";
    says(&script(&place, &[], text)?, &["Ethernet\nRoCE v2\n"])
}

fn switched_off() -> Verdict {
    if Path::new("/sys/class/infiniband").exists() {
        return skipped("this machine has InfiniBand of its own");
    }
    let look =
        "test ! -e /sys/class/infiniband && test ! -e /dev/infiniband/uverbs0 && echo the kernel answers";
    says(&script(&place()?, &["--view", "off"], look)?, &["the kernel answers"])?;
    says(&script(&place()?.variable("NONIC_VIEW", "off"), &[], look)?, &["the kernel answers"])?;
    let asked = format!("! {} link | grep nonic0 && echo the kernel answers", program("rdma")?.display());
    says(&script(&place()?, &["--view", "off"], &asked)?, &["the kernel answers"])?;
    let back = script(
        &place()?.variable("NONIC_VIEW", "off"),
        &["--view", "on"],
        "cat /sys/class/infiniband/nonic0/node_type",
    )?;
    says(&back, &["1: CA"])
}

fn asked_by_netlink() -> Verdict {
    let lists = |link, words: &[&str], wanted: &[&str]| {
        let place = Place::prepare(Environment { link: Some(link), ..AS_IT_COMES })?;
        let mut command = vec![program("rdma")?.display().to_string()];
        command.extend(words.iter().map(|word| word.to_string()));
        says(&place.nonic_run(command)?.run()?, wanted)
    };
    let file = place()?.nonic_run(["/bin/cat", "/sys/class/infiniband/nonic0/node_guid"])?.run()?;
    let guid = format!("node_guid {}", file.stdout.trim());
    let device = ["nonic0: node_type ca", &guid];
    lists(Link::InfiniBand, &["dev"], &device)?;
    lists(Link::InfiniBand, &["dev", "show", "nonic0"], &device)?;
    lists(
        Link::InfiniBand,
        &["link"],
        &["link nonic0/1 subnet_prefix fe80:", "state ACTIVE", "physical_state LINK_UP"],
    )?;
    lists(Link::Ethernet, &["link", "show", "nonic0/1", "-j"], &["\"ifname\":\"nonic0\"", "\"netdev\":"])?;
    lists(Link::InfiniBand, &["system"], &["netns shared"])?;
    // As many as there can be.
    let many = place()?
        .nonic_run_with(&["--devices", "16"], [&program("rdma")?.display().to_string(), "dev"])?
        .run()?;
    says(&many, &["0: nonic0: ", "15: nonic15: "])
}

fn shell() -> Verdict {
    let nonic = &Toolbox::find()?.nonic.display().to_string();
    let look = "/bin/cat /sys/class/infiniband/shell0/node_type";
    let text = format!(
        "eval \"$({nonic} env --device-name shell)\" && eval \"$({nonic} env)\" && {look} && echo $LD_PRELOAD && \
         eval \"$({nonic} env --off)\" && echo given back \"$LD_PRELOAD.\" && {look} 2>&1; true"
    );
    let finished = place()?.bare(["/bin/sh", "-c", &text])?.run()?;
    let once =
        ["libnonic-view.so", "libibverbs.so.1"].map(|name| finished.stdout.matches(name).count()) == [1, 1];
    match finished.stdout.split_once("given back .") {
        Some((taken, back)) if taken.contains("1: CA") && back.contains("No such file") && once => Ok(()),
        _ => failed(format!("it is not there, there twice, or still there\n{}", finished.report())),
    }
}

/// What the counters say, in this order: data and packets that went out, data that came in, writes.
fn counted(place: &Place) -> Verdict<Vec<u64>> {
    let text = "cd /sys/class/infiniband/nonic0/ports/1 && \
                cat counters/port_xmit_data counters/port_xmit_packets counters/port_rcv_data hw_counters/rx_write_requests";
    let finished = script(place, &[], text)?;
    let numbers: Option<Vec<u64>> = finished.stdout.lines().map(|line| line.parse().ok()).collect();
    match numbers {
        Some(numbers) if numbers.len() == 4 => Ok(numbers),
        _ => failed(format!("these are no four numbers\n{}", finished.report())),
    }
}

fn counters() -> Verdict {
    let place = place()?;
    let port = TcpPort::claim()?.number().to_string();
    let file = words("ib_write_lat")?.remove(0);
    let mut server = place.nonic_run([&file, "-p", &port, "-D", "2"])?.start()?;
    server.listens_on(port.parse().expect("a port is a number"))?;
    let before = counted(&place)?;
    let client = place.nonic_run([&file, "-p", &port, "-D", "2", "localhost"])?.start()?;
    // They go on for seconds; every look takes milliseconds. Other programs of this user can only add.
    let grown = |now: &[u64]| now.iter().zip(&before).all(|(now, before)| now > before);
    let mut now = before.clone();
    for _ in 0..300 {
        now = counted(&place)?;
        if grown(&now) {
            break;
        }
    }
    let pair = Pair { client: client.finish()?, server: server.finish()? };
    pair.is_clean()?;
    if grown(&now) { Ok(()) } else { pair.wrong(format!("the counters went from {before:?} to {now:?}")) }
}

/// The first takes the tree away with it, since nobody else has it, and the second one's working folder went with the tree.
fn becomes_another() -> Verdict {
    let folder = folder("becomes")?;
    let place = place()?.variable("XDG_RUNTIME_DIR", &folder.display().to_string());
    let into = "cd /sys/class/infiniband/nonic0/ports/1/counters && exec";
    let look = "import os; print(os.getcwd(), os.readlink('/proc/self/cwd'), os.listdir('../pkeys')[:1], open('../state').read())";
    let here = "/sys/devices/platform/nonic.0/infiniband/nonic0/ports/1/counters";
    let python = words("python3")?.remove(0);
    says(&script(&place, &[], &format!("{into} cat ../state port_xmit_data"))?, &["4: ACTIVE\n"])?;
    says(
        &script(&place, &[], &format!("{into} {python} -c \"{look}\""))?,
        &[&format!("{here} {here} ['0'] 4: ACTIVE")],
    )?;
    // Memory of the length that was asked for, whatever the path takes of it.
    let room = "import ctypes as c; l = c.CDLL(None); f = l.getcwd; f.restype, f.argtypes = c.c_void_p, [c.c_void_p, c.c_size_t]; \
                u = l.malloc_usable_size; u.argtypes = [c.c_void_p]; p = f(None, 9000); print(u(p) >= 9000, c.string_at(p))";
    says(&script(&place, &[], &format!("{into} {python} -c \"{room}\""))?, &[&format!("True b'{here}'")])?;
    says(
        &script(&place, &[], &format!("{into} /bin/bash -c 'cd ../gids && cat 0 && pwd -P'"))?,
        &["ports/1/gids\n"],
    )?;
    let left = fs::read_dir(&folder).map_or(usize::MAX, |entries| entries.count());
    if left == 0 { Ok(()) } else { failed(format!("{left} entries are left")) }
}

fn nothing_left() -> Verdict {
    let folder = folder("runtime")?;
    let place = place()?.variable("XDG_RUNTIME_DIR", &folder.display().to_string());
    let left = || fs::read_dir(&folder).map_or(usize::MAX, |entries| entries.count());
    let python = words("python3")?.remove(0);
    let scripts: [&[&str]; 5] = [
        &["/bin/cat", "/sys/class/infiniband/nonic0/node_type"],
        &["/bin/sh", "-c", "cd /sys/class/infiniband/nonic0/ports/1 && ls >/dev/null && cat state"],
        &["/bin/sh", "-c", "test -e /sys/class/infiniband && exec /bin/true"],
        &["/bin/bash", "-c", "ls /sys/class/infiniband/* | cat; [[ -d /dev/infiniband ]]"],
        &[&python, "-c", "import os; os.listdir('/sys/class/infiniband'); os._exit(0)"],
    ];
    for words in scripts {
        let finished = place.nonic_run(words.iter().copied())?.run()?;
        if !finished.succeeded() || left() != 0 {
            return failed(format!("{} entries are left\n{}", left(), finished.report()));
        }
    }
    let look =
        "import os, time; os.stat('/sys/class/infiniband'); print('seen', flush=True); time.sleep(1000)";
    let mut sleeper = place.nonic_run([python.as_str(), "-c", look])?.start()?;
    sleeper.prints(|line| line == "seen")?;
    let there = left();
    let next = || place.nonic_run(["/bin/cat", "/sys/class/infiniband/nonic0/node_type"])?.run();
    let beside = next()?;
    let kept = left();
    drop(sleeper.kill());
    let killed = left();
    let after = next()?;
    match (there, kept, killed, left()) {
        (1, 1, 1, 0) if beside.succeeded() && after.succeeded() => Ok(()),
        found => failed(format!(
            "with one process, two, one killed and another: {found:?} entries\n{}",
            after.report()
        )),
    }
}

fn foreign_folder() -> Verdict {
    let folder = folder("taken")?;
    let user = nonic_interop::toolbox::ORDINARY_USER;
    let user = if nonic_interop::toolbox::is_root() { user } else { rustix::process::geteuid().as_raw() };
    let taken = folder.join(format!("nonic-view.{user}"));
    let made =
        fs::create_dir(&taken).and_then(|()| fs::set_permissions(&taken, fs::Permissions::from_mode(0o777)));
    made.or_else(|error| failed(format!("{}: {error}", taken.display())))?;
    let place = place()?.variable("XDG_RUNTIME_DIR", &folder.display().to_string());
    says(&script(&place, &[], "cat /sys/class/infiniband/nonic0/node_type")?, &["1: CA"])?;
    let entries = |path: &Path| fs::read_dir(path).map_or(usize::MAX, |entries| entries.count());
    match (entries(&taken), entries(&folder)) {
        (0, 1) => Ok(()),
        found => failed(format!("{found:?} entries in it and beside it")),
    }
}

fn listed() -> Verdict {
    let text = "ls -l /dev/infiniband/ && find /sys/class/infiniband/ -name 'nonic*' && ls -lR /sys/class/infiniband/nonic0/ >/dev/null \
                && grep -r . /sys/class/infiniband/nonic0/ports/1/pkeys";
    says(
        &script(&place()?, &[], text)?,
        &["crw-rw-rw- 1 root root 231, 192", "/sys/class/infiniband/nonic0", ":0xffff"],
    )?;
    let code = "import glob, os\n\
                print(os.listdir('/sys/class/infiniband'), glob.glob('/sys/class/infiniband/*/ports/*/state'))\n\
                print(os.path.realpath('/sys/class/infiniband/nonic0/device'))";
    let python = words("python3")?.remove(0);
    let finished = place()?.nonic_run([python.as_str(), "-c", code])?.run()?;
    says(
        &finished,
        &["['nonic0'] ['/sys/class/infiniband/nonic0/ports/1/state']", "/sys/devices/platform/nonic.0"],
    )?;
    shows("ibv_devinfo", &["-v"], &["board_id:\t\t\tnonic"])
}
