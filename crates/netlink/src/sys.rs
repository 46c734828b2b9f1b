//! The one system call that no dependency wraps: reading `SO_NETNS_COOKIE`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The cookie of the network namespace that a socket belongs to (Linux 5.14).
pub(crate) fn netns_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).map_err(io::Error::other)?;
    // SAFETY: the pointers are to live locals for the whole call, `length` is the size of what the
    // first points at, and every bit pattern is a valid u64.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            std::ptr::from_mut(&mut cookie).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(cookie)
}
