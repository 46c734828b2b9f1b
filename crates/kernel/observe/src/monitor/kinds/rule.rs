//! The events of rules.

use trueup_net::{Kind, ObjectKey, ObjectKind as _, Rule};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::Message;

use crate::dirty_set::DirtySet;
use crate::monitor::filter::{BODY, pass_only};
use crate::monitor::links::LinkStates;
use crate::monitor::watch_scope::WatchScope;
use crate::monitor::watched::Watched;

const FRA_PROTOCOL: u16 = 21;
/// The offset of the attributes.
const ATTRIBUTES: u32 = BODY + 12;

impl Watched for Rule {
    fn mark_dirty(
        event: &Message<'_>,
        scope: &WatchScope,
        _links: &mut LinkStates,
        dirty: &mut DirtySet,
    ) -> Option<bool> {
        let Some(rule) = Rule::decode(event.body).ok()? else {
            return Some(false);
        };
        let is_relevant = scope.kinds.contains(Kind::Rule)
            && (scope.includes_foreign(Kind::Rule) || rule.protocol == scope.protocol);
        if is_relevant && !rule.unmodelled {
            let is_deleted = event.header.kind == Rule::DELETE;
            let key = ObjectKey::Rule(Box::new(rule.key()));
            dirty.objects.insert(key, (!is_deleted).then(|| rule.into()));
        } else if is_relevant {
            dirty.rules.insert(rule.family);
        }
        Some(is_relevant)
    }

    fn filter(scope: &WatchScope, _is_new: bool) -> Vec<Instruction> {
        if !scope.kinds.contains(Kind::Rule) {
            return vec![Instruction::drop()];
        }
        if scope.includes_foreign(Kind::Rule) {
            return vec![Instruction::pass()];
        }
        let mut block = Vec::from(Instruction::attribute(ATTRIBUTES, FRA_PROTOCOL));
        block.extend([Instruction::equal(0, 0, 1), Instruction::pass()]);
        block.extend(Instruction::first_byte());
        block.extend(pass_only(scope.protocol.into()));
        block
    }
}
