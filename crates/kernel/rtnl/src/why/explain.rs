//! Gathers the facts of an explanation.

use std::collections::{BTreeMap, BTreeSet};

use trueup_apply::is_drawn_index;
use trueup_net::{
    Action, Dev, Devices, Domain, IfName, Kind, Kinds, Link, LinkKind, Object, ObjectKey,
    ObjectKind as _, Observed, OfKind, Owned, Ownership, Policy, each_kind, proof,
};
use trueup_observe::{Observer, ReadScope, Snapshot};

use super::{Entry, Explained, Explanation, Origin, Query, Step, Whose};
use crate::Error;
use crate::ownership::ledger_view::LedgerView;
use crate::ownership::record_key::RecordKey;
use crate::pass::{Pass, PassPlan, require_all_links};

/// Explains the query's objects. `next` is the pass's plan, from a look just before.
pub(crate) fn explain(pass: Pass<'_>, next: PassPlan, query: &Query) -> Result<Explanation, Error> {
    let (declared, devices) = pass.declared(&next)?;
    let is_managed = pass.desired.managed().contains(query.kind());
    let Pass { observer, ledger_view: mut view, policy, .. } = pass;
    let Snapshot { observed: rows, incomplete: doubts, .. } = read(observer, query)?;
    // The pass looked only at managed objects.
    view.close_intents(&rows, &policy, &BTreeSet::new());
    let owned = view.owned(&rows);
    let mut case = Case {
        devices: &devices,
        indexes: rows.links.iter().map(|link| (link.name, link.index)).collect(),
        found: BTreeMap::new(),
    };
    let name = |dev| devices.name(dev).copied();
    for object in objects(&rows).into_iter().filter(|object| query.is_about(object, name)) {
        let whose =
            whose(&object, &rows.links, &owned, &policy, |object| recorded_on(&view, object, name));
        let explained = case.about(&object);
        explained.present.push((object, whose));
    }
    for key in view.keys() {
        let record = view.record(key).or_else(|| view.intent(key));
        let Some(record) = record else { continue };
        if query.is_about(&record.object, |_| Some(key.interface()?.0)) {
            let entry = Entry {
                object: record.object.clone(),
                origin: origin(&record.object, record.former.is_some(), &policy),
                former: record.former.clone().map(|former| former.object),
                is_open: view.has_intent(key),
            };
            case.about(&record.object).entry = Some(entry);
        }
    }
    let of_kind = declared.into_iter().filter(|object| object.kind() == query.kind());
    for (position, object) in of_kind.enumerate() {
        if query.is_about(&object, name) {
            let wanted = object.clone();
            case.about(&object).desired = Some((position, wanted));
        }
    }
    let (plan, observed) = (&next.plan, &next.seen.snapshot.observed);
    let mut held: Vec<Option<usize>> = Vec::with_capacity(plan.ops.len());
    for (at, op) in plan.ops.iter().enumerate() {
        held.push(match op.hold {
            Some(_) => Some(at),
            None => plan.needs(at).find_map(|need| held[need]),
        });
        if query.is_about(&op.object, name) {
            let cause = held[at].filter(|cause| *cause != at);
            let waits_for = cause.map(|cause| Box::new(plan.ops[cause].clone()));
            let steps = &mut case.about(&op.object).next;
            let op = Box::new(op.clone());
            steps.push(Step::Op { op, waits_for });
        }
    }
    for conflict in &plan.conflicts {
        if query.is_about(&conflict.desired, name) {
            let step = Step::Conflict(Box::new(conflict.clone()));
            case.about(&conflict.desired).next.push(step);
        }
    }
    for object in &plan.adopted {
        if query.is_about(object, name) {
            case.about(object).next.push(Step::Adopt);
        }
    }
    let complete = observed.complete.contains(query.kind());
    let deleted: BTreeSet<u32> = plan
        .ops
        .iter()
        .filter(|op| op.action == Action::Delete)
        .filter_map(|op| match &op.object {
            Object::Link(link) => Some(link.index),
            _ => None,
        })
        .collect();
    let mut objects: Vec<Explained> = case.found.into_values().collect();
    for explained in &mut objects {
        if explained.next.is_empty() {
            explained.next.push(if is_managed {
                nothing(explained, complete, &deleted, &rows)
            } else {
                Step::Unmanaged
            });
        }
    }
    Ok(Explanation { objects, devices, doubts })
}

/// Returns the reason why nothing would be done.
fn nothing(
    explained: &Explained,
    complete: bool,
    deleted: &BTreeSet<u32>,
    rows: &Observed,
) -> Step {
    let there = explained.present.iter();
    if let Some((_, desired)) = &explained.desired {
        let serving = there
            .clone()
            .find(|(object, _)| desired.with_open_of(object).differences(object).is_empty());
        let creatable = match desired {
            Object::Link(link) => link.is_creatable(),
            _ => true,
        };
        return match serving {
            // A link that must exist is not created.
            Some((_, whose)) if whose.is_ours() || !creatable => Step::AsDesired,
            Some(_) => Step::SatisfiedByForeign,
            None if explained.present.is_empty() => Step::Along,
            None => Step::Unread,
        };
    }
    let Some((ours, _)) = there.clone().find(|(_, whose)| whose.is_ours()) else {
        return if explained.present.is_empty() { Step::Absent } else { Step::Foreign };
    };
    if !complete {
        return Step::Unread;
    }
    match ours {
        Object::Link(link) => {
            let other = match &link.kind {
                Some(LinkKind::Veth { peer, .. }) => *peer,
                _ => None,
            };
            let other = rows.links.iter().find(|link| Some(link.name) == other);
            if other.is_some_and(|other| deleted.contains(&other.index)) {
                Step::Along
            } else {
                Step::OtherEnd
            }
        }
        _ => Step::Along,
    }
}

