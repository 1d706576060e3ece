//! Whether programs see the devices' files, and by which means.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::peer::ask_helper_with;
use super::report::Line;
use crate::library::LibraryFolder;
use crate::preload;
use crate::view_options::ViewOptions;

const CLASS: &str = "/sys/class/infiniband";
const NODES: &str = "/dev/infiniband";

/// What the helper process saw.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Seen {
    devices: Vec<String>,
    nodes: usize,
    /// Where they stand.
    folder: Option<String>,
}

/// The finding.
pub(super) fn examine(folder: &LibraryFolder) -> Line {
    const NAME: &str = "device files";
    if !ViewOptions::default().is_on() {
        return Line::note(NAME, "switched off (NONIC_VIEW): programs that look for them find none")
            .fix("unset NONIC_VIEW");
    }
    let library = folder.view_library();
    if let Err(error) = preload::check(&library, "with --view off") {
        return Line::note(NAME, error.to_string()).fix("cargo build --release");
    }
    let before = std::env::var_os(preload::VARIABLE);
    let value = preload::in_front(&library, before.as_deref());
    match ask_helper_with::<Seen>(&["view".as_ref()], Some((preload::VARIABLE, value))) {
        Ok(seen) if !seen.devices.is_empty() && seen.nodes > 0 => Line::ok(
            NAME,
            format!(
                "{CLASS}/{} and {} in {NODES}, by libnonic-view.so (LD_PRELOAD){}; static programs and those that make system \
                 calls themselves see none",
                seen.devices.join(", "),
                if seen.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", seen.nodes) },
                seen.folder.map(|folder| format!(", in {folder} while they are used")).unwrap_or_default()
            ),
        ),
        Ok(_) => Line::note(NAME, "not there: no folder in XDG_RUNTIME_DIR, /dev/shm or /tmp can be made")
            .fix("mount a tmpfs on /dev/shm, or set XDG_RUNTIME_DIR to a folder of this user's"),
        Err(error) => Line::note(NAME, error.to_string()).fix("build again (cargo build --release)"),
    }
}

/// In the helper process, behind the library.
pub(super) fn look_and_tell() -> ExitCode {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let is_node = |name: &String| {
        fs::metadata(format!("{NODES}/{name}")).is_ok_and(|found| found.file_type().is_char_device())
    };
    let mut devices = names(CLASS);
    devices.sort();
    let nodes = names(NODES).iter().filter(|name| is_node(name)).count();
    let seen = Seen { devices, nodes, folder: standing() };
    println!("{}", serde_json::to_string(&seen).expect("strings and numbers only"));
    ExitCode::SUCCESS
}

/// The folder of trees that this process has open.
fn standing() -> Option<String> {
    let descriptors = fs::read_dir("/proc/self/fdinfo").ok()?.flatten();
    let numbers = descriptors.filter_map(|entry| entry.file_name().into_string().ok());
    let links =
        numbers.filter_map(|number| rustix::fs::readlink(format!("/proc/self/fd/{number}"), Vec::new()).ok());
    links.filter_map(|link| link.into_string().ok()).find_map(|path| {
        let (folder, tree) = path.rsplit_once('/')?;
        (folder.contains("/nonic-view.") && tree.len() == 16).then(|| folder.to_owned())
    })
}
