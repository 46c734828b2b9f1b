//! Runs one sequence on both machines, and finds the fewest messages that still disagree.

use std::fmt::Write as _;

use trueup_netlink::Namespace;
use trueup_testkit::model::Kernel;
use trueup_testkit::{Kind, RawMessage, quiet_netns};

use crate::chance::one_in;
use crate::machine::{Machine, Reply};
use crate::message::{Message, again};

/// A part of rtnetlink to compare.
pub(crate) trait Domain {
    fn name(&self) -> &'static str;

    /// Returns the messages that fill the namespace before the random ones. Each must succeed.
    fn prelude(&self) -> Vec<Message>;

    /// Returns the kinds whose dumps and announcements are compared. Answers are always compared.
    fn kinds(&self) -> &'static [Kind] {
        &Kind::ALL
    }

    /// Returns a random message.
    fn message(&self, rng: &mut fastrand::Rng) -> Message;

    /// Returns a kind of message: one third of those messages repeat an earlier one in another
    /// form.
    fn repeated(&self) -> Kind;

    /// Returns true if the kernel's answer does not depend on chance, and the model claims to know
    /// it.
    fn is_modelled(&self, _message: &Message) -> bool {
        true
    }

    /// Returns `length` random messages, all modelled.
    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        let mut all = Vec::<Message>::new();
        while all.len() < length {
            let repeated = one_in(rng, 3).then(|| again(rng, &all, self.repeated())).flatten();
            let message = repeated.unwrap_or_else(|| self.message(rng));
            // A marker under a number unknown to the kernel, as `mask` sends it.
            let is_masked = message.kind & 3 < 2 && one_in(rng, 20);
            let markers = [Kind::Address, Kind::Neighbour, Kind::Rule];
            let message = match markers.iter().any(|it| it.new_type() == message.kind & !3) {
                true if is_masked => message.with(0x2000 + rng.u16(1..30), [4]),
                _ => message,
            };
            if self.is_modelled(&message) {
                all.push(message);
            }
        }
        all
    }
}

/// The first disagreement: the number of messages before it, and a description.
pub(crate) struct Disagreement {
    pub(crate) after: usize,
    pub(crate) how: String,
}

/// Sends a sequence to both, each with a fresh namespace, and returns their first disagreement.
pub(crate) fn disagreement(
    domain: &dyn Domain,
    messages: &[Message],
    model: &dyn Fn() -> Kernel,
) -> Option<Disagreement> {
    quiet_netns();
    Machine::new(&Namespace::current()).forget_proxies();
    let mut real = Machine::new(&Namespace::current());
    let mut model = Machine::new(&model().namespace());
    for message in domain.prelude() {
        for machine in [&mut real, &mut model] {
            let reply = machine.send(&message);
            assert_eq!(reply.errno, 0, "{message}: {reply:?}");
        }
        // The kernel reports simultaneous carriers in any order, and so the routes that follow.
        real.settle();
    }
    let kinds = domain.kinds();
    let how = compare(&mut real, &mut model, kinds);
    if how.is_some() {
        return how.map(|how| Disagreement { after: 0, how });
    }
    for (position, message) in messages.iter().enumerate() {
        let (theirs, ours) = (real.send(message), model.send(message));
        let how = replies(&theirs, &ours).or_else(|| compare(&mut real, &mut model, kinds));
        if let Some(how) = how {
            return Some(Disagreement { after: position + 1, how });
        }
    }
    None
}

/// Removes messages as long as the sequence still disagrees; returns the rest and the disagreement.
pub(crate) fn shrunk(
    domain: &dyn Domain,
    mut messages: Vec<Message>,
    first: Disagreement,
    model: &dyn Fn() -> Kernel,
) -> (Vec<Message>, String) {
    messages.truncate(first.after);
    let mut how = first.how;
    let mut at = messages.len();
    while at > 0 {
        at -= 1;
        let mut fewer = messages.clone();
        fewer.remove(at);
        if let Some(found) = disagreement(domain, &fewer, model) {
            fewer.truncate(found.after);
            messages = fewer;
            how = found.how;
            at = at.min(messages.len());
        }
    }
    (messages, how)
}

fn replies(theirs: &Reply, ours: &Reply) -> Option<String> {
    let head = |reply: &Reply| (reply.errno, reply.is_done, reply.flags);
    match head(theirs) == head(ours) {
        true => rows("reply", &theirs.rows, &ours.rows),
        false => Some(format!("reply: kernel {:?}, model {:?}", head(theirs), head(ours))),
    }
}

/// Compares all dumps, and the announcements as a multiset: their order among objects is not
/// promised.
fn compare(real: &mut Machine, model: &mut Machine, kinds: &[Kind]) -> Option<String> {
    real.settle();
    let (mut theirs, mut ours) = (real.announced(), model.announced());
    for announced in [&mut theirs, &mut ours] {
        announced.retain(|message| kinds.contains(&message.kind));
        announced.sort();
    }
    rows("announced", &theirs, &ours)
        .or_else(|| rows("dumps", &real.everything(kinds), &model.everything(kinds)))
}

/// Describes the rows that only one side has.
fn rows(what: &str, theirs: &[RawMessage], ours: &[RawMessage]) -> Option<String> {
    let mut left: Vec<_> = theirs.to_vec();
    let mut extra = Vec::new();
    for row in ours {
        match left.iter().position(|other| other == row) {
            Some(at) => {
                left.swap_remove(at);
            }
            None => extra.push(row),
        }
    }
    let mut how = String::new();
    for row in left {
        let _infallible = writeln!(how, "{what}: only the kernel has {row}");
    }
    for row in extra {
        let _infallible = writeln!(how, "{what}: only the model has  {row}");
    }
    (!how.is_empty()).then_some(how)
}
