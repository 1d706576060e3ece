//! What adoption costs here, in microseconds: `cargo run --release -p nonic-memory --example adoption-cost`.

use std::time::Instant;

use nonic_memory::{Adopter, AdoptionPolicy, Purpose, Shield};

const PAGE: usize = 4096;

fn map(bytes: usize) -> usize {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping where the kernel chooses.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start as usize
}

fn fill(address: usize, bytes: usize) {
    // SAFETY: memory of `map`.
    unsafe { std::ptr::write_bytes(address as *mut u8, 1, bytes) };
}

fn unmap(address: usize, bytes: usize) {
    // SAFETY: memory of `map`, not used any more.
    unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Medians of adopting and giving back, in microseconds.
fn rounds(adopter: &Adopter, bytes: usize, touched: bool, count: usize) -> (f64, f64) {
    let (mut adopting, mut returning) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let address = map(bytes);
        if touched {
            fill(address, bytes);
        }
        let begin = Instant::now();
        let adoption = adopter.adopt(address, bytes, Purpose::Remote);
        adopting.push(begin.elapsed().as_secs_f64() * 1e6);
        assert!(adoption.pages.is_some(), "{:?}", adoption.reason);
        let begin = Instant::now();
        adopter.give_back(adoption, false);
        returning.push(begin.elapsed().as_secs_f64() * 1e6);
        unmap(address, bytes);
    }
    (median(adopting), median(returning))
}

fn covered(adopter: &Adopter) -> (f64, f64) {
    let address = map(1 << 20);
    let outer = adopter.adopt(address, 1 << 20, Purpose::Remote);
    let (mut adopting, mut returning) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let begin = Instant::now();
        let adoptions: Vec<_> =
            (0..1000).map(|at| adopter.adopt(address + (at % 200) * PAGE, PAGE, Purpose::Remote)).collect();
        adopting.push(begin.elapsed().as_secs_f64() * 1e3);
        let begin = Instant::now();
        adoptions.into_iter().for_each(|adoption| adopter.give_back(adoption, false));
        returning.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    adopter.give_back(outer, false);
    unmap(address, 1 << 20);
    (median(adopting), median(returning))
}

fn print(name: &str, shield: Shield) {
    let adopter = Adopter::new(AdoptionPolicy::Always);
    adopter.set_shield(shield);
    adopter.add_own_threads(isize::from(name.starts_with("alone")));
    let pages = 4096.0;
    let (adopt, back) = rounds(&adopter, 4096 * PAGE, true, 15);
    println!(
        "{name}: a page that holds data (16 MiB): {:.2} to adopt, {:.2} to give back",
        adopt / pages,
        back / pages
    );
    let (adopt, back) = rounds(&adopter, 64 << 20, false, 31);
    println!("{name}: 64 MiB never touched: {adopt:.1}, {back:.1}");
    let (adopt, back) = rounds(&adopter, PAGE, true, 501);
    println!("{name}: one page: {adopt:.1}, {back:.1}");
    let (adopt, back) = rounds(&adopter, 16 * PAGE, true, 501);
    println!("{name}: 64 KiB: {adopt:.1}, {back:.1}");
    let (adopt, back) = covered(&adopter);
    println!("{name}: one page that a live region covers: {adopt:.2}, {back:.2}");
}

fn main() {
    print("alone", Shield::Best);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let others: Vec<_> = [stopped].into_iter().map(|wait| std::thread::spawn(move || wait.recv())).collect();
    print("threads, full userfaultfd", Shield::Everything);
    print("threads, user-mode userfaultfd", Shield::UserMode);
    drop(stop);
    for other in others {
        let _ = other.join();
    }
}
