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

error! {
    /// A text is not a query.
    Syntax(syntax),
    /// A query names a label that is not there.
    UnknownLabel(unknown_label),
    /// No label set satisfies a query.
    Contradiction(contradiction),
    /// A query also holds for items without any label.
    HoldsWithoutLabel(holds_without_label),
    /// Labels, or a list of label sets, cannot be used.
    Labels(labels),
    /// A label is in no label set of a list.
    Uncovered(uncovered),
    /// Something is beyond a limit.
    TooLarge(too_large),
    /// A number is out of its range, or not a number.
    Value(value),
    /// Lists that belong together differ in length.
    Mismatch(mismatch),
    /// There are too few items, or too little weight, for an estimate.
    TooFew(too_few),
    /// No value of a setting gives what was asked for.
    Unreachable(unreachable),
    /// Settings that do not go together, or not with a query.
    Setting(setting),
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io;

    use super::*;

    #[test]
    fn a_place_goes_before_the_message_and_the_kind_and_the_cause_stay() {
        let cause = io::Error::other("no disk");
        let error = Error::value(format!("could not count: {cause}")).because(cause);
        let error = error.within("a").within(format_args!("`{}`", "b"));
        assert_eq!(error.to_string(), "`b`: a: could not count: no disk");
        assert_eq!(error.kind(), Kind::Value);
        assert_eq!(error.source().unwrap().to_string(), "no disk");
        assert!(Error::value("none").source().is_none());
    }

    #[test]
    fn errors_are_the_same_by_kind_and_message_and_go_between_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Error>();
        assert_eq!(Error::value("a"), Error::value("a"));
        assert_ne!(Error::value("a"), Error::value("b"));
        assert_ne!(Error::value("a"), Error::labels("a"));
    }
}
