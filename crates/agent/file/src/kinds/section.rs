//! The section of a kind: its objects.

use std::marker::PhantomData;

use trueup_net::{Desired, ObjectKind, OfKind};

use super::list::{Declared, DesiredList};
use super::object::FileObject;
use crate::element::duplicates;
use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::file::File;
use crate::location::Cursor;
use crate::parse;
use crate::section::{Elements, Output, Unwritable, Written};
use crate::tables::TableNames;
use crate::value::{Result, Table, Value};

/// The objects of the kind `K`, which a desired state holds as `Option<L>`.
pub(crate) struct Objects<K, L: DesiredList> {
    kind: PhantomData<K>,
    declared: Declared<L::Object>,
}

impl<K, L: DesiredList> Default for Objects<K, L> {
    fn default() -> Objects<K, L> {
        Objects { kind: PhantomData, declared: Declared::default() }
    }
}

impl<K: ObjectKind, L: DesiredList> Elements for Objects<K, L>
where
    Desired: OfKind<K, Cell = Option<L>>,
{
    fn name(&self) -> &'static str {
        K::KIND.name()
    }

    fn read(
        &mut self,
        value: &Value<'_>,
        tables: &TableNames,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<bool>> {
        let (object, adopt) = read(value, tables)?;
        if adopt == Some(true) {
            self.declared.adopted.insert(self.declared.objects.len());
        }
        self.declared.objects.push(object);
        self.declared.locations.push(cursor.location(value.at));
        Ok(adopt)
    }

    fn duplicates(&self) -> Vec<Diagnostic> {
        duplicates(&self.declared.objects, &self.declared.locations)
    }

    fn declare(self: Box<Self>, file: &mut File) {
        let desired = &mut file.desired;
        let (list, locations) = L::from_file(K::KIND, self.declared, &mut desired.adopt);
        *OfKind::<K>::of_kind_mut(desired) = Some(list);
        file.locations.objects.insert(K::KIND, locations);
    }

    fn write(&self, desired: &Desired, out: &mut dyn Output) {
        if let Some(list) = OfKind::<K>::of_kind(desired) {
            let tables = TableNames::default();
            let objects = list.objects(K::KIND, &desired.adopt);
            let mut written =
                objects.map(|(object, adopt)| write(&object.authored(), adopt, &tables));
            out.section(K::KIND, &mut written);
        }
    }
}

/// The key of every object by which it becomes ours.
const ADOPT: &str = "adopt";

fn fields<'t, T: FileObject>(
    at: usize,
    table: &'t Table<'t>,
    tables: &'t TableNames,
) -> Result<Fields<'t>> {
    Fields::new(T::WITH_ARTICLE, at, table, &[T::KEYS, &[ADOPT]], tables)
}

/// Reads an object and its `adopt`.
fn read<T: FileObject>(value: &Value<'_>, tables: &TableNames) -> Result<(T, Option<bool>)> {
    let table = value.table(T::WITH_ARTICLE)?;
    let fields = fields::<T>(value.at, table, tables)?;
    Ok((T::read(&fields)?, fields.read(ADOPT, parse::flag)?))
}

/// Writes an object, if reading it back gives the same.
fn write<T: FileObject>(object: &T, adopt: bool, tables: &TableNames) -> Written {
    let mut table = Table::default();
    object.write(&mut table);
    table.set_true(ADOPT, adopt);
    let read = fields::<T>(0, &table, tables).and_then(|fields| T::read(&fields));
    let why = match read {
        Ok(back) if back == *object => return Ok(table),
        Ok(_) => "it has attributes that a file has no keys for".to_owned(),
        Err(fault) => format!("a file cannot say it: {}", fault.message),
    };
    let object = object.describe();
    Err(Unwritable { object, why })
}
