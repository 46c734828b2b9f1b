//! How a pass goes about it.

/// The marker unless said otherwise. Nobody else in iproute2's `rt_protos` has it.
pub const DEFAULT_PROTOCOL: u8 = 116;

/// Options of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    protocol: u8,
}

/// A protocol number that cannot be a marker, because others write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "protocol {0} cannot mark what is ours: 0 to 4 and 9 are the kernel's own, and what `ip` and \
     hand-made routes bear; choose one of 5 to 255 that no other agent on the host uses, such as 116"
)]
pub struct ReservedProtocol(pub u8);

impl Options {
    /// With another marker than [`DEFAULT_PROTOCOL`]: the protocol number that our objects bear
    /// and that proves them ours.
    ///
    /// # Errors
    ///
    /// For 0 to 4 and 9 (unspecified, redirect, kernel, boot, static, router advertisement):
    /// objects that bear those are made by the kernel and by hand.
    pub fn with_protocol(self, protocol: u8) -> Result<Options, ReservedProtocol> {
        match protocol {
            0..=4 | 9 => Err(ReservedProtocol(protocol)),
            _ => Ok(Options { protocol }),
        }
    }

    /// The marker.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            protocol: DEFAULT_PROTOCOL,
        }
    }
}
