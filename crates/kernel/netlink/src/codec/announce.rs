//! [`Announce`]: the message by which the kernel would announce an object.

use super::{EncodeError, KindCodec};

/// An observed object as a message. In contrast to [`KindCodec::encode`], the message asks for
/// nothing, so no object is refused for the harm that a request could do.
pub trait Announce: KindCodec {
    /// Appends the message, of type [`KindCodec::NEW`] and without flags. Decoding returns the
    /// object, if the kernel's messages have attributes for all of its fields.
    ///
    /// # Errors
    ///
    /// If a device has no index, or a value does not fit its attribute.
    fn announce(&self, buffer: &mut Vec<u8>) -> Result<(), EncodeError>;

    /// Returns the attribute that an error of [`announce`](Self::announce) is about.
    fn attribute_of(&self, error: &EncodeError) -> &'static str;
}
