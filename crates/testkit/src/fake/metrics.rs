//! The metrics of a route, `RTA_METRICS` (`net/ipv4/metrics.c`): one number for each of `RTAX_*`.

use super::request::{Attributes, EINVAL, Refusal};
use crate::message::{push_attribute, u32_at};

/// What a route was given, by number from 1; 0 is not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    values: [u32; RTAX_MAX],
    /// `RTAX_CC_ALGO`.
    algorithm: Option<&'static str>,
}

// linux/rtnetlink.h
const RTAX_LOCK: usize = 1;
const RTAX_MTU: usize = 2;
const RTAX_ADVMSS: usize = 8;
const RTAX_HOPLIMIT: usize = 10;
const RTAX_FEATURES: usize = 12;
const RTAX_CC_ALGO: usize = 16;
const RTAX_MAX: usize = 17;
const RTAX_FEATURE_MASK: u32 = 0x1f;

/// The congestion control algorithms that every kernel has; others depend on its modules.
const ALGORITHMS: [&str; 2] = ["cubic", "reno"];
/// `TCP_CA_NAME_MAX`, with the final NUL.
const ALGORITHM_MAX: usize = 16;

impl Metrics {
    /// Reads the nest.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a number above the highest, a length other than four, a feature that is none, and an unknown
    /// algorithm (`ip_metrics_convert`).
    pub(crate) fn read(nest: Attributes<'_>) -> Result<Self, Refusal> {
        let mut metrics = Self::default();
        for (number, payload) in nest.all() {
            let number = usize::from(number);
            if number == 0 {
                continue;
            }
            if number > RTAX_MAX {
                return Err(Refusal::errno(EINVAL).because("Invalid metric type"));
            }
            if number == RTAX_CC_ALGO {
                let unknown = Refusal::errno(EINVAL).because("Unknown tcp congestion algorithm");
                metrics.algorithm = Some(algorithm(payload).ok_or(unknown)?);
                continue;
            }
            if payload.len() != 4 {
                return Err(Refusal::errno(EINVAL).because("Invalid attribute in metrics"));
            }
            let value = u32_at(payload, 0);
            if number == RTAX_FEATURES && value & !RTAX_FEATURE_MASK != 0 {
                let words = "Unknown flag set in feature mask in metrics attribute";
                return Err(Refusal::errno(EINVAL).because(words));
            }
            metrics.values[number - 1] = match number {
                RTAX_ADVMSS => value.min(65535 - 40),
                RTAX_MTU => value.min(65535 - 15),
                RTAX_HOPLIMIT => value.min(255),
                _ => value,
            };
        }
        Ok(metrics)
    }

    /// The nest as it is dumped; `None` when nothing is given (`rtnetlink_put_metrics`).
    pub(crate) fn nest(&self) -> Option<Vec<u8>> {
        let mut nest = Vec::new();
        for number in 1..=RTAX_MAX {
            let value = self.values[number - 1];
            if number == RTAX_CC_ALGO {
                if let Some(name) = self.algorithm {
                    let name = [name.as_bytes(), &[0]].concat();
                    push_attribute(&mut nest, number as u16, &name);
                }
            } else if value != 0 {
                push_attribute(&mut nest, number as u16, &value.to_ne_bytes());
            }
        }
        (!nest.is_empty()).then_some(nest)
    }

    /// Whether these are among them, for the delete of an IPv4 route (`fib_metrics_match`).
    pub(crate) fn hold(&self, nest: Attributes<'_>) -> bool {
        nest.all()
            .filter(|(number, _)| *number != 0)
            .all(|(number, payload)| {
                let number = usize::from(number);
                if number == RTAX_CC_ALGO {
                    return self.algorithm == algorithm(payload);
                }
                number <= RTAX_MAX
                    && payload.len() == 4
                    && self.values[number - 1] == u32_at(payload, 0)
            })
    }

    /// Bytes on the path, where given.
    pub(crate) fn mtu(&self) -> Option<u32> {
        Some(self.values[RTAX_MTU - 1]).filter(|mtu| *mtu != 0)
    }

    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.values[RTAX_MTU - 1] = mtu;
    }

    /// Whether the MTU is locked: a link's change leaves it.
    pub(crate) fn mtu_is_locked(&self) -> bool {
        self.values[RTAX_LOCK - 1] & (1 << RTAX_MTU) != 0
    }
}

/// The algorithm of this name, if it is known.
fn algorithm(payload: &[u8]) -> Option<&'static str> {
    let end = payload.iter().position(|byte| *byte == 0);
    let name = &payload[..end.unwrap_or(payload.len()).min(ALGORITHM_MAX - 1)];
    ALGORITHMS
        .into_iter()
        .find(|known| known.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(u16, &[u8])]) -> Result<Metrics, Refusal> {
        let mut nest = Vec::new();
        for (number, payload) in list {
            push_attribute(&mut nest, *number, payload);
        }
        Metrics::read(Attributes::new(&nest))
    }

    #[test]
    fn values_are_limited_and_come_back() {
        let four = |value: u32| value.to_ne_bytes();
        let metrics = read(&[(2, &four(70000)), (10, &four(300)), (16, b"reno\0")]).unwrap();
        assert_eq!(metrics.mtu(), Some(65520));
        let nest = metrics.nest().unwrap();
        assert_eq!(Metrics::read(Attributes::new(&nest)).unwrap(), metrics);
        assert_eq!(read(&[(0, b"x"), (4, &four(0))]).unwrap().nest(), None);
    }

    #[test]
    fn what_no_metric_is_gets_refused() {
        for wrong in [
            (18, &[0; 4][..]),
            (2, &[0; 3]),
            (2, &[0; 5]),
            (12, &[32, 0, 0, 0]),
            (16, b"none\0"),
        ] {
            assert_eq!(read(&[wrong]).unwrap_err().errno, EINVAL, "{wrong:?}");
        }
    }
}
