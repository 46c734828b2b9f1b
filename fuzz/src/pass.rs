//! Whole passes with a kernel and a ledger that return anything. The objects that a pass may touch
//! are computed a second time here, as simply as possible.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trueup_file::{File, Settings, TableNames};
use trueup_net::{Address, Kind, Neighbour, ObjectKind as _, Route, Rule};
use trueup_netlink::Namespace;
use trueup_netlink::codec::{self, KindCodec as _};
use trueup_netlink::wire::{Attrs, Header, NLA_TYPE_MASK, NLM_F_ACK, NLM_F_DUMP, NLM_F_EXCL};
use trueup_reconcile::{Claim, Ledger as _, MemoryLedger, PassInput, Report as _, Source as _};
use trueup_rtnl::{Options, Ownership, Report, Rtnl};

use crate::script::{self, messages};
use crate::socket::answer_dump;

/// A file, a NUL, and a stream of messages as the kernel's content: a whole pass. Every change is
/// acknowledged and none takes effect. It runs on two kernels, with and without markers of
/// addresses and neighbours.
///
/// The pass ends, its report counts every op once, and no object of another writer is touched.
pub fn pass(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let none = MemoryLedger::default();
    for stores in [true, false] {
        case.check(&none, stores);
    }
}

impl Case {
    fn check(&self, none: &MemoryLedger, stores: bool) {
        let Some((report, sent)) = self.run(none, Claims::default(), stores) else {
            return;
        };
        let ops = report.applied().count()
            + report.failed().count()
            + report.declined().count()
            + report.pending().count();
        assert_eq!(report.ops().count(), ops, "one outcome for each");
        // No change takes effect, so everything is still to be done.
        let nothing = ops == 0 && report.conflicts().is_empty() && report.doubts().is_empty();
        assert_eq!(report.converged(), nothing, "{report:?}");
        assert!(sent >= report.applied().count());
        let again = self.run(none, Claims::default(), stores).expect("the same input");
        let all = |report: &Report| {
            let ops = report.ops();
            ops.map(|done| (done.op.clone(), done.outcome.clone())).collect::<Vec<_>>()
        };
        assert_eq!(all(&again.0), all(&report), "the same input gives the same ops");
        assert_eq!(again.0.conflicts(), report.conflicts());
    }
}

/// A ledger, a NUL, and then as for [`pass`]. A line of the ledger is a key, a tab and a record; a
/// line that begins with `?` is an intent, and one with `-` the key of an intended removal.
///
/// If part of a ledger cannot be read, or contradicts itself, the pass ends before it changes
/// anything. Otherwise it only touches objects with our marker, and objects that are still as
/// recorded.
pub fn ledger(data: &[u8]) {
    let Some((ledger, case)) = halves(data) else {
        return;
    };
    let Some(case) = Case::read(case) else { return };
    let mut owned = BTreeMap::new();
    let mut open = BTreeMap::new();
    for line in ledger.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let pair = |line: &[u8]| {
            let mut parts = line.splitn(2, |byte| *byte == b'\t').map(<[u8]>::to_vec);
            let key = parts.next().unwrap_or_default();
            (key, parts.next().unwrap_or_default())
        };
        match line {
            [b'?', intent @ ..] => {
                let (key, record) = pair(intent);
                open.insert(key, Claim::Ours(record));
            }
            [b'-', key @ ..] => drop(open.insert(key.to_vec(), Claim::NotOurs)),
            _ => {
                let (key, record) = pair(line);
                owned.insert(key, record);
            }
        }
    }
    let records = owned.iter().map(|(key, record)| (key, Some(record), false));
    let intents = open.iter().map(|(key, claim)| match claim {
        Claim::Ours(record) => (key, Some(record), true),
        Claim::NotOurs => (key, None, true),
    });
    let claims = records.chain(intents).map(|(key, record, is_open)| {
        let about = serde_json::from_slice(key).ok()?;
        let record: Value = match record {
            Some(record) => serde_json::from_slice(record).ok()?,
            None => Value::Null,
        };
        let fits = record.is_null() || is_about(&record["object"], &about);
        fits.then_some(Entry { about, record, is_open })
    });
    let claims: Option<Claims> = claims.collect();
    let mut recorded = MemoryLedger::default();
    let ours = owned.into_iter().map(|(key, record)| (key, Claim::Ours(record)));
    recorded.commit_outcomes(ours.collect()).expect("it is memory");
    recorded.begin(open).expect("nothing is open yet");
    let readable = claims.is_some();
    let claims = claims.unwrap_or_default();
    for stores in [true, false] {
        let ran = case.run(&recorded, claims.clone(), stores);
        assert!(readable || ran.is_none(), "it cannot have been read");
    }
}

