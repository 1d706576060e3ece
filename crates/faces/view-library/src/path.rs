//! Which paths are the view's. Pure: bytes in, bytes out.

/// A path has one of these in it, or is not looked at any further.
pub(crate) const MARKS: [&core::ffi::CStr; 2] = [c"infiniband", c"nonic."];

/// What is the view's, with everything below it.
const FOLDERS: [&[u8]; 4] = [
    b"/sys/class/infiniband",
    b"/sys/class/infiniband_verbs",
    b"/sys/class/infiniband_mad",
    b"/dev/infiniband",
];

/// The folders of devices: behind this stands a number.
const DEVICES: &[u8] = b"/sys/devices/platform/nonic.";

/// The folder of device nodes.
const NODES: &[u8] = b"/dev/infiniband/";

/// A path in a buffer of fixed length.
pub(crate) struct Buffer {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Buffer {
    /// `PATH_MAX`, with the NUL.
    pub(crate) const ROOM: usize = libc::PATH_MAX as usize;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// With a NUL behind it.
    pub(crate) fn as_ptr(&self) -> *const libc::c_char {
        self.bytes.as_ptr().cast()
    }

    /// The place for a text with a NUL; [`Self::end_at`] says how long it became.
    pub(crate) fn room(&mut self) -> &mut [u8; Self::ROOM] {
        &mut self.bytes
    }

    pub(crate) fn end_at(&mut self, length: usize) {
        self.length = length.min(Self::ROOM - 1);
        self.bytes[self.length] = 0;
    }

    /// Appends; `false` if there is no room.
    pub(crate) fn push(&mut self, more: &[u8]) -> bool {
        let end = self.length + more.len();
        if end >= Self::ROOM {
            return false;
        }
        self.bytes[self.length..end].copy_from_slice(more);
        self.end_at(end);
        true
    }

    fn pop(&mut self) {
        let last = self.bytes().iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.end_at(last);
    }
}

/// Whether a path without needless parts is one of the folders.
fn is_folder(path: &[u8]) -> bool {
    let numbered = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit);
    FOLDERS.contains(&path) || path.strip_prefix(DEVICES).is_some_and(numbered)
}

/// Writes the path of the view that `path`, from the folder `base` on, means to `out`; `false` if it means none. Up to the view
/// `.`, `..` and double slashes are taken out; behind that everything stays, for the kernel to follow.
pub(crate) fn find(base: &[u8], path: &[u8], out: &mut Buffer) -> bool {
    out.end_at(0);
    let from = if path.first() == Some(&b'/') { b"".as_slice() } else { base };
    for text in [from, path] {
        let mut rest = text;
        loop {
            if is_folder(out.bytes()) {
                // What is left, with the slash in front of it.
                return if text == path {
                    push_rest(rest, out)
                } else {
                    push_rest(rest, out) && push_rest(path, out)
                };
            }
            let Some(start) = rest.iter().position(|byte| *byte != b'/') else { break };
            rest = &rest[start..];
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let (part, left) = rest.split_at(end);
            rest = left;
            match part {
                b"." => {}
                b".." => out.pop(),
                part => {
                    if !(out.push(b"/") && out.push(part)) {
                        return false;
                    }
                }
            }
        }
    }
    is_folder(out.bytes())
}

fn push_rest(rest: &[u8], out: &mut Buffer) -> bool {
    match rest.first() {
        None => true,
        Some(b'/') => out.push(rest),
        Some(_) => out.push(b"/") && out.push(rest),
    }
}

/// The numbers by which the kernel knows a device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNumbers {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Those of `uverbs0`; of others the number at the end of the name follows (`IB_UVERBS_MAJOR`, `IB_UVERBS_BASE_MINOR`).
const VERBS: DeviceNumbers = DeviceNumbers { major: 231, minor: 192 };

/// Those of the connection manager: a miscellaneous device, with one of the numbers that the kernel gives as they come.
const CONNECTIONS: DeviceNumbers = DeviceNumbers { major: 10, minor: 58 };

