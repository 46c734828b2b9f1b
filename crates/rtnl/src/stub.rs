#![allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Kept,
    NotKept,
}
#[derive(Clone, Copy, Debug)]
pub(crate) struct Markers {
    pub(crate) address: Marker,
    pub(crate) neighbour: Marker,
    pub(crate) rule: Marker,
}
pub(crate) fn markers(_: &mut trueup_netlink::Socket) -> Result<Markers, trueup_netlink::Error> {
    let _ = Marker::NotKept;
    Ok(Markers {
        address: Marker::Kept,
        neighbour: Marker::Kept,
        rule: Marker::Kept,
    })
}
