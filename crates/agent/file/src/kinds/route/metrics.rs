//! The metrics of `[[route]]`.

use trueup_net::{Metric, Metrics};

use crate::fields::Fields;
use crate::parse;
use crate::value::{Node, Result, Table, Value, fault, text};

/// The bit of `congctl` in the mask of locked metrics (`RTAX_CC_ALGO`).
const CONGCTL: u32 = 16;

/// The prefix of a value that the kernel may not adapt.
const LOCK: &str = "lock ";

/// Reads the metrics. Each is a number, or a string such as `"lock 1400"`.
pub(super) fn read(fields: &Fields<'_>) -> Result<Metrics> {
    let mut metrics = Metrics::default();
    let mut lock = 0;
    for (key, _) in fields.iter() {
        let Some(metric) = Metric::from_name(&key.name) else {
            continue;
        };
        let (value, locked) = fields.read(metric.name(), metric_value)?.unwrap_or_default();
        if value == 0 {
            let message = format!("{}: 0 is no value: leave it out", key.name);
            return fields.fault(&key.name, message);
        }
        metrics.set(metric, value);
        let kept = metrics.value(metric).unwrap_or(0);
        if kept != value {
            let message = format!("{}: the kernel keeps {kept} at most", key.name);
            return fields.fault(&key.name, message);
        }
        lock |= u32::from(locked) << metric as u8;
    }
    if let Some(name) = fields.read("congctl", |value| parse::text(value, "a name"))? {
        let (name, locked) = match name.strip_prefix(LOCK) {
            Some(name) => (name, true),
            None => (name, false),
        };
        // `TCP_CA_NAME_MAX` is 16 with the NUL.
        let fits = (1..16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic());
        if !fits {
            let message = "congctl: write the name of an algorithm, such as \"cubic\"";
            return fields.fault("congctl", message);
        }
        metrics.set_congctl(Some(name.to_owned()));
        lock |= u32::from(locked) << CONGCTL;
    }
    if lock != 0 {
        metrics.set_lock(lock);
    }
    Ok(metrics)
}

fn metric_value(value: &Value<'_>) -> Result<(u32, bool)> {
    let Node::Text(text) = &value.node else {
        return Ok((parse::number(0..=u32::MAX)(value)?, false));
    };
    let number = text.strip_prefix(LOCK).filter(|n| !n.starts_with('+'));
    match number.map(str::parse) {
        Some(Ok(number)) => Ok((number, true)),
        _ => fault(value.at, "write a number such as 1400, or \"lock 1400\""),
    }
}

fn is_locked(metrics: &Metrics, number: u32) -> bool {
    metrics.lock() & 1 << number != 0
}

/// Writes the metrics that are set.
pub(super) fn write(metrics: &Metrics, table: &mut Table<'static>) {
    if metrics.is_empty() {
        return;
    }
    for metric in Metric::ALL.iter().copied() {
        match metrics.value(metric) {
            Some(value) if is_locked(metrics, metric as u32) => {
                table.set(metric.name(), text(format_args!("{LOCK}{value}")));
            }
            value => table.set_some(metric.name(), value),
        }
    }
    if let Some(name) = metrics.congctl() {
        let lock = if is_locked(metrics, CONGCTL) { LOCK } else { "" };
        table.set("congctl", text(format_args!("{lock}{name}")));
    }
}
