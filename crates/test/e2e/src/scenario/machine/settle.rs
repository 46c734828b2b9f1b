//! Waits for the running kernel's work queues, which act after the kernel has answered a request.

use std::thread;
use std::time::{Duration, Instant};

use trueup_testkit::settled::{is_routed, is_state_announced, is_tentative, is_undetected, is_up};
use trueup_testkit::{Kind, raw_dump, raw_request};

use super::super::numbers::INET6;
use super::super::writer::Trouble;
use super::Machine;

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;

impl Machine {
    /// Waits until no address is under duplicate address detection.
    pub(in crate::scenario) fn settle(&self) -> Result<(), Trouble> {
        let end = Instant::now() + Duration::from_secs(10);
        while raw_dump(Kind::Address, INET6).iter().any(is_tentative) {
            if Instant::now() > end {
                return Err(Trouble {
                    line: None,
                    message: "duplicate address detection did not end within ten seconds"
                        .to_owned(),
                });
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until carriers are announced and IPv6 addresses are usable. A state that lasts half a
    /// second and several polls is final, such as an address whose local route another writer
    /// deleted. The polls count because on a busy machine the kernel's work queues are as slow as
    /// we are.
    pub(in crate::scenario) fn wait_until_settled(&self) {
        const POLLS: u32 = 200;
        let begin = Instant::now();
        let mut polls = 0;
        while self.is_moving() && (polls < POLLS || begin.elapsed() < Duration::from_millis(500)) {
            polls += 1;
            thread::sleep(Duration::from_millis(1));
        }
        // No link has this index, but the request needs the lock that every change holds.
        let _no_such_link = raw_request(RTM_SETLINK, 0, &link_header(i32::MAX as u32));
    }

    fn is_moving(&self) -> bool {
        let mut moving = false;
        for link in raw_dump(Kind::Link, 0) {
            moving |= is_up(&link) && !is_state_announced(&link);
            // A request for a link makes the kernel update it, even if its state can stay unknown,
            // as for a bridge with a new port.
            let _answered = raw_request(RTM_GETLINK, 0, &link_header(link.device()));
        }
        let addresses = raw_dump(Kind::Address, INET6);
        let routes = if addresses.iter().any(is_undetected) {
            raw_dump(Kind::Route, INET6)
        } else {
            Vec::new()
        };
        let unusable = addresses.iter().any(|row| is_undetected(row) && !is_routed(row, &routes));
        let tentative = !self.detects && addresses.iter().any(is_tentative);
        moving || unusable || tentative
    }
}

/// Returns a `struct ifinfomsg` with only the index set.
fn link_header(index: u32) -> Vec<u8> {
    let mut header = vec![0; Kind::Link.header_len()];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
