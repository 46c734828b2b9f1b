//! Invariant 2: if a pass reports converged, and no other writer has written since, the kernel's
//! rows are as desired.

use trueup_net::Desired;
use trueup_reconcile::Report as _;
use trueup_rtnl::Report;
use trueup_testkit::Kind;

use super::Judge;
use trueup_e2e::cases::expect;
use trueup_e2e::world::World as Rows;
use trueup_testkit::fields::{Fields, line};

impl Judge {
    pub(crate) fn check_converged(&mut self, report: &Report, rows: &Rows, is_full: bool) {
        self.is_quiet = false;
        if !report.converged() {
            return;
        }
        // The agent cannot know of a write after the last read of its kind.
        let pass = &self.pass;
        self.writes.retain(|_, write| write.step > pass.read_at(&write.row));
        if !self.writes.is_empty() {
            return;
        }
        let wrong = self.differences(rows, is_full);
        match wrong.is_empty() {
            true => self.is_quiet = is_full,
            false => self.fail(2, format!("converged, but the kernel\n{wrong}")),
        }
    }

    /// Returns missing desired rows, and our undesired rows.
    fn differences(&self, rows: &Rows, is_full: bool) -> String {
        let mut wrong = String::new();
        for (kind, wanted) in expectations(&self.desired) {
            // These change without an announcement: only a pass over everything sees it.
            if !is_full && matches!(kind, Kind::Link | Kind::Neighbour) {
                continue;
            }
            let mut there: Vec<(bool, Fields)> = rows
                .of(kind)
                .map(|(id, row)| {
                    let mut fields = rows.fields(row);
                    fields.remove("proto");
                    fields.remove("nhid");
                    (self.owners.is_ours(id), fields)
                })
                .collect();
            // Another writer's row counts only if we have none.
            there.sort_by_key(|(is_ours, _)| !is_ours);
            let lowers = wanted.iter().filter_map(|expected| expected.get("lower").cloned());
            let lowers: Vec<_> = lowers.collect();
            for expected in &wanted {
                let is_link = kind == Kind::Link;
                match there
                    .iter()
                    .position(|(is_ours, row)| agrees(expected, row, is_link || !is_ours))
                {
                    Some(at) => drop(there.remove(at)),
                    None => wrong += &format!("lacks {}\n", line(kind.word(), expected)),
                }
            }
            for (_, row) in there.iter().filter(|(is_ours, _)| *is_ours) {
                // The other end of a desired pair may be there.
                if kind != Kind::Link || !lowers.contains(&row["name"]) {
                    wrong += &format!("has   {}\n", line(kind.word(), row));
                }
            }
        }
        wrong
    }
}

/// Compares as the oracle does, except the rest of a lifetime, which `stable` rows do not have.
fn agrees(expected: &Fields, row: &Fields, is_open: bool) -> bool {
    let mut expected = expected.clone();
    for field in ["valid", "preferred"] {
        let value = expected.get_mut(field);
        if let Some(value) = value.filter(|value| value.starts_with("left of ")) {
            *value = "1".to_owned();
        }
    }
    expect::matches(&expected, row, is_open)
}

/// Returns the fields of all desired objects, by kind.
fn expectations(desired: &Desired) -> Vec<(Kind, Vec<Fields>)> {
    fn all<'a, T: 'a>(
        items: Option<impl IntoIterator<Item = &'a T>>,
        fields: impl Fn(&T) -> Fields,
    ) -> Option<Vec<Fields>> {
        items.map(|items| items.into_iter().map(fields).collect())
    }
    let routes = desired.routes.as_ref();
    let routes: Option<Vec<_>> = routes.map(|routes| routes.iter().collect());
    let of_kinds = [
        (Kind::Link, all(desired.links.as_ref(), expect::link)),
        (Kind::Address, all(desired.addresses.as_ref(), expect::address)),
        (Kind::Neighbour, all(desired.neighbours.as_ref(), expect::neighbour)),
        (Kind::Route, all(routes.as_ref(), expect::route)),
        (Kind::Rule, all(desired.rules.as_ref(), expect::rule)),
    ];
    let managed = of_kinds.into_iter();
    managed.filter_map(|(kind, all)| Some((kind, all?))).collect()
}
