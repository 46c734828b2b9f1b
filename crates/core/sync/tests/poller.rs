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
    assert_eq!(poller.wait(None).count(), 0);
    let end = Instant::now() + SHORT;
    assert_eq!(poller.wait(Some(end)).count(), 0);
    assert!(Instant::now() >= end);
}

#[test]
fn a_readable_descriptor_is_returned_once_each_time_it_is_listened_to() {
    let poller = Poller::new().unwrap();
    let (reader, mut writer) = pipe().unwrap();
    poller.listen(reader.as_fd(), 7).unwrap();
    writer.write_all(&[1]).unwrap();
    assert_eq!(poller.wait(None).collect::<Vec<_>>(), [7]);
    assert_eq!(poller.wait(Some(Instant::now())).count(), 0);
    poller.listen(reader.as_fd(), 8).unwrap();
    assert_eq!(poller.wait(None).collect::<Vec<_>>(), [8]);
    poller.listen(reader.as_fd(), 9).unwrap();
    drop(reader);
    assert_eq!(poller.wait(Some(Instant::now())).count(), 0, "it is closed");
}

#[test]
fn a_descriptor_that_was_hung_up_on_is_readable() {
    let poller = Poller::new().unwrap();
    let (reader, writer) = pipe().unwrap();
    poller.listen(reader.as_fd(), 7).unwrap();
    drop(writer);
    assert_eq!(poller.wait(None).collect::<Vec<_>>(), [7]);
}
