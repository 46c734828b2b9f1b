//! The objects of one kind: how each looks in a file, and the lists that a desired state has of them.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use trueup_net::{Desired, Kind, ObjectKind, OfKind};

use crate::error::Diagnostic;
use crate::fields::Fields;
use crate::file::File;
use crate::location::{Cursor, Location};
use crate::parse;
use crate::section::{Elements, Keyed, Output, Unwritable, Written, duplicates};
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

/// The objects of one kind in the order of the file.
pub(crate) struct Declared<T> {
    pub(crate) objects: Vec<T>,
    /// The location of each.
    pub(crate) locations: Vec<Location>,
    /// The positions of those with `adopt = true`.
    pub(crate) adopted: BTreeSet<usize>,
}

impl<T> Default for Declared<T> {
    fn default() -> Declared<T> {
        Declared { objects: Vec::new(), locations: Vec::new(), adopted: BTreeSet::new() }
    }
}

/// The objects that a desired state adopts, by kind and position.
pub(crate) type Adopted = BTreeSet<(Kind, usize)>;

/// The list of one kind in a desired state.
pub(crate) trait DesiredList: Sized {
    /// The objects.
    type Object: FileObject;

    /// Makes the list. What to adopt is added to `adopted`, unless the list says so itself. Returns
    /// the locations in the order of the list as well.
    fn from_file(
        kind: Kind,
        declared: Declared<Self::Object>,
        adopted: &mut Adopted,
    ) -> (Self, Vec<Location>);

    /// Iterates over the objects, each with whether it is to be adopted.
    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (Self::Object, bool)>;
}

impl<T: FileObject> DesiredList for Vec<T> {
    type Object = T;

    fn from_file(
        kind: Kind,
        declared: Declared<T>,
        adopted: &mut Adopted,
    ) -> (Vec<T>, Vec<Location>) {
        let positions = declared.adopted.into_iter();
        adopted.extend(positions.map(|position| (kind, position)));
        (declared.objects, declared.locations)
    }

    fn objects(&self, kind: Kind, adopted: &Adopted) -> impl Iterator<Item = (T, bool)> {
        let is_adopted = move |position| adopted.contains(&(kind, position));
        let objects = self.iter().enumerate();
        objects.map(move |(position, object)| (object.clone(), is_adopted(position)))
    }
}

/// One kind of object in the form of the file, in both directions.
pub(crate) trait FileObject: Keyed + Clone + PartialEq + 'static {
    /// The word for one object, with its article.
    const WITH_ARTICLE: &'static str;
    /// The keys, except `adopt`, which every object may have.
    const KEYS: &'static [&'static str];

    /// Reads an object.
    fn read(fields: &Fields<'_>) -> Result<Self>;

    /// Writes an object, as far as there are keys for it.
    fn write(&self, table: &mut Table<'static>);

    /// Returns the object without what only the kernel reports: marker, index, status.
    fn authored(&self) -> Self;
}
