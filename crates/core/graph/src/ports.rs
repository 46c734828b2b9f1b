//! Values that vertices send to each other, by named ports.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use crate::Failure;

/// A value of any type.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// A port's type: its identity, its name for messages, and its comparison.
#[derive(Clone, Copy)]
pub(crate) struct PortType {
    id: TypeId,
    pub(crate) name: &'static str,
    equals: fn(&dyn Any, &dyn Any) -> bool,
}

impl PortType {
    pub(crate) fn of<T: Any + PartialEq>() -> Self {
        PortType {
            id: TypeId::of::<T>(),
            name: type_name::<T>(),
            equals: |one, other| match (one.downcast_ref::<T>(), other.downcast_ref::<T>()) {
                (Some(one), Some(other)) => one == other,
                _ => false,
            },
        }
    }
}

impl PartialEq for PortType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for PortType {}

impl fmt::Debug for PortType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A port that a vertex sends by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sends {
    pub(crate) port: Arc<str>,
    pub(crate) of: PortType,
}

/// A port by which a vertex receives, with the sending vertices and ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receives {
    pub(crate) port: Arc<str>,
    pub(crate) from: Vec<(Arc<str>, Arc<str>)>,
    pub(crate) of: PortType,
    pub(crate) merge: Option<Merge>,
}

/// A function that merges several values into one. All compare equal: a caller that changes the
/// function changes the vertex's revision.
#[derive(Clone)]
pub(crate) struct Merge(Arc<MergeFn>);

type MergeFn = dyn Fn(&[Value]) -> Value + Send + Sync;

impl Merge {
    pub(crate) fn new<T: Any + Send + Sync>(
        merge: impl Fn(&[Arc<T>]) -> T + Send + Sync + 'static,
    ) -> Self {
        Merge(Arc::new(move |values| {
            let typed = values.iter().filter_map(|it| Arc::clone(it).downcast().ok());
            Arc::new(merge(&typed.collect::<Vec<Arc<T>>>()))
        }))
    }
}

impl PartialEq for Merge {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Merge {}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Merge(..)")
    }
}

/// The value that a run receives by one port.
#[derive(Clone)]
pub(crate) struct Input {
    port: Arc<str>,
    of: PortType,
    pub(crate) value: Value,
    is_changed: bool,
}

impl Input {
    /// Merges the senders' values, and compares the result with the value that the vertex received
    /// before. Calls the caller's code. `None` if there is neither a merge nor a value.
    pub(crate) fn new(port: &Receives, values: &[Value], seen: Option<&Value>) -> Option<Self> {
        let value = match &port.merge {
            Some(merge) => (merge.0)(values),
            None => values.first()?.clone(),
        };
        let is_changed =
            !seen.is_some_and(|it| Arc::ptr_eq(it, &value) || (port.of.equals)(&**it, &*value));
        Some(Input { port: port.port.clone(), of: port.of, is_changed, value })
    }
}

/// Returns the value received by a port, and whether it is new.
pub(crate) fn received<T: Any + Send + Sync>(
    inputs: &[Input],
    port: &str,
) -> Result<(Arc<T>, bool), Failure> {
    let input = inputs.iter().find(|it| *it.port == *port).ok_or_else(|| {
        let message = format!("port {port}: the vertex does not receive by it; declare `receives`");
        Failure::new(ErrorClass::Invalid, message)
    })?;
    let value = Arc::clone(&input.value)
        .downcast()
        .map_err(|_| wrong_type::<T>("received", port, input.of.name))?;
    Ok((value, input.is_changed))
}

/// Checks that a vertex may send a value of this type by a port.
pub(crate) fn check_sent<T: Any>(sends: &[Sends], port: &str) -> Result<Arc<str>, Failure> {
    let found = sends.iter().find(|it| *it.port == *port).ok_or_else(|| {
        let message = format!("port {port}: the vertex does not send by it; declare `sends`");
        Failure::new(ErrorClass::Invalid, message)
    })?;
    if found.of.id == TypeId::of::<T>() {
        Ok(found.port.clone())
    } else {
        Err(wrong_type::<T>("sent", port, found.of.name))
    }
}

fn wrong_type<T>(what: &str, port: &str, declared: &str) -> Failure {
    let asked = type_name::<T>();
    let message = format!("port {port}: {what} as {asked}, declared as {declared}; use one type");
    Failure::new(ErrorClass::Invalid, message)
}
