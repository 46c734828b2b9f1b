//! The socket options that no dependency wraps: `SO_NETNS_COOKIE`, `SO_ATTACH_FILTER` and
//! `SO_DETACH_FILTER`.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::filter::Instruction;

/// Returns the cookie of a socket's network namespace (Linux 5.14).
pub(crate) fn netns_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut length = libc::socklen_t::try_from(size_of::<u64>()).map_err(io::Error::other)?;
    // SAFETY: the pointers refer to locals that live for the whole call, `length` is the size of
    // the first one, and every bit pattern is a valid u64.
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

/// Sets the filter of a socket's receive queue; an empty program removes it.
pub(crate) fn set_filter(socket: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut program: Vec<libc::sock_filter> = program
        .iter()
        .map(|&Instruction { code, jt, jf, k }| libc::sock_filter { code, jt, jf, k })
        .collect();
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        filter: program.as_mut_ptr(),
    };
    let option = if program.is_empty() { libc::SO_DETACH_FILTER } else { libc::SO_ATTACH_FILTER };
    let length = libc::socklen_t::try_from(size_of_val(&filter)).map_err(io::Error::other)?;
    // SAFETY: `filter` is a live local of that `length`, which the kernel only reads. It contains
    // the address and the number of the instructions in `program`, which lives as long. To detach,
    // the kernel checks only for the size of an int.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(&filter).cast(),
            length,
        )
    };
    if result < 0 {
        let error = io::Error::last_os_error();
        // There was no filter to remove.
        if program.is_empty() && error.raw_os_error() == Some(libc::ENOENT) {
            return Ok(());
        }
        return Err(error);
    }
    Ok(())
}
