//! Waiting for what the running kernel does after a request has been answered, on work queues of its own. The fake one has
//! nothing to wait for.

use std::thread;
use std::time::{Duration, Instant};

use super::{INET6, Machine, Place, Result, trouble};
use crate::message::{Kind, RawMessage};
use crate::rest::{is_routed, is_tentative, is_told, is_undetected, is_up};

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;

impl Machine {
    /// Waits until no address is under duplicate address detection.
    pub(in crate::scenario) fn settle(&mut self) -> Result<()> {
        if let Place::Fake(kernel) = &self.place {
            kernel.finish_duplicate_detection();
            return Ok(());
        }
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let addresses = self.wire.rows(Kind::Address, INET6)?;
            if !addresses.iter().any(is_tentative) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(trouble(
                    "duplicate address detection did not end within ten seconds",
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until carriers have been told of, and IPv6 addresses are usable. What does not come to be within half a second is
    /// meant so, such as an address whose local route somebody took.
    pub(in crate::scenario) fn rest(&mut self) -> Result<()> {
        if matches!(self.place, Place::Fake(_)) {
            return Ok(());
        }
        let end = Instant::now() + Duration::from_millis(500);
        while self.is_moving()? && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        // Who still changes something holds the lock that this request needs, which names no link.
        let nobody = link_header(i32::MAX as u32);
        self.wire.request(RTM_SETLINK, 0, &nobody)?;
        Ok(())
    }

    fn is_moving(&mut self) -> Result<bool> {
        let mut moving = false;
        for link in self.wire.rows(Kind::Link, 0)? {
            if !is_told(&link) {
                moving |= is_up(&link);
                self.wire
                    .request(RTM_GETLINK, 0, &link_header(link.device()))?;
            }
        }
        let addresses = self.wire.rows(Kind::Address, INET6)?;
        let routes = match addresses.iter().any(is_undetected) {
            true => self.wire.rows(Kind::Route, INET6)?,
            false => Vec::new(),
        };
        let unrouted = |row: &RawMessage| is_undetected(row) && !is_routed(row, &routes);
        let unusable = addresses.iter().any(unrouted);
        let tentative = !self.detects && addresses.iter().any(is_tentative);
        Ok(moving || unusable || tentative)
    }
}

/// `struct ifinfomsg` that names a link and nothing else.
fn link_header(index: u32) -> Vec<u8> {
    let mut header = vec![0; Kind::Link.header_len()];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
