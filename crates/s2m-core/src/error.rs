//! The error of this crate, and the shape of those of the crates beside it.
//!
//! An error is a kind that callers can match on, and a message for people; the message is written where the
//! problem is found.

/// Makes the `Error` and the `Kind` of a crate: every kind with its doc comment and the name of its constructor.
#[doc(hidden)]
#[macro_export]
macro_rules! error {
    ($($(#[$about:meta])+ $kind:ident($make:ident),)+) => {
        /// What kind of failure an [`Error`] is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$about])+ $kind,)+
        }

        /// Why something failed: a [`Kind`] to match on, a message to read and, where there is one, its cause.
        #[derive(Debug, Clone)]
        pub struct Error {
            kind: Kind,
            message: String,
            source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
        }

        impl Error {
            $(
                #[doc = concat!("An error of [`Kind::", stringify!($kind), "`].")]
                pub fn $make(message: impl Into<String>) -> Self {
                    Self { kind: Kind::$kind, message: message.into(), source: None }
                }
            )+

            /// What kind of failure it is.
            pub fn kind(&self) -> Kind {
                self.kind
            }

            /// The same error with what caused it, which the message has named already.
            #[must_use]
            pub fn because(self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
                Self { source: Some(std::sync::Arc::new(source)), ..self }
            }

            /// The same error with a word before its message on where it happened.
            #[must_use]
            pub fn within(self, place: impl std::fmt::Display) -> Self {
                Self { message: format!("{place}: {}", self.message), ..self }
            }
        }

        impl std::fmt::Display for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.message)
            }
        }

        impl std::error::Error for Error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                self.source.as_deref().map(|source| source as _)
            }
        }

        /// Two errors are the same if kind and message are.
        impl PartialEq for Error {
            fn eq(&self, other: &Self) -> bool {
                (self.kind, &self.message) == (other.kind, &other.message)
            }
        }
    };
}
