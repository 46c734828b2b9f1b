//! The cost of keys: none once they have no job. This is its own program, because it counts the
//! allocations of all threads.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "a part of what the other tests use")]
#[path = "it/support.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use support::*;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does all the work; counting uses no pointer of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(at, layout) }
    }
}

/// The memory kept from a queue's peak, and allocated by the test threads, in bytes.
const ONCE: isize = 256 << 10;
const KEYS: u64 = 100_000;

static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn the_memory_of_keys_returns_when_they_are_idle() {
    let _alone = ALONE.lock();
    let queue = queue(2);
    done(&queue.submit(0, || ()).unwrap());
    let before = ALLOCATED.load(Ordering::Relaxed);
    for _ in 0..3 {
        let held = [hold(&queue, KEYS), hold(&queue, KEYS + 1)];
        for key in 0..KEYS {
            queue.submit(key, || ()).unwrap();
        }
        let full = ALLOCATED.load(Ordering::Relaxed) - before;
        assert!(full > 100 * KEYS.cast_signed() as isize, "{full}");
        drop(held);
        // A worker frees it before it sleeps.
        let bound = Instant::now() + Duration::from_secs(10);
        while queue.stats().lanes > 0 || ALLOCATED.load(Ordering::Relaxed) - before >= ONCE {
            let left = ALLOCATED.load(Ordering::Relaxed) - before;
            assert!(Instant::now() < bound, "{left} bytes of {full} are left");
            std::thread::yield_now();
        }
    }
    end(&queue);
}

#[test]
fn jobs_that_are_cancelled_leave_nothing_behind() {
    let _alone = ALONE.lock();
    let queue = queue(1);
    let held = hold(&queue, 0);
    let kept = [1, 2].map(|key| queue.submit_after(key, NEVER, || ()).unwrap());
    let before = ALLOCATED.load(Ordering::Relaxed);
    for round in 0..KEYS {
        for key in [1, 0] {
            let waiting = queue.submit(key, || ()).unwrap();
            let delayed = queue.submit_after(key, NEVER, || ()).unwrap();
            let tagged = queue.submit_once_after(key, "tag", NEVER, || ()).unwrap().unwrap();
            assert!(tagged.cancel() && delayed.cancel() && waiting.cancel(), "{round}");
        }
    }
    let left = ALLOCATED.load(Ordering::Relaxed) - before;
    assert!(left < ONCE, "{left} bytes are left");
    assert_eq!(queue.stats().delayed, 2);
    drop((held, kept));
    queue.abort();
}
