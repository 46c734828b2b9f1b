//! Waits for the work queues of the running kernel, which act after a request is answered. The fake
//! kernel has nothing to wait for.

use std::thread;
use std::time::{Duration, Instant};

use super::{INET6, Machine, Place, Result, trouble};
use trueup_testkit::message::{Kind, RawMessage};
use trueup_testkit::settled::{is_routed, is_state_announced, is_tentative, is_undetected, is_up};

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

    /// Waits until carriers are announced and IPv6 addresses are usable. A state that lasts half a
    /// second is final, such as an address whose local route another writer deleted.
    pub(in crate::scenario) fn wait_until_settled(&mut self) -> Result<()> {
        if matches!(self.place, Place::Fake(_)) {
            return Ok(());
        }
        let end = Instant::now() + Duration::from_millis(500);
        while self.is_moving()? && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        // This request names no link, and needs the lock that every change holds.
        let no_link = link_header(i32::MAX as u32);
        self.wire.request(RTM_SETLINK, 0, &no_link)?;
        Ok(())
    }

    fn is_moving(&mut self) -> Result<bool> {
        let mut moving = false;
        for link in self.wire.rows(Kind::Link, 0)? {
            if !is_state_announced(&link) {
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
