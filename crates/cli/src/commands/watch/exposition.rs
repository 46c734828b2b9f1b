//! What the loop counts, in the text format of Prometheus (0.0.4).

use std::fmt::{self, Write as _};

use trueup::driver::{Ops, Stats};

/// The page for a scraper. `current` says whether the file that is in force is the one that is there.
pub(super) fn exposition(stats: &Stats, current: bool) -> String {
    let mut page = Page(String::new());
    // Writing to memory does not fail.
    let _ = write(&mut page, stats, current);
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}")
    }

    /// A family of one.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl fmt::Display) -> fmt::Result {
        self.family(name, kind, help)?;
        writeln!(self.0, "{name} {value}")
    }
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

fn write(page: &mut Page, stats: &Stats, current: bool) -> fmt::Result {
    let name = "trueup_build_info";
    page.family(name, GAUGE, "The version of trueup.")?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(page.0, "{name}{{version=\"{version}\"}} 1")?;

    let name = "trueup_passes_total";
    let help = "Passes, over all that is managed or over what was doubtful.";
    page.family(name, COUNTER, help)?;
    for (extent, number) in [
        ("whole", stats.full_passes),
        ("doubtful", stats.dirty_passes),
    ] {
        writeln!(page.0, "{name}{{extent=\"{extent}\"}} {number}")?;
    }
    let help = "Passes that could not run.";
    page.one(
        "trueup_passes_failed_total",
        COUNTER,
        help,
        stats.failed_passes,
    )?;
    let help = "Passes that were ended before all was done.";
    page.one(
        "trueup_passes_cut_total",
        COUNTER,
        help,
        stats.truncated_passes,
    )?;

    let name = "trueup_ops_total";
    let help = "Changes by the kind of their objects and by what became of them.";
    page.family(name, COUNTER, help)?;
    for (kind, ops) in &stats.ops {
        let Ops {
            applied,
            failed,
            pending,
        } = ops;
        for (outcome, number) in [
            ("applied", applied),
            ("failed", failed),
            ("pending", pending),
        ] {
            writeln!(
                page.0,
                "{name}{{kind=\"{kind}\",outcome=\"{outcome}\"}} {number}"
            )?;
        }
    }
    let help = "Times that something may have changed, as was heard.";
    page.one("trueup_hints_total", COUNTER, help, stats.hints)?;
    let help = "Times that more happened than could be heard.";
    page.one("trueup_overruns_total", COUNTER, help, stats.overruns)?;
    let help = "Times that there was nothing to be heard any more.";
    let name = "trueup_subscription_failures_total";
    page.one(name, COUNTER, help, stats.subscription_failures)?;
    let help = "Objects that are not tried for the time being as they failed.";
    page.one("trueup_backed_off", GAUGE, help, stats.backed_off)?;
    if let Some(last) = stats.last_pass {
        let help = "How long the last pass took.";
        page.one("trueup_last_pass_seconds", GAUGE, help, last.as_secs_f64())?;
    }
    if let Some(since) = stats.since_converged {
        let help = "How long ago things were last seen to be as declared; 0 while that stands.";
        let name = "trueup_seconds_since_converged";
        page.one(name, GAUGE, help, since.as_secs_f64())?;
    }
    let converged = stats.since_converged.is_some_and(|since| since.is_zero());
    let help = "Whether things were as declared when they were last looked at.";
    page.one("trueup_converged", GAUGE, help, u8::from(converged))?;
    let help = "How many files were taken up after the first.";
    page.one("trueup_desired_revision", GAUGE, help, stats.desired)?;
    let help = "Whether changes are heard of, and not only found by timer.";
    page.one("trueup_subscribed", GAUGE, help, u8::from(stats.subscribed))?;
    let help = "Whether the file that is in force is the one that is there.";
    page.one("trueup_file_current", GAUGE, help, u8::from(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_has_its_family_in_front() {
        let mut stats = Stats::default();
        stats.full_passes = 3;
        stats.ops.insert(
            "route",
            Ops {
                applied: 2,
                failed: 1,
                pending: 0,
            },
        );
        stats.last_pass = Some(std::time::Duration::from_millis(1500));
        stats.since_converged = Some(std::time::Duration::ZERO);
        let page = exposition(&stats, true);
        let mut family = "";
        let mut samples = Vec::new();
        for line in page.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", name, ..] => family = name,
                ["#", "TYPE", name, kind] => {
                    assert_eq!(name, family);
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                }
                [sample, value] => {
                    assert_eq!(sample.split('{').next(), Some(family), "{line}");
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                    samples.push(line);
                }
                _ => panic!("{line}"),
            }
        }
        for sample in [
            "trueup_passes_total{extent=\"whole\"} 3",
            "trueup_ops_total{kind=\"route\",outcome=\"failed\"} 1",
            "trueup_last_pass_seconds 1.5",
            "trueup_converged 1",
            "trueup_desired_revision 0",
        ] {
            assert!(samples.contains(&sample), "{sample}: {page}");
        }
        assert!(!exposition(&Stats::default(), true).contains("since_converged"));
    }
}
