//! Sections that another crate reads: their elements, with locations.

use serde::de::DeserializeOwned;
use serde_json::{Map, Number};

use crate::error::Diagnostic;
use crate::file::File;
use crate::location::{Cursor, Location};
use crate::section::Elements;
use crate::tables::TableNames;
use crate::value::{Node, Result, Value};

/// An element of a section that another crate reads: see [`File::parse_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnElement {
    /// Where it begins.
    pub location: Location,
    /// Its keys and values.
    value: serde_json::Value,
}

impl OwnElement {
    /// Reads its keys and values.
    ///
    /// # Errors
    ///
    /// When a key is missing, or has a value of another sort.
    pub fn read<T: DeserializeOwned>(&self) -> std::result::Result<T, Diagnostic> {
        T::deserialize(&self.value).map_err(|error| self.fault(error.to_string()))
    }

    /// Returns the diagnostic that something is wrong with it.
    pub fn fault(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic { location: Some(self.location), message: message.into() }
    }
}

/// Returns an empty section for each of these names.
pub(crate) fn sections(names: &[&'static str]) -> Vec<Box<dyn Elements>> {
    let sections = names.iter().map(|name| OwnSection { name, elements: Vec::new() });
    sections.map(|section| Box::new(section) as Box<dyn Elements>).collect()
}

struct OwnSection {
    name: &'static str,
    elements: Vec<OwnElement>,
}

impl Elements for OwnSection {
    fn name(&self) -> &'static str {
        self.name
    }

    fn read(
        &mut self,
        value: &Value<'_>,
        _: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let location = cursor.location(value.at);
        let value = json(value)?;
        self.elements.push(OwnElement { location, value });
        Ok(None)
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn declare(self: Box<Self>, file: &mut File) {
        file.own_sections.insert(self.name, self.elements);
    }
}

fn json(value: &Value<'_>) -> Result<serde_json::Value> {
    Ok(match &value.node {
        Node::Text(text) => text.as_ref().into(),
        Node::Integer(number) => (*number).into(),
        Node::Bool(flag) => (*flag).into(),
        Node::Fraction(number) => match Number::from_f64(*number) {
            Some(number) => number.into(),
            None => return value.unexpected("a finite number"),
        },
        Node::List(values) => values.iter().map(json).collect::<Result<Vec<_>>>()?.into(),
        Node::Table(table) => {
            let pairs = table.iter().map(|(key, value)| Ok((key.name.to_string(), json(value)?)));
            pairs.collect::<Result<Map<_, _>>>()?.into()
        }
        Node::Other(_) => return value.unexpected("a value"),
    })
}
