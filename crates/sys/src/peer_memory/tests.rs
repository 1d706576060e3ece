//! Every way to the memory of another process, and what becomes of each when that process goes.

use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

use super::witness::{FAR, FAR_LENGTH};
use super::*;
use crate::{PAGE, random_u64};

/// A child of this process that sleeps, with a copy of its memory; gone when dropped.
struct Child(i32);

impl Child {
    /// One that becomes another program once `word` is told to it.
    fn that_waits(word: &AtomicU64) -> Self {
        let sleep = [c"/bin/sleep", c"/usr/bin/sleep", c"/bin/busybox"];
        let words = [c"sleep".as_ptr(), c"1000".as_ptr(), std::ptr::null()];
        // SAFETY: the child makes system calls only, on memory that it has a copy of.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            while word.load(Ordering::Acquire) == 0 {
                // SAFETY: as above.
                unsafe { libc::usleep(100) };
            }
            // SAFETY: as above; `_exit` runs no handler of this process's.
            unsafe {
                for program in sleep {
                    libc::execv(program.as_ptr(), words.as_ptr());
                }
                libc::_exit(1);
            }
        }
        assert!(pid > 0, "{}", io::Error::last_os_error());
        Self(pid)
    }

    fn end(self) {}

    fn bytes(&self, address: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let local = [Piece { address: bytes.as_mut_ptr() as usize, length }];
        // SAFETY: the piece is this function's own buffer.
        let copied = unsafe { read_process(self.0, &local, &[Piece { address, length }]) };
        assert_eq!(copied.unwrap(), length);
        bytes
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is this test's, and not waited for elsewhere.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

fn pieces(bytes: &mut [u8], parts: usize) -> Vec<Piece> {
    let each = bytes.len().div_ceil(parts).max(1);
    bytes
        .chunks_mut(each)
        .map(|part| Piece { address: part.as_mut_ptr() as usize, length: part.len() })
        .collect()
}

fn write(memory: &PeerMemory, length: usize, to: usize) -> io::Result<usize> {
    memory.write(&pieces(&mut vec![9; length], 3), to)
}

fn read(memory: &PeerMemory, length: usize, from: usize) -> io::Result<usize> {
    let mut bytes = vec![0; length];
    // SAFETY: the pieces are this function's own buffer.
    unsafe { memory.read(&pieces(&mut bytes, 3), from) }
}

/// Lengths on both sides of every border between two ways.
const LENGTHS: [usize; 4] = [1, BOUNCE_MOST, BOUNCE_MOST + 1, 1 << 20];

fn is_gone(outcome: io::Result<usize>) -> bool {
    outcome.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

#[test]
fn every_way_copies_the_bytes_asked_for_and_none_beside_them() {
    let witness = Witness::create().unwrap();
    let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
    for shown in [false, true] {
        if shown {
            witness.show_this_thread();
        }
        for (length, parts) in LENGTHS.into_iter().flat_map(|length| [(length, 1), (length, 32)]) {
            let mut source: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut there = vec![0u8; length + 2];
            let address = there.as_mut_ptr() as usize + 1;
            assert_eq!(memory.write(&pieces(&mut source, parts), address).unwrap(), length);
            assert!(there[1..=length] == source && there[0] == 0 && there[length + 1] == 0);
            let mut back = vec![0; length];
            // SAFETY: the pieces are this function's own buffer.
            let copied = unsafe { memory.read(&pieces(&mut back, parts), address) };
            assert!(copied.unwrap() == length && back == source);
        }
        // Tests do not run in the first thread.
        assert_eq!(memory.thread.load(Ordering::Relaxed) != 0, shown);
    }
    assert_eq!(witness.page().value.load(Ordering::Relaxed), witness.mark().value);
}

#[test]
fn pieces_are_cut_where_they_should_be_and_lose_no_byte() {
    let cut_at = |lengths: &[usize], offsets: [usize; CUTS]| {
        let mut address = 0;
        let pieces: Vec<Piece> = lengths
            .iter()
            .map(|length| {
                address += 100;
                Piece { address, length: *length }
            })
            .collect();
        let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + CUTS];
        cut(&pieces, offsets, &mut room).iter().map(|piece| (piece.address, piece.length)).collect::<Vec<_>>()
    };
    assert_eq!(cut_at(&[80], [64, 79]), [(100, 64), (164, 15), (179, 1)]);
    assert_eq!(cut_at(&[65], [64, 64]), [(100, 64), (164, 1)]);
    assert_eq!(cut_at(&[10, 60, 10], [64, 79]), [(100, 10), (200, 54), (254, 6), (300, 9), (309, 1)]);
    assert_eq!(cut_at(&[64, 0, 16, 0], [64, 79]), [(100, 64), (300, 15), (315, 1)]);
    assert_eq!(cut_at(&[79, 1], [64, 79]), [(100, 64), (164, 15), (200, 1)]);
    let most = cut_at(&[3; PIECES_MAX], [1, 3 * PIECES_MAX - 1]);
    assert_eq!(
        (most.len(), most[0], most[PIECES_MAX + 1]),
        (PIECES_MAX + CUTS, (100, 1), (100 * PIECES_MAX + 2, 1))
    );
}

#[test]
fn the_last_byte_comes_last_though_the_kernel_copies_each_piece_from_its_end() {
    let source = [7u8; 200];
    for (alignment, length, first) in
        (0..64).flat_map(|a| (1..=200).flat_map(move |l| [0, 1, 5, l - 1, l].map(|f| (a, l, f.min(l)))))
    {
        let local = [Piece { address: 0, length: first }, Piece { address: first, length: length - first }];
        let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + CUTS];
        let pieces = cut(&local, ends_of(&local, alignment, length), &mut room);
        let mut memory = [0u8; 200];
        for piece in pieces {
            let (at, end) = (piece.address, piece.address + piece.length);
            // One store of the machine's cannot be divided.
            let word = matches!(piece.length, 4 | 8) && (alignment + at).is_multiple_of(piece.length);
            let store = if word { piece.length } else { 1 };
            for at in (at..end).step_by(store).rev() {
                memory[at..at + store].copy_from_slice(&source[at..at + store]);
                let seen = &memory[..length];
                assert!(
                    seen[length - 1] == 0 || seen == &source[..length],
                    "{length} bytes to {alignment}, cut into {pieces:?}"
                );
            }
        }
        assert_eq!(memory[..length], source[..length], "{length} bytes to {alignment}, cut into {pieces:?}");
    }
}

