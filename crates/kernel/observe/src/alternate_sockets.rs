//! [`AlternateSockets`]: sockets on which the kernel cuts dumps into parts of other sizes.

use trueup_netlink::{Error, Namespace, Socket};

/// The sizes of the parts in bytes. The kernel's own choice is about 32 KiB. It loses rows at the
/// borders of parts, so that with other sizes other rows are lost.
const PART_SIZES: [usize; 3] = [20 * 1024, 28 * 1024, 12 * 1024];

/// Sockets for repeated dumps, each opened when first needed.
#[derive(Debug)]
pub(crate) struct AlternateSockets {
    namespace: Namespace,
    sockets: [Option<Socket>; PART_SIZES.len()],
}

impl AlternateSockets {
    /// The number of sockets.
    pub(crate) const COUNT: usize = PART_SIZES.len();

    pub(crate) fn new(namespace: Namespace) -> AlternateSockets {
        AlternateSockets { namespace, sockets: Default::default() }
    }

    /// Opens a socket that is not kept, with the timeout of `like`.
    pub(crate) fn open_another(&self, like: &Socket) -> Result<Socket, Error> {
        let mut socket = Socket::open(&self.namespace)?;
        socket.set_timeout(like.timeout());
        Ok(socket)
    }

    /// Returns the socket at an index, if it can be opened. It has the timeout of `like`.
    pub(crate) fn get(&mut self, at: usize, like: &Socket) -> Option<&mut Socket> {
        let slot = self.sockets.get_mut(at)?;
        if slot.is_none() {
            let size = *PART_SIZES.get(at)?;
            let mut socket = Socket::open_with_parts(&self.namespace, size).ok()?;
            socket.set_timeout(like.timeout());
            *slot = Some(socket);
        }
        slot.as_mut()
    }
}
