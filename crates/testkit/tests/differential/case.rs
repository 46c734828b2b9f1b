//! One sequence on both machines, and the fewest messages that still disagree.

use std::fmt::Write as _;

use trueup_netlink::Namespace;
use trueup_testkit::fake::Kernel;
use trueup_testkit::{Kind, RawMessage, quiet_netns};

use crate::chance::one_in;
use crate::machine::{Machine, Reply};
use crate::message::{Message, again};

/// A part of rtnetlink to be compared.
pub(crate) trait Domain {
    fn name(&self) -> &'static str;

    /// What the namespace holds before the first random message. Each of these has to succeed.
    fn prelude(&self) -> Vec<Message>;

    /// The kinds whose dumps and announcements are compared. Answers always are.
    fn kinds(&self) -> &'static [Kind] {
        &Kind::ALL
    }

    /// A random message.
    fn message(&self, rng: &mut fastrand::Rng) -> Message;

    /// Random messages.
    fn sequence(&self, rng: &mut fastrand::Rng, length: usize) -> Vec<Message> {
        (0..length).map(|_| self.message(rng)).collect()
    }
}

/// A domain's messages, a third of those of its own kind in a form of one sent before; those that
/// `keep` wants.
pub(crate) fn with_repeats(
    domain: &dyn Domain,
    rng: &mut fastrand::Rng,
    length: usize,
    kind: Kind,
    keep: fn(&Message) -> bool,
) -> Vec<Message> {
    let mut all = Vec::<Message>::new();
    while all.len() < length {
        let own: Vec<_> = all
            .iter()
            .filter(|message| message.kind & !3 == kind.new_type())
            .cloned()
            .collect();
        let repeated = one_in(rng, 3).then(|| again(rng, &own)).flatten();
        let message = repeated.unwrap_or_else(|| domain.message(rng));
        if keep(&message) {
            all.push(message);
        }
    }
    all
}

/// Where the two disagree: after how many messages, and how.
pub(crate) struct Disagreement {
    pub(crate) after: usize,
    pub(crate) how: String,
}

/// Sends a sequence to both, each with a fresh namespace.
pub(crate) fn disagreement(
    domain: &dyn Domain,
    messages: &[Message],
    fake: &dyn Fn() -> Kernel,
) -> Option<Disagreement> {
    quiet_netns();
    Machine::new(&Namespace::current()).forget_proxies();
    let mut real = Machine::new(&Namespace::current());
    let mut fake = Machine::new(&fake().namespace());
    for message in domain.prelude() {
        for machine in [&mut real, &mut fake] {
            let reply = machine.send(&message);
            assert_eq!(reply.errno, 0, "{message}: {reply:?}");
        }
        // Carriers that come together are reported in any order, and so are the routes that follow.
        real.settle();
    }
    let kinds = domain.kinds();
    let how = compare(&mut real, &mut fake, kinds);
    if how.is_some() {
        return how.map(|how| Disagreement { after: 0, how });
    }
    for (position, message) in messages.iter().enumerate() {
        let (theirs, ours) = (real.send(message), fake.send(message));
        let how = replies(&theirs, &ours).or_else(|| compare(&mut real, &mut fake, kinds));
        if let Some(how) = how {
            return Some(Disagreement {
                after: position + 1,
                how,
            });
        }
    }
    None
}

/// Takes messages out as long as the disagreement stays, and tells it.
pub(crate) fn shrunk(
    domain: &dyn Domain,
    mut messages: Vec<Message>,
    first: Disagreement,
    fake: &dyn Fn() -> Kernel,
) -> (Vec<Message>, String) {
    messages.truncate(first.after);
    let mut how = first.how;
    let mut at = messages.len();
    while at > 0 {
        at -= 1;
        let mut fewer = messages.clone();
        fewer.remove(at);
        if let Some(found) = disagreement(domain, &fewer, fake) {
            fewer.truncate(found.after);
            messages = fewer;
            how = found.how;
            at = at.min(messages.len());
        }
    }
    (messages, how)
}

/// The kernel's words differ from version to version: they are compared where the fake has any.
fn replies(theirs: &Reply, ours: &Reply) -> Option<String> {
    let words = ours.words.is_none() || ours.words == theirs.words;
    if theirs.errno == ours.errno && words {
        let rows = rows("reply", &theirs.rows, &ours.rows);
        if rows.is_some() || (theirs.done, theirs.flags) == (ours.done, ours.flags) {
            return rows;
        }
    }
    let tell = |reply: &Reply| {
        let (rows, end) = reply.flags;
        let kind = if reply.done { "done" } else { "error" };
        let Reply { errno, words, .. } = reply;
        format!("errno {errno} {words:?} in {kind}, flags {rows:#x} and {end:#x}")
    };
    Some(format!(
        "reply: kernel {}, fake {}",
        tell(theirs),
        tell(ours)
    ))
}

/// Announcements as a multiset, as the order among objects is not promised; and all dumps.
fn compare(real: &mut Machine, fake: &mut Machine, kinds: &[Kind]) -> Option<String> {
    real.settle();
    let (mut theirs, mut ours) = (real.announced(), fake.announced());
    for announced in [&mut theirs, &mut ours] {
        announced.retain(|message| kinds.contains(&message.kind));
        announced.sort();
    }
    rows("announced", &theirs, &ours)
        .or_else(|| rows("dumps", &real.everything(kinds), &fake.everything(kinds)))
}

/// The rows that only one side has.
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
        let _infallible = writeln!(how, "{what}: only the fake has  {row}");
    }
    (!how.is_empty()).then_some(how)
}
