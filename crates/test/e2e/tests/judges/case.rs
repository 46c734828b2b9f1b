//! Runs one case in a fresh namespace, and compares the kernel's rows with the desired ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use trueup_e2e::cases::author::{self, FOREIGN};
use trueup_e2e::cases::expect;
use trueup_e2e::cases::other_writer;
use trueup_e2e::cases::spec::Case;
use trueup_net::Desired;
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Pending, Report, Rtnl, Wait};
use trueup_testkit::fields::{Fields, Names, OURS, fields, line};
use trueup_testkit::{Changes, Kind, RawMessage, Snapshot, quiet_netns, raw_dump};

/// Runs a case; the error has the history and the fault.
pub(crate) fn run(case: &Case) -> Result<(), String> {
    let mut run = Run::begin(case.clean);
    let ran = run.case(case);
    run.end(ran)
}

/// Passes in one namespace, with their history.
pub(crate) struct Run {
    clean: bool,
    last: MemoryLedger,
    /// The indexes of links that appeared in a pass, unless the ledger was lost since.
    our_links: BTreeSet<u32>,
    journal: String,
}

/// The rows of a namespace at one moment.
struct Look {
    rows: Vec<RawMessage>,
    names: Names,
}

impl Look {
    fn take() -> Look {
        let snapshot = Snapshot::take();
        let mut rows: Vec<_> = Kind::ALL
            .into_iter()
            .flat_map(|kind| snapshot.of(kind).cloned().collect::<Vec<_>>())
            .collect();
        for rule in rows.iter_mut().filter(|row| row.kind == Kind::Rule) {
            // The target of a goto and the presence of devices are status; INVERT stays.
            rule.header[8] &= 2;
        }
        let links = rows.iter().filter(|row| row.kind == Kind::Link);
        let names = links.map(|row| (row.device(), row.ifname().unwrap())).collect();
        Look { rows, names }
    }

    fn line(&self, row: &RawMessage) -> String {
        line(row.kind.word(), &fields(row, &self.names))
    }
}

#[derive(PartialEq)]
enum Whose {
    Ours,
    Foreign,
    /// The kernel's own, derived from another object.
    Derived,
}

impl Run {
    /// Enters a new namespace. If `clean`, each pass must converge.
    pub(crate) fn begin(clean: bool) -> Run {
        quiet_netns();
        Run {
            clean,
            last: MemoryLedger::default(),
            our_links: BTreeSet::new(),
            journal: String::new(),
        }
    }

    /// Adds the history to an error.
    pub(crate) fn end(self, ran: Result<(), String>) -> Result<(), String> {
        ran.map_err(|wrong| format!("{wrong}\n\nwhat happened:\n{}", self.journal))
    }

    fn whose(&self, row: &RawMessage) -> Whose {
        let derived = match row.kind {
            Kind::Link if self.our_links.contains(&row.device()) => return Whose::Ours,
            Kind::Link => row.device() == 1,
            Kind::Address => {
                let link_local = row.attrs.get(&1).is_some_and(|a| a.starts_with(&[0xfe, 0x80]));
                link_local || matches!(row.protocol(), Some(1..=3))
            }
            Kind::Neighbour => {
                // No process declares objects on the loopback device.
                row.device() == 1
                    || row.header[8] & 0xc0 == 0
                        && row.header[10] & 0x18 == 0
                        && row.protocol() != Some(OURS)
            }
            Kind::Route => {
                let dst = row.attrs.get(&1);
                let generated =
                    dst.is_none_or(|dst| matches!(dst[..2], [10 | 0xfd, 50 | 55 | 0x50 | 0x55]));
                row.table() == Some(255) || (row.header[5] == 2 && !generated)
            }
            Kind::Rule => matches!(row.attr_u32(6).unwrap_or(0), 0 | 32_766 | 32_767),
            Kind::Nexthop => false,
        };
        match row.protocol() {
            Some(OURS) => Whose::Ours,
            _ if derived => Whose::Derived,
            _ => Whose::Foreign,
        }
    }

    pub(crate) fn say(&mut self, text: impl AsRef<str>) {
        let _infallible = writeln!(self.journal, "{}", text.as_ref());
    }

