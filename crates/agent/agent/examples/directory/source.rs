//! Files with their content, as a source and a section. It overwrites other writers' changes of a
//! declared file, and removes only files that it made.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::{fs, str};

use trueup_agent::{Diagnostic, Namespace, Op, OpText, OwnElement, PassReport, Section};
use trueup_reconcile::{
    Claim, ErrorClass, LedgerError, OpKey, Outcome, PassInput, Report, ReportedOp, Source,
};

/// The section `[[directory]]`: each has a `path` and a `content`.
pub(crate) struct Directory;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Element {
    path: String,
    content: String,
}

/// The content of each file, by path.
type Files = BTreeMap<String, String>;

impl Section for Directory {
    type Desired = Files;
    type Report = Pass;
    type Source = Directory;

    fn name(&self) -> &'static str {
        "directory"
    }

    fn parse(&self, elements: &[OwnElement]) -> Result<Files, Vec<Diagnostic>> {
        let (mut files, mut wrong) = (Files::new(), Vec::new());
        for element in elements {
            match element.read::<Element>() {
                Ok(Element { path, content }) if Path::new(&path).is_absolute() => {
                    files.insert(path, content);
                }
                Ok(_) => wrong.push(element.fault("write an absolute `path`")),
                Err(fault) => wrong.push(fault),
            }
        }
        if wrong.is_empty() { Ok(files) } else { Err(wrong) }
    }

    fn source(&self) -> Directory {
        Directory
    }

    fn outlives_boots(&self) -> bool {
        true
    }
}

/// The ops of one pass.
pub(crate) struct Pass(Vec<Op>);

impl Report for Pass {
    fn converged(&self) -> bool {
        self.0.iter().all(|op| op.outcome == Outcome::Applied)
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        for op in &self.0 {
            let bytes = op.object.bytes();
            // FNV-1a
            let hash = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            let key = OpKey(bytes.fold(0xcbf2_9ce4_8422_2325, hash));
            visit(ReportedOp::new(op.kind, op.outcome, &|| key));
        }
    }

    fn is_truncated(&self) -> bool {
        self.0.iter().any(|op| op.outcome == Outcome::Pending(()))
    }
}

impl PassReport for Pass {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.0.iter().for_each(|op| visit(op));
    }
}

impl Source for Directory {
    type Scope = Namespace;
    type Desired = Files;
    type Options = ();
    type Report = Pass;
    type Observed = ();
    type Error = LedgerError;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Pass, LedgerError> {
        let PassInput { desired, ledger, limits, .. } = input;
        let owned = ledger.owned()?;
        let owned: BTreeSet<String> =
            owned.into_keys().filter_map(|key| String::from_utf8(key).ok()).collect();
        let mut ops = Vec::new();
        for path in owned.iter().chain(desired.keys()).collect::<BTreeSet<_>>() {
            let found = fs::read_to_string(path).ok();
            let (action, reason) = match (&found, desired.get(path)) {
                (Some(_), None) => ("delete", "no longer declared"),
                (None, Some(_)) => ("create", "it is missing"),
                (Some(found), Some(content)) if found != content => ("update", "other content"),
                _ => continue,
            };
            if ops.len() as u64 >= limits.ops() || !limits.should_continue() {
                let why = "the pass ended before its turn".to_owned();
                ops.push(op(path, action, reason, Outcome::Pending(()), why));
                continue;
            }
            let key = path.as_bytes().to_vec();
            let (done, claim) = match desired.get(path) {
                Some(content) => {
                    let claim = Claim::Ours(Vec::new());
                    ledger.begin([(key.clone(), claim.clone())].into())?;
                    (fs::write(path, content), claim)
                }
                None => (fs::remove_file(path), Claim::NotOurs),
            };
            let is_there = fs::read_to_string(path).ok().as_ref() == desired.get(path);
            ops.push(match done {
                Ok(()) if is_there => {
                    ledger.commit_outcomes([(key, claim)].into())?;
                    op(path, action, reason, Outcome::Applied, String::new())
                }
                done => {
                    let why = done.err().unwrap_or_else(|| io::Error::other("it has changed"));
                    let outcome = Outcome::Failed(ErrorClass::Unknown);
                    op(path, action, reason, outcome, why.to_string())
                }
            });
        }
        Ok(Pass(ops))
    }
}

fn op(path: &str, action: &'static str, reason: &str, outcome: Outcome, why: String) -> Op {
    let (object, reason) = (path.to_owned(), reason.to_owned());
    Op { action, kind: "directory", object, reason, outcome, why }
}
