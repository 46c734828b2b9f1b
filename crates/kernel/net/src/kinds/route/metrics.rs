//! The metrics of a route (`RTA_METRICS`): MTU and its like, as the kernel would store them. The
//! priority that iproute2 also calls `metric` is a field of the route.

#[cfg(feature = "serde")]
use crate::values::serial::by_word;
use crate::values::words;

/// A route metric of numeric value (`RTAX_*`), named as iproute2 names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Metric {
    /// `RTAX_MTU`, bytes; the kernel caps it at 65520.
    Mtu = 2,
    /// `RTAX_WINDOW`, bytes.
    Window = 3,
    /// `RTAX_RTT`, eighths of a millisecond as the kernel keeps it.
    Rtt = 4,
    /// `RTAX_RTTVAR`, quarters of a millisecond as the kernel keeps it.
    RttVar = 5,
    /// `RTAX_SSTHRESH`, segments.
    SsThresh = 6,
    /// `RTAX_CWND`, segments.
    Cwnd = 7,
    /// `RTAX_ADVMSS`, bytes; the kernel caps it at 65495.
    AdvMss = 8,
    /// `RTAX_REORDERING`, segments.
    Reordering = 9,
    /// `RTAX_HOPLIMIT`; the kernel caps it at 255.
    HopLimit = 10,
    /// `RTAX_INITCWND`, segments.
    InitCwnd = 11,
    /// `RTAX_FEATURES`, a bit mask: 1 is ECN.
    Features = 12,
    /// `RTAX_RTO_MIN`, milliseconds. TCP ignores it unless it is locked, so that a desired one
    /// always is, as iproute2 has it.
    RtoMin = 13,
    /// `RTAX_INITRWND`, segments.
    InitRwnd = 14,
    /// `RTAX_QUICKACK`, 0 or 1.
    QuickAck = 15,
    /// `RTAX_FASTOPEN_NO_COOKIE`, 0 or 1.
    FastOpenNoCookie = 17,
}

impl Metric {
    /// The largest value that the kernel stores (`ip_metrics_convert` in net/ipv4/metrics.c).
    fn cap(self) -> u32 {
        match self {
            Metric::Mtu => 65535 - 15,
            Metric::AdvMss => 65535 - 40,
            Metric::HopLimit => 255,
            _ => u32::MAX,
        }
    }
}

words!(Metric, u16:
    Mtu = 2 "mtu", Window = 3 "window", Rtt = 4 "rtt", RttVar = 5 "rttvar",
    SsThresh = 6 "ssthresh", Cwnd = 7 "cwnd", AdvMss = 8 "advmss", Reordering = 9 "reordering",
    HopLimit = 10 "hoplimit", InitCwnd = 11 "initcwnd", Features = 12 "features",
    RtoMin = 13 "rto_min", InitRwnd = 14 "initrwnd", QuickAck = 15 "quickack",
    FastOpenNoCookie = 17 "fastopen_no_cookie");

#[cfg(feature = "serde")]
by_word!(Metric: "a metric");

/// The number of the congestion control algorithm.
pub(super) const RTAX_CC_ALGO: u32 = 16;

/// The metrics of a route (`RTA_METRICS`). Without any it takes no memory beyond a pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "Option<MetricValues>"))]
pub struct Metrics(Option<Box<MetricValues>>);

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
struct MetricValues {
    numbers: Vec<(Metric, u32)>,
    congctl: Option<String>,
    lock: u32,
}

impl Metrics {
    /// Sets a metric; 0 takes it away, as the kernel reports none that is 0.
    pub fn set(&mut self, metric: Metric, value: u32) {
        let capped = value.min(metric.cap());
        let values = self.0.get_or_insert_default();
        values.numbers.retain(|(known, _)| *known != metric);
        if capped != 0 {
            values.numbers.push((metric, capped));
            values.numbers.sort_unstable();
        }
        self.settle();
    }

    /// Sets the congestion control algorithm (`RTAX_CC_ALGO`).
    pub fn set_congctl(&mut self, name: Option<String>) {
        self.0.get_or_insert_default().congctl = name.filter(|name| !name.is_empty());
        self.settle();
    }

    /// Sets which metrics the kernel may not adapt: bit n locks metric n (`RTAX_LOCK`).
    pub fn set_lock(&mut self, mask: u32) {
        self.0.get_or_insert_default().lock = mask;
        self.settle();
    }

    /// The value of a metric.
    pub fn value(&self, metric: Metric) -> Option<u32> {
        self.iter().find(|(known, _)| *known == metric).map(|(_, value)| value)
    }

    /// The numeric metrics that are set, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, u32)> + '_ {
        self.0.iter().flat_map(|values| values.numbers.iter().copied())
    }

    /// The congestion control algorithm.
    pub fn congctl(&self) -> Option<&str> {
        self.0.as_ref()?.congctl.as_deref()
    }

    /// Which metrics are locked: bit n for metric n.
    pub fn lock(&self) -> u32 {
        self.0.as_ref().map_or(0, |values| values.lock)
    }

    /// Returns true if none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if a metric is locked that has no value: the kernel would keep the lock alone.
    pub(crate) fn locks_nothing(&self) -> bool {
        let numbers = self.iter().map(|(metric, _)| metric as u32);
        let congctl = self.congctl().map(|_| RTAX_CC_ALGO);
        let set = numbers.chain(congctl).fold(0, |mask, number| mask | 1 << number);
        self.lock() & !set != 0
    }

    /// The same metrics, and those of `other` that are not set here, each with its lock.
    #[must_use]
    pub(crate) fn with_open_of(&self, other: &Metrics) -> Metrics {
        let mut all = self.clone();
        let mut lock = self.lock();
        for (metric, value) in other.iter() {
            if self.value(metric).is_none() {
                all.set(metric, value);
                lock |= other.lock() & 1 << metric as u32;
            }
        }
        if let (None, Some(congctl)) = (self.congctl(), other.congctl()) {
            all.set_congctl(Some(congctl.to_owned()));
            lock |= other.lock() & 1 << RTAX_CC_ALGO;
        }
        all.set_lock(lock);
        all
    }

    /// The same metrics as they are desired: with the lock without which a value has no effect
    /// (`tcp_rto_min` asks `dst_metric_locked`).
    #[must_use]
    pub(crate) fn desired(mut self) -> Metrics {
        if self.value(Metric::RtoMin).is_some() {
            self.set_lock(self.lock() | 1 << Metric::RtoMin as u32);
        }
        self
    }

    fn settle(&mut self) {
        if self.0.as_deref() == Some(&MetricValues::default()) {
            self.0 = None;
        }
    }
}

#[cfg(feature = "serde")]
impl From<Option<MetricValues>> for Metrics {
    /// What was read may hold what is never kept: a value above the cap, a metric twice.
    fn from(read: Option<MetricValues>) -> Metrics {
        let mut metrics = Metrics::default();
        if let Some(values) = read {
            for (metric, value) in values.numbers {
                metrics.set(metric, value);
            }
            metrics.set_congctl(values.congctl);
            metrics.set_lock(values.lock);
        }
        metrics
    }
}
