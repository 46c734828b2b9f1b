//! Whole passes over a kernel and a ledger that say anything. What a pass may touch is worked out here a second time, as
//! plainly as can be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use trueup_cli::file::{File, Tables};
use trueup_diff::{Item as _, Kind};
use trueup_netlink::codec;
use trueup_netlink::wire::{Header, NLM_F_ACK, NLM_F_DUMP, NLM_F_EXCL};
use trueup_reconcile::{Claim, Ledger as _, MemoryLedger, Report as _, Source as _};
use trueup_rtnl::{OnConflict, Options, Ownership, Report, Rtnl};

use crate::script::{self, messages};
use crate::socket::answer_dump;

/// A file, a NUL, and a stream of messages as what the kernel holds: a whole pass. Every change is
/// acknowledged and none comes about.
///
/// The pass ends, its report counts every op once, and nothing that is a stranger's is touched.
pub fn pass(data: &[u8]) {
    let Some(case) = Case::read(data) else { return };
    let none = MemoryLedger::default();
    let Some((report, sent)) = case.run(&none, Claims::default()) else {
        return;
    };
    let ops = report.applied().count() + report.failed().count() + report.pending().count();
    assert_eq!(report.ops().count(), ops, "one outcome for each");
    // Nothing comes about, so what there was to do is still to be done.
    let nothing = ops == 0 && report.conflicts().is_empty() && report.doubts().is_empty();
    assert_eq!(report.converged(), nothing, "{report:?}");
    assert!(sent >= report.applied().count());
    let again = case.run(&none, Claims::default());
    let again = again.expect("the same input");
    let all = |report: &Report| {
        let ops = report.ops();
        ops.map(|done| (done.op.clone(), done.outcome.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        all(&again.0),
        all(&report),
        "the same input gives the same ops"
    );
    assert_eq!(again.0.conflicts(), report.conflicts());
}

/// A ledger, a NUL, and then as of [`pass`]. A line of the ledger is a key, a tab and a record; one that begins with `?` is an
/// intent, and one with `-` the key of something that was to be removed.
///
/// A ledger of which a part cannot be read, or contradicts itself, ends the pass before it changes anything. Otherwise only
/// what bears our marker is touched, or what a record is about and is still as it was recorded.
pub fn ledger(data: &[u8]) {
    let Some((ledger, case)) = halves(data) else {
        return;
    };
    let Some(case) = Case::read(case) else { return };
    let mut owned = BTreeMap::new();
    let mut open = BTreeMap::new();
    for line in ledger
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
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
    let records = owned.iter().map(|(key, record)| (key, Some(record)));
    let intents = open.iter().map(|(key, claim)| match claim {
        Claim::Ours(record) => (key, Some(record)),
        Claim::NotOurs => (key, None),
    });
    let claims = records.chain(intents).map(|(key, record)| {
        let key = serde_json::from_slice(key).ok()?;
        let record: Value = match record {
            Some(record) => serde_json::from_slice(record).ok()?,
            None => Value::Null,
        };
        (record.is_null() || is_about(&record["object"], &key)).then_some((key, record))
    });
    let claims: Option<Claims> = claims.collect();
    let mut recorded = MemoryLedger::default();
    let owned = owned
        .into_iter()
        .map(|(key, record)| (key, Claim::Ours(record)));
    recorded.settle(owned.collect()).expect("it is memory");
    recorded.begin(open).expect("nothing is open yet");
    let readable = claims.is_some();
    let ran = case.run(&recorded, claims.unwrap_or_default());
    assert!(readable || ran.is_none(), "it cannot have been read");
}

/// Whether a record is of the kind of object that its key says. Links are told by name and index in both.
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

/// Keys and what was last applied to them, or meant to be.
type Claims = Vec<(Value, Value)>;

/// What is declared, and what the kernel holds.
struct Case {
    file: File,
    options: Options,
    stream: Arc<[u8]>,
}

fn halves(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = data.iter().position(|byte| *byte == 0)?;
    Some((&data[..end], &data[end + 1..]))
}

impl Case {
    fn read(data: &[u8]) -> Option<Case> {
        let (text, stream) = halves(data)?;
        let file = File::parse("fuzzed", text, &Tables::default()).ok()?;
        let options = file.settings.options(Duration::ZERO).ok()?;
        let stream = stream.into();
        Some(Case {
            file,
            options,
            stream,
        })
    }

    /// Runs a pass. What it sends is held against the claims. The report, and how much was sent.
    fn run(&self, ledger: &MemoryLedger, claims: Claims) -> Option<(Report, usize)> {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let (given, options) = (Arc::clone(&self.stream), self.options);
        let namespace = script::namespace(move |request: &Header, body: &[u8]| {
            // That includes what the kernel is asked about its markers.
            if request.flags & NLM_F_DUMP == NLM_F_DUMP {
                return answer_dump(&given, request, body);
            }
            count.fetch_add(1, Ordering::Relaxed);
            assert!(
                is_allowed(&given, request, body, &options, &claims),
                "{request:?} {body:?}"
            );
            if request.flags & NLM_F_ACK == 0 {
                return Vec::new();
            }
            vec![script::acknowledgement(request.sequence)]
        });
        let mut ledger = ledger.clone();
        let desired = &self.file.desired;
        let report = Rtnl::new().reconcile(&namespace, desired, &mut ledger, &self.options);
        Some((report.ok()?, sent.load(Ordering::Relaxed)))
    }
}

/// Whether a change touches only what is ours by its marker or by a record, or is not there. What is taken is somebody
/// else's, and in its place.
fn is_allowed(
    stream: &[u8],
    request: &Header,
    body: &[u8],
    options: &Options,
    claims: &Claims,
) -> bool {
    let (rows, _) = messages(stream);
    let rows = |new| {
        rows.iter()
            .filter(move |row| row.header.kind == new)
            .map(|row| row.body)
    };
    let makes = request.flags & NLM_F_EXCL != 0;
    let deletes = request.kind & 3 == 1;
    let takes = options.on_conflict() == OnConflict::Take && !deletes;
    let is_named = |index: u64, name: &Value| {
        let links = rows(codec::link::NEW).filter_map(|row| codec::link::decode(row).ok()?);
        links
            .map(|link| link.link)
            .any(|link| u64::from(link.index) == index && json!(link.name) == *name)
    };
    /// Whether the object of the request, if it can be told, is one of the rows, and ours.
    macro_rules! is_ours {
        ($decode:path, $new:path, $kind:expr) => {{
            let asked = $decode(body).ok().flatten().expect("we wrote it");
            let key = asked.key();
            let by_marker = options.ownership($kind) != Some(Ownership::Ledger);
            let is_claimed = |protocol: u8| {
                claims.iter().any(|(about, record)| {
                    let about = &about[$kind.name()];
                    let is_it = match about.get("name") {
                        Some(name) => {
                            let index = about["key"]["dev"].as_u64().unwrap_or(0);
                            about["key"] == json!(key) && is_named(index, name)
                        }
                        None => *about == json!(key),
                    };
                    is_it && record["object"][$kind.name()]["protocol"] == json!(protocol)
                })
            };
            rows($new)
                .filter_map(|row| $decode(row).ok().flatten())
                .filter(|row| row.key() == key)
                .any(|row| {
                    takes
                        || by_marker && row.protocol == options.protocol()
                        || is_claimed(row.protocol)
                })
        }};
    }
    use codec::{address, link, neighbour, route, rule};
    match request.kind {
        route::NEW | address::NEW | neighbour::NEW | rule::NEW if makes => true,
        route::NEW | route::DELETE => is_ours!(route::decode, route::NEW, Kind::Route),
        rule::NEW | rule::DELETE => is_ours!(rule::decode, rule::NEW, Kind::Rule),
        address::NEW | address::DELETE => {
            is_ours!(address::decode, address::NEW, Kind::Address)
        }
        neighbour::NEW | neighbour::DELETE => {
            is_ours!(neighbour::decode, neighbour::NEW, Kind::Neighbour)
        }
        // What must exist is set up, whosever it is.
        link::NEW | link::GET => true,
        link::DELETE => {
            let index = body.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
            let index = u64::from(index.map_or(0, |bytes| u32::from_ne_bytes(*bytes)));
            claims.iter().any(|(about, record)| {
                let about = &about["link"];
                let is_it = about["index"] == json!(index) && is_named(index, &about["name"]);
                // What was taken is given back.
                is_it && record.get("former").is_none()
            })
        }
        _ => false,
    }
}
