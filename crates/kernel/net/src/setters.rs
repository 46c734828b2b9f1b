//! A macro that generates a struct's `with_…` methods.

/// Generates chainable methods that set one field each.
///
/// ```text
/// setters! { impl Link<D> {
///     with_mtu(mtu: u32);
/// } }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (impl $type:ident $(<$param:ident>)? {
        $($(#[$doc:meta])* $with:ident($field:ident: $value:ty);)+
    }) => {
        impl $(<$param>)? $type $(<$param>)? {
            $(
                #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                $(
                    #[doc = ""]
                    #[$doc]
                )*
                #[must_use]
                #[inline]
                pub fn $with(mut self, $field: $value) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}
