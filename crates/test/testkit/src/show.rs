//! A message as one line of text: the identifying fields by name, the rest as number and hex.

use std::fmt;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::message::{Action, Kind, RawMessage, u16_at, u32_at};

impl fmt::Display for RawMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.action == Action::Del {
            f.write_str("deleted ")?;
        }
        write!(f, "{}", self.kind.word())?;
        let header = &self.header;
        match self.kind {
            Kind::Link => write!(f, " index {} flags {:#x}", self.device(), u32_at(header, 8))?,
            Kind::Address => write!(
                f,
                " family {} /{} flags {:#x} scope {} dev {}",
                header[0],
                header[1],
                header[2],
                header[3],
                self.device()
            )?,
            Kind::Neighbour => write!(
                f,
                " family {} dev {} state {:#x} flags {:#x}",
                header[0],
                self.device(),
                u16_at(header, 8),
                header[10]
            )?,
            Kind::Route => write!(
                f,
                " family {} /{} from /{} tos {} table {} protocol {} scope {} type {} flags {:#x}",
                header[0],
                header[1],
                header[2],
                header[3],
                header[4],
                header[5],
                header[6],
                header[7],
                u32_at(header, 8)
            )?,
            Kind::Rule => write!(
                f,
                " family {} to /{} from /{} tos {} table {} action {} flags {:#x}",
                header[0],
                header[1],
                header[2],
                header[3],
                header[4],
                header[7],
                u32_at(header, 8)
            )?,
            Kind::Nexthop => write!(
                f,
                " family {} scope {} protocol {} flags {:#x}",
                header[0],
                header[1],
                header[2],
                u32_at(header, 4)
            )?,
        }
        for (number, payload) in &self.attrs {
            match name(self.kind, *number) {
                Some(name) => write!(f, " {name}={}", value(name, payload))?,
                None => write!(f, " {number}={}", hex(payload))?,
            }
        }
        Ok(())
    }
}

/// Returns the names of identifying attributes; a name in capitals has an address as its value.
fn name(kind: Kind, number: u16) -> Option<&'static str> {
    Some(match (kind, number) {
        (Kind::Link, 1) => "address",
        (Kind::Link, 3) => "name",
        (Kind::Link, 4) => "mtu",
        (Kind::Link, 5) => "link",
        (Kind::Link, 10) => "master",
        (Kind::Link, 20) => "alias",
        (Kind::Link, 27) => "group",
        (Kind::Address, 1) => "ADDRESS",
        (Kind::Address, 2) => "LOCAL",
        (Kind::Address, 3) => "label",
        (Kind::Address, 4) => "BROADCAST",
        (Kind::Address, 8) => "flags",
        (Kind::Address, 11) => "proto",
        (Kind::Neighbour, 1) => "DST",
        (Kind::Neighbour, 2) => "lladdr",
        (Kind::Neighbour, 12) => "protocol",
        (Kind::Route | Kind::Rule, 1) => "DST",
        (Kind::Route | Kind::Rule, 2) => "SRC",
        (Kind::Route, 4) => "oif",
        (Kind::Route, 5) => "GATEWAY",
        (Kind::Route, 6) => "metric",
        (Kind::Route, 7) => "PREFSRC",
        (Kind::Route, 9) => "multipath",
        (Kind::Route | Kind::Rule, 15) => "table",
        (Kind::Route, 30) => "nhid",
        (Kind::Rule, 3) => "iif_name",
        (Kind::Rule, 6) => "priority",
        (Kind::Rule, 10) => "fwmark",
        (Kind::Rule, 16) => "fwmask",
        (Kind::Rule, 17) => "oif_name",
        (Kind::Rule, 21) => "protocol",
        (Kind::Nexthop, 1) => "id",
        (Kind::Nexthop, 5) => "oif",
        (Kind::Nexthop, 6) => "GATEWAY",
        _ => return None,
    })
}

fn value(name: &str, payload: &[u8]) -> String {
    if name.starts_with(char::is_uppercase) {
        if let Ok(bytes) = <[u8; 4]>::try_from(payload) {
            return Ipv4Addr::from(bytes).to_string();
        }
        if let Ok(bytes) = <[u8; 16]>::try_from(payload) {
            return Ipv6Addr::from(bytes).to_string();
        }
    }
    match (name, payload) {
        ("name" | "label" | "alias" | "iif_name" | "oif_name", _) => {
            String::from_utf8_lossy(payload.strip_suffix(&[0]).unwrap_or(payload)).into_owned()
        }
        (_, [byte]) => byte.to_string(),
        (_, [_, _, _, _]) => u32_at(payload, 0).to_string(),
        _ => hex(payload),
    }
}

fn hex(payload: &[u8]) -> String {
    payload.iter().fold(String::new(), |mut out, byte| {
        let _infallible = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::push_attribute;

    #[test]
    fn a_route_reads_as_one_line() {
        let mut body = vec![2, 8, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
        push_attribute(&mut body, 1, &[10, 0, 0, 0]);
        push_attribute(&mut body, 4, &3_u32.to_ne_bytes());
        push_attribute(&mut body, 200, &[0xab, 0xcd]);
        let route = RawMessage::parse(25, &body).unwrap();
        assert_eq!(
            route.to_string(),
            "deleted route family 2 /8 from /0 tos 0 table 254 protocol 4 scope 0 type 1 flags 0x0 \
             DST=10.0.0.0 oif=3 200=abcd"
        );
    }
}
