//! `trueup watch`: the graph of the file, until a signal ends it.
//!
//! Other threads wait for signals, the file and the namespace, the service manager, scrapers of
//! metrics, and the terminal.

mod collecting;
mod contested;
mod exporting;
mod exposition;
mod file_watch;
mod loops;
mod reload;
mod reporter;
mod screen;
mod serve;
mod service_manager;
mod signals;
mod view;
mod world_status;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use trueup::Namespace;
use trueup::driver::{Budget, Config};
use trueup::graph::Places;
use trueup::reconcile::LateHints;
use trueup::world::{CollectorConfig, DampingConfig};

use self::collecting::{Collecting, CollectorVertex};
use self::exporting::Exporting;
use self::file_watch::FileWatch;
use self::loops::{Loops, PartMaker};
use self::reload::{ReloadRequest, Reloader, Stamp};
use self::reporter::Reporter;
use self::screen::Screen;
use self::serve::{Address, Server};
use self::service_manager::Service;
use self::signals::{STOP_TIMEOUT, SignalHandler};
use self::view::View;
use super::{Declared, Target, is_stdin, privilege};
use crate::graph::{
    Around, Changes, MakeWorld, OnResult, RunningGraph, Runs, Sources, WorldVertices,
};
use crate::host::{PassTimer, Report};
use crate::output::{self, Format};
use crate::state::{LedgerOf, State};
use crate::world::{self, OnReplaced, Retained, Surroundings};
use crate::{Common, host};

/// The default grace: the time for which an undeclared object with our marker is left alone,
/// because the file may be written later than the object.
const GRACE: Duration = Duration::from_secs(10);

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

