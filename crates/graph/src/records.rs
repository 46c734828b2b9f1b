//! The records of a graph in a ledger: the key is the vertex's name, the value is encoded here.

use std::sync::Arc;

use trueup_reconcile::{Claim, Ledger, LedgerError};

use crate::error::ErrorKind;
use crate::{Error, Record};

/// The first byte of a value.
const VERSION: u8 = 1;

pub(crate) fn read(ledger: &dyn Ledger) -> Result<Vec<(Arc<str>, Record)>, Error> {
    let wrong = |message| Err(Error::new(ErrorKind::Ledger, message));
    let owned = match ledger.owned() {
        Ok(owned) => owned,
        Err(error) => return wrong(format!("the graph's records cannot be read: {error}")),
    };
    let mut records = Vec::with_capacity(owned.len());
    for (key, value) in owned {
        let name = std::str::from_utf8(&key).ok();
        match name.zip(decode(&value)) {
            Some((name, record)) => records.push((name.into(), record)),
            None => {
                return wrong(format!(
                    "the record of vertex {} is not one of a graph; use a ledger of its own",
                    String::from_utf8_lossy(&key)
                ));
            }
        }
    }
    Ok(records)
}

/// Writes records, durable on return, all or none.
pub(crate) fn write(
    ledger: &mut dyn Ledger,
    records: &[(Arc<str>, Record)],
) -> Result<(), LedgerError> {
    let claim = |record: &Record| match *record == Record::default() {
        true => Claim::NotOurs,
        false => Claim::Ours(encode(record)),
    };
    let claims = records.iter();
    let claims = claims.map(|(name, record)| (name.as_bytes().to_vec(), claim(record)));
    ledger.commit_outcomes(claims.collect())
}

fn encode(record: &Record) -> Vec<u8> {
    let mut value = vec![VERSION];
    value.extend(record.refreshes.to_be_bytes());
    for name in &record.intent {
        // A name that is too long for its length cannot be a key of a ledger either.
        value.extend((name.len() as u32).to_be_bytes());
        value.extend(name.as_bytes());
    }
    value
}

fn decode(value: &[u8]) -> Option<Record> {
    let (&version, rest) = value.split_first()?;
    let (refreshes, mut rest) = number(rest).filter(|_| version == VERSION)?;
    let mut intent = Vec::new();
    while !rest.is_empty() {
        let (len, names) = number(rest)?;
        let (name, others) = names.split_at_checked(len as usize)?;
        intent.push(std::str::from_utf8(name).ok()?.into());
        rest = others;
    }
    Some(Record { refreshes, intent })
}

fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written_and_nothing_else_reads_as_one() {
        let names = ["service", "", "ü"].map(Arc::<str>::from);
        for intent in [&names[..0], &names[..1], &names] {
            for refreshes in [0, 1, u32::MAX] {
                let intent = intent.to_vec();
                let record = Record { refreshes, intent };
                let value = encode(&record);
                assert_eq!(decode(&value), Some(record.clone()));
                // A part is an error, or one with fewer names.
                for len in 0..value.len() {
                    assert_ne!(decode(&value[..len]), Some(record.clone()));
                }
            }
        }
        assert_eq!(decode(&[2, 0, 0, 0, 0]), None);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 255, 255, 255, 255, 1]), None);
        assert_eq!(decode(&[1, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]), None);
    }
}