/// Whether a path of the view is that of a device node, and its numbers.
pub(crate) fn node(path: &[u8]) -> Option<DeviceNumbers> {
    let name = path.strip_prefix(NODES)?;
    if name == b"rdma_cm" {
        return Some(CONNECTIONS);
    }
    let digits = name.strip_prefix(b"uverbs")?;
    let number = digits.iter().try_fold(0u32, |number, digit| {
        digit.is_ascii_digit().then(|| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
    })?;
    Some(DeviceNumbers { minor: VERBS.minor.saturating_add(number), ..VERBS })
}

/// Whether a counter may stand there.
pub(crate) fn is_below_counters(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    parts.next();
    matches!(parts.next(), Some(b"counters" | b"hw_counters"))
}

/// What the kernel says behind the path of a folder that has been taken away and is still somebody's (`/proc/PID/cwd`).
const TAKEN_AWAY: &[u8] = b" (deleted)";

/// The path that programs know, of one in a tree (`.../nonic-view.UID/HASH/sys/...`); `None` if it is in none. A tree that has
/// been taken away is the one that is put up next.
pub(crate) fn public(path: &[u8]) -> Option<&[u8]> {
    let path = path.strip_suffix(TAKEN_AWAY).unwrap_or(path);
    let mark = crate::calls::FOLDER.as_bytes();
    let begin = path.windows(mark.len() + 1).position(|at| at[0] == b'/' && &at[1..] == mark)?;
    let mut slashes = (begin + 1..path.len()).filter(|at| path[*at] == b'/');
    slashes.next()?;
    Some(slashes.next().map_or(b"/", |root| &path[root..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &str, path: &str) -> Option<String> {
        let mut out = Buffer::new();
        find(base.as_bytes(), path.as_bytes(), &mut out)
            .then(|| String::from_utf8(out.bytes().to_vec()).expect("text"))
    }

    #[test]
    fn the_views_folders_and_everything_below_are_found_however_they_are_written() {
        for path in [
            "/sys/class/infiniband",
            "/sys/class/infiniband/",
            "/sys/class/infiniband/nonic0/ports/1/state",
            "/sys/class/infiniband_verbs/uverbs0",
            "/sys/class/infiniband_mad/abi_version",
            "/dev/infiniband/uverbs0",
            "/sys/devices/platform/nonic.12/numa_node",
            "/sys/class/infiniband/nonic0/device/../nonic.0",
        ] {
            assert_eq!(found("/", path).as_deref(), Some(path));
        }
        for path in [
            "//sys/./class//infiniband/x",
            "/sys/devices/../class/infiniband/x",
            "/../sys/class/infiniband/x",
        ] {
            assert_eq!(found("/", path).as_deref(), Some("/sys/class/infiniband/x"), "{path}");
        }
    }

    #[test]
    fn a_relative_path_begins_at_its_folder() {
        assert_eq!(found("/", "sys/class/infiniband").as_deref(), Some("/sys/class/infiniband"));
        assert_eq!(found("/sys/class", "infiniband/x/").as_deref(), Some("/sys/class/infiniband/x/"));
        assert_eq!(
            found("/home/me", "../../dev/infiniband/uverbs0").as_deref(),
            Some("/dev/infiniband/uverbs0")
        );
        assert_eq!(
            found("/sys/class/infiniband/nonic0", "ports/1").as_deref(),
            Some("/sys/class/infiniband/nonic0/ports/1")
        );
        assert_eq!(found("/sys/class/infiniband", "../x").as_deref(), Some("/sys/class/infiniband/../x"));
    }

    #[test]
    fn all_other_paths_are_none_of_the_view() {
        for path in [
            "/sys/class/infiniband_ucma",
            "/sys/class/infinibands/x",
            "/sys/class",
            "/sys/class/infiniband/",
            "/tmp/sys/class/infiniband",
            "/sys/devices/platform/nonic.x",
            "/sys/devices/platform/nonic.",
            "/opt/nonic.0/x",
            "infiniband",
            "/",
            "",
        ] {
            let expected = (path == "/sys/class/infiniband/").then(|| path.to_owned());
            assert_eq!(found("/work", path), expected, "{path}");
        }
        let long = format!("/sys/class/infiniband/{}", "a".repeat(Buffer::ROOM));
        assert_eq!(found("/", &long), None);
        assert_eq!(found("/", &"infiniband/".repeat(1000)), None);
    }

    #[test]
    fn a_node_has_the_numbers_of_its_name_and_a_counter_its_folder() {
        assert_eq!(node(b"/dev/infiniband/uverbs12"), Some(DeviceNumbers { major: 231, minor: 204 }));
        assert_eq!(node(b"/dev/infiniband/rdma_cm"), Some(CONNECTIONS));
        assert_eq!(node(b"/dev/infiniband/rdma_cm0"), None);
        assert_eq!(node(b"/dev/infiniband/uverbs1x"), None);
        assert_eq!(node(b"/dev/infiniband"), None);
        assert!(is_below_counters(b"/x/counters/port_rcv_data") && is_below_counters(b"/x/hw_counters/y"));
        assert!(!is_below_counters(b"/x/counters") && !is_below_counters(b""));
    }

    #[test]
    fn a_path_in_a_tree_is_known_by_the_folder_of_trees() {
        assert_eq!(public(b"/dev/shm/nonic-view.7/0123/sys/class"), Some(b"/sys/class".as_slice()));
        assert_eq!(public(b"/dev/shm/nonic-view.7/0123"), Some(b"/".as_slice()));
        assert_eq!(public(b"/dev/shm/nonic-view.7/0123/sys/x (deleted)"), Some(b"/sys/x".as_slice()));
        assert_eq!(public(b"/dev/shm/nonic-view.7/0123 (deleted)"), Some(b"/".as_slice()));
        assert_eq!(public(b"/dev/shm/nonic-view.7"), None);
        assert_eq!(public(b"/home/me"), None);
    }
}
