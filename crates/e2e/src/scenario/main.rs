//! The `main` of the test target: every scenario on every machine, each a test of its own.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::machine::{Machine, has_link, sysctl_path};
use super::run::{description, run};
use super::{Need, Scenario, parse};
use trueup_testkit::{
    enter, fake, fresh_netns, may_skip, panic_text, quiet_netns, running_version,
};

/// Nothing waits for ever: a scenario that takes longer has failed. One takes a few milliseconds,
/// on an emulated machine some hundred.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs all scenarios below a directory, named after their files: `fake::route/NAME`,
/// `kernel::route/NAME`; those in which an agent acts once more where no marker proves anything,
/// `ledger::route/NAME`: on a fake kernel that keeps none on addresses, neighbours and rules, with
/// the ledger asked for routes.
///
/// A scenario that needs a feature that the running kernel lacks is left out there, and a line says
/// so: `test kernel::NAME ... not applicable (needs vrf)`. Where namespaces are forbidden those on
/// the kernel fail, as described at
/// [`kernel_tests!`](trueup_testkit::kernel_tests).
///
/// A run of all scenarios writes what each shows, and how it ended, to the file `results`: a line
/// of JSON for each scenario. `cargo xtask scenarios` reads it.
pub fn main(directory: &Path, results: &Path) -> ExitCode {
    let forbidden = enter().err().map(|error| error.to_string());
    let skip = forbidden.is_some() && may_skip(|name| std::env::var(name).ok());
    if let (Some(reason), true) = (&forbidden, skip) {
        eprintln!("scenarios on the kernel SKIPPED: {reason}");
    }
    let mut files = Vec::new();
    collect(directory, &mut files);
    files.sort();
    let mut trials = Vec::new();
    let mut has = BTreeMap::new();
    let mut left_out = Vec::new();
    let ended = Arc::<Ended>::default();
    let mut shown = Vec::new();
    for path in files {
        let name = path
            .strip_prefix(directory)
            .unwrap_or(&path)
            .with_extension("");
        let name = name.display().to_string();
        let file = path.display().to_string();
        let scenario = fs::read_to_string(&path)
            .map_err(|error| format!("{file}: {error}"))
            .and_then(|text| parse(&text).map_err(|error| format!("{file}:{error}")));
        let scenario = match scenario {
            Ok(scenario) => Arc::new(scenario),
            Err(error) => {
                trials.push(Trial::test(format!("read::{name}"), move || {
                    Err(error.into())
                }));
                continue;
            }
        };
        shown.push((name.clone(), scenario.clone()));
        let lacks = |version, knows: &mut dyn FnMut(&Need) -> bool, markers: bool| {
            let needs = scenario.needs.iter().find(|need| match need {
                Need::Kernel(wanted) => !wanted.admits(version),
                Need::Link(_) | Need::Sysctl(_) => !knows(need),
                Need::Markers => !markers,
            });
            needs.map(|need| format!("needs {need}"))
        };
        let fakes = [("fake", false), ("ledger", true)];
        for (place, by_ledger) in fakes {
            if by_ledger && !scenario.has_agent() {
                continue;
            }
            let (on_fake, called) = (scenario.clone(), file.clone());
            let on_fake = move || carry_out(&called, &on_fake, by_ledger, Machine::fake);
            match lacks(fake::VERSION, &mut |_| true, !by_ledger) {
                None => trials.push(ended.trial(format!("{place}::{name}"), on_fake)),
                Some(why) => left_out.push(ended.left_out(format!("{place}::{name}"), &why)),
            }
        }
        let mut is_known = |need: &Need| *has.entry(need.clone()).or_insert_with(|| asked(need));
        let lacks = match &forbidden {
            None => lacks(running_version(), &mut is_known, true),
            Some(_) => None,
        };
        if let Some(why) = lacks {
            left_out.push(ended.left_out(format!("kernel::{name}"), &why));
            continue;
        }
        let forbidden = forbidden.clone();
        let on_kernel = move || match forbidden {
            Some(reason) => Err(reason.into()),
            None => carry_out(&file, &scenario, false, || {
                quiet_netns();
                Machine::kernel()
            }),
        };
        let trial = ended.trial(format!("kernel::{name}"), on_kernel);
        trials.push(trial.with_ignored_flag(skip));
    }
    let arguments = Arguments::from_args();
    if !arguments.list && !left_out.is_empty() {
        println!("{}", left_out.join("\n"));
        println!("not applicable here: {} scenarios", left_out.len());
    }
    let all = arguments.filter.is_none() && arguments.skip.is_empty() && !arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if all {
        // In a guest there is no such directory: its output is read instead.
        let _best_effort = fs::write(results, ended.lines(&shown));
    }
    conclusion.exit_code()
}

/// How each test ended, by its name: `ok`, `FAILED` or `not applicable (WHY)`.
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

    /// Returns the line for standard output.
    fn left_out(&self, name: String, why: &str) -> String {
        let ended = format!("not applicable ({why})");
        let line = format!("test {name} ... {ended}");
        self.record(name, ended);
        line
    }

    /// A line of JSON for each scenario.
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

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "scenario")
        {
            files.push(path);
        }
    }
}

/// Returns true if the running kernel has a kind of link, or a sysctl; asked in a new namespace.
fn asked(need: &Need) -> bool {
    let need = need.clone();
    let asking = thread::spawn(move || {
        fresh_netns();
        match need {
            Need::Link(kind) => has_link(&kind),
            Need::Sysctl(name) => fs::exists(sysctl_path(&name)).unwrap_or(false),
            Need::Kernel(_) | Need::Markers => true,
        }
    });
    asking.join().unwrap_or(false)
}

/// On a thread of its own, as a network namespace belongs to the thread and the harness reuses its
/// threads.
fn carry_out(
    file: &str,
    scenario: &Arc<Scenario>,
    by_ledger: bool,
    machine: impl FnOnce() -> Result<Machine, super::machine::Trouble> + Send + 'static,
) -> Result<(), Failed> {
    let (name, shown) = (file.to_owned(), scenario.clone());
    let (sender, result) = mpsc::channel();
    let work = move || {
        let machine = machine().map_err(|trouble| trouble.message)?;
        run(&name, &shown, machine, by_ledger)
    };
    thread::Builder::new().spawn(move || {
        let ended = panic::catch_unwind(AssertUnwindSafe(work));
        // The receiver is gone if it took too long.
        let _sent = sender.send(ended.map_err(|panic| panic_text(&*panic).to_owned()));
    })?;
    let failed = |what: &str| {
        let shows = description(scenario);
        Err(Failed::from(format!("{file}: {what}\n\n{shows}")))
    };
    match result.recv_timeout(LONGEST) {
        Ok(Ok(result)) => result.map_err(Failed::from),
        Ok(Err(panic)) => failed(&format!("panicked: {panic}")),
        // The thread is left to itself, and ends with the process.
        Err(_) => failed(&format!("not at an end after {} s", LONGEST.as_secs())),
    }
}
