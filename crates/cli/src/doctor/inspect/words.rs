//! The reasons why bytes do not take a better way, in words, and the one change that would lift each.

use nonic_memory::PlainReason;

/// What a seccomp profile needs for adoption; Docker's form.
pub(in crate::doctor) const ALLOW_USERFAULTFD: &str = "add to \"syscalls\" of the seccomp profile (Docker: \
     --security-opt seccomp=PROFILE): { \"names\": [\"userfaultfd\"], \"action\": \"SCMP_ACT_ALLOW\" }";

/// The same for copies by the kernel.
pub(super) const ALLOW_COPYING: &str = "add to \"syscalls\" of the seccomp profile: { \"names\": \
     [\"process_vm_readv\", \"process_vm_writev\"], \"action\": \"SCMP_ACT_ALLOW\" } (Docker: --cap-add SYS_PTRACE)";

/// For processes with locked pages.
pub(in crate::doctor) const DO_NOT_LOCK: &str =
    "do not lock memory before registering it (mlock, mlockall): nonic needs no locked memory";

/// Why memory is not adopted.
pub(in crate::doctor) fn reason(reason: PlainReason) -> &'static str {
    match reason {
        PlainReason::None => "all whole pages are adopted",
        PlainReason::Disabled => "adoption is switched off (NONIC_ADOPT=never, or NONIC_TIER below mapped)",
        PlainReason::LocalOnly => "peers have no rights on it, and it is too small for its sends to gain",
        PlainReason::NoWholePage => "no whole page lies in it",
        PlainReason::NotOrdinary => {
            "it is no ordinary private memory: a private file mapping, huge pages, the kernel's own, or memory \
             kept out of children or core dumps (madvise)"
        }
        PlainReason::Stack => "it lies on a stack",
        PlainReason::Locked => "the memory is locked (mlock), and would not stay so",
        PlainReason::KernelPins => {
            "the kernel holds pages of the process (VmPin: io_uring buffers), and may hold these"
        }
        PlainReason::ShortLived => "registrations of its size have been too short to gain",
        PlainReason::NoProtection => "userfaultfd is refused, and other threads ran when it was registered",
        PlainReason::OtherRegion => {
            "another region on the same pages is not adopted, or lies in another layer"
        }
        PlainReason::NoFile => "no file as large as the address space can be made (RLIMIT_FSIZE, memory)",
        PlainReason::Emulated => "valgrind runs the program, and does not know such mappings",
        PlainReason::Failed => "a step of adoption failed, and all is as it was",
        PlainReason::TooManyMappings => "the process has too many separate adopted places (vm.max_map_count)",
        PlainReason::DriverPins => {
            "a device is open whose driver may hold pages of the process (AF_XDP, RDMA card, GPU, video, vhost, KVM, VFIO)"
        }
    }
}

/// The one change that would lift it; none where nothing would be gained.
pub(in crate::doctor) fn remedy(reason: PlainReason) -> Option<&'static str> {
    Some(match reason {
        PlainReason::None | PlainReason::LocalOnly => return None,
        PlainReason::Disabled => "start the program with NONIC_ADOPT=auto (and NONIC_TIER=auto)",
        PlainReason::NoWholePage => {
            "align the buffer to whole pages and make it one long at least (posix_memalign, 4096)"
        }
        PlainReason::NotOrdinary => {
            "use memory of malloc or of an anonymous mmap with pages of 4 KiB, or a memfd"
        }
        PlainReason::Stack => "take the buffer from malloc",
        PlainReason::Locked => DO_NOT_LOCK,
        PlainReason::KernelPins => {
            "register memory before io_uring's buffers are registered, or do not register those"
        }
        PlainReason::DriverPins => {
            "register memory before such a device is opened, and deregister it after the device is closed"
        }
        PlainReason::ShortLived => {
            "register once and keep the region, or start the program with NONIC_ADOPT=always"
        }
        PlainReason::NoProtection => ALLOW_USERFAULTFD,
        PlainReason::OtherRegion => "give each buffer whole pages of its own, or register both as one region",
        PlainReason::NoFile => "ulimit -f unlimited, before the program is started",
        PlainReason::Emulated => "run the program without valgrind",
        PlainReason::Failed => {
            "start the program with NONIC_LOG=debug, which tells the step; often memory is short"
        }
        PlainReason::TooManyMappings => {
            "register fewer and larger regions, or: sudo sysctl vm.max_map_count=1048576"
        }
    })
}

/// What is to be done about bytes beside the whole pages of an adopted region.
pub(super) const ALIGN: &str = "align the buffer and its length to whole pages (posix_memalign, 4096)";

/// A number of bytes.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let shown = if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{shown} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_but_the_harmless_ones_has_a_remedy() {
        for number in 0.. {
            let Some(plain) = PlainReason::from_number(number) else { break };
            assert!(!reason(plain).is_empty());
            let harmless = matches!(plain, PlainReason::None | PlainReason::LocalOnly);
            assert_eq!(remedy(plain).is_none(), harmless, "{plain:?}");
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(12), "12 B");
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(3 << 19), "1.5 MiB");
        assert_eq!(size(u64::MAX), "16384 PiB");
    }
}
