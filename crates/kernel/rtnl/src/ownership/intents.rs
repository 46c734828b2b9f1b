//! Finds the ops that the ledger must record before they are carried out, with their records.

use std::collections::BTreeMap;

use trueup_net::{
    Action, Dev, Devices, IfName, Kind, Link, LinkKind, Object, Op, Plan, Policy, Reason,
};

use super::ledger_view::LedgerView;
use super::record::{Former, Record, Records};
use super::record_key::{LinkRecordKey, RecordKey};

/// Finds the record that each op leaves.
pub(crate) struct Intents<'a> {
    view: &'a LedgerView,
    policy: &'a Policy,
    devices: &'a Devices,
    /// The indexes of the links that the plan creates.
    indexes: &'a BTreeMap<Dev, u32>,
    /// Their names.
    created: BTreeMap<Dev, IfName>,
}

impl<'a> Intents<'a> {
    pub(crate) fn new(
        view: &'a LedgerView,
        policy: &'a Policy,
        devices: &'a Devices,
        indexes: &'a BTreeMap<Dev, u32>,
    ) -> Self {
        let created = devices
            .planned()
            .filter_map(|(dev, name)| Some((Dev::index(*indexes.get(&dev)?), *name)))
            .collect();
        Intents { view, policy, devices, indexes, created }
    }

    /// Returns the records that a plan's ops leave. If two ops have the same key, the later counts.
    pub(crate) fn of_plan(&self, plan: &Plan) -> Records {
        plan.ops.iter().filter(|op| op.hold.is_none()).flat_map(|op| self.of(op)).collect()
    }

    /// Returns the keys of the records that an op leaves.
    pub(crate) fn keys(&self, op: &Op) -> impl Iterator<Item = RecordKey> {
        self.of(op).into_iter().map(|(key, _)| key)
    }

    /// Returns the records that an op leaves. An object with the marker needs none.
    fn of(&self, op: &Op) -> Vec<(RecordKey, Option<Record>)> {
        let kind = op.object.kind();
        if kind == Kind::Nexthop {
            // It is never overridden, and always ours by the marker.
            return Vec::new();
        }
        let by_marker = !self.policy.is_by_ledger(kind);
        if by_marker && self.view.is_empty() && op.reason != Reason::Overridden {
            return Vec::new();
        }
        if let Object::Link(link) = &op.object {
            return self.of_link(op, link);
        }
        let Some(object) = self.real(&op.object) else {
            return Vec::new();
        };
        let Some(key) = self.key(&object) else {
            return Vec::new();
        };
        let before = self.view.record(&key);
        let is_unrecorded = before.is_none() && !self.view.has_intent(&key);
        if by_marker && is_unrecorded && op.reason != Reason::Overridden {
            return Vec::new();
        }
        let former = match op.reason {
            Reason::Overridden => op.was().map(|was| self.former(was.into_owned())),
            // Another writer removed an overridden object, so there is nothing to restore.
            Reason::Missing | Reason::Beside => before
                .filter(|record| record.is_restoring())
                .and_then(|record| record.former.clone()),
            _ => before.and_then(|record| record.former.clone()),
        };
        let record = match (op.action, op.reason) {
            (Action::Delete, _) | (Action::Update, Reason::Restored) => None,
            (Action::Create, Reason::Restored) => former.as_ref().map(Record::restoring),
            _ => Some(Record { object, former }),
        };
        vec![(key, record)]
    }

    /// A link's creation, overriding and deletion are recorded. Changes to it are not: it is ours
    /// by its index.
    fn of_link(&self, op: &Op, link: &Link) -> Vec<(RecordKey, Option<Record>)> {
        let other = match &link.kind {
            Some(LinkKind::Veth { peer, .. }) => *peer,
            _ => None,
        };
        match (op.action, op.reason, op.was().as_deref()) {
            (Action::Create, ..) => {
                let kind = LinkKind::veth(link.name);
                self.created(link.name, link.kind.clone())
                    .into_iter()
                    .chain(other.and_then(|name| self.created(name, Some(kind))))
                    .collect()
            }
            (Action::Update, Reason::Restored, Some(was)) => {
                self.key(was).map(|key| (key, None)).into_iter().collect()
            }
            (Action::Update, reason, Some(Object::Link(was))) => {
                self.overridden(reason, link, was).into_iter().collect()
            }
            (Action::Update, ..) => Vec::new(),
            (Action::Delete, ..) => self
                .key(&op.object)
                .into_iter()
                .chain(other.and_then(|name| self.view.link_named(&name)))
                .filter(|key| self.view.record(key).is_some())
                .map(|key| (key, None))
                .collect(),
        }
    }

    /// Returns an overridden link's record, with only the fields to restore, which are those we
    /// changed.
    fn overridden(
        &self,
        reason: Reason,
        wanted: &Link,
        was: &Link,
    ) -> Option<(RecordKey, Option<Record>)> {
        let object = Object::Link(Box::new(was.clone()));
        let key = self.key(&object)?;
        let known = match self.view.record(&key).map(|record| &record.former) {
            Some(Some(former)) => match &former.object {
                Object::Link(former) => Some((**former).clone()),
                _ => None,
            },
            _ if reason == Reason::Overridden => None,
            _ => return None,
        };
        let changed = was.where_stated(wanted);
        let former = known.map_or(changed.clone(), |known| known.or(changed));
        let former = Some(self.former(former.into()));
        Some((key, Some(Record { object, former })))
    }

    fn former(&self, object: Object) -> Former {
        Former::new(object, |dev| self.devices.name(dev).copied())
    }

    /// Returns the record of a link created with a name, unless there is one already.
    fn created(&self, name: IfName, kind: Option<LinkKind>) -> Option<(RecordKey, Option<Record>)> {
        let index = *self.indexes.get(&self.devices.dev(&name)?)?;
        let mut link = Link::must_exist(name).with_index(index);
        link.kind = kind;
        let object = Object::Link(Box::new(link));
        let former = None;
        Some((RecordKey::Link(LinkRecordKey { name, index }), Some(Record { object, former })))
    }

    /// Replaces planned devices by their future indexes. `None` if a device will not exist.
    fn real(&self, object: &Object) -> Option<Object> {
        Some(match object.clone() {
            Object::Address(it) => it.try_map_dev(|dev| self.real_dev(dev)).ok()?.into(),
            Object::Neighbour(it) => it.try_map_dev(|dev| self.real_dev(dev)).ok()?.into(),
            Object::Route(it) => it.try_map_dev(|dev| self.real_dev(dev)).ok()?.into(),
            other => other,
        })
    }

    fn real_dev(&self, dev: Dev) -> Result<Dev, ()> {
        let index = dev.as_index().or_else(|| self.indexes.get(&dev).copied());
        index.map(Dev::index).ok_or(())
    }

    fn key(&self, object: &Object) -> Option<RecordKey> {
        RecordKey::of(object, |dev| {
            self.devices.name(dev).or_else(|| self.created.get(&dev)).copied()
        })
    }
}
