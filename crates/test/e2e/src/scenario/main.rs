//! The `main` of the test target: every scenario on every machine is one test.

use super::run::{description, run};
use super::writer::sysctl_path;
use super::{Need, Scenario, parse};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use trueup_testkit::{
    enter, fresh_netns, lacks_kind, may_skip, panic_text, running_version, tests_at_once,
};

/// The time limit of a scenario in seconds, after which it has failed. One takes a few
/// milliseconds, on an emulated machine some hundred. `TRUEUP_SCENARIO_SECONDS` overrides it.
const LONGEST: u64 = 300;

/// Runs all scenarios below a directory, named after their files: `kernel::route/NAME`. Scenarios
/// with an agent run a second time where no marker proves anything, as `ledger::route/NAME`: the
/// markers of addresses, neighbours and rules are masked, and routes use the ledger.
///
/// If the running kernel lacks a feature that a scenario needs, the scenario is left out, and a
/// line says so: `test kernel::NAME ... not applicable (needs vrf)`. If namespaces are forbidden,
/// all fail, as described at [`kernel_tests!`](trueup_testkit::kernel_tests).
///
/// A run of all scenarios writes a line of JSON for each to the file `results`: what it shows, and
/// its result. `cargo xtask scenarios` reads it.
///
/// `runner` are tests of the runner itself.
pub fn main(directory: &Path, results: &Path, runner: &[(&str, fn())]) -> ExitCode {
    let forbidden = enter().err().map(|error| error.to_string());
    let skip = forbidden.is_some() && may_skip(|name| std::env::var(name).ok());
    if let (Some(reason), true) = (&forbidden, skip) {
        eprintln!("scenarios on the kernel SKIPPED: {reason}");
    }
    let mut files = Vec::new();
    collect(directory, &mut files);
    files.sort();
    let runner = runner.iter().map(|&(name, test)| {
        let test = move || {
            test();
            Ok(())
        };
        Trial::test(format!("runner::{name}"), test).with_ignored_flag(skip)
    });
    let mut trials: Vec<_> = runner.collect();
    let mut has = BTreeMap::new();
    let mut left_out = Vec::new();
    let ended = Arc::<Ended>::default();
    let mut shown = Vec::new();
    for path in files {
        let name =
            path.strip_prefix(directory).unwrap_or(&path).with_extension("").display().to_string();
        let file = path.display().to_string();
        let scenario = fs::read_to_string(&path)
            .map_err(|error| format!("{file}: {error}"))
            .and_then(|text| parse(&text).map_err(|error| format!("{file}:{error}")));
        let scenario = match scenario {
            Ok(scenario) => Arc::new(scenario),
            Err(error) => {
                trials.push(Trial::test(format!("read::{name}"), move || Err(error.into())));
                continue;
            }
        };
        shown.push((name.clone(), scenario.clone()));
        let mut is_known = |need: &Need| *has.entry(need.clone()).or_insert_with(|| asked(need));
        for (place, by_ledger) in [("kernel", false), ("ledger", true)] {
            if by_ledger && !scenario.has_agent() {
                continue;
            }
            let name = format!("{place}::{name}");
            let mut lacks = |need: &Need| match need {
                Need::Kernel(wanted) => !wanted.admits(running_version()),
                Need::Markers => by_ledger,
                Need::Link(_) | Need::Sysctl(_) => forbidden.is_none() && !is_known(need),
            };
            if let Some(need) = scenario.needs.iter().find(|need| lacks(need)) {
                left_out.push(ended.left_out(name, &format!("needs {need}")));
                continue;
            }
            let (forbidden, file, scenario) = (forbidden.clone(), file.clone(), scenario.clone());
            trials.push(
                ended
                    .trial(name, move || match forbidden {
                        Some(reason) => Err(reason.into()),
                        None => carry_out(&file, &scenario, by_ledger),
                    })
                    .with_ignored_flag(skip),
            );
        }
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(tests_at_once);
    if !arguments.list && !left_out.is_empty() {
        println!("{}", left_out.join("\n"));
        println!("not applicable here: {} scenarios", left_out.len());
    }
    let all = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if all {
        // A guest has no such directory: its output is read instead.
        let _best_effort = fs::write(results, ended.lines(&shown));
    }
    conclusion.exit_code()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "scenario") {
            files.push(path);
        }
    }
}

