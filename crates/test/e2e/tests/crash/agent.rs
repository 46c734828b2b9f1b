//! The agent: one pass from a file, with its ledger in a journal. It runs in this process, or in a
//! process that dies.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread::yield_now;

use trueup_e2e::report::describe;
use trueup_journal::{ErrorKind, Journal, JournalLedger};
use trueup_net::Kind;
use trueup_reconcile::{Ledger as _, PassInput, Report as _, Source as _};
use trueup_rtnl::{Namespace, Options, Ownership, Report, Rtnl};
use trueup_testkit::crash::Points;
use trueup_testkit::{Kind as MaskedKind, mask};

use crate::file::File;
use crate::storage;

/// The proof that objects are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// The marker, for kinds whose marker the kernel keeps.
    Markers,
    /// The ledger, although the kernel keeps markers.
    Ledger,
    /// The ledger, except for routes: the kernel keeps only their markers.
    Masked,
}

impl Proof {
    const ALL: [Proof; 3] = [Proof::Markers, Proof::Ledger, Proof::Masked];

    fn options(self) -> Options {
        let options = Options::default();
        match self {
            Proof::Markers | Proof::Masked => options,
            Proof::Ledger => Kind::ALL
                .into_iter()
                .fold(options, |options, kind| options.with_ownership(kind, Ownership::Ledger)),
        }
    }

    /// Returns the calling thread's namespace as the agent sees it.
    fn namespace(self) -> Namespace {
        let hidden = [MaskedKind::Address, MaskedKind::Neighbour, MaskedKind::Rule];
        match self {
            Proof::Markers | Proof::Ledger => Namespace::current(),
            Proof::Masked => mask(Namespace::current(), &hidden),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Markers => "markers",
            Proof::Ledger => "ledger",
            Proof::Masked => "ledger without markers",
        })
    }
}

/// The agent of one host, with the directory of its journal.
pub(crate) struct Agent {
    pub(crate) proof: Proof,
    directory: PathBuf,
}

impl Agent {
    pub(crate) fn new(proof: Proof, directory: PathBuf) -> Agent {
        Agent { proof, directory }
    }

    /// Deletes the journal, as if the agent had never run.
    pub(crate) fn forget(&self) {
        fs::remove_dir_all(&self.directory).unwrap();
        fs::create_dir(&self.directory).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.directory.join("journal")
    }

    /// Makes one pass in this process.
    pub(crate) fn pass(&self, file: File) -> Report {
        pass(&self.proof.namespace(), &self.journal(), file, self.proof)
    }

    /// Makes another pass; returns the journal's content before it, and the pass's acts.
    pub(crate) fn again(&self, file: File) -> Again {
        let points = Points::counted();
        let namespace = points.namespace(self.proof.namespace());
        let journal = self.journal();
        let ledger = ledger(&namespace, &journal);
        let keys = |keys: Vec<Vec<u8>>| -> Vec<String> {
            let shown = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
            keys.into_iter().map(shown).collect()
        };
        let owned = keys(ledger.owned().unwrap().into_keys().collect());
        let open = keys(ledger.open_intents().unwrap().into_keys().collect());
        Again {
            owned,
            open,
            report: pass(&namespace, &journal, file, self.proof),
            points: points.passed(),
            writes: journal.stats().writes,
        }
    }

    fn journal(&self) -> Journal {
        loop {
            match Journal::open(self.path()) {
                Ok(journal) => return journal,
                // Another thread's child has not executed its program yet, and still holds this
                // process's files.
                Err(error) if error.kind() == ErrorKind::Held => yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes a pass in another process, which dies when it passes a point for the `nth` time. With
    /// `None` it does not die.
    pub(crate) fn killed(&self, file: File, deadly: Option<(&str, usize)>) -> Died {
        let (point, nth) = deadly.unwrap_or_default();
        let will =
            Will { proof: self.proof, path: self.path(), file, point: point.to_owned(), nth };
        let output = Command::new("/proc/self/exe").args(will.words()).output().unwrap();
        let mut points: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        match (output.status.signal(), output.status.code()) {
            (Some(9), _) => Died::At(points.pop().expect("its last words")),
            (None, Some(0)) => Died::Not(points),
            _ => panic!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
        }
    }
}

/// A pass after one that converged.
pub(crate) struct Again {
    /// The ledger's keys before the pass: owned, and with an unknown outcome.
    pub(crate) owned: Vec<String>,
    pub(crate) open: Vec<String>,
    pub(crate) report: Report,
    /// The points passed: one before and after each message sent.
    pub(crate) points: Vec<String>,
    /// The number of writes to the journal.
    pub(crate) writes: u64,
}

/// A process's end.
pub(crate) enum Died {
    /// It killed itself at this point.
    At(String),
    /// It converged after all these points.
    Not(Vec<String>),
}

/// A process's task, and the point of its death.
pub(crate) struct Will {
    proof: Proof,
    path: PathBuf,
    file: File,
    point: String,
    /// The number of the deadly pass of the point, from 1; 0 is never.
    nth: usize,
}

/// The argument that marks such a process, which runs no tests.
const AGENT: &str = "agent-that-dies";

impl Will {
    fn words(&self) -> [String; 6] {
        [
            AGENT.to_owned(),
            self.proof.to_string(),
            self.path.to_str().unwrap().to_owned(),
            self.file.name().to_owned(),
            self.point.clone(),
            self.nth.to_string(),
        ]
    }

    /// Parses a command line; `None` if it is not such a process.
    pub(crate) fn describe(words: &[String]) -> Option<Will> {
        let [_, first, proof, path, file, point, nth] = words else {
            return None;
        };
        (first == AGENT).then(|| Will {
            proof: Proof::ALL.into_iter().find(|known| known.to_string() == *proof).unwrap(),
            path: path.into(),
            file: File::named(file).unwrap(),
            point: point.clone(),
            nth: nth.parse().unwrap(),
        })
    }
}

/// Runs the process that dies. If it survives, it prints all points.
pub(crate) fn live(will: &Will) -> ExitCode {
    let points = match will.nth {
        0 => Points::counted(),
        nth => Points::deadly(&will.point, nth),
    };
    let journal = storage::open(&will.path, &points);
    let namespace = points.namespace(will.proof.namespace());
    let report = pass(&namespace, &journal, will.file, will.proof);
    // The journal also writes when it is closed.
    drop(journal);
    if !report.converged() {
        eprintln!("not converged:\n{}", describe(&report));
        return ExitCode::FAILURE;
    }
    let all = points.passed().join("\n");
    io::stdout().write_all(all.as_bytes()).unwrap();
    ExitCode::SUCCESS
}

fn pass(namespace: &Namespace, journal: &Journal, file: File, proof: Proof) -> Report {
    let mut ledger = ledger(namespace, journal);
    Rtnl::new()
        .reconcile(PassInput::new(namespace, file.desired(), &mut ledger, &proof.options()))
        .unwrap()
}

fn ledger(namespace: &Namespace, journal: &Journal) -> JournalLedger {
    let scope = trueup_rtnl::ledger_scope(namespace).unwrap();
    journal.ledger("rtnl", &scope).unwrap()
}
