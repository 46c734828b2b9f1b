//! Finds the routes by which the kernel reaches gateways, and so the devices that lead there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use trueup_net::{Family, Kind, Kinds, Route, table};
use trueup_netlink::codec::{KindCodec as _, ReadScope, route};
use trueup_netlink::{Error, ErrorKind};

use crate::observer::Observer;

impl Observer {
    /// Looks up the routes that lead straight to gateways, like the kernel does when it stores a
    /// route through them in a table. `None` if no route leads straight there.
    ///
    /// It takes a system call for each gateway, for any number of routes. Only tables other than
    /// main are read whole, since the kernel cannot look an address up in a named table. Gateways
    /// that the kernel does not look up are not in the result.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn gateways(
        &mut self,
        gateways: &BTreeSet<(u32, IpAddr)>,
    ) -> Result<BTreeMap<(u32, IpAddr), Option<Route>>, Error> {
        let mut found = BTreeMap::new();
        let mut tables: BTreeMap<(u32, Family), Vec<Route>> = BTreeMap::new();
        for (table, via) in gateways {
            let of_table = match *table {
                table::MAIN | table::LOCAL => None,
                _ => self.direct_route_in_table(*table, *via, gateways, &mut tables)?,
            };
            let route = match of_table {
                Some(route) => Some(route),
                None => match self.look_up(*via) {
                    Ok(route) => route,
                    // The kernel answers with the error of the route that would refuse the packet.
                    Err(error) if error.kind() == ErrorKind::Kernel => match error.errno() {
                        Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES) => None,
                        _ => continue,
                    },
                    Err(error) => return Err(error),
                },
            };
            let direct = route.filter(|route| route.direct_device(*via).is_some());
            found.insert((*table, *via), direct);
        }
        Ok(found)
    }

    fn look_up(&mut self, gateway: IpAddr) -> Result<Option<Route>, Error> {
        let mut request = Vec::new();
        let _fixed_size = route::lookup_request(&mut request, gateway);
        let route = self.socket.query(&request, |message| Route::decode(message.body))?;
        Ok(route.ok().flatten())
    }

    /// Returns the route with the longest prefix that leads straight to a gateway in its table.
    /// `tables` contains the direct routes to any of the gateways, once read.
    fn direct_route_in_table(
        &mut self,
        table: u32,
        via: IpAddr,
        gateways: &BTreeSet<(u32, IpAddr)>,
        tables: &mut BTreeMap<(u32, Family), Vec<Route>>,
    ) -> Result<Option<Route>, Error> {
        let at = (table, Family::of(via));
        if let Entry::Vacant(table) = tables.entry(at) {
            let scope = ReadScope::default()
                .with_kinds(Kinds::NONE.with(Kind::Route))
                .with_tables(BTreeSet::from([at.0]))
                .with_family(at.1);
            let (routes, _incomplete) = self.routes_where(&scope, |route| {
                let mut of_table = gateways.iter().filter(|(table, _)| *table == at.0);
                of_table.any(|(_, via)| route.direct_device(*via).is_some())
            })?;
            table.insert(routes);
        }
        // Of equal ones the kernel takes the one with the lowest metric, which comes first.
        Ok(tables
            .get(&at)
            .into_iter()
            .flatten()
            .filter(|route| route.direct_device(via).is_some())
            .reduce(|best, next| if next.dst.len() > best.dst.len() { next } else { best })
            .cloned())
    }
}
