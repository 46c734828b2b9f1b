//! Numbers of the kernel's headers that several kinds of objects use.

pub(super) const INET: u8 = 2;
pub(super) const INET6: u8 = 10;
pub(super) const BRIDGE: u8 = 7;
/// `LOOPBACK_IFINDEX`.
pub(super) const LOOPBACK: u32 = 1;
/// `RTPROT_KERNEL`.
pub(super) const PROTOCOL_KERNEL: u8 = 2;

// linux/netlink.h
pub(super) const NLM_F_REQUEST: u16 = 0x01;
pub(super) const NLM_F_MULTI: u16 = 0x02;
pub(super) const NLM_F_ACK: u16 = 0x04;
pub(super) const NLM_F_ECHO: u16 = 0x08;
pub(super) const NLM_F_DUMP_FILTERED: u16 = 0x20;
pub(super) const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;
pub(super) const NLM_F_APPEND: u16 = 0x800;
/// `NLM_F_ROOT | NLM_F_MATCH`: for a GET request either bit requests a dump.
pub(super) const NLM_F_DUMP: u16 = 0x300;

/// The least MTU of a link with the family.
pub(super) const IPV4_MIN_MTU: u32 = 68;
pub(super) const IPV6_MIN_MTU: u32 = 1280;

// linux/rtnetlink.h
pub(super) const TABLE_COMPAT: u8 = 252;
pub(super) const TABLE_DEFAULT: u32 = 253;
pub(super) const TABLE_MAIN: u32 = 254;
pub(super) const TABLE_LOCAL: u32 = 255;
pub(super) const SCOPE_LINK: u8 = 253;
pub(super) const SCOPE_HOST: u8 = 254;
pub(super) const SCOPE_NOWHERE: u8 = 255;
pub(super) const RTN_UNICAST: u8 = 1;
pub(super) const RTN_LOCAL: u8 = 2;
pub(super) const RTN_BROADCAST: u8 = 3;
pub(super) const RTN_MULTICAST: u8 = 5;
pub(super) const RTN_BLACKHOLE: u8 = 6;

// asm-generic/errno-base.h, errno.h
pub(super) const EPERM: i32 = 1;
pub(super) const ENOENT: i32 = 2;
pub(super) const ESRCH: i32 = 3;
pub(super) const ENXIO: i32 = 6;
pub(super) const EAGAIN: i32 = 11;
pub(super) const EACCES: i32 = 13;
pub(super) const EBUSY: i32 = 16;
pub(super) const EEXIST: i32 = 17;
pub(super) const ENODEV: i32 = 19;
pub(super) const EINVAL: i32 = 22;
pub(super) const ERANGE: i32 = 34;
pub(super) const ELOOP: i32 = 40;
pub(super) const EMSGSIZE: i32 = 90;
pub(super) const EOPNOTSUPP: i32 = 95;
pub(super) const EAFNOSUPPORT: i32 = 97;
pub(super) const EADDRNOTAVAIL: i32 = 99;
pub(super) const ENETDOWN: i32 = 100;
pub(super) const ENETUNREACH: i32 = 101;
pub(super) const ENOBUFS: i32 = 105;
pub(super) const EHOSTUNREACH: i32 = 113;