#[test]
fn a_word_at_the_end_of_a_write_is_written_whole() {
    let last = |length: usize, address: usize| {
        let local = [Piece { address: 0, length }];
        let mut room = [Piece { address: 0, length: 0 }; PIECES_MAX + CUTS];
        cut(&local, ends_of(&local, address, length), &mut room).last().unwrap().length
    };
    assert_eq!([last(8, 0), last(48, 4096), last(48, 4), last(4, 4), last(1000, 24)], [8, 8, 4, 4, 8]);
    assert_eq!([last(1, 7), last(7, 0), last(2, 6), last(3, 1), last(65, 0)], [1; 5]);
}

#[test]
fn a_copy_that_ends_at_memory_that_is_not_there_says_how_far_it_came() {
    let witness = Witness::create().unwrap();
    witness.show_this_thread();
    let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
    // SAFETY: a new mapping, of which this test gives the end back. It is far out, where no other thread's happens to be: the
    // kernel would fill a hole among the others.
    let start = unsafe {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        let start = (FAR + FAR_LENGTH + random_u64() % FAR_LENGTH / PAGE as u64 * PAGE as u64) as *mut _;
        let start = rustix::mm::mmap_anonymous(start, 64 * PAGE, rights, flags).unwrap();
        rustix::mm::munmap(start.byte_add(63 * PAGE), PAGE).unwrap();
        start as usize
    };
    for at in [start + 62 * PAGE, start] {
        let there = start + 63 * PAGE - at;
        assert_eq!(write(&memory, there + 5, at).unwrap(), there);
        assert_eq!(read(&memory, there + 5, at).unwrap(), there);
    }
    for length in LENGTHS {
        assert_eq!(write(&memory, length, start + 63 * PAGE).unwrap(), 0);
        assert_eq!(read(&memory, length, start + 63 * PAGE).unwrap(), 0);
    }
}