/// Returns true if the running kernel has a kind of link, or a sysctl; tested in a new namespace.
fn asked(need: &Need) -> bool {
    let need = need.clone();
    let asking = thread::spawn(move || {
        fresh_netns();
        match need {
            Need::Link(kind) => !lacks_kind(&kind),
            Need::Sysctl(name) => fs::exists(sysctl_path(&name)).unwrap_or(false),
            Need::Kernel(_) | Need::Markers => true,
        }
    });
    asking.join().unwrap_or(false)
}

/// Runs a scenario that fails, and returns the failure's text.
///
/// # Panics
///
/// If the text is no scenario, or the scenario passes.
pub fn failure(text: &str) -> String {
    let scenario = parse(text).unwrap().into();
    let failed = carry_out("x.scenario", &scenario, false).unwrap_err();
    failed.message().unwrap_or_default().to_owned()
}

/// Runs a scenario on its own thread, as a network namespace belongs to the thread and the harness
/// reuses its threads.
fn carry_out(file: &str, scenario: &Arc<Scenario>, by_ledger: bool) -> Result<(), Failed> {
    let (name, shown) = (file.to_owned(), scenario.clone());
    let (sender, result) = mpsc::channel();
    let work = move || run(&name, &shown, by_ledger);
    thread::Builder::new().spawn(move || {
        let ended = panic::catch_unwind(AssertUnwindSafe(work));
        // After a timeout the receiver is gone.
        let _sent = sender.send(ended.map_err(|panic| panic_text(&*panic).to_owned()));
    })?;
    let failed = |what: &str| {
        let shows = description(scenario);
        Err(Failed::from(format!("{file}: {what}\n\n{shows}")))
    };
    let longest = env::var("TRUEUP_SCENARIO_SECONDS").map_or(LONGEST, |text| text.parse().unwrap());
    match result.recv_timeout(Duration::from_secs(longest)) {
        Ok(Ok(result)) => result.map_err(Failed::from),
        Ok(Err(panic)) => failed(&format!("panicked: {panic}")),
        // The thread is abandoned, and ends with the process.
        Err(_) => failed(&format!("not at an end after {longest} s")),
    }
}

/// Each test's result, by its name: `ok`, `FAILED` or `not applicable (WHY)`.
#[derive(Default)]
struct Ended(Mutex<BTreeMap<String, String>>);

impl Ended {
    fn record(&self, name: String, ended: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name, ended);
    }

    fn trial(
        self: &Arc<Self>,
        name: String,
        test: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let (all, called) = (self.clone(), name.clone());
        Trial::test(name, move || {
            let result = test();
            let ended = if result.is_ok() { "ok" } else { "FAILED" };
            all.record(called, ended.to_owned());
            result
        })
    }

    /// Records a test that is left out, and returns the line for standard output.
    fn left_out(&self, name: String, why: &str) -> String {
        let ended = format!("not applicable ({why})");
        let line = format!("test {name} ... {ended}");
        self.record(name, ended);
        line
    }

    /// Returns a line of JSON for each scenario.
    fn lines(&self, scenarios: &[(String, Arc<Scenario>)]) -> String {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(name, scenario): &(String, Arc<Scenario>)| {
            let runs = all.iter().filter_map(|(test, ended)| {
                let (place, of) = test.split_once("::")?;
                (of == name).then_some((place, ended))
            });
            let runs: BTreeMap<_, _> = runs.collect();
            let line = serde_json::json!({
                "name": name,
                "facts": scenario.facts,
                "faults": scenario.faults,
                "invariants": scenario.invariants,
                "runs": runs,
            });
            format!("{line}\n")
        };
        scenarios.iter().map(line).collect()
    }
}
