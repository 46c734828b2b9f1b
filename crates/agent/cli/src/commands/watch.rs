//! `trueup watch`: the agent, until a signal ends it. This module prints and draws its events.

mod printer;
mod screen;
mod signals;
mod view;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, bail};
use trueup::driver::{self, Budget};
use trueup_agent::{Address, Config, Handle, is_stdin};

use self::printer::Printer;
use self::screen::Screen;
use self::signals::SignalHandler;
use self::view::View;
use crate::Common;
use crate::output::{self, Format};

/// The arguments of `watch`.
#[derive(clap::Args)]
pub(crate) struct Watch {
    /// The desired state, TOML or JSON
    file: PathBuf,
    /// Time from the end of a full pass to the next, at least
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = interval)]
    interval: Duration,
    /// While events are received, that time in multiples of what the last full pass took, at least;
    /// 0: the interval alone counts
    #[arg(long, value_name = "TIMES", default_value = "100")]
    interval_factor: u32,
    /// Time from the first event of a change to the pass that reads it
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = debounce)]
    debounce: Duration,
    /// Random variation of the intervals
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = clap::value_parser!(u8).range(0..=100))]
    jitter: u8,
    /// The most changes a second, and at once [default: no limit]
    #[arg(long, value_name = "RATE[:BURST]")]
    ops_limit: Option<Limit>,
    /// Serve metrics for Prometheus at IP:PORT or unix:PATH
    #[arg(long, value_name = "ADDR")]
    metrics: Option<Address>,
}

/// A limit of changes: a rate for each second, and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    rate: NonZeroU32,
    burst: NonZeroU32,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let (rate, burst) = text.split_once(':').unwrap_or((text, text));
        match (rate.parse(), burst.parse()) {
            (Ok(rate), Ok(burst)) => Ok(Limit { rate, burst }),
            _ => Err("write a number from 1, such as 100, or two, 100:500".to_owned()),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    seconds(text, 0.01)
}

fn debounce(text: &str) -> Result<Duration, String> {
    seconds(text, 0.0)
}

fn seconds(text: &str, least: f64) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "write a number of seconds, such as 5 or 0.5".to_owned())?;
    if !(least..=1e9).contains(&seconds) {
        return Err(format!("write {least} to 1000000000 seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

impl Watch {
    fn config(&self, common: &Common) -> Config {
        let passes = driver::Config::default()
            .with_interval(self.interval)
            .with_interval_factor(self.interval_factor)
            .with_debounce(self.debounce)
            .with_jitter(self.jitter);
        let budget = self.ops_limit.map(|Limit { rate, burst }| Budget::new(rate, burst));
        Config::default()
            .with_passes(passes)
            .with_budget(budget)
            .with_writers(common.writers())
            .with_metrics(self.metrics.clone())
    }
}

pub(crate) fn watch(common: &Common, asked: &Watch) -> Result<ExitCode> {
    let path = &asked.file;
    if is_stdin(path) {
        bail!("`watch` reads its file again when it changes: name a file, not `-`");
    }
    if common.format == Format::Ip {
        bail!(
            "`watch` prints no commands: --format is text or json here, and `plan` prints the \
             commands"
        );
    }
    // From here on a signal ends the loop between two steps of a pass.
    let signals = SignalHandler::new()?;
    let printer = Printer::new(common.format, View::new(title(path, common)));
    let config = asked.config(common);
    let watch = super::agent(common)?.watch(path, config, printer.observer())?;
    let handle = watch.handle();
    printer.set_handle(&handle);
    let screen = open_screen(common.format, &printer, &handle)?;
    signals.spawn(handle.clone(), screen.as_ref().map(Screen::waker))?;
    printer.watch_reader()?;
    let ended = watch.run();
    let verdict = screen.as_ref().and_then(|_| printer.verdict());
    drop(screen);
    if let Some(verdict) = verdict {
        // The terminal may be gone.
        let _ = output::print(|out| writeln!(out, "{verdict}"));
    }
    if !printer.has_reader() {
        bail!("ended: the standard output has no reader any more");
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the title of the view: the file and the namespace.
fn title(path: &Path, common: &Common) -> String {
    match &common.netns {
        Some(netns) => format!("trueup watch {}   netns {netns}", path.display()),
        None => format!("trueup watch {}", path.display()),
    }
}

/// Opens the screen if the standard output is a terminal and the format is text.
fn open_screen(format: Format, printer: &Printer, handle: &Handle) -> Result<Option<Screen>> {
    if format != Format::Text || !output::is_terminal() {
        return Ok(None);
    }
    let (shown, asked, lost) = (printer.clone(), handle.clone(), handle.clone());
    let screen = Screen::open(
        move |height, width| shown.lines(&asked, height, width),
        // Without the terminal, no user could stop it.
        move || lost.stop(),
    )?;
    printer.set_screen(screen.waker());
    Ok(Some(screen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_rate_and_what_may_come_at_once() {
        let limit =
            |text: &str| text.parse().map(|Limit { rate, burst }| (rate.get(), burst.get()));
        assert_eq!(limit("100"), Ok((100, 100)));
        assert_eq!(limit("100:500"), Ok((100, 500)));
        for wrong in ["", "0", "-1", "1:", ":1", "1:2:3", "many", "1:0", "4294967296"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(debounce("0"), Ok(Duration::ZERO));
        assert_eq!(interval("0.01"), Ok(Duration::from_millis(10)));
        for wrong in ["0", "-1", "NaN", "inf", "1e10", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
        assert!(debounce("-0.1").is_err());
    }
}