#[test]
fn memory_that_a_program_left_by_exec_is_gone_and_the_next_program_is_left_alone() {
    let shared = crate::SharedMapping::anonymous(PAGE).unwrap();
    let page = Box::new([random_u64(), 0]);
    let mark = Mark { address: page.as_ptr() as u64, value: page[0] };
    let there = vec![0u8; 1 << 20];
    let child = Child::that_waits(shared.word(0));
    let [opened, unopened] = [(); 2].map(|()| PeerMemory::reach(child.0, mark).unwrap());
    assert!(opened.is_writable());
    assert_eq!(write(&opened, 100, there.as_ptr() as usize).unwrap(), 100);
    shared.word(0).store(1, Ordering::Release);
    let name = format!("/proc/{}/comm", child.0);
    while !["sleep\n", "busybox\n"].contains(&std::fs::read_to_string(&name).unwrap().as_str()) {
        assert!(!crate::process_is_ending(child.0), "there is no sleep to become");
        std::thread::yield_now();
    }
    for memory in [opened, unopened] {
        for length in LENGTHS {
            assert!(is_gone(read(&memory, length, there.as_ptr() as usize)));
            assert!(write(&memory, length, there.as_ptr() as usize).is_err());
        }
    }
    assert!(PeerMemory::reach(child.0, mark).is_err());
}

#[test]
fn the_memory_of_a_process_that_ended_is_gone() {
    let (page, shared) = (Box::new([random_u64(), 0]), crate::SharedMapping::anonymous(PAGE).unwrap());
    let mark = Mark { address: page.as_ptr() as u64, value: page[0] };
    let child = Child::that_waits(shared.word(0));
    let memory = PeerMemory::reach(child.0, mark).unwrap();
    assert!(memory.is_writable());
    child.end();
    let there = vec![0u8; 1 << 20];
    for length in LENGTHS {
        assert!(is_gone(read(&memory, length, there.as_ptr() as usize)));
        assert!(is_gone(write(&memory, length, there.as_ptr() as usize)));
    }
}

#[test]
fn whoever_has_the_number_later_is_left_alone() {
    let shared = crate::SharedMapping::anonymous(PAGE).unwrap();
    let witness = Witness::create().unwrap();
    let there = vec![5u8; 1 << 20];
    let mut memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
    assert!(memory.is_writable());
    // A copy of this process, which lacks nothing but the witness, has all its numbers.
    let child = Child::that_waits(shared.word(0));
    memory.pid = child.0;
    memory.thread.store(child.0, Ordering::Relaxed);
    let mut bytes = vec![9; 1 << 20];
    let local = pieces(&mut bytes, 1);
    let address = there.as_ptr() as usize;
    // SAFETY: the pieces are this test's own buffer.
    assert!(is_gone(unsafe { memory.read_behind_witness(&local, address, 1 << 20) }));
    let descriptor = memory.descriptor().unwrap();
    let file = descriptor.file().unwrap();
    assert!(memory.write_behind_witness(file, &local, address, 1 << 20).is_none());
    assert_eq!(memory.thread.load(Ordering::Relaxed), 0);
    assert!(child.bytes(address, 1 << 20) == there);
    assert!(!memory.holds_witness(child.0));
}

#[test]
fn closed_memory_is_written_no_more() {
    let witness = Witness::create().unwrap();
    let memory = PeerMemory::reach(std::process::id() as i32, witness.mark()).unwrap();
    assert!(memory.is_writable());
    memory.close();
    let mut there = [0u8; 8];
    assert!(!memory.is_writable() && write(&memory, 8, there.as_mut_ptr() as usize).is_err());
    assert_eq!(there, [0; 8]);
}