/// The facts found, by key.
struct Case<'a> {
    devices: &'a Devices,
    indexes: BTreeMap<IfName, u32>,
    found: BTreeMap<ObjectKey, Explained>,
}

impl Case<'_> {
    /// Returns the facts on an object's key. By its name, a device to be recreated is the existing
    /// one.
    fn about(&mut self, object: &Object) -> &mut Explained {
        let mut key = object.key();
        match &mut key {
            ObjectKey::Address(key) => key.dev = self.there(key.dev),
            ObjectKey::Neighbour(key) => key.dev = self.there(key.dev),
            ObjectKey::Rule(rule) => rule.protocol = 0,
            // No other key contains a device or a protocol.
            _ => {}
        }
        self.found.entry(key.clone()).or_insert_with(|| Explained {
            key,
            present: Vec::new(),
            entry: None,
            desired: None,
            next: Vec::new(),
        })
    }

    fn there(&self, dev: Dev) -> Dev {
        let planned = dev.as_index().is_none();
        let name = self.devices.name(dev).filter(|_| planned);
        let index = name.and_then(|name| self.indexes.get(name));
        index.map_or(dev, |index| Dev::index(*index))
    }
}

/// Reads all links and the query's objects, foreign ones too.
fn read(observer: &mut Observer, query: &Query) -> Result<Snapshot, Error> {
    let kind = query.kind();
    let kinds = Kinds::NONE.with(kind);
    let scope = ReadScope::default().with_kinds(kinds.without(Kind::Route));
    let mut snapshot = require_all_links(observer.snapshot(&scope)?)?;
    if let Query::Route { table, .. } = query {
        let mut scope = ReadScope::default().with_kinds(kinds);
        scope.tables = table.map(|table| BTreeSet::from([table]));
        let (routes, doubt) = observer.routes_where(&scope, |route| query.is_about_route(route))?;
        snapshot.observed.routes = routes;
        snapshot.mark_read(Kind::Route, doubt);
    }
    Ok(snapshot)
}

/// Returns the observed objects of declared kinds.
fn objects(observed: &Observed) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    each_kind!(K => if K::IS_DECLARED {
        let of_kind = OfKind::<K>::of_kind(observed).iter();
        objects.extend(of_kind.cloned().map(Into::<Object>::into));
    });
    objects
}

/// Returns an object's owner. `recorded` is true if the ledger has a record on its key.
fn whose(
    object: &Object,
    links: &[Link],
    owned: &Owned,
    policy: &Policy,
    recorded: impl Fn(&Object) -> bool,
) -> Whose {
    let passing = matches!(object, Object::Neighbour(neighbour) if !neighbour.is_declared());
    let everywhere = policy.clone().with_domain(Domain::default());
    match (proof(object, links, owned, policy), object.protocol()) {
        (Some(Ownership::Marker), _) => Whose::Marked,
        (Some(Ownership::Ledger), _) => Whose::Recorded,
        _ if object.is_kernels_own(policy.unstored) => Whose::Kernels,
        _ if passing => Whose::Passing,
        _ if policy.domain.is_limited() && proof(object, links, owned, &everywhere).is_some() => {
            Whose::OutsideDomain
        }
        _ if recorded(object) => Whose::Rewritten,
        (None, 0) => Whose::Unmarked,
        (None, protocol) if protocol == policy.marker => Whose::MarkUnproven,
        (None, protocol) => Whose::Others { protocol },
    }
}

/// Returns true if the ledger has a record or intent on an object's key, or had a link with its
/// name.
fn recorded_on(view: &LedgerView, object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> bool {
    match object {
        Object::Link(link) => view.link_named(&link.name).is_some(),
        _ => RecordKey::of(object, name).is_some_and(|key| view.record(&key).is_some()),
    }
}

/// Finds how an object became ours. The ledger does not say, but the object does: objects that we
/// made have our marker, or for a link an index drawn for it.
fn origin(object: &Object, is_overridden: bool, policy: &Policy) -> Origin {
    match object {
        _ if is_overridden => Origin::Overridden,
        Object::Link(link) if is_drawn_index(link.index) => Origin::Made,
        Object::Link(_) => Origin::Adopted,
        _ if policy.unstored.contains(object.kind()) => Origin::MadeOrAdopted,
        _ if object.protocol() == policy.marker => Origin::Made,
        _ => Origin::Adopted,
    }
}

#[cfg(test)]
mod tests;