    fn case(&mut self, case: &Case) -> Result<(), String> {
        let [one, other] = FOREIGN;
        self.other_writer(&[
            format!("link add {one} type veth peer name {other}"),
            format!("link set {one} up"),
            format!("link set {other} up"),
            format!("address add 10.0.3.200/24 dev {one}"),
            format!("address add fd00:3::200/64 dev {one} nodad"),
            format!("address add 10.9.9.1/24 dev {other}"),
        ]);
        for step in &case.steps {
            let lines: Vec<_> = step
                .other_writer
                .iter()
                .flat_map(|spec| other_writer::lines(spec, self.clean))
                .collect();
            self.other_writer(&lines);
            if step.forget {
                self.say("the ledger is lost");
                self.last = MemoryLedger::default();
                self.our_links.clear();
            }
            // Declare nothing on our links that are no longer desired.
            let mut present = Look::take().names;
            if step.desired.links.is_some() {
                present.retain(|index, _| !self.our_links.contains(index));
            }
            let present = present.into_values().collect();
            let desired = author::desired(&step.desired, &present, self.clean);
            self.pass(&desired)?;
        }
        self.say("everything of ours is to go");
        self.pass(
            &Desired::default()
                .with_links([])
                .with_addresses([])
                .with_neighbours([])
                .with_routes([])
                .with_rules([]),
        )?;
        let after = Look::take();
        let never_held = |row: &&RawMessage| {
            matches!(row.kind, Kind::Route | Kind::Rule | Kind::Neighbour)
                && self.whose(row) == Whose::Ours
        };
        if let Some(row) = after.rows.iter().find(never_held) {
            return Err(format!("still there: {}", after.line(row)));
        }
        if self.clean && self.last != MemoryLedger::default() {
            return Err(format!("everything is gone, but not from the ledger: {:?}", self.last));
        }
        Ok(())
    }

    /// Runs lines of `ip`, of which any may fail. The family is removed from a line and given as an
    /// option, as `-batch` accepts none in a line.
    pub(crate) fn other_writer(&mut self, lines: &[String]) {
        let family = |line: &str| match line.get(..3) {
            Some("-4 ") => "-4",
            Some("-6 ") => "-6",
            _ => "-0",
        };
        for lines in lines.chunk_by(|one, next| family(one) == family(next)) {
            let family = family(&lines[0]);
            let rest: Vec<_> =
                lines.iter().map(|line| line.trim_start_matches(&format!("{family} "))).collect();
            let options: &[&str] = &[family];
            self.batch(&options[..usize::from(family != "-0")], &rest);
        }
    }

