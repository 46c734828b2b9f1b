//! The kernel's errors by name.

/// Errors known from rtnetlink.
const NAMES: [(&str, i32); 24] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("ESRCH", 3),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("ERANGE", 34),
    ("ELOOP", 40),
    ("EMSGSIZE", 90),
    ("ENOPROTOOPT", 92),
    ("EOPNOTSUPP", 95),
    ("EAFNOSUPPORT", 97),
    ("EADDRINUSE", 98),
    ("EADDRNOTAVAIL", 99),
    ("ENETDOWN", 100),
    ("ENETUNREACH", 101),
];
const MORE: [(&str, i32); 3] = [("ENOBUFS", 105), ("ETIMEDOUT", 110), ("EHOSTUNREACH", 113)];

pub(super) fn number(name: &str) -> Option<i32> {
    let mut all = NAMES.iter().chain(&MORE);
    all.find(|(known, _)| *known == name).map(|(_, number)| *number)
}

pub(super) fn name(number: i32) -> String {
    let mut all = NAMES.iter().chain(&MORE);
    let known = all.find(|(_, known)| *known == number);
    known.map_or_else(|| format!("errno {number}"), |(name, _)| (*name).to_owned())
}