/// Returns true if a record has the kind of object in its key. Both identify links by name and
/// index.
fn is_about(object: &Value, key: &Value) -> bool {
    let kind = Kind::ALL.map(Kind::name).into_iter();
    let mut both = kind.filter(|kind| key.get(kind).is_some() && object.get(kind).is_some());
    match both.next() {
        Some("link") => ["name", "index"]
            .iter()
            .all(|field| key["link"].get(field) == object["link"].get(field)),
        found => found.is_some(),
    }
}

/// Keys, each with the outcome last applied or intended.
type Claims = Vec<Entry>;

/// An entry of a ledger.
#[derive(Clone)]
struct Entry {
    /// The key, as the object that it names.
    about: Value,
    /// Null for an intended removal.
    record: Value,
    /// True for an intent without an outcome.
    is_open: bool,
}

/// The declared state, and the kernel's content.
struct Case {
    file: File,
    options: Options,
    stream: Arc<[u8]>,
}

/// Returns the options from a file's settings, without a grace. `None` for a reserved protocol,
/// which a parsed file never has.
pub fn options(settings: &Settings) -> Option<Options> {
    let options = Options::default()
        .with_protocol(settings.protocol)
        .ok()?
        .with_adopt(settings.adopt)
        .with_adopt_protocols(settings.adopt_protocols)
        .with_take(settings.take)
        .with_grace(settings.grace.unwrap_or(Duration::ZERO));
    let each = settings.ownership.iter();
    Some(each.fold(options, |options, (kind, proof)| options.with_ownership(*kind, *proof)))
}

fn halves(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = data.iter().position(|byte| *byte == 0)?;
    Some((&data[..end], &data[end + 1..]))
}

impl Case {
    fn read(data: &[u8]) -> Option<Case> {
        let (text, stream) = halves(data)?;
        let file = File::parse("fuzzed", text, &TableNames::default()).ok()?;
        let options = options(&file.settings)?;
        let stream = stream.into();
        Some(Case { file, options, stream })
    }

    /// Runs a pass on a kernel that `stores` all markers, or not, and checks its messages against
    /// the claims. Returns the report, and the number of messages.
    fn run(&self, ledger: &MemoryLedger, claims: Claims, stores: bool) -> Option<(Report, usize)> {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let case = Allowed {
            stream: Arc::clone(&self.stream),
            options: self.options.clone(),
            claims,
            stores,
        };
        let namespace = case.kernel(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let mut ledger = ledger.clone();
        let desired = &self.file.desired;
        let report =
            Rtnl::new().reconcile(PassInput::new(&namespace, desired, &mut ledger, &self.options));
        Some((report.ok()?, sent.load(Ordering::Relaxed)))
    }
}

/// Returns the error text of a kernel with strict checking and markers, for the dumps that ask
/// about markers.
fn words_on_markers(request: &Header, body: &[u8]) -> Option<&'static str> {
    let (fixed, marker) = match request.kind {
        codec::address::GET => (8, 11),
        codec::neighbour::GET => (12, 12),
        _ => return None,
    };
    match Attrs::new(body.get(fixed..)?).next()? {
        (number, [0]) if number == marker => Some("Unsupported attribute in dump request"),
        (NLA_TYPE_MASK, [0]) => Some("Unknown attribute type"),
        _ => None,
    }
}

/// The objects that may be changed.
struct Allowed {
    stream: Arc<[u8]>,
    options: Options,
    claims: Claims,
    stores: bool,
}

impl Allowed {
    /// Returns the kernel, which calls `changes` for each requested change.
    fn kernel(self, changes: impl Fn() + Send + Sync + 'static) -> Namespace {
        script::namespace(move |request: &Header, body: &[u8]| {
            if request.flags & NLM_F_DUMP == NLM_F_DUMP {
                let refused = words_on_markers(request, body).filter(|_| self.stores);
                return match refused {
                    Some(words) => vec![script::refusal(request.sequence, words)],
                    None => answer_dump(&self.stream, request, body),
                };
            }
            // A request to listen: only we make changes. Or a request that only reads.
            if request.kind == 0 {
                return Vec::new();
            }
            if request.kind & 3 == 2 {
                return vec![script::acknowledgement(request.sequence)];
            }
            changes();
            assert!(self.is_allowed(request, body), "{request:?} {body:?}");
            if request.flags & NLM_F_ACK == 0 {
                return Vec::new();
            }
            vec![script::acknowledgement(request.sequence)]
        })
    }

