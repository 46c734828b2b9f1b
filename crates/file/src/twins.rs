//! Two objects of one key: the kernel would hold one of them, and which one would be chance.

use trueup_diff::{Address, Link, Neighbour, Route};

use crate::{Declared, Form, Places, Problem};

/// Every object whose key an earlier one has.
pub(crate) fn find(desired: &Declared, places: &Places) -> Vec<Problem> {
    let mut problems = Vec::new();
    of::<Link<_>>(&desired.links, places, &mut problems);
    of::<Address<_>>(&desired.addresses, places, &mut problems);
    of::<Neighbour<_>>(&desired.neighbours, places, &mut problems);
    of::<Route<_>>(&desired.routes, places, &mut problems);
    of(&desired.rules, places, &mut problems);
    problems
}

fn of<T: Form>(objects: &Option<Vec<T>>, places: &Places, problems: &mut Vec<Problem>) {
    let objects = objects.as_deref().unwrap_or_default();
    let mut order: Vec<usize> = (0..objects.len()).collect();
    // Stable, so that of equals the first in the file comes first.
    order.sort_by(|a, b| objects[*a].key().cmp(&objects[*b].key()));
    for twins in order.chunk_by(|a, b| objects[*a].key() == objects[*b].key()) {
        let [first, rest @ ..] = twins else { continue };
        for second in rest {
            let (key, remedy) = objects[*second].key_words();
            let first = places.at(T::KIND, *first).map(|place| place.to_string());
            problems.push(Problem {
                place: places.at(T::KIND, *second),
                message: format!(
                    "a second {key}: the first is at {}; remove one, or give it {remedy}",
                    first.unwrap_or_default(),
                ),
            });
        }
    }
}