/// The most changes a second, and at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    rate: NonZeroU32,
    burst: NonZeroU32,
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        let number = |text: &str| {
            let number = text.parse::<NonZeroU32>();
            number.map_err(|_| "write a number from 1, such as 100, or two, 100:500".to_owned())
        };
        let (rate, burst) = text.split_once(':').unwrap_or((text, text));
        Ok(Limit { rate: number(rate)?, burst: number(burst)? })
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
    fn config(&self) -> Config {
        Config::default()
            .with_interval(self.interval)
            .with_interval_factor(self.interval_factor)
            .with_debounce(self.debounce)
            .with_jitter(self.jitter)
    }

    fn budget(&self) -> Option<Budget> {
        let Limit { rate, burst } = self.ops_limit?;
        Some(Budget::new(rate, burst))
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
    // From here on a signal ends the loop between two steps of a pass, and not within one.
    let signals = SignalHandler::new()?;
    let writers = common.writers();
    let file_watch = FileWatch::new(path);
    let stamp = Stamp::of(path, writers);
    let declared = Declared::read(path, writers, GRACE)?;
    let target = Target::open(common)?;
    privilege::require(&target)?;
    let state = target.claim(common, &declared.options)?;

    let state = Arc::new(state);
    let pass_timer = Arc::new(PassTimer::new());
    let (service, _notifier_thread) = Service::begin(Arc::clone(&pass_timer))?;
    let shared = Arc::new(Shared::default());
    let reload_request = ReloadRequest::new()?;
    let view = View::new(title(path, common));
    let loops = Loops::default();
    let reporter = Reporter::new(common.format, view, service, loops.clone());
    reporter.set_managed(&declared.managed());
    declared.cautions().iter().for_each(|it| reporter.note(it));
    let joined = match &declared.file.settings.world {
        Some(named) => Some(Joined::open(named, &declared, &target, &state, &reporter, {
            let (shared, loops) = (Arc::clone(&shared), loops.clone());
            Box::new(move |error| {
                let failure = anyhow!("{error}").context("the store is another one now");
                shared.lock().failure.get_or_insert(failure);
                loops.stop();
            })
        })?),
        None => None,
    };
    let (desired, exporting) = match joined {
        Some(Joined { collecting, exporting }) => {
            let (collecting, desired) = collecting.of(&declared)?;
            reporter.world(|world| world.collection = collecting.status());
            exporting.declare(declared.exports());
            shared.lock().collecting = Some(collecting);
            (desired, Some(exporting))
        }
        None => (declared.desired(), None),
    };
    let maker = PartMaker {
        scope: target.namespace.clone(),
        state: Arc::clone(&state),
        options: declared.options.clone(),
        config: asked.config(),
        budget: asked.budget(),
        pass_timer,
        changes: Changes::default(),
        reporter: reporter.clone(),
        shared: Arc::clone(&shared),
        loops: loops.clone(),
    };
    let parts = desired.parts().into_iter().map(|(part, desired)| {
        let source = maker.make(part, desired)?;
        maker.join(part, &source);
        Ok((part, source))
    });
    let sources = parts.collect::<Result<Sources>>()?;
    let make_world = exporting.clone().map(|exporting| {
        let (shared, loops, reporter) = (Arc::clone(&shared), loops.clone(), reporter.clone());
        let make = move || WorldVertices {
            collector: Box::new(CollectorVertex {
                shared: Arc::clone(&shared),
                loops: loops.clone(),
                reporter: reporter.clone(),
            }),
            exporter: exporting.vertex(),
        };
        Box::new(make) as MakeWorld
    });

    let serve = |address: &Address| {
        let report = {
            let reporter = reporter.clone();
            move |failure: Option<&str>| reporter.metrics(failure)
        };
        let (loops, reporter) = (loops.clone(), reporter.clone());
        let page = move || {
            let (stats, counts) = (loops.stats(), loops.exception_counts());
            let (world, is_current) = (reporter.world_status(), reporter.is_current());
            let graph = reporter.graph();
            let graph = graph.as_ref();
            exposition::exposition(&stats, &counts, is_current, world.as_ref(), graph).ok()
        };
        Server::start(address.clone(), page, report)
    };
    let _server = asked.metrics.as_ref().map(serve).transpose()?;
    let screen = screen(common.format, &reporter, &loops)?;
    let waker = screen.as_ref().map(Screen::waker);
    signals.spawn(loops.clone(), reporter.clone(), reload_request.clone(), waker)?;
    let options = declared.options.clone();
    let running = {
        // What is reported meanwhile is about this file.
        let mut locked = shared.lock();
        let ledger = Box::new(state.ledger(LedgerOf::Graph));
        let around = Around {
            run: Runs {
                interval: Some(asked.interval),
                namespace: target.namespace.clone(),
                places: Places::default(),
            },
            make_world,
            changes: maker.changes.clone(),
            on_result: on_result(&reporter, &shared),
        };
        let running = RunningGraph::start(&declared.file, sources, ledger, around)?;
        reporter.set_untried(Some(running.untried()));
        locked.declared = Some(declared);
        running
    };
    reporter.set_graph(&running);
    let reloader = Reloader {
        path: path.clone(),
        writers,
        stamp,
        pending_stamp: None,
        namespace_error: None,
        state_error: None,
        is_polling: false,
        target,
        netns: common.netns.clone(),
        options,
        ledger: Box::new(state.ledger(LedgerOf::Network)),
        interval: asked.interval,
        maker,
        shared: Arc::clone(&shared),
        reporter: reporter.clone(),
        reload_request,
        exporting,
        running: running.clone(),
    };
    thread::Builder::new()
        .name("reloader".into())
        .spawn(move || reloader.run(file_watch))
        .context("cannot start a thread")?;
    let ended = running.wait_ended();
    reporter.stopping();
    running.stop(STOP_TIMEOUT)?;
    let ended = match ended {
        Err(error) if error.is_scope_ended() => Err(error).context("the network namespace is gone"),
        ended => ended.context("the loop ended early"),
    };
    let verdict = screen.as_ref().and_then(|_| reporter.verdict());
    drop(screen);
    if let Some(verdict) = verdict {
        // The terminal may be gone.
        let _ = output::print(|out| writeln!(out, "{verdict}"));
    }
    if let Some(failure) = shared.lock().failure.take() {
        return Err(failure);
    }
    if !reporter.has_reader() {
        bail!("ended: the standard output has no reader any more");
    }
    ended.map(|()| ExitCode::SUCCESS)
}

