#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "agent")]
pub use trueup_agent as agent;
pub use trueup_apply as apply;
#[cfg(feature = "control")]
pub use trueup_control as control;
pub use trueup_diff as diff;
#[cfg(feature = "etcd")]
pub use trueup_etcd as etcd;
#[cfg(feature = "graph")]
pub use trueup_graph as graph;
#[cfg(feature = "journal")]
pub use trueup_journal as journal;
pub use trueup_loop as driver;
pub use trueup_net as net;
pub use trueup_netlink as netlink;
pub use trueup_observe as observe;
pub use trueup_path as path;
pub use trueup_reconcile as reconcile;
pub use trueup_rtnl as rtnl;
#[cfg(feature = "sysctl")]
pub use trueup_sysctl as sysctl;
#[cfg(feature = "world")]
pub use trueup_world as world;

pub use trueup_loop::{Config, Handle, Loop};
pub use trueup_net::{
    Address, Collection, Desired, IfName, Link, LinkKind, Neighbour, NextHop, NextHops, Plan,
    Prefix, Route, RouteType, Rule,
};
pub use trueup_reconcile::{Ledger, MemoryLedger, PassInput, Report, Source};
pub use trueup_rtnl::{Namespace, Options, Rtnl};
