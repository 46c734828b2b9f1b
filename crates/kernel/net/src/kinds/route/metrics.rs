//! A route's metrics (`RTA_METRICS`), such as the MTU, as the kernel would store them. The
//! priority, which iproute2 also calls `metric`, is a field of the route.

#[cfg(feature = "serde")]
use crate::values::serial::by_word;
use crate::values::words;

/// A numeric route metric (`RTAX_*`), named as in iproute2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Metric {
    /// `RTAX_MTU`, in bytes. The kernel caps it at 65520.
    Mtu = 2,
    /// `RTAX_WINDOW`, in bytes.
    Window = 3,
    /// `RTAX_RTT`, in the kernel's unit of 1/8 ms.
    Rtt = 4,
    /// `RTAX_RTTVAR`, in the kernel's unit of 1/4 ms.
    RttVar = 5,
    /// `RTAX_SSTHRESH`, in segments.
    SsThresh = 6,
    /// `RTAX_CWND`, in segments.
    Cwnd = 7,
    /// `RTAX_ADVMSS`, in bytes. The kernel caps it at 65495.
    AdvMss = 8,
    /// `RTAX_REORDERING`, in segments.
    Reordering = 9,
    /// `RTAX_HOPLIMIT`. The kernel caps it at 255.
    HopLimit = 10,
    /// `RTAX_INITCWND`, in segments.
    InitCwnd = 11,
    /// `RTAX_FEATURES`, a bit mask: 1 is ECN.
    Features = 12,
    /// `RTAX_RTO_MIN`, in milliseconds. TCP ignores it unless it is locked. So a desired one always
    /// is, as in iproute2.
    RtoMin = 13,
    /// `RTAX_INITRWND`, in segments.
    InitRwnd = 14,
    /// `RTAX_QUICKACK`, 0 or 1.
    QuickAck = 15,
    /// `RTAX_FASTOPEN_NO_COOKIE`, 0 or 1.
    FastOpenNoCookie = 17,
}

impl Metric {
    /// Returns the largest value that the kernel stores (`ip_metrics_convert` in
    /// net/ipv4/metrics.c).
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

/// The attribute number of the congestion control algorithm.
pub(super) const RTAX_CC_ALGO: u32 = 16;

/// A route's metrics (`RTA_METRICS`). An empty set takes only a pointer.
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
    /// Sets a metric. 0 removes it, since the kernel reports no metric of 0.
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

    /// Sets the metrics that the kernel may not adapt: bit n locks metric n (`RTAX_LOCK`).
    pub fn set_lock(&mut self, mask: u32) {
        self.0.get_or_insert_default().lock = mask;
        self.settle();
    }

    /// Returns the value of a metric, or `None` if it is not set.
    pub fn value(&self, metric: Metric) -> Option<u32> {
        self.iter().find(|(known, _)| *known == metric).map(|(_, value)| value)
    }

    /// Returns the numeric metrics that are set, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Metric, u32)> + '_ {
        self.0.iter().flat_map(|values| values.numbers.iter().copied())
    }

    /// Returns the congestion control algorithm, or `None` if it is not set.
    pub fn congctl(&self) -> Option<&str> {
        self.0.as_ref()?.congctl.as_deref()
    }

    /// Returns the locked metrics: bit n for metric n.
    pub fn lock(&self) -> u32 {
        self.0.as_ref().map_or(0, |values| values.lock)
    }

    /// Returns true if no metric is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns true if a metric without a value is locked: the kernel would keep the lock alone.
    pub(crate) fn locks_nothing(&self) -> bool {
        let numbers = self.iter().map(|(metric, _)| metric as u32);
        let congctl = self.congctl().map(|_| RTAX_CC_ALGO);
        let set = numbers.chain(congctl).fold(0, |mask, number| mask | 1 << number);
        self.lock() & !set != 0
    }

    /// Adds the metrics of `other` that are not set here, each with its lock.
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

    /// Adds the lock without which a desired value has no effect (`tcp_rto_min` asks
    /// `dst_metric_locked`).
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
    /// The input may hold values that are never kept: above the cap, or a metric twice.
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