/// The world of a file: what is collected from it, and exported to it.
struct Joined {
    collecting: Collecting,
    exporting: Exporting,
}

impl Joined {
    fn open(
        named: &trueup_file::World,
        declared: &Declared,
        target: &Target,
        state: &State,
        reporter: &Reporter,
        on_replaced: OnReplaced,
    ) -> Result<Joined> {
        let place = state.place();
        let world = world::open_to_stay(named, place.directory(), on_replaced)?;
        let collects = declared.file.collects.as_deref().unwrap_or_default();
        let options = &declared.options.network;
        let retained = Retained::read(&target.namespace, options, collects)?;
        let surroundings = Surroundings::new(&target.namespace, named, options.protocol());
        let config = CollectorConfig {
            partition: world::partition(named.partition),
            grace: named.grace,
            damping: DampingConfig::default().with_interval(named.damping),
            ..CollectorConfig::default()
        };
        let owner = world::owner(&state.world_id()?);
        let hints = LateHints::default();
        let grants = world::follow_grants(&world, named, state, hints.hints())?;
        let world = world.clone();
        Ok(Joined {
            collecting: Collecting::new(
                world.clone(),
                config,
                surroundings,
                retained,
                (grants, hints),
            ),
            exporting: Exporting::new(world, owner, named.ttl, reporter)?,
        })
    }
}

/// Has the runs of files and commands reported.
fn on_result(reporter: &Reporter, shared: &Arc<Shared>) -> OnResult {
    let (reporter, shared) = (reporter.clone(), Arc::clone(shared));
    Arc::new(move |name, result| {
        let line = {
            let shared = shared.lock();
            let file = shared.declared.as_ref().map(|declared| &declared.file);
            file.map_or_else(String::new, |file| output::change_line(file, name))
        };
        reporter.vertex(name, &line, result);
    })
}

/// Returns the title of the view.
fn title(path: &Path, common: &Common) -> String {
    let netns = common.netns.as_ref();
    let netns = netns.map_or_else(String::new, |netns| format!("   netns {netns}"));
    format!("trueup watch {}{netns}", path.display())
}

/// Opens the screen if the standard output is a terminal and the format is text.
fn screen(format: Format, reporter: &Reporter, loops: &Loops) -> Result<Option<Screen>> {
    if format != Format::Text || !screen::is_available() {
        return Ok(None);
    }
    let (shown, lost) = (reporter.clone(), loops.clone());
    let screen = Screen::open(
        move |height, width| shown.lines(height, width),
        // Without the terminal there is no user who could stop it.
        move || lost.stop(),
    )?;
    reporter.set_screen(Some(screen.waker()));
    Ok(Some(screen))
}

/// The state that the threads share.
#[derive(Default)]
struct Shared(Mutex<Inner>);

/// Under the lock.
#[derive(Default)]
struct Inner {
    /// The file in force.
    declared: Option<Declared>,
    /// What is collected, if the file has `[world]`.
    collecting: Option<Collecting>,
    /// Why the loop was stopped, if not by a signal.
    failure: Option<Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic halfway runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the objects whose devices a pass has found missing, and the last one has not.
    fn note_missing(&self, reporter: &Reporter, report: &Report, namespace: &Namespace) {
        let shared = self.lock();
        for devices in report.devices() {
            let missing = reporter.newly_missing(devices);
            let declared = shared.declared.iter();
            let lines =
                declared.flat_map(|declared| declared.missing(&missing, devices, namespace));
            lines.for_each(|line| reporter.note(&line));
        }
    }

    /// Returns the error in the file that kept a pass from running.
    fn file_error(&self, error: &host::Error) -> Option<trueup_file::Error> {
        let shared = self.lock();
        shared.declared.as_ref()?.file_error(error.network()?)
    }
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
