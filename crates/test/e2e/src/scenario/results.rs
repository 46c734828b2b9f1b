//! How the scenarios of a run ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Failed, Trial};

use super::Scenario;

/// How each test ended, by its name: `ok`, `FAILED` or `not applicable (WHY)`.
#[derive(Default)]
pub(super) struct Ended(Mutex<BTreeMap<String, String>>);

impl Ended {
    fn record(&self, name: String, ended: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(name, ended);
    }

    pub(super) fn trial(
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
    pub(super) fn left_out(&self, name: String, why: &str) -> String {
        let ended = format!("not applicable ({why})");
        let line = format!("test {name} ... {ended}");
        self.record(name, ended);
        line
    }

    /// A line of JSON for each scenario.
    pub(super) fn lines(&self, scenarios: &[(String, Arc<Scenario>)]) -> String {
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
