//! The waits of a poller.
#![cfg(feature = "poll")]
#![allow(clippy::unwrap_used)]

use std::io::{Write as _, pipe};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use trueup_sync::Poller;

const SHORT: Duration = Duration::from_millis(10);

#[test]
fn a_wake_up_before_the_wait_ends_it_and_only_one() {
    let poller = Poller::new().unwrap();
    poller.wake();
    poller.wake();
    assert!(poller.wait(None).is_empty());
    let end = Instant::now() + SHORT;
    assert!(poller.wait(Some(end)).is_empty());
    assert!(Instant::now() >= end);
}

#[test]
fn a_readable_descriptor_is_returned_once_each_time_it_is_listened_to() {
    let poller = Poller::new().unwrap();
    let (reader, mut writer) = pipe().unwrap();
    poller.listen(reader.as_fd(), 7).unwrap();
    writer.write_all(&[1]).unwrap();
    assert_eq!(poller.wait(None), [7]);
    assert!(poller.wait(Some(Instant::now())).is_empty());
    poller.listen(reader.as_fd(), 8).unwrap();
    assert_eq!(poller.wait(None), [8]);
    poller.listen(reader.as_fd(), 9).unwrap();
    drop(reader);
    assert!(poller.wait(Some(Instant::now())).is_empty(), "it is closed");
}

#[test]
fn a_descriptor_that_was_hung_up_on_is_readable() {
    let poller = Poller::new().unwrap();
    let (reader, writer) = pipe().unwrap();
    poller.listen(reader.as_fd(), 7).unwrap();
    drop(writer);
    assert_eq!(poller.wait(None), [7]);
}
