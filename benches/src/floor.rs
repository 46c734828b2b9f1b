//! The floor: the same messages, encoded beforehand and sent in batches; dumps read and not looked
//! at. No program that asks the kernel for the same can be faster by more than noise.

use anyhow::{Result, ensure};
use trueup_diff::{Dev, Family, NextHop, NextHops, Route, Rule};
use trueup_netlink::{Batch, DumpStep, Namespace, Outcome, Push, Socket, codec};
use trueup_rtnl::DEFAULT_PROTOCOL;

use crate::prefixes::Prefixes;
use crate::state;

/// Puts one message into a buffer.
type Encode<'a> = dyn Fn(&mut Vec<u8>) -> Result<(), codec::EncodeError> + 'a;

/// Encodes the messages that create or delete a state, in the order of a plan: rules come last and
/// go first.
///
/// # Errors
///
/// When a message cannot be encoded.
pub fn encode(prefixes: &Prefixes, rules: usize, create: bool) -> Result<Vec<Batch>> {
    let resolve = |dev: Dev| dev.as_index();
    let mut batches = vec![Batch::new()];
    let mut push = |encode: &Encode<'_>| -> Result<()> {
        if let Some(last) = batches.last_mut()
            && last.push(encode)? == Push::Added
        {
            return Ok(());
        }
        let mut batch = Batch::new();
        ensure!(
            batch.push(encode)? == Push::Added,
            "an empty batch takes a message"
        );
        batches.push(batch);
        Ok(())
    };
    let mut rules: Vec<Rule> = state::rules(rules).collect();
    if create {
        // The order in which the kernel is quick with them.
        rules.reverse();
    }
    let mut push_rules = |push: &mut dyn FnMut(&Encode<'_>) -> Result<()>| -> Result<()> {
        for rule in &mut rules {
            rule.protocol = DEFAULT_PROTOCOL;
            push(&|buffer| {
                if create {
                    codec::rule::create(buffer, rule)
                } else {
                    codec::rule::delete(buffer, rule)
                }
            })?;
        }
        Ok(())
    };
    if !create {
        push_rules(&mut push)?;
    }
    for (prefix, via) in state::routes(prefixes) {
        let mut route = Route::new(prefix, NextHops::One(NextHop::via(via))).canonical();
        route.protocol = DEFAULT_PROTOCOL;
        push(&|buffer| {
            if create {
                codec::route::create(buffer, &route, &resolve)
            } else {
                codec::route::delete(buffer, &route, &resolve)
            }
        })?;
    }
    if create {
        push_rules(&mut push)?;
    }
    Ok(batches)
}

/// Sends them all, and gives their number.
///
/// # Errors
///
/// When any of them is refused.
pub fn send(batches: &mut [Batch]) -> Result<usize> {
    let mut socket = Socket::open(&Namespace::current())?;
    let mut count = 0;
    for batch in batches {
        let outcomes = socket.send_batch(batch)?;
        count += outcomes.len();
        let refused = outcomes.iter().find(|outcome| **outcome != Outcome::Done);
        ensure!(refused.is_none(), "refused: {refused:?}");
    }
    Ok(count)
}

/// Dumps all routes of the marker and all rules, and gives their number.
///
/// # Errors
///
/// When the kernel does not answer.
pub fn read() -> Result<usize> {
    let mut socket = Socket::open(&Namespace::current())?;
    let mut count = 0;
    let filter = codec::route::Filter {
        protocol: Some(DEFAULT_PROTOCOL),
        ..Default::default()
    };
    for family in [Family::Inet, Family::Inet6] {
        for routes in [true, false] {
            let mut request = Vec::new();
            if routes {
                codec::route::dump_request(&mut request, family, &filter)?;
            } else {
                codec::rule::dump_request(&mut request, family)?;
            }
            let dump = socket.dump(&request, |step| {
                count += usize::from(matches!(step, DumpStep::Message(_)));
            })?;
            ensure!(dump.complete, "interrupted");
        }
    }
    Ok(count)
}
