//! An address as a vertex: a group of them takes one dump and one batch.

use std::any::Any;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ipnetwork::IpNetwork;
use trueup_graph::{Failure, RunContext, Verdict, Vertex};
use trueup_net::{Address, Dev};
use trueup_netlink::codec::{self, KindCodec as _, ReadScope, existing};
use trueup_netlink::{Batch, DumpStep, Namespace, Socket};
use trueup_reconcile::ErrorClass;

const NEWADDR: u16 = 20;

/// The numbers of dumps requested and of batches sent.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) dumps: Arc<AtomicUsize>,
    pub(crate) batches: Arc<AtomicUsize>,
}

/// An address, present on a device or not.
pub(crate) struct OneAddress {
    namespace: Namespace,
    address: Address,
    counts: Counts,
}

impl OneAddress {
    /// Makes a vertex for an address of a device in the calling thread's namespace.
    pub(crate) fn new(device: u32, address: Ipv4Addr, counts: &Counts) -> Self {
        let address = IpNetwork::new(IpAddr::V4(address), 24).unwrap();
        OneAddress {
            namespace: Namespace::current(),
            address: Address::new(Dev::index(device), address),
            counts: counts.clone(),
        }
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::Unknown, error)
}

fn is_there(all: &[Address], one: &Address) -> bool {
    let key = (&one.dev, one.address);
    all.iter().any(|it| (&it.dev, it.address) == key)
}

fn dump(socket: &mut Socket, counts: &Counts) -> Result<Vec<Address>, Failure> {
    counts.dumps.fetch_add(1, Ordering::SeqCst);
    let of_inet = Address::dumps(&ReadScope::whole(), false).remove(0);
    let mut all = Vec::new();
    let dump = socket.dump(&of_inet.request, |step| match step {
        DumpStep::Begin => all.clear(),
        DumpStep::Message(message) if message.header.kind == NEWADDR => {
            all.extend(Address::decode(message.body).ok().flatten());
        }
        _ => {}
    });
    let whole = dump.and_then(trueup_netlink::Dump::whole);
    whole.map(|_| all).map_err(failure)
}

/// Adds addresses, or with `is_reversed` deletes them, and returns a result for each.
fn plan(
    addresses: &[&OneAddress],
    apply: bool,
    is_reversed: bool,
) -> Result<Vec<Result<Verdict, Failure>>, Failure> {
    let Some(OneAddress { namespace, counts, .. }) = addresses.first() else {
        return Ok(Vec::new());
    };
    let mut socket = Socket::open(namespace).map_err(failure)?;
    let all = dump(&mut socket, counts)?;
    let is_wrong = |it: &&OneAddress| is_there(&all, &it.address) == is_reversed;
    let mut batch = Batch::new();
    if apply {
        for it in addresses.iter().copied().filter(|it| is_wrong(it)) {
            let push = |buffer: &mut Vec<u8>| match is_reversed {
                false => codec::create(buffer, &it.address, &existing),
                true => codec::delete(buffer, &it.address, &existing),
            };
            let _index = batch.push(push).map_err(failure)?;
        }
    }
    let mut outcomes = Vec::new();
    if !batch.is_empty() {
        counts.batches.fetch_add(1, Ordering::SeqCst);
        outcomes = socket.send_batch(&mut batch).map_err(failure)?;
    }
    let mut outcomes = outcomes.into_iter();
    let results = addresses.iter().map(|it| match (is_wrong(it), apply) {
        (false, _) => Ok(Verdict::InPlace),
        (true, false) => Ok(Verdict::WouldChange),
        (true, true) => match outcomes.next() {
            Some(Some(Ok(()))) => Ok(Verdict::Changed),
            Some(Some(Err(error))) => Err(failure(error)),
            _ => Err(failure("the answer was lost")),
        },
    });
    Ok(results.collect())
}

fn alone(vertex: &OneAddress, apply: bool, is_reversed: bool) -> Result<Verdict, Failure> {
    let results = plan(&[vertex], apply, is_reversed)?;
    results.into_iter().next().unwrap()
}

impl Vertex for OneAddress {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        alone(self, apply, false)
    }

    fn check_apply_group(
        &mut self,
        others: &mut [&mut dyn Vertex],
        _: &[RunContext],
        apply: bool,
    ) -> Option<Vec<Result<Verdict, Failure>>> {
        let mut all = vec![&*self];
        for other in others {
            let other: &dyn Any = &**other;
            all.push(other.downcast_ref()?);
        }
        Some(match plan(&all, apply, false) {
            Ok(results) => results,
            Err(failure) => vec![Err(failure); all.len()],
        })
    }

    fn reverse(&mut self, _: &RunContext) -> Result<Verdict, Failure> {
        alone(self, true, true)
    }
}