    fn batch(&mut self, options: &[&str], lines: &[&str]) {
        let mut child = Command::new("ip")
            .args(options)
            .args(["-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ip, of Debian's package iproute2");
        for line in lines {
            self.say(format!("  ip {} {line}", options.concat()));
        }
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(format!("{}\n", lines.join("\n")).as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        for line in String::from_utf8_lossy(&output.stderr).lines() {
            self.say(format!("    {line}"));
        }
    }

    fn reconcile(&mut self, desired: &Desired) -> Result<Report, String> {
        let options = Options::default();
        Rtnl::new()
            .reconcile(PassInput::new(&Namespace::current(), desired, &mut self.last, &options))
            .map_err(|error| format!("the pass could not run: {error}"))
    }

    /// Makes a pass, and checks it. Returns true if it converged.
    pub(crate) fn pass(&mut self, desired: &Desired) -> Result<bool, String> {
        let wanted = expectations(desired);
        self.say("desired:");
        for (kind, wanted) in &wanted {
            match wanted {
                None => self.say(format!("  {}s unmanaged", kind.word())),
                Some(all) => {
                    for fields in all {
                        self.say(format!("  {}", line(kind.word(), fields)));
                    }
                }
            }
        }
        let before = Look::take();
        let report = self.reconcile(desired)?;
        let after = Look::take();
        // Every new index is ours: the kernel does not reuse indexes so soon.
        self.our_links.extend(after.names.keys().filter(|index| !before.names.contains_key(index)));
        self.tell(&report);

        let (all, applied) = (report.ops().count(), report.applied().count());
        let (failed, pending) = (report.failed().count(), report.pending().count());
        if applied + failed + pending != all {
            return Err(format!("{applied} applied, {failed} failed, {pending} pending of {all}"));
        }
        self.foreign_rows_survive(&before, &after, &wanted)?;
        self.our_links.retain(|index| after.names.contains_key(index));
        if report.converged() {
            self.rows_are_as_desired(&after, &wanted)?;
            self.still(desired)?;
            Ok(true)
        } else if self.clean {
            Err("did not converge in one pass, though nothing stands in the way".to_owned())
        } else if failed + pending + report.conflicts().len() + report.doubts().len() == 0 {
            Err("did not converge, and gave no reason".to_owned())
        } else {
            Ok(false)
        }
    }

    fn tell(&mut self, report: &Report) {
        self.say(format!("pass: converged {}", report.converged()));
        for done in report.ops() {
            let outcome = match done.outcome {
                trueup_rtnl::Outcome::Applied => String::new(),
                trueup_rtnl::Outcome::Failed(failure) | trueup_rtnl::Outcome::Declined(failure) => {
                    format!(" FAILED {failure}")
                }
                trueup_rtnl::Outcome::Pending(Pending::Own(Wait::Held(hold))) => {
                    format!(" HELD {hold:?}")
                }
                trueup_rtnl::Outcome::Pending(pending) => format!(" PENDING {pending}"),
            };
            let op = done.op;
            let text = (op.command(done.devices), op.reason_text(done.devices));
            self.say(format!("  {}   # {}{outcome}", text.0, text.1));
        }
        for conflict in report.conflicts() {
            let devices = report.devices();
            let (desired, foreign) =
                (conflict.desired.spec(devices), conflict.foreign.spec(devices));
            self.say(format!("  conflict: {desired} with {foreign}"));
        }
        if !report.doubts().is_empty() || report.trouble().is_some() {
            self.say(format!("  doubts {:?} {:?}", report.doubts(), report.trouble()));
        }
    }

    /// Checks that foreign rows are unchanged, byte for byte.
    fn foreign_rows_survive(
        &self,
        before: &Look,
        after: &Look,
        wanted: &Wanted,
    ) -> Result<(), String> {
        let foreign = |look: &Look| -> BTreeMap<(String, Option<RawMessage>), usize> {
            let mut rows = BTreeMap::new();
            for row in look.rows.iter().filter(|row| self.whose(row) == Whose::Foreign) {
                let key = if row.kind == Kind::Link {
                    (foreign_link(row, &look.names, wanted), None)
                } else {
                    (look.line(row), Some(row.clone()))
                };
                *rows.entry(key).or_insert(0) += 1;
            }
            rows
        };
        let (old, new) = (foreign(before), foreign(after));
        let missing = old.iter().filter(|(row, count)| new.get(row) != Some(count));
        let added = new.iter().filter(|(row, count)| old.get(row) != Some(count));
        let mut text = String::new();
        for ((line, row), _) in missing {
            let _infallible = writeln!(
                text,
                "- {line}   ({})",
                row.as_ref().map_or(String::new(), |r| r.to_string())
            );
        }
        for ((line, row), _) in added {
            let _infallible = writeln!(
                text,
                "+ {line}   ({})",
                row.as_ref().map_or(String::new(), |r| r.to_string())
            );
        }
        if text.is_empty() { Ok(()) } else { Err(format!("what is not ours was touched:\n{text}")) }
    }

    /// Checks that our rows of each managed kind are exactly the desired ones.
    fn rows_are_as_desired(&self, after: &Look, wanted: &Wanted) -> Result<(), String> {
        let mut wrong = String::new();
        for (kind, wanted) in wanted {
            let Some(wanted) = wanted else { continue };
            let rows: Vec<_> = match kind {
                // With lifetimes in seconds.
                Kind::Address => raw_dump(*kind, 0),
                _ => after.rows.iter().filter(|row| row.kind == *kind).cloned().collect(),
            };
            let mut left: Vec<(bool, Fields)> = rows
                .iter()
                .filter(|row| {
                    self.whose(row) != Whose::Derived
                        || row.kind == Kind::Route
                        || row.kind == Kind::Address
                })
                .map(|row| {
                    let mut fields = fields(row, &after.names);
                    fields.remove("proto");
                    (self.whose(row) == Whose::Ours, fields)
                })
                .collect();
            // Ours first: another writer's row counts only if we have none.
            left.sort_by_key(|(ours, _)| !ours);
            for expected in wanted {
                let open = *kind == Kind::Link;
                let found = left
                    .iter()
                    .position(|(ours, row)| expect::matches(expected, row, open || !ours));
                match found {
                    Some(at) => _ = left.remove(at),
                    None => wrong += &format!("lacks  {}\n", line(kind.word(), expected)),
                }
            }
            let stated: Vec<&String> = wanted.iter().filter_map(|w| w.get("lower")).collect();
            for (_, row) in left.iter().filter(|(ours, _)| *ours) {
                // The other end of a desired pair may be there.
                let peer = *kind == Kind::Link && stated.contains(&&row["name"]);
                if !peer {
                    wrong += &format!("has    {}\n", line(kind.word(), row));
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(format!("converged, but the kernel\n{wrong}")) }
    }

    /// Checks that a second pass has nothing to do and sends no message.
    fn still(&mut self, desired: &Desired) -> Result<(), String> {
        let (plan, observed) = Rtnl::new()
            .plan(&Namespace::current(), desired, &self.last, &Options::default())
            .map_err(|error| format!("planning again: {error}"))?;
        if !plan.is_empty() || !observed.is_complete() {
            return Err(format!("converged, but the next plan is {:?}", plan));
        }
        let mut changes = super::watches().then(Changes::watch);
        let remembered = self.last.clone();
        let again = self.reconcile(desired)?;
        if again.ops().count() != 0 || !again.converged() {
            self.tell(&again);
            return Err("the second pass did something".to_owned());
        }
        if remembered != self.last {
            return Err(format!("the second pass remembers {:?} for {remembered:?}", self.last));
        }
        let announced = changes.as_mut().map(Changes::take).unwrap_or_default();
        match announced.first() {
            None => Ok(()),
            Some(first) => Err(format!("the second pass changed something: {first}")),
        }
    }
}

type Wanted = Vec<(Kind, Option<Vec<Fields>>)>;

fn expectations(desired: &Desired) -> Wanted {
    fn all<'a, T: 'a>(
        items: Option<impl IntoIterator<Item = &'a T>>,
        fields: impl Fn(&T) -> Fields,
    ) -> Option<Vec<Fields>> {
        items.map(|items| items.into_iter().map(fields).collect())
    }
    let routes = desired.routes.as_ref();
    let routes: Option<Vec<_>> = routes.map(|routes| routes.iter().collect());
    vec![
        (Kind::Link, all(desired.links.as_ref(), expect::link)),
        (Kind::Address, all(desired.addresses.as_ref(), expect::address)),
        (Kind::Neighbour, all(desired.neighbours.as_ref(), expect::neighbour)),
        (Kind::Route, all(routes.as_ref(), expect::route)),
        (Kind::Rule, all(desired.rules.as_ref(), expect::rule)),
    ]
}

/// Returns a foreign link's row without changeable properties: the desired state may set them, or
/// they follow from lower devices or ports.
fn foreign_link(row: &RawMessage, names: &Names, wanted: &Wanted) -> String {
    let mut fields = fields(row, names);
    let stated = wanted
        .iter()
        .filter(|(kind, _)| *kind == Kind::Link)
        .flat_map(|(_, all)| all.iter().flatten())
        .find(|wanted| wanted["name"] == fields["name"] && !wanted.contains_key("kind"));
    fields.retain(|field, _| {
        !stated.is_some_and(|stated| stated.contains_key(field)) || *field == "name"
    });
    if fields.contains_key("lower") || fields["kind"] == "bridge" {
        fields.remove("mtu");
    }
    if fields["kind"] == "bridge" {
        // The lowest address of its ports, unless set by hand.
        fields.remove("lladdr");
    }
    format!("{} {}", row.device(), line("link", &fields))
}
