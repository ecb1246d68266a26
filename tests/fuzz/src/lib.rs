//! What the targets share: an allocator that counts, and the limit on what an input may cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use caip_openstack::fuzzing::ALLOCATED;

/// The most that was allocated at once.
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// In bytes of memory for each byte of input.
const PER_BYTE: usize = 64;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs a target. It may take memory in proportion to the input, and `base` bytes for what does not depend on it.
pub fn run(target: fn(&[u8]), base: usize, data: &[u8]) {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    target(data);
    let taken = PEAK.load(Ordering::Relaxed) - before;
    let (limit, length) = (base + PER_BYTE * data.len(), data.len());
    assert!(taken <= limit, "an input of {length} bytes takes {taken} bytes of memory, and may take {limit}");
}

/// The program of one target: a function of `src/fuzzing.rs`.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::target!($name, 64 << 10);
    };
    ($name:ident, $base:expr) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::run(caip_openstack::fuzzing::$name, $base, data));
    };
}
