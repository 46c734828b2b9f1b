//! What a process tells of its piece of work, and how that is printed.

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

/// What a process tells of its piece of work.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// What it took.
    pub usage: Usage,
    /// What was resident before the work began, such as the desired state itself, MB.
    pub held: f64,
    /// How much was changed, or read.
    pub count: usize,
}

/// Processor times below this are too near to the kernel's resolution to compare, seconds.
const RESOLUTION: f64 = 0.02;

impl Measurement {
    /// Prints a line; beside `base`, how many times as much it took.
    pub fn row(&self, name: &str, base: Option<&Measurement>) {
        let Usage { wall, user, system, peak } = self.usage;
        print!(
            "{name:34} {wall:7.2} s wall {user:6.2} s user {system:6.2} s system {peak:6.0} MB peak"
        );
        if self.held > 0.0 {
            print!(", {:.0} before", self.held);
        }
        if let Some(Measurement { usage: base, .. }) = base {
            print!(
                "; wall x{:.2}, processor x{:.2}, memory x{:.2}",
                wall / base.wall,
                (user + system) / (base.user + base.system),
                peak / base.peak
            );
        }
        println!();
    }
}

/// The run whose wall time is the median.
pub fn median(mut runs: Vec<Measurement>) -> Measurement {
    runs.sort_by(|a, b| a.usage.wall.total_cmp(&b.usage.wall));
    runs.get(runs.len() / 2).copied().unwrap_or_default()
}

/// Prints the slopes of the logarithms between two sizes: 1 is linear, 2 is quadratic. That of
/// n log n is reported beside it.
pub fn slopes(large: (usize, &Measurement), small: (usize, &Measurement)) {
    let (size, smaller) = (large.0 as f64, small.0 as f64);
    let (new, old) = (large.1.usage, small.1.usage);
    let slope = |new: f64, old: f64| (new / old).ln() / (size / smaller).ln();
    let time = |new: f64, old: f64| {
        if old < RESOLUTION { "-".to_owned() } else { format!("{:.2}", slope(new, old)) }
    };
    println!(
        "{:34} slopes: user {}, system {}, memory {:.2}; n log n has {:.2}",
        "",
        time(new.user, old.user),
        time(new.system, old.system),
        slope(new.peak, old.peak),
        slope(size * size.ln(), smaller * smaller.ln()),
    );
}
