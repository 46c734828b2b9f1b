//! Compares the kernel's rows with the desired state.

use trueup_e2e::cases::expect;
use trueup_e2e::world::World;
use trueup_net::Desired;
use trueup_testkit::Kind;
use trueup_testkit::fields::{Fields, line};

use crate::owners::{Owners, Whose};

/// Returns the desired objects, one a line.
pub(crate) fn lines(desired: &Desired) -> Vec<String> {
    let all = expectations(desired).into_iter();
    let lines = all.flat_map(|(kind, all)| {
        let all = all.into_iter();
        all.map(move |fields| format!("  {}", line(kind.word(), &fields)))
    });
    lines.collect()
}

/// Checks that our rows are all desired, and each desired row is there, from any writer.
pub(crate) fn as_desired(owners: &Owners, desired: &Desired) -> Result<(), String> {
    let now = World::look();
    let mut wrong = String::new();
    for (kind, wanted) in expectations(desired) {
        let mut rows: Vec<(bool, Fields)> = now
            .of(kind)
            .map(|(id, row)| {
                let mut fields = now.fields(row);
                fields.remove("proto");
                (owners.whose(id, row) == Whose::Ours, fields)
            })
            .collect();
        // Another writer's row counts only if we have none.
        rows.sort_by_key(|(ours, _)| !ours);
        let lowers: Vec<_> = wanted.iter().filter_map(|w| w.get("lower")).cloned().collect();
        for expected in &wanted {
            let open = kind == Kind::Link;
            match rows.iter().position(|(_, row)| agrees(expected, row, open)) {
                Some(at) => drop(rows.remove(at)),
                None => wrong += &format!("lacks {}\n", line(kind.word(), expected)),
            }
        }
        for (_, row) in rows.iter().filter(|(ours, _)| *ours) {
            // The other end of a desired pair may be there.
            if kind != Kind::Link || !lowers.contains(&row["name"]) {
                wrong += &format!("has   {}\n", line(kind.word(), row));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("converged, but the kernel\n{wrong}")) }
}

/// Compares as the oracle does, except the rest of a lifetime, which a snapshot does not have.
fn agrees(expected: &Fields, row: &Fields, open: bool) -> bool {
    let mut expected = expected.clone();
    for field in ["valid", "preferred"] {
        if expected.get(field).is_some_and(|value| value.starts_with("left of ")) {
            expected.insert(field, "1".to_owned());
        }
    }
    expect::matches(&expected, row, open)
}

fn expectations(desired: &Desired) -> Vec<(Kind, Vec<Fields>)> {
    fn all<'a, T: 'a>(
        items: Option<impl IntoIterator<Item = &'a T>>,
        fields: impl Fn(&T) -> Fields,
    ) -> Vec<Fields> {
        items.into_iter().flatten().map(fields).collect()
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