    /// Returns true if the changed object is ours by its marker or a record, or does not exist. An
    /// overridden object is another writer's with the same key.
    fn is_allowed(&self, request: &Header, body: &[u8]) -> bool {
        let (rows, _) = messages(&self.stream);
        let rows = |new| rows.iter().filter(move |row| row.header.kind == new).map(|row| row.body);
        let makes = request.flags & NLM_F_EXCL != 0;
        let deletes = request.kind & 3 == 1;
        let takes = self.options.take() && !deletes;
        let is_named = |index: u64, name: &Value| {
            let mut links =
                rows(codec::link::NEW).filter_map(|row| codec::link::decode(row).ok()?);
            links.any(|(link, _)| u64::from(link.index) == index && json!(link.name) == *name)
        };
        /// Returns true if the request's object, as far as known, is one of the rows, and ours.
        macro_rules! is_ours {
            ($decode:path, $new:path, $kind:expr) => {{
                let asked = $decode(body).ok().flatten().expect("we wrote it");
                let key = asked.key();
                let stored = self.stores || !matches!($kind, Kind::Address | Kind::Neighbour);
                let by_marker = stored && self.options.ownership($kind) != Some(Ownership::Ledger);
                let is_claimed = |protocol: u8| {
                    self.claims.iter().any(|entry| {
                        let about = &entry.about[$kind.name()];
                        let is_it = match about.get("name") {
                            Some(name) => {
                                let index = about["key"]["dev"].as_u64().unwrap_or(0);
                                about["key"] == json!(key) && is_named(index, name)
                            }
                            None => *about == json!(key),
                        };
                        let recorded = &entry.record["object"][$kind.name()]["protocol"];
                        // This kernel does not store the intended marker.
                        let unmarked = entry.is_open && !stored && protocol == 0;
                        is_it && (*recorded == json!(protocol) || unmarked)
                    })
                };
                rows($new)
                    .filter_map(|row| $decode(row).ok().flatten())
                    .filter(|row| row.key() == key)
                    .any(|row| {
                        takes
                            || by_marker && row.protocol == self.options.protocol()
                            || is_claimed(row.protocol)
                    })
            }};
        }
        use codec::{address, link, neighbour, route, rule};
        match request.kind {
            route::NEW | address::NEW | neighbour::NEW | rule::NEW if makes => true,
            route::NEW | route::DELETE => is_ours!(Route::decode, route::NEW, Kind::Route),
            rule::NEW | rule::DELETE => is_ours!(Rule::decode, rule::NEW, Kind::Rule),
            address::NEW | address::DELETE => {
                is_ours!(Address::decode, address::NEW, Kind::Address)
            }
            neighbour::NEW | neighbour::DELETE => {
                is_ours!(Neighbour::decode, neighbour::NEW, Kind::Neighbour)
            }
            // A link that must exist may be anyone's, and is set up.
            link::NEW | link::GET => true,
            link::DELETE => {
                let index = body.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
                let index = u64::from(index.map_or(0, |bytes| u32::from_ne_bytes(*bytes)));
                self.claims.iter().any(|entry| {
                    let about = &entry.about["link"];
                    let is_it = about["index"] == json!(index) && is_named(index, &about["name"]);
                    // An overridden link is restored, not deleted.
                    is_it && entry.record.get("former").is_none()
                })
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_net::Kind;
    use trueup_netlink::{Socket, marker};

    #[test]
    fn a_kernel_that_stores_markers_is_known_as_such() {
        for stores in [true, false] {
            let case = Allowed {
                stream: Arc::default(),
                options: Options::default(),
                claims: Claims::default(),
                stores,
            };
            let mut socket = Socket::open(&case.kernel(|| {})).unwrap();
            for kind in [Kind::Address, Kind::Neighbour] {
                assert_eq!(marker(&mut socket, kind).unwrap(), Some(stores));
            }
        }
    }
}
