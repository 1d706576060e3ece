//! Memory that one engine imports from another, where the kernel copies nothing between processes, as in a sandbox. Alone in its process,
//! whose filter of system calls stays.

mod common;

use std::sync::{Arc, Mutex, Weak};

use common::{End, NoObserver, program};
use nonic_device::{
    Access, Command, Config, EngineHandle, Exported, Operation, Region, RegionMemory, RegionRequest,
    RemoteRange, ScatterGather, Status, Wanted, Zone, import_device, set_exporter,
};
use nonic_sys::{Protection, SharedMapping, SharedMemory};

const LENGTH: usize = 8192;

/// Has the kernel refuse copies between processes to every thread of this one.
fn refuse_copies() {
    let statement = |code: u32, jumps: (u8, u8), k: u32| libc::sock_filter {
        code: code as u16,
        jt: jumps.0,
        jf: jumps.1,
        k,
    };
    let is = |call: libc::c_long, jumps| {
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jumps, call as u32)
    };
    let end = |answer| statement(libc::BPF_RET | libc::BPF_K, (0, 0), answer);
    // The number of the call stands at the beginning of what a filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        is(libc::SYS_process_vm_readv, (1, 0)),
        is(libc::SYS_process_vm_writev, (0, 1)),
        end(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program is a local that the kernel copies; it ends with an answer on every way.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        assert_eq!(libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program), 0);
    }
    assert!(!nonic_sys::copies_own_memory());
}

/// What the owner has made and lends.
static LENT: Mutex<Vec<Exported>> = Mutex::new(Vec::new());

fn lend(thing: Exported) {
    LENT.lock().unwrap().push(thing);
}

/// The last of its kind.
fn find(_: u64, wanted: Wanted) -> Option<Exported> {
    let fits = |thing: &&Exported| match thing {
        Exported::Device(_) => wanted == Wanted::Device,
        Exported::Region(_) => matches!(wanted, Wanted::Region(_)),
        _ => false,
    };
    LENT.lock().unwrap().iter().rfind(fits).cloned()
}

/// A file of the program's that is mapped shared, and a region on it.
fn region_in_a_file(zone: &Arc<Zone>) -> (SharedMemory, SharedMapping, Arc<Region>) {
    let file = SharedMemory::create("imports", LENGTH).unwrap();
    let mapping = file.map(Protection::ReadWrite).unwrap();
    let memory = RegionMemory::Program { address: program(mapping.as_ptr() as usize), length: LENGTH };
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
    let region = zone.register(RegionRequest { memory, base: 0, access }).unwrap();
    (file, mapping, region)
}

#[test]
fn a_region_in_a_file_is_imported_though_the_kernel_copies_nothing() {
    refuse_copies();
    set_exporter(find);
    let engine = EngineHandle::create(Config::default()).unwrap();
    let context = engine.devices()[0].open().unwrap();
    let completions = context.create_completion_queue(16, 0, None, 0).unwrap();
    let owner = End::with_queue(Arc::clone(&context), completions, None::<Weak<NoObserver>>);
    lend(Exported::Device(Arc::clone(&context)));
    let command = Command::of(context.command_fd()).unwrap();
    let imported = import_device(command).unwrap();
    let completions = imported.create_completion_queue(16, 0, None, 0).unwrap();
    let importer = End::with_queue(Arc::clone(&imported), completions, None::<Weak<NoObserver>>);
    owner.connect(importer.pair.number());
    importer.connect(owner.pair.number());
    // Each lies in a file of its own, which the importer does not have before it asks.
    for turn in 1..=8 {
        let (file, _mapping, region) = region_in_a_file(&owner.zone);
        lend(Exported::Region(Arc::clone(&region)));
        let import = imported.import_region(7).unwrap();
        let named = import.share(&importer.zone, Access::LOCAL_WRITE).unwrap();
        let bytes: Vec<u8> = (0..4096).map(|at| (at % 251) as u8 ^ turn).collect();
        file.write_first(&bytes).unwrap();
        let piece = ScatterGather { address: 0, length: 4096, key: named.local_key() };
        let remote = RemoteRange { address: owner.buffer.as_ptr() as u64, key: owner.region.remote_key() };
        importer.post(1, Operation::Write { remote, immediate: None }, &[piece]);
        assert_eq!(importer.completion().status, Status::Success);
        let place = owner.buffer.as_ptr();
        // SAFETY: the buffer of the owner's end, into which nothing is under way any more.
        let seen: Vec<u8> = (0..4096).map(|at| unsafe { place.add(at).read_volatile() }).collect();
        assert!(seen == bytes, "turn {turn}");
        named.deregister().unwrap();
        import.deregister().unwrap();
        region.deregister().unwrap();
    }
    LENT.lock().unwrap().clear();
    importer.give_back();
    owner.give_back();
}
