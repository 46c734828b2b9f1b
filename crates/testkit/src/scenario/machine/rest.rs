//! Waiting for what the running kernel does after a request has been answered, on work queues of its own. The fake one has
//! nothing to wait for.

use std::thread;
use std::time::{Duration, Instant};

use super::{INET6, Machine, Place, Result, trouble};
use crate::message::{Kind, RawMessage};

const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const IFLA_LINK: u16 = 5;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_CARRIER: u16 = 33;
const IF_OPER_UNKNOWN: u8 = 0;
const IF_OPER_UP: u8 = 6;
const IFF_UP: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_F_NODAD: u8 = 0x02;
const IFA_F_DADFAILED: u8 = 0x08;
const IFA_F_TENTATIVE: u8 = 0x40;
const RTA_DST: u16 = 1;
const RTN_LOCAL: u8 = 2;

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
            let byte = |number| link.attrs.get(&number).and_then(|payload| payload.first());
            let state = byte(IFLA_OPERSTATE).copied().unwrap_or(IF_OPER_UNKNOWN);
            // What hangs on another knows its state once it was looked at for the first time.
            let unknown = state == IF_OPER_UNKNOWN && !link.attrs.contains_key(&IFLA_LINK);
            let told = state == IF_OPER_UP || unknown;
            let is_up = link.header[8] & IFF_UP != 0;
            if !is_up || told != (byte(IFLA_CARRIER) == Some(&1)) {
                moving |= is_up;
                // The kernel looks at most links once a second only; at one that is asked for it looks at once.
                self.wire
                    .request(RTM_GETLINK, 0, &link_header(link.device()))?;
            }
        }
        let addresses = self.wire.rows(Kind::Address, INET6)?;
        let undetected = |row: &&RawMessage| row.header[2] & IFA_F_NODAD != 0;
        let routes = match addresses.iter().any(|row| undetected(&row)) {
            true => self.wire.rows(Kind::Route, INET6)?,
            false => Vec::new(),
        };
        // An address without duplicate detection is never tentative; it has its local route once it is usable.
        let is_routed = |address: &RawMessage| {
            routes.iter().any(|route| {
                route.header[7] == RTN_LOCAL
                    && route.device() == address.device()
                    && route.attrs.get(&RTA_DST) == address.attrs.get(&IFA_ADDRESS)
            })
        };
        let unrouted = addresses
            .iter()
            .filter(undetected)
            .any(|row| !is_routed(row));
        let tentative = !self.detects && addresses.iter().any(is_tentative);
        Ok(moving || unrouted || tentative)
    }
}

fn is_tentative(address: &RawMessage) -> bool {
    address.header[2] & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == IFA_F_TENTATIVE
}

/// `struct ifinfomsg` that names a link and nothing else.
fn link_header(index: u32) -> Vec<u8> {
    let mut header = vec![0; Kind::Link.header_len()];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
