//! How messages name a setting: by its name here, as a program calls it there.
//!
//! Whoever links the library reads "`floor = 0` draws it anyway" and finds the field, the method or the Python
//! keyword of that name. A program says once, before anything else, how it calls its settings; the same message
//! then reads "--floor 0 draws it anyway".

use std::fmt;
use std::sync::OnceLock;

/// How a program calls a setting, by its name and, where a message suggests one, its value.
pub type Naming = fn(&str, Option<&dyn fmt::Display>) -> String;

static NAMING: OnceLock<Naming> = OnceLock::new();

/// Has all messages of this process call settings in this way; the first word counts.
pub fn call_by(naming: Naming) {
    // Who comes second finds a program that has said it already.
    let _ = NAMING.set(naming);
}

/// How command lines call a setting: `max_calls` is `--max-calls`.
pub fn flag(name: &str, value: Option<&dyn fmt::Display>) -> String {
    let flag = format!("--{}", name.replace('_', "-"));
    match value {
        Some(value) => format!("{flag} {value}"),
        None => flag,
    }
}

/// A setting in a message, by the name of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting(pub &'static str);

impl Setting {
    /// The setting with a value to give it.
    pub fn to<V: fmt::Display>(self, value: V) -> SetTo<V> {
        SetTo {
            setting: self,
            value,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMING.get() {
            Some(naming) => f.write_str(&naming(self.0, None)),
            None => write!(f, "`{}`", self.0),
        }
    }
}

/// A setting with a value to give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetTo<V> {
    setting: Setting,
    value: V,
}

impl<V: fmt::Display> fmt::Display for SetTo<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, value } = self;
        match NAMING.get() {
            Some(naming) => f.write_str(&naming(setting.0, Some(value))),
            None => write!(f, "`{} = {value}`", setting.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_called_by_their_names_where_no_program_says_otherwise() {
        assert_eq!(Setting("max_calls").to_string(), "`max_calls`");
        assert_eq!(Setting("floor").to(0).to_string(), "`floor = 0`");
    }

    #[test]
    fn flags_have_dashes() {
        assert_eq!(flag("max_calls", None), "--max-calls");
        assert_eq!(flag("floor", Some(&0)), "--floor 0");
    }
}
