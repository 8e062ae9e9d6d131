//! Files and folders that appear whole or not at all, and the one lock that their writers take.
//!
//! Every command that writes a folder goes through [`Staging`], every file that is replaced through
//! [`write_whole`], and both through [`step`], where tests can stop the program.

mod checksum;
mod lock;
mod scratch;
mod staging;
pub mod step;
mod whole;

pub use self::checksum::crc32;
pub use self::lock::Lock;
pub use self::scratch::{Column, Number, Scratch};
pub use self::staging::{Existing, Kind, OutputFile, Plan, Staging};
pub(crate) use self::whole::is_temporary_of;
pub use self::whole::{
    check_replaceable, open_plain, read_plain, read_plain_text, write_whole, write_whole_with,
};
