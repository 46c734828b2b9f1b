//! Hints to drivers that are known at first, or only later.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_reconcile::{Hints, LateHints};

#[test]
fn clones_send_to_the_same_driver_from_any_thread() {
    let count = Arc::new(AtomicUsize::new(0));
    let hints = Hints::new({
        let count = Arc::clone(&count);
        move || {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let elsewhere = hints.clone();
    std::thread::spawn(move || elsewhere.request_pass()).join().unwrap();
    hints.request_pass();
    assert_eq!(count.load(Ordering::SeqCst), 2);
}

#[test]
fn hints_from_before_the_driver_is_known_are_sent_as_one() {
    let counted = || {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let hints = Hints::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        (count, hints)
    };
    let late = LateHints::default();
    let hints = late.hints();
    hints.request_pass();
    hints.request_pass();
    let (first, to_first) = counted();
    late.set(to_first);
    assert_eq!(first.load(Ordering::SeqCst), 1);
    hints.request_pass();
    assert_eq!(first.load(Ordering::SeqCst), 2);
    let (second, to_second) = counted();
    late.set(to_second);
    hints.request_pass();
    let counts = (first.load(Ordering::SeqCst), second.load(Ordering::SeqCst));
    assert_eq!(counts, (2, 1));
}
