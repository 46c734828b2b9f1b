//! Numbers from the kernel's headers that several kinds of objects use.

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

/// The smallest MTU with which a link has IPv4 or IPv6.
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

// linux/if.h
pub(super) const IFF_UP: u32 = 0x1;
pub(super) const IFF_BROADCAST: u32 = 0x2;
pub(super) const IFF_LOOPBACK: u32 = 0x8;
pub(super) const IFF_RUNNING: u32 = 0x40;
pub(super) const IFF_NOARP: u32 = 0x80;
pub(super) const IFF_MASTER: u32 = 0x400;
pub(super) const IFF_SLAVE: u32 = 0x800;
pub(super) const IFF_MULTICAST: u32 = 0x1000;
pub(super) const IFF_LOWER_UP: u32 = 0x1_0000;

// linux/if_link.h
pub(super) const IFLA_ADDRESS: u16 = 1;
pub(super) const IFLA_BROADCAST: u16 = 2;
pub(super) const IFLA_IFNAME: u16 = 3;
pub(super) const IFLA_MTU: u16 = 4;
pub(super) const IFLA_LINK: u16 = 5;
pub(super) const IFLA_MASTER: u16 = 10;
pub(super) const IFLA_OPERSTATE: u16 = 16;
pub(super) const IFLA_LINKINFO: u16 = 18;
pub(super) const IFLA_IFALIAS: u16 = 20;
pub(super) const IFLA_GROUP: u16 = 27;
pub(super) const IFLA_EXT_MASK: u16 = 29;
pub(super) const IFLA_CARRIER: u16 = 33;
pub(super) const IFLA_INFO_KIND: u16 = 1;
pub(super) const IFLA_INFO_DATA: u16 = 2;
pub(super) const IFLA_INFO_SLAVE_KIND: u16 = 4;

// linux/if_addr.h
pub(super) const IFA_F_SECONDARY: u32 = 0x01;
pub(super) const IFA_F_DEPRECATED: u32 = 0x20;
pub(super) const IFA_F_TENTATIVE: u32 = 0x40;
pub(super) const IFA_F_PERMANENT: u32 = 0x80;
pub(super) const IFA_F_NOPREFIXROUTE: u32 = 0x200;
pub(super) const IFA_ADDRESS: u16 = 1;
pub(super) const IFA_LOCAL: u16 = 2;
pub(super) const IFA_LABEL: u16 = 3;
pub(super) const IFA_BROADCAST: u16 = 4;
pub(super) const IFA_CACHEINFO: u16 = 6;
pub(super) const IFA_FLAGS: u16 = 8;
pub(super) const IFA_RT_PRIORITY: u16 = 9;
pub(super) const IFA_PROTO: u16 = 11;

// linux/neighbour.h
pub(super) const NDA_DST: u16 = 1;
pub(super) const NDA_LLADDR: u16 = 2;
pub(super) const NDA_CACHEINFO: u16 = 3;
pub(super) const NDA_PROBES: u16 = 4;
pub(super) const NDA_PORT: u16 = 6;
pub(super) const NDA_VNI: u16 = 7;
pub(super) const NDA_IFINDEX: u16 = 8;
pub(super) const NDA_MASTER: u16 = 9;
pub(super) const NDA_PROTOCOL: u16 = 12;
pub(super) const NDA_FLAGS_EXT: u16 = 15;

// linux/nexthop.h
pub(super) const NHA_ID: u16 = 1;
pub(super) const NHA_GROUP: u16 = 2;
pub(super) const NHA_GROUP_TYPE: u16 = 3;
pub(super) const NHA_BLACKHOLE: u16 = 4;
pub(super) const NHA_OIF: u16 = 5;
pub(super) const NHA_GATEWAY: u16 = 6;
pub(super) const NHA_GROUPS: u16 = 9;
pub(super) const NHA_MASTER: u16 = 10;
pub(super) const NHA_FDB: u16 = 11;
pub(super) const NHA_OP_FLAGS: u16 = 14;

// linux/rtnetlink.h
pub(super) const RTA_DST: u16 = 1;
pub(super) const RTA_SRC: u16 = 2;
pub(super) const RTA_IIF: u16 = 3;
pub(super) const RTA_OIF: u16 = 4;
pub(super) const RTA_GATEWAY: u16 = 5;
pub(super) const RTA_PRIORITY: u16 = 6;
pub(super) const RTA_PREFSRC: u16 = 7;
pub(super) const RTA_METRICS: u16 = 8;
pub(super) const RTA_MULTIPATH: u16 = 9;
pub(super) const RTA_CACHEINFO: u16 = 12;
pub(super) const RTA_TABLE: u16 = 15;
pub(super) const RTA_VIA: u16 = 18;
pub(super) const RTA_PREF: u16 = 20;
pub(super) const RTA_EXPIRES: u16 = 23;
pub(super) const RTA_NH_ID: u16 = 30;
pub(super) const RTNH_F_DEAD: u8 = 1;
pub(super) const RTNH_F_ONLINK: u8 = 4;
pub(super) const RTNH_F_LINKDOWN: u8 = 16;
/// Dead, offloaded, link down, trapped: the status flags of a next hop.
pub(super) const RTNH_STATE: u8 = RTNH_F_DEAD | 8 | RTNH_F_LINKDOWN | 64;
